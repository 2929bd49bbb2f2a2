//! An observer that keeps its place in every log, as one worker process has it: it counts what
//! it is shown, and has the count recorded (EN-5, EN-9).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plica_kernel::envelope::Envelope;
use plica_kernel::id::TaskId;
use plica_ports::{Observer, Progress};

use super::oracle::Oracle;

/// The observer's name as a plugin.
pub const AUDIT: &str = "audit";
/// The kind of the record that has the count.
pub const TALLY: &str = "tally";

/// The observer.
pub struct Audit {
    instance: String,
    oracle: Arc<Oracle>,
    tallies: Mutex<BTreeMap<TaskId, u64>>,
}

impl Audit {
    /// The observer in the process `instance`, which remembers nothing of former ones.
    pub fn new(instance: &str, oracle: Arc<Oracle>) -> Self {
        Self { instance: instance.to_owned(), oracle, tallies: Mutex::default() }
    }

    fn tallies(&self) -> MutexGuard<'_, BTreeMap<TaskId, u64>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Audit {
    fn committed(&self, event: &Envelope, body: &[u8]) {
        *self.tallies().entry(event.task.clone()).or_default() += 1;
        self.oracle.shown(&self.instance, &event.task, event.seq, body);
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
        let tally = records.get(TALLY).and_then(|tally| tally.parse().ok()).unwrap_or(0);
        self.tallies().insert(task.clone(), tally);
        self.oracle.follows(&self.instance, task, tally);
    }

    fn records(&self, task: &TaskId) -> Vec<(String, String)> {
        let tally = self.tallies().get(task).copied().unwrap_or(0);
        vec![(TALLY.to_owned(), tally.to_string())]
    }
}
