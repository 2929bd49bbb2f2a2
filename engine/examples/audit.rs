//! An observer that keeps its place: it tallies every event of a task by origin, says which actor
//! did what, and has both on record in the task's own log before the task is handed back (EN-5,
//! EN-9). A worker that is killed in between costs no event and counts none twice.
//!
//! `cargo run --example audit` works on one task and prints what the audit came to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use plica_engine::{Client, Host, OneModel, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::envelope::{Envelope, Origin};
use plica_kernel::id::{TaskId, WorkerId};
use plica_memory::MemoryStore;
use plica_ports::{Definition, ModelChoice, Observer, Progress};
use plica_script::ScriptModel;
use serde::{Deserialize, Serialize};

/// What the events of one task come to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Events by origin.
    pub by_origin: BTreeMap<String, u64>,
    /// What each actor did: events by type.
    pub by_actor: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Tally {
    /// Counts an event.
    pub fn count(&mut self, event: &Envelope) {
        *self.by_origin.entry(word(event.origin).to_owned()).or_default() += 1;
        let did = self.by_actor.entry(event.actor.clone()).or_default();
        *did.entry(event.kind().name().to_owned()).or_default() += 1;
    }
}

fn word(origin: Origin) -> &'static str {
    match origin {
        Origin::Engine => "engine",
        Origin::Llm => "llm",
        Origin::Observer => "observer",
        Origin::Tool => "tool",
        Origin::System => "system",
    }
}

/// The audit of the tasks that this worker holds.
#[derive(Default)]
pub struct Audit(Mutex<BTreeMap<TaskId, Tally>>);

impl Audit {
    /// The plugin and the record that the tally stands in.
    pub const PLUGIN: &str = "audit";
    /// The kind of its record.
    pub const TALLY: &str = "tally";
}

impl Observer for Audit {
    fn committed(&self, event: &Envelope, _: &[u8]) {
        let mut tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.entry(event.task.clone()).or_default().count(event);
    }

    fn progress(&self) -> Option<&dyn Progress> {
        Some(self)
    }
}

impl Progress for Audit {
    fn plugin(&self) -> &str {
        Self::PLUGIN
    }

    /// No worker without it goes on with a task that is audited.
    fn version(&self) -> Option<&str> {
        Some("1")
    }

    /// What is on record is a tally of exactly the events before those that come next, so what a
    /// former claim counted beyond it gives way.
    fn resumes(&self, task: &TaskId, records: &BTreeMap<String, String>) {
        let kept = records.get(Self::TALLY).and_then(|tally| serde_json::from_str(tally).ok());
        let mut tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.insert(task.clone(), kept.unwrap_or_default());
    }

    fn records(&self, task: &TaskId) -> Vec<(String, String)> {
        let tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.get(task).and_then(|tally| serde_json::to_string(tally).ok());
        tally.into_iter().map(|tally| (Self::TALLY.to_owned(), tally)).collect()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let script = ScriptModel::parse(br#"{"replies":[{"text":"All is well."}]}"#)?;
    let store = Arc::new(MemoryStore::new());
    let host = Host::builder(store.clone(), OneModel::new(script)).observer(Arc::new(Audit::default())).build();
    let client = Client::new(store);
    let definition = Definition::new("audited", ModelChoice::new("script", "example"));
    let task = client.submit(Submission::new(definition, "Say that all is well.")).await?.id;
    Worker::new(host, WorkerOptions::new(WorkerId::new("one")?).until_idle()).run(Stop::new()).await?;
    let state = client.state(&task, None, false).await?;
    let records = &state.governance().extensions[Audit::PLUGIN];
    let tally: Tally = serde_json::from_str(&client.text(&task, &records[Audit::TALLY]).await?)?;
    for (origin, events) in &tally.by_origin {
        println!("{events} events of origin {origin}");
    }
    for (actor, did) in &tally.by_actor {
        let did: Vec<String> = did.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        println!("{actor}: {}", did.join(", "));
    }
    Ok(())
}
