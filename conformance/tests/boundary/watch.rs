//! What happens beside the workers: an observer that keeps its place, and a collection of content
//! between a worker's end and its successor's beginning.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plica_engine::{Client, GcOptions};
use plica_kernel::envelope::Envelope;
use plica_kernel::event::Payload;
use plica_kernel::id::TaskId;
use plica_ports::{Observer, Progress};

/// The observer's name, and the kind of the record that has its count.
const AUDIT: &str = "audit";
const TALLY: &str = "tally";

/// Counts what it is shown of every log.
#[derive(Default)]
pub struct Audit(Mutex<BTreeMap<TaskId, u64>>);

impl Audit {
    fn tallies(&self) -> MutexGuard<'_, BTreeMap<TaskId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Audit {
    fn committed(&self, event: &Envelope, _: &[u8]) {
        *self.tallies().entry(event.task.clone()).or_default() += 1;
    }

    fn progress(&self) -> Option<&dyn Progress> {
        Some(self)
    }
}

impl Progress for Audit {
    fn plugin(&self) -> &str {
        AUDIT
    }

    fn resumes(&self, task: &TaskId, records: &BTreeMap<String, String>) {
        let tally = records.get(TALLY).map_or(0, |tally| tally.parse().expect("what it recorded itself"));
        self.tallies().insert(task.clone(), tally);
    }

    fn records(&self, task: &TaskId) -> Vec<(String, String)> {
        vec![(TALLY.to_owned(), self.tallies().get(task).copied().unwrap_or(0).to_string())]
    }
}

/// Whether an event is a record of the observer.
pub fn is_audits(event: &Envelope) -> bool {
    matches!(&event.payload, Payload::ExtensionRecorded(record) if record.plugin == AUDIT)
}

/// Each count on record is that of the events up to the place beside it, places only grow, and
/// nothing but the observer's own records comes after the last (EN-5, EN-9).
pub fn is_exact(what: &str, events: &[Envelope]) {
    let (mut tally, mut place) = (None, 0);
    for event in events.iter().filter(|event| is_audits(event)) {
        let Payload::ExtensionRecorded(record) = &event.payload else { continue };
        let body = record.body.inline().expect("a short record");
        if record.kind == TALLY {
            tally = body.parse::<u64>().ok();
            continue;
        }
        let now: serde_json::Value = serde_json::from_str(body).expect("a place");
        let now = now["seq"].as_u64().expect("a number");
        assert!(now >= place && now < event.seq.0, "{what}: event {} is at {now} after {place}", event.seq);
        assert_eq!(tally.take(), Some(now), "{what}: event {} counts the events before it", event.seq);
        place = now;
    }
    let last = events.iter().rfind(|event| !is_audits(event)).map_or(0, |event| event.seq.0);
    assert!(place >= last, "{what}: the observer is at {place} of {last}");
}

/// Makes all content old that is in a store file, and collects what nothing reaches (CO-3).
pub async fn collect(client: &Client, file: &Path) {
    let connection = rusqlite::Connection::open(file).expect("the store's file");
    connection.busy_timeout(std::time::Duration::from_secs(30)).expect("a time");
    connection.execute("UPDATE content SET touched_at = touched_at - 172800000000", []).expect("content grows old");
    drop(connection);
    let collected = client.gc(GcOptions::default(), &mut |_| {}).await.expect("content is collected");
    assert!(collected.damaged.is_empty(), "{collected:?}");
}
