use std::collections::BTreeMap;

use plica_kernel::body::Blob;
use plica_kernel::canonical::Hash;
use plica_kernel::envelope::SealedEvent;
use plica_kernel::event::EventType;
use plica_kernel::id::{DedupKey, Position, Queue, Seq, TaskId};
use plica_kernel::row::{Projection, Status};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;

use super::Verdict;

/// What becomes of the claim with an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimAfter {
    /// Kept, unless the batch suspends or ends the task: then released.
    #[default]
    ByStatus,
    /// Released, whatever the batch does; claimable again at once, or from then on.
    Release {
        /// Not to be claimed before this time.
        not_before: Option<Timestamp>,
    },
    /// Kept while the task waits or is over (ST-13, EN-5).
    Retain,
}

/// An item for another task, delivered with an append.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The receiver. One that does not exist or is over is passed over silently.
    pub task: TaskId,
    /// The sender, as the receiver's events will name it.
    pub actor: String,
    /// The item. One that no inbox could take, because it is too large or cannot be written
    /// down, makes the batch invalid.
    pub item: Item,
    /// Idempotent under this key; a conflict is passed over: the first stands.
    pub dedup: DedupKey,
}

/// What the row of a new task holds for lists and claims; never changed afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The agent's name.
    pub agent: String,
    /// The first 200 characters of the goal.
    pub goal: String,
    /// The parent of a child.
    pub parent: Option<TaskId>,
    /// The task that a fork branched off from.
    pub source: Option<TaskId>,
    /// The queue.
    pub queue: Queue,
    /// Priority class, 0 to 3.
    pub priority: u8,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// Not to be claimed before this time.
    pub not_before: Option<Timestamp>,
    /// Recorded time of the first event.
    pub created_at: Timestamp,
}

/// A task to be created.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// Its id.
    pub id: TaskId,
    /// Its first events, from seq 1, under epoch 0.
    pub events: Vec<SealedEvent>,
    /// The bodies they cite.
    pub blobs: Vec<Blob>,
    /// The row after them.
    pub row: Projection,
    /// What the row holds for good.
    pub facts: Facts,
    /// The caller's key and a fingerprint of what was asked for under it.
    pub key: Option<(DedupKey, Hash)>,
}

/// How a creation ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The task: the new one, or the first that was made under the same key.
    pub id: TaskId,
    /// Whether it was made by this call.
    pub fresh: bool,
}

/// Everything that one append writes.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The task whose log it continues; another than the claim's is refused as invalid.
    pub task: TaskId,
    /// Seq of the head it continues.
    pub after: Seq,
    /// Hash of that head.
    pub after_hash: Hash,
    /// The events, from `after + 1` on, at least one.
    pub events: Vec<SealedEvent>,
    /// The bodies they are first to cite.
    pub blobs: Vec<Blob>,
    /// The row after them.
    pub row: Projection,
    /// Inbox items that the events record.
    pub consumed: Vec<Position>,
    /// The newest inbox item that the writer has seen.
    pub seen: Position,
    /// Items for other tasks.
    pub deliveries: Vec<Delivery>,
    /// Children. One whose id exists already makes the append a `RevisionConflict`.
    pub children: Vec<NewTask>,
    /// What becomes of the claim.
    pub claim: ClaimAfter,
}

impl Batch {
    /// Whether the batch leaves the task suspended or over, so that it releases the claim unless
    /// it says otherwise (ST-4).
    pub fn rests(&self) -> bool {
        matches!(self.row.status, Status::Waiting) || self.row.status.is_over()
    }

    /// Whether a turn ends anywhere in the batch, also one that the same batch wakes up from, so
    /// that no newer inbox item may lie untaken (ST-3).
    pub fn suspends_or_ends(&self) -> bool {
        self.rests()
            || self.events.iter().any(|event| event.kind.is_terminal() || event.kind == EventType::TaskSuspended)
    }

    /// Seq of the last event.
    pub fn last(&self) -> Seq {
        self.row.seq
    }
}

/// An append that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The store's time and inbox tail.
    pub verdict: Verdict,
    /// Whether the claim still holds.
    pub held: bool,
}

/// What a readback found (ST-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitFate {
    /// The event at the seq has the hash: the append stands.
    Written,
    /// There is no event at the seq: the identical batch may be tried again.
    NotThere,
    /// Another event has the seq: the claim is lost.
    Superseded,
}
