use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

use crate::body::Blob;
use crate::canonical::{CanonicalError, Hash};
use crate::envelope::{Envelope, Links, Origin, SealError, SealedEvent};
use crate::event::{Class, Payload};
use crate::id::{DedupKey, Epoch, Position, RunId, Seq, TaskId};
use crate::state::{Task, fold::FoldError};
use crate::time::Timestamp;
use crate::wake::Item;

/// What every event of one append shares.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The store's time, as the last verdict gave it and the worker's monotonic clock carried
    /// it on.
    pub now: Timestamp,
    /// The claim's epoch.
    pub epoch: Epoch,
    /// The claim.
    pub run: RunId,
}

/// Why something cannot be recorded. Any of these is a bug of the caller or of the kernel, or a log
/// that was made by hand;
/// nothing has been written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The event cannot follow.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The event does not fit.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A value has no canonical form.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    /// What is to be recorded does not fit the state.
    #[error("task {task} at seq {seq}: {rule}")]
    Misplaced {
        /// The task.
        task: TaskId,
        /// Its head.
        seq: Seq,
        /// What is wrong.
        rule: &'static str,
    },
    /// What is recorded leads nowhere, however much of it there is: a state that no log can have.
    #[error("task {task} at seq {seq}: what happens next goes round in a circle")]
    Endless {
        /// The task.
        task: TaskId,
        /// Its head.
        seq: Seq,
    },
}

/// An item for another task, sent with an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The receiver.
    pub task: TaskId,
    /// The sender.
    pub actor: String,
    /// The item.
    pub item: Item,
    /// Idempotent under this key.
    pub dedup: DedupKey,
}

/// An append in the making: events that are folded as they are added, and what goes with
/// them.
#[derive(Debug, Clone)]
pub struct Draft {
    base: (Seq, Hash),
    stamp: Stamp,
    task: Task,
    events: Vec<Envelope>,
    blobs: Vec<Blob>,
    consumed: Vec<Position>,
    sent: Vec<Sent>,
    children: Vec<Drafted>,
}

/// A finished draft: everything a store needs to write it.
#[derive(Debug, Clone)]
pub struct Drafted {
    /// Seq of the head that the events continue.
    pub after: Seq,
    /// Hash of that head.
    pub after_hash: Hash,
    /// The events, sealed.
    pub events: Vec<SealedEvent>,
    /// The same events, decoded.
    pub envelopes: Vec<Envelope>,
    /// The bodies that they are first to cite.
    pub blobs: Vec<Blob>,
    /// Inbox items that they record.
    pub consumed: Vec<Position>,
    /// Items for other tasks.
    pub sent: Vec<Sent>,
    /// Children.
    pub children: Vec<Drafted>,
    /// The state after them.
    pub task: Task,
}

/// Stands for hashes that are known only once the append is complete, since every event says
/// how many of its append still follow.
const UNSEALED: Hash = Hash::from_bytes([0; 32]);

impl Draft {
    /// An empty append that continues `task`.
    pub fn new(task: Task, mut stamp: Stamp) -> Self {
        // The clock of a store that was set back stands still, while a former holder carried its
        // time on: what is to come so long after a decision counts from when it is recorded.
        stamp.now = stamp.now.max(task.head().at);
        let base = (task.head().seq, task.head().hash);
        Self::with(base, task, stamp, Vec::new())
    }

    fn with(base: (Seq, Hash), task: Task, stamp: Stamp, events: Vec<Envelope>) -> Self {
        Self {
            base,
            stamp,
            task,
            events,
            blobs: Vec::new(),
            consumed: Vec::new(),
            sent: Vec::new(),
            children: Vec::new(),
        }
    }

    /// The append that begins a task with this first event.
    pub(super) fn genesis(
        task: TaskId,
        actor: &str,
        stamp: Stamp,
        prev: Hash,
        payload: Payload,
        ancestor: Option<&Task>,
    ) -> Result<Self, RecordError> {
        let event = Envelope {
            task,
            seq: Seq(1),
            actor: actor.to_string(),
            origin: Origin::System,
            at: stamp.now,
            epoch: stamp.epoch,
            run: stamp.run.clone(),
            links: Links::default(),
            more: 0,
            trace: None,
            metrics: BTreeMap::new(),
            prev,
            payload,
        };
        let state = Task::begin(&event, UNSEALED, ancestor)?;
        Ok(Self::with((Seq(0), prev), state, stamp, [event].into()))
    }

    /// The state as it would be after this append.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The time events of this append are recorded under.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Whether nothing has been recorded.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Inbox items that the append takes.
    pub fn consumed(&self) -> &[Position] {
        &self.consumed
    }

