//! The invariants of a cluster, from SQL and files alone.

use std::collections::{BTreeMap, BTreeSet};

use plica_kernel::canonical::{Domain, genesis_hash};
use plica_kernel::id::{LedgerId, TaskId};
use serde_json::Value;

use crate::people::{Done, is_over};
use crate::place::{Event, Task, Untaken};
use crate::plan::{KEYS, Planned};

/// Everything that is left when all is over.
pub struct Remains {
    /// The rows.
    pub tasks: Vec<Task>,
    /// The logs.
    pub events: Vec<Event>,
    /// What nobody took.
    pub untaken: Untaken,
    /// The keys that effects left.
    pub effects: Vec<String>,
}

/// Actions, and the outcomes that answer them.
const ACTIONS: [&str; 5] =
    ["LLMRequestStarted", "ToolCallStarted", "SubtaskSpawned", "BackgroundJobStarted", "MutationDispatched"];

/// Events that are shown of a task that did not end, and how much of each.
const LAST_WORDS: usize = 8;
const LAST_WORDS_BYTES: usize = 700;

/// An event that was read.
struct Read<'a> {
    event: &'a Event,
    kind: String,
    body: Value,
}

impl Read<'_> {
    fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, pointer: &str) -> Option<u64> {
        self.body.pointer(pointer).and_then(Value::as_u64)
    }
}

/// Everything that is not as it must be, in words.
pub fn violations(plan: &[Planned], done: &Done, remains: &Remains) -> Vec<String> {
    let mut broken = Vec::new();
    let mut logs: BTreeMap<&str, Vec<Read<'_>>> = BTreeMap::new();
    for event in &remains.events {
        match serde_json::from_slice::<Value>(&event.body) {
            Ok(body) => {
                let kind = body["type"].as_str().unwrap_or_default().to_owned();
                logs.entry(&event.task).or_default().push(Read { event, kind, body });
            }
            Err(error) => broken.push(format!("task {} event {}: not JSON: {error}", event.task, event.seq)),
        }
    }
    every_task_ends(plan, done, remains, &mut broken);
    for row in &remains.tasks {
        let log = logs.get(row.id.as_str()).map(Vec::as_slice).unwrap_or_default();
        chain_holds(row, log, &mut broken);
        epochs_never_go_back(row, log, &mut broken);
        starts_and_finishes_pair(row, log, &mut broken);
        no_item_is_taken_twice(row, log, &mut broken);
        jobs_end_and_are_told_once(row, log, &mut broken);
        failures_have_their_cause(row, log, &mut broken);
    }
    effects_happen_once(&logs, &remains.effects, &mut broken);
    messages_are_taken_once(&logs, done, &mut broken);
    broken
}

/// Every task ends, and nothing is due or waits for ever.
fn every_task_ends(plan: &[Planned], done: &Done, remains: &Remains, broken: &mut Vec<String>) {
    for task in plan {
        let rows = remains.tasks.iter().filter(|row| row.key.as_deref() == Some(&task.key)).count();
        if rows != 1 {
            broken.push(format!("{}: {rows} tasks were made under this key", task.key));
        }
    }
    for (key, id) in &done.tasks {
        if !remains.tasks.iter().any(|row| row.id == *id && row.key.as_deref() == Some(key)) {
            broken.push(format!("{key}: task {id} was acknowledged and is not there"));
        }
    }
    for row in &remains.tasks {
        if row.is_blocked || !is_over(row) {
            let blocked = if row.is_blocked { ", blocked" } else { "" };
            broken.push(format!("task {} did not end: {}{blocked}", row.id, row.status));
        }
        if row.status != "waiting" && !is_over(row) && !row.is_claimable && !row.is_blocked {
            broken.push(format!("task {} is due and nobody can claim it", row.id));
        }
    }
    for row in remains.tasks.iter().filter(|row| !is_over(row)) {
        broken.push(format!("task {}: {}", row.id, last_words(row, remains)));
    }
    for (task, item) in &remains.untaken {
        if String::from_utf8_lossy(item).contains("\"message\"") {
            broken.push(format!("task {task}: a message was never taken"));
        }
    }
}

/// What there is to see of a task that did not end: its last events, its items, when it is due.
fn last_words(row: &Task, remains: &Remains) -> String {
    let own: Vec<_> = remains.events.iter().filter(|event| event.task == row.id).collect();
    let last = own.iter().rev().take(LAST_WORDS).rev().map(|event| {
        let text = String::from_utf8_lossy(&event.body);
        text.get(..text.len().min(LAST_WORDS_BYTES)).unwrap_or_default().to_owned()
    });
    let untaken = remains.untaken.iter().filter(|(task, _)| *task == row.id);
    let untaken: Vec<_> = untaken.map(|(_, item)| String::from_utf8_lossy(item).into_owned()).collect();
    let due = if row.is_claimable { "is due some time" } else { "is never due" };
    format!("it {due}, its inbox holds {untaken:?}, and its log ends with {:?}", last.collect::<Vec<_>>())
}

