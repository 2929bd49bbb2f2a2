use std::collections::BTreeMap;

use plica_kernel::envelope::Envelope;
use plica_kernel::id::TaskId;

/// A record that a plugin wants appended: opaque to every core rule (EN-9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The plugin.
    pub plugin: String,
    /// The record's kind; the last of each kind is kept in the state.
    pub kind: String,
    /// The record, as text.
    pub body: String,
}

/// Something that a plugin sends to another task with the event that it belongs to: delivered by
/// the same append (EN-9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The receiver. What is addressed to the task itself, or to one that is over, goes nowhere.
    pub task: TaskId,
    /// What it is.
    pub parcel: Parcel,
    /// The receiver takes what one plugin sends under one key once, however often it is sent.
    pub key: String,
}

/// What a plugin can send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parcel {
    /// A message to the agent.
    Message(String),
    /// An event that a task may wait for.
    Event {
        /// What it carries, as text.
        data: Option<String>,
        /// Its kind.
        kind: String,
    },
}

/// Sees every committed event (EN-5): after its commit, in seq order, outside every lock.
/// Nothing it does changes what was decided.
pub trait Observer: Send + Sync {
    /// Takes one event with its exact bytes. Must not block for long; a panic is caught and
    /// logged.
    fn committed(&self, event: &Envelope, body: &[u8]);

    /// What an observer keeps of its place in each log, if it asks to see each event at least
    /// once. By default it does not: what is committed while it is not there it never sees.
    fn progress(&self) -> Option<&dyn Progress> {
        None
    }
}

/// The place of an observer in the logs that it follows: a record of its own plugin, of the kind
/// `delivered_through`, beside whatever else it wants on record.
///
/// * **EN-5** Each event of a task, from the first, is shown at least once across crashes: a
///   claim begins after the last place on record, and a task that suspends or ends is handed
///   back only once what was shown until then is on record. After a crash in between the next
///   holder shows the same again, and nothing else is written twice. What follows is shown when
///   it is committed, but for the records of progress themselves, which are shown once each is
///   written and, if a crash comes between, with the next claim.
/// * **EN-9** Its records and its place go into one append: none of them counts without the
///   others, so a tally that is on record is one of exactly the events up to that place.
pub trait Progress: Send + Sync {
    /// The plugin's name: its events' actor is `plugin:<name>`.
    fn plugin(&self) -> &str;

    /// Its version, if no worker without it is to go on with the tasks that it follows (RC-8).
    fn version(&self) -> Option<&str> {
        None
    }

    /// A claim of `task` begins. `records` are the texts of the plugin's last records by kind;
    /// the events after the place that stands beside them come next. Whatever was kept of the
    /// task before is to give way to them.
    fn resumes(&self, task: &TaskId, records: &BTreeMap<String, String>);

    /// What is to be on record of the events of `task` that were shown: kind and body of each
    /// record. May be asked several times before it is written.
    fn records(&self, task: &TaskId) -> Vec<(String, String)>;

    /// What is to be sent to other tasks with these records.
    fn outgoing(&self, task: &TaskId) -> Vec<Outgoing> {
        let _ = task;
        Vec::new()
    }
}