    /// Adds an event; its links follow from its class: a decision names itself, `cause` is the
    /// decision of an action or the action of an outcome.
    pub(super) fn push(
        &mut self,
        actor: &str,
        origin: Origin,
        cause: Option<Seq>,
        payload: impl Into<Payload>,
    ) -> Result<Seq, RecordError> {
        let event = self.next_event(actor, origin, cause, payload.into());
        self.task.apply(&event, UNSEALED)?;
        Ok(self.add(event))
    }

    /// Adds an event that lands on a state before it (SN-1).
    pub(super) fn push_landing(
        &mut self,
        actor: &str,
        origin: Origin,
        payload: impl Into<Payload>,
        landing: &Task,
    ) -> Result<Seq, RecordError> {
        let event = self.next_event(actor, origin, None, payload.into());
        self.task.apply_landing(&event, UNSEALED, landing)?;
        Ok(self.add(event))
    }

    fn add(&mut self, event: Envelope) -> Seq {
        let seq = event.seq;
        self.events.push(event);
        seq
    }

    fn next_event(&self, actor: &str, origin: Origin, cause: Option<Seq>, payload: Payload) -> Envelope {
        let head = *self.task.head();
        let seq = head.seq.next();
        let links = match payload.kind().class() {
            Class::Decision => Links { decision: Some(seq), ..Links::default() },
            Class::Action => Links { parent: cause, decision: cause, action: None },
            Class::Outcome => Links { parent: cause, decision: None, action: cause },
            Class::Observation | Class::Checkpoint => Links::default(),
        };
        Envelope {
            task: self.task.id().clone(),
            seq,
            actor: clip(actor, ACTOR_BYTES_MAX),
            origin,
            at: head.at.max(self.stamp.now),
            epoch: self.stamp.epoch,
            run: self.stamp.run.clone(),
            links,
            more: 0,
            trace: None,
            metrics: BTreeMap::new(),
            prev: head.hash,
            payload,
        }
    }

    /// Where bodies that do not fit inline go.
    pub(super) fn blobs(&mut self) -> &mut Vec<Blob> {
        &mut self.blobs
    }

    /// Adds bodies that belong to the append.
    pub fn keep(&mut self, blobs: impl IntoIterator<Item = Blob>) {
        self.blobs.extend(blobs);
    }

    /// Takes an inbox item with this append.
    pub(super) fn consume(&mut self, position: Position) {
        self.consumed.push(position);
    }

    /// Sends an item to another task with this append.
    pub(super) fn send(&mut self, sent: Sent) {
        self.sent.push(sent);
    }

    /// Creates a child with this append.
    pub(super) fn bear(&mut self, child: Drafted) {
        self.children.push(child);
    }

    /// Takes a snapshot of the state so far.
    pub(super) fn snapshot(&mut self) -> Result<(), RecordError> {
        let snapshot = crate::snapshot::take(&mut self.task, &mut self.blobs)?;
        self.push("engine", Origin::Engine, None, snapshot).map(|_| ())
    }

    pub(super) fn misplaced(&self, rule: &'static str) -> RecordError {
        RecordError::Misplaced { task: self.task.id().clone(), seq: self.task.head().seq, rule }
    }

    /// Seals the events: now that all are there, each can say how many follow.
    ///
    /// # Errors
    /// When an event does not fit (EV-7).
    pub fn finish(mut self) -> Result<Drafted, RecordError> {
        let (after, after_hash) = self.base;
        let count = self.events.len();
        let mut prev = after_hash;
        let mut sealed = Vec::with_capacity(count);
        for (index, event) in self.events.iter_mut().enumerate() {
            event.more = (count - 1 - index) as u32;
            event.prev = prev;
            let one = event.seal()?;
            prev = one.hash;
            sealed.push(one);
        }
        self.task.seal_head(prev);
        Ok(Drafted {
            after,
            after_hash,
            events: sealed,
            envelopes: self.events,
            blobs: self.blobs,
            consumed: self.consumed,
            sent: self.sent,
            children: self.children,
            task: self.task,
        })
    }
}

/// Bytes of an actor's name.
const ACTOR_BYTES_MAX: usize = 128;

/// Cuts a text so that its canonical form has at most `max` bytes, quotes included; a cut one
/// ends in an ellipsis.
pub(super) fn clip(text: &str, max: usize) -> String {
    use crate::canonical::string_len;
    if string_len(text) <= max {
        return text.to_string();
    }
    let mut cut = String::new();
    let mut size = string_len("…");
    for character in text.chars() {
        size += string_len(character.encode_utf8(&mut [0; 4])) - 2;
        if size > max {
            break;
        }
        cut.push(character);
    }
    cut.push('…');
    cut
}