/// Seqs run on, every event has the hash it is stored under and names the one before, and the row
/// ends with the last.
fn chain_holds(row: &Task, log: &[Read<'_>], broken: &mut Vec<String>) {
    let mut before: Option<&Read<'_>> = None;
    for read in log {
        let at = || format!("task {} event {}", row.id, read.event.seq);
        if read.event.seq != before.map_or(1, |before| before.event.seq + 1) {
            broken.push(format!("{}: a gap before it", at()));
        }
        let hash = Domain::Event.hash(&read.event.body);
        if hash.as_bytes()[..] != read.event.hash[..] {
            broken.push(format!("{}: its bytes do not have its hash", at()));
        }
        if let Some(before) = before
            && read.text("/prev") != Domain::Event.hash(&before.event.body).to_string()
        {
            broken.push(format!("{}: it does not name the event before", at()));
        }
        if before.is_none() && !is_genesis(row, read) {
            broken.push(format!("{}: it does not begin the chain of its task in its store", at()));
        }
        before = Some(read);
    }
    match before {
        Some(last) if last.event.seq == row.seq && last.event.hash == row.hash => {}
        _ => broken.push(format!("task {}: the row does not end with the last event", row.id)),
    }
}

/// Whether an event names what the chain of its task in its store begins with (EV-4).
fn is_genesis(row: &Task, first: &Read<'_>) -> bool {
    let ledger = first.text("/payload/ledger");
    match (LedgerId::new(ledger), TaskId::new(row.id.as_str())) {
        (Ok(ledger), Ok(task)) => first.text("/prev") == genesis_hash(&ledger, &task).to_string(),
        _ => false,
    }
}

/// Epochs never go back, and each has one holder.
fn epochs_never_go_back(row: &Task, log: &[Read<'_>], broken: &mut Vec<String>) {
    let mut last = 0;
    let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
    for read in log {
        let epoch = read.number("/epoch").unwrap_or(0);
        if epoch < last {
            broken.push(format!("task {} event {}: epoch {epoch} after {last}", row.id, read.event.seq));
        }
        last = epoch;
        let holder = holders.entry(epoch).or_insert_with(|| read.text("/run"));
        if *holder != read.text("/run") {
            broken.push(format!("task {} event {}: epoch {epoch} has two holders", row.id, read.event.seq));
        }
    }
}

/// Every action has exactly one outcome.
fn starts_and_finishes_pair(row: &Task, log: &[Read<'_>], broken: &mut Vec<String>) {
    let mut outcomes: BTreeMap<u64, usize> = BTreeMap::new();
    for read in log {
        if let Some(action) = read.number("/action") {
            *outcomes.entry(action).or_default() += 1;
        }
    }
    for read in log.iter().filter(|read| ACTIONS.contains(&read.kind.as_str())) {
        let count = outcomes.remove(&read.event.seq.unsigned_abs()).unwrap_or(0);
        if count != 1 {
            broken.push(format!("task {} event {}: {} has {count} outcomes", row.id, read.event.seq, read.kind));
        }
    }
    for (action, _) in outcomes {
        broken.push(format!("task {}: an outcome answers event {action}, which is no action", row.id));
    }
}

/// What an inbox item brings, by which it can be told from every other: its position where a wake
/// names it; the call that a ruling or an answer is for, since each is asked about once; the start
/// and the fence of late evidence, of which a worker that has lost its claim sends one. The end of a
/// child or a job is the one outcome of its start, and messages differ in what they say.
fn item_of(read: &Read<'_>) -> Option<String> {
    let call = || read.text("/payload/call");
    match read.kind.as_str() {
        "TaskWoken" => read.number("/payload/item/position").map(|position| format!("item {position}")),
        "ApprovalResolved" => Some(format!("the ruling on call {}", call())),
        "QuestionAnswered" => Some(format!("the answer to call {}", call())),
        "LateResultRecorded" => {
            let fence = read.number("/payload/identity/fence").unwrap_or(0);
            let answers = read.number("/payload/answers").unwrap_or(0);
            Some(format!("the evidence of epoch {fence} for event {answers}"))
        }
        _ => None,
    }
}

/// No inbox item of any kind is taken twice.
fn no_item_is_taken_twice(row: &Task, log: &[Read<'_>], broken: &mut Vec<String>) {
    let mut taken = BTreeSet::new();
    for read in log {
        if let Some(item) = item_of(read)
            && !taken.insert(item.clone())
        {
            broken.push(format!("task {} event {}: {item} was taken before", row.id, read.event.seq));
        }
    }
}

/// Every background job ends as ended or lost, and the model is told of it once before it is asked
/// again.
fn jobs_end_and_are_told_once(row: &Task, log: &[Read<'_>], broken: &mut Vec<String>) {
    for job in log.iter().filter(|read| read.kind == "BackgroundJobStarted") {
        let seq = job.event.seq;
        let end = log.iter().find(|read| read.number("/action") == Some(seq.unsigned_abs()));
        // That it has one end is said where starts and finishes pair.
        let Some(end) = end else { continue };
        if !["exited", "killed", "lost"].contains(&end.text("/payload/how")) {
            broken.push(format!("task {}: job {seq} ended in no known way", row.id));
        }
        let tells = |read: &&Read<'_>| {
            let jobs = read.body.pointer("/payload/jobs").and_then(Value::as_array);
            jobs.is_some_and(|jobs| jobs.iter().any(|told| told.as_i64() == Some(seq)))
        };
        let told = log.iter().filter(tells).count();
        let asked = log.iter().any(|read| read.kind == "ContextPlanComposed" && read.event.seq > end.event.seq);
        if told > 1 || (told == 0 && asked) {
            broken.push(format!("task {}: the model was told of job {seq} {told} times", row.id));
        }
    }
}

/// Requests that are cut off one after the other before the turn fails (RC-1).
const INTERRUPTED_MAX: usize = 3;

/// Nothing that goes wrong here fails a task but requests that were cut off three times in a row.
fn failures_have_their_cause(row: &Task, log: &[Read<'_>], broken: &mut Vec<String>) {
    let Some(failed) = log.iter().find(|read| read.kind == "TaskFailed") else { return };
    let requests = log.iter().rev().filter(|read| read.kind == "LLMRequestFinished");
    let cut_off = requests.take_while(|read| read.text("/payload/status") == "interrupted").count();
    if failed.text("/payload/reason") != "llm_error" || cut_off < INTERRUPTED_MAX {
        let (reason, detail) = (failed.text("/payload/reason"), failed.text("/payload/detail"));
        broken.push(format!("task {} failed by {reason:?}: {detail:?}", row.id));
    }
}

/// No effect's key is left twice, none without its start on record, and that of a finished call
/// exactly once.
fn effects_happen_once(logs: &BTreeMap<&str, Vec<Read<'_>>>, effects: &[String], broken: &mut Vec<String>) {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for key in effects {
        *left.entry(key).or_default() += 1;
    }
    for (key, count) in left.iter().filter(|(_, count)| **count > 1) {
        broken.push(format!("effect {key} happened {count} times"));
    }
    let mut started = BTreeSet::new();
    for (task, log) in logs {
        // What goes on in the background leaves no key.
        let leaves_key = |read: &&Read<'_>| read.kind == "ToolCallStarted" && read.text("/payload/args").contains(KEYS);
        for read in log.iter().filter(leaves_key) {
            let key = format!("{task}:{}", read.text("/payload/call"));
            if !started.insert(key.clone()) {
                broken.push(format!("effect {key} was started twice"));
            }
        }
        for read in log.iter().filter(|read| read.kind == "ToolCallFinished") {
            let key = format!("{task}:{}", read.text("/payload/call"));
            let is_done = ["ok", "recovered"].contains(&read.text("/payload/status"));
            if is_done && started.contains(&key) && !left.contains_key(key.as_str()) {
                broken.push(format!("effect {key} is on record and never happened"));
            }
        }
    }
    for key in left.keys().filter(|key| !started.contains(**key)) {
        broken.push(format!("effect {key} happened and its start is not on record"));
    }
}

/// Every message that was acknowledged is in its task's log once, every other at most once.
fn messages_are_taken_once(logs: &BTreeMap<&str, Vec<Read<'_>>>, done: &Done, broken: &mut Vec<String>) {
    for sent in &done.sent {
        let log = logs.get(sent.task.as_str()).map(Vec::as_slice).unwrap_or_default();
        let messages = log.iter().filter(|read| read.kind == "MessagesAppended");
        let count = messages.filter(|read| String::from_utf8_lossy(&read.event.body).contains(&sent.text)).count();
        let is_right = match sent.is_acknowledged {
            Some(true) => count == 1,
            Some(false) => count == 0,
            None => count <= 1,
        };
        if !is_right {
            let known = sent.is_acknowledged;
            broken.push(format!("{:?}, acknowledged {known:?}, was taken {count} times", sent.text));
        }
    }
}

/// How many background jobs exited, were killed, and were lost.
pub fn jobs(remains: &Remains) -> [usize; 3] {
    let mut counts = [0; 3];
    for event in &remains.events {
        let Ok(body) = serde_json::from_slice::<Value>(&event.body) else { continue };
        let how = body.pointer("/payload/how").and_then(Value::as_str);
        if let Some(nth) = ["exited", "killed", "lost"].iter().position(|name| how == Some(name)) {
            counts[nth] += 1;
        }
    }
    counts
}

/// How often what was cut off shows in the logs: commands and requests without a known end, and
/// claims after the first.
pub fn scars(remains: &Remains) -> (usize, usize, usize) {
    let (mut commands, mut requests) = (0, 0);
    let mut epochs = BTreeSet::new();
    for event in &remains.events {
        let Ok(body) = serde_json::from_slice::<Value>(&event.body) else { continue };
        match (body["type"].as_str(), body["payload"]["status"].as_str()) {
            (Some("ToolCallFinished"), Some("unknown" | "interrupted")) => commands += 1,
            (Some("LLMRequestFinished"), Some("interrupted")) => requests += 1,
            _ => {}
        }
        if let Some(epoch) = body["epoch"].as_u64().filter(|epoch| *epoch > 1) {
            epochs.insert((&event.task, epoch));
        }
    }
    (commands, requests, epochs.len())
}

#[cfg(test)]
mod tests;
