//! The live path: what a rewind or a redriven seal makes of the log before it (SN-1).
//!
//! The meaning of either is derived from the log alone. Folding forward, the state at each
//! place that some later event lands on is set aside; when that event comes, the
//! conversation becomes that of the landing, and what was spent stays spent.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::ToString,
};

use super::FoldError;
use crate::canonical::Hash;
use crate::envelope::Envelope;
use crate::event::{Payload, SealVerdict};
use crate::id::Seq;
use crate::state::Task;

/// The seq whose state an event lands on: a rewind's target, or the event before the attempt
/// that a seal redrives. `None` for every other event, which lands on nothing.
pub fn landing_of(event: &Envelope) -> Option<Seq> {
    match &event.payload {
        Payload::TaskRewound(rewound) => Some(rewound.to_seq),
        Payload::StepAttemptAbandoned(sealed) if sealed.verdict == SealVerdict::Redrive => {
            Some(Seq(sealed.from_seq.0.saturating_sub(1)))
        }
        _ => None,
    }
}

/// Folds a log forward, from its beginning or from a snapshot.
#[derive(Debug, Clone)]
pub struct Folder {
    task: Option<Task>,
    wanted: BTreeSet<Seq>,
    landings: BTreeMap<Seq, Task>,
}

impl Folder {
    /// A fold from the log's beginning, or from `base`; `wanted` are the landings of the
    /// rewinds and seals that will come (see [`landing_of`]).
    pub fn new(base: Option<Task>, wanted: impl IntoIterator<Item = Seq>) -> Self {
        let mut folder = Self { task: None, wanted: wanted.into_iter().collect(), landings: BTreeMap::new() };
        if let Some(task) = base {
            folder.set(task);
        }
        folder
    }

    fn set(&mut self, task: Task) {
        self.task = Some(task);
        self.set_aside();
    }

    /// Keeps the state so far if some later event lands on it.
    fn set_aside(&mut self) {
        if let Some(task) = self.task.as_ref().filter(|task| self.wanted.contains(&task.head().seq)) {
            self.landings.insert(task.head().seq, task.clone());
        }
    }

    /// Takes the next event in; `ancestor` is the state a fork branches from.
    ///
    /// # Errors
    /// The rule by which the event cannot follow.
    pub fn push(&mut self, event: &Envelope, hash: Hash, ancestor: Option<&Task>) -> Result<(), FoldError> {
        match (&mut self.task, landing_of(event)) {
            (None, _) => self.task = Some(Task::begin(event, hash, ancestor)?),
            (Some(task), None) => task.apply(event, hash)?,
            (Some(task), Some(seq)) => {
                let landing = self
                    .landings
                    .get(&seq)
                    .ok_or_else(|| FoldError::new(event, "lands on no event before it".to_string()))?;
                task.apply_landing(event, hash, landing)?;
            }
        }
        self.set_aside();
        Ok(())
    }

    /// Seals the state so far for a snapshot: `take` may write sealed segments down, which
    /// changes no byte of the state; none before the first event.
    pub(crate) fn seal<T>(&mut self, take: impl FnOnce(&mut Task) -> T) -> Option<T> {
        self.task.as_mut().map(take)
    }

    /// The state so far; none before the first event.
    pub fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }

    /// The state after the last event; none when there was no event.
    pub fn finish(self) -> Option<Task> {
        self.task
    }
}
