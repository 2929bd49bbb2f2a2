//! What came of a demo: counted from the logs, and from the files that the tools wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use plica_engine::{Client, Verdict};
use plica_kernel::decode::decode_trusted;
use plica_kernel::event::{CallStatus, Payload, RequestStatus};
use plica_kernel::id::{CallId, Seq, idempotency_key};
use plica_kernel::row::Status;
use plica_ports::store::Row;
use serde_json::{Value, json};

use super::ROUNDS;
use crate::fault::Fault;

/// The numbers of a demo.
#[derive(Debug, Default)]
pub(super) struct Counted {
    kills: usize,
    kills_due: usize,
    tasks: u64,
    completed: u64,
    rounds: u64,
    events: u64,
    /// Model requests that a kill cut off, and that were asked again.
    asked_again: u64,
    /// Calls that a kill cut off, of which the model was told that nobody knows.
    unknown: u64,
    effects: u64,
    /// Effects that are in the files more than once.
    twice: u64,
    /// Effects of calls that are on record as done, and that are not in the files.
    lost: u64,
    verified: bool,
    time: Duration,
}

/// Reads every log and every file of effects.
pub(super) async fn count(
    client: &Client,
    rows: &[Row],
    folder: &Path,
    (kills_due, kills): (usize, usize),
    time: Duration,
) -> Result<Counted, Fault> {
    let mut counted = Counted { kills, kills_due, time, ..Counted::default() };
    let mut verdict = Verdict::new();
    for row in rows {
        client.verify(&row.id, &mut verdict).await?;
        counted.tasks += 1;
        counted.completed += u64::from(row.projection.status == Status::Completed);
        let done = counted.read_log(client, row).await?;
        counted.read_effects(row.id.as_str(), folder, &done)?;
    }
    counted.events = verdict.events;
    counted.verified = verdict.is_ok() && verdict.tasks == counted.tasks;
    Ok(counted)
}

impl Counted {
    /// Counts a task's events; the keys of the commands that are on record as done.
    async fn read_log(&mut self, client: &Client, row: &Row) -> Result<BTreeSet<String>, Fault> {
        let mut tools: BTreeMap<CallId, String> = BTreeMap::new();
        let mut done = BTreeSet::new();
        for stored in client.events(&row.id, Seq(1), usize::MAX).await? {
            let event = decode_trusted(&stored.body)
                .map_err(|error| Fault::Config(format!("task {} event {}: {error}", row.id, stored.seq)))?;
            match event.payload {
                Payload::LLMRequestFinished(request) => match request.status {
                    RequestStatus::Ok => self.rounds += 1,
                    RequestStatus::Interrupted => self.asked_again += 1,
                    RequestStatus::Error | RequestStatus::Cancelled => {}
                },
                Payload::ToolCallStarted(call) => {
                    tools.insert(call.call, call.tool);
                }
                Payload::ToolCallFinished(call) => {
                    self.unknown += u64::from(call.status == CallStatus::Unknown);
                    let is_command = tools.get(&call.call).is_some_and(|tool| tool == "Bash");
                    if call.status == CallStatus::Ok && is_command {
                        done.insert(idempotency_key(&row.id, call.call));
                    }
                }
                _ => {}
            }
        }
        Ok(done)
    }

    /// Counts what a task's commands left in its file: a line for each, with the call's key.
    fn read_effects(&mut self, task: &str, folder: &Path, done: &BTreeSet<String>) -> Result<(), Fault> {
        let path = folder.join("work").join(format!("effects-{task}"));
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Fault::Config(format!("{}: {error}", path.display()))),
        };
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for key in text.lines() {
            *times.entry(key).or_default() += 1;
        }
        self.effects += times.len() as u64;
        self.twice += times.values().filter(|times| **times > 1).count() as u64;
        self.lost += done.iter().filter(|key| !times.contains_key(key.as_str())).count() as u64;
        Ok(())
    }

    /// Rounds that there are if no task is left out: every reply of every task, once.
    fn rounds_due(&self) -> u64 {
        self.tasks * (ROUNDS as u64 + 1)
    }

    /// Whether every number is as promised.
    pub(super) fn is_right(&self) -> bool {
        let all_done = self.completed == self.tasks && self.rounds == self.rounds_due();
        self.kills == self.kills_due && all_done && (self.twice, self.lost) == (0, 0) && self.verified
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "ok": self.is_right(),
            "kills": self.kills,
            "tasks": self.tasks,
            "completed": self.completed,
            "rounds": self.rounds,
            "events": self.events,
            "requests_asked_again": self.asked_again,
            "calls_unknown": self.unknown,
            "effects": self.effects,
            "effects_twice": self.twice,
            "effects_lost": self.lost,
            "verified": self.verified,
            "time_ms": u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX),
        })
    }

    pub(super) fn table(&self) -> String {
        let rows = [
            ("workers killed with SIGKILL", format!("{} of {}", self.kills, self.kills_due)),
            ("tasks completed", format!("{} of {}", self.completed, self.tasks)),
            ("rounds", format!("{} of {}", self.rounds, self.rounds_due())),
            ("events", self.events.to_string()),
            ("requests cut off and asked again", self.asked_again.to_string()),
            ("calls cut off, told as unknown", self.unknown.to_string()),
            ("effects recorded", self.effects.to_string()),
            ("effects recorded twice", self.twice.to_string()),
            ("effects done but lost", self.lost.to_string()),
            ("verification", if self.verified { "ok" } else { "broken" }.to_owned()),
            ("time", format!("{}.{} s", self.time.as_secs(), self.time.subsec_millis() / 100)),
        ];
        rows.iter().map(|(name, value)| format!("{name:<34}{value}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right() -> Counted {
        let rounds = 2 * (ROUNDS as u64 + 1);
        Counted { kills: 3, kills_due: 3, tasks: 2, completed: 2, rounds, verified: true, ..Counted::default() }
    }

    #[test]
    fn any_number_that_is_wrong_makes_it_wrong() {
        assert!(right().is_right());
        assert!(!Counted { kills: 2, ..right() }.is_right());
        assert!(!Counted { completed: 1, ..right() }.is_right());
        assert!(!Counted { rounds: 3, ..right() }.is_right());
        assert!(!Counted { twice: 1, ..right() }.is_right());
        assert!(!Counted { lost: 1, ..right() }.is_right());
        assert!(!Counted { verified: false, ..right() }.is_right());
    }

    /// An effect is counted by its key: a line that stands there twice, or not at all, shows.
    #[test]
    fn effects_are_counted_by_their_keys() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("work")).expect("a folder");
        std::fs::write(folder.path().join("work/effects-t"), "t:1.0\nt:2.0\nt:1.0\n").expect("a file");
        let done = ["t:1.0", "t:2.0", "t:3.0"].map(str::to_owned).into();
        let mut counted = Counted::default();
        counted.read_effects("t", folder.path(), &done).expect("it reads");
        assert_eq!((counted.effects, counted.twice, counted.lost), (2, 1, 1));
    }
}
