use plica_kernel::canonical::Hash;
use plica_kernel::id::{DedupKey, Epoch, Position, Seq, TaskId};
use plica_kernel::time::Timestamp;

/// What a store cannot do, whoever asks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached now; trying later may help.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// It is not one of ours, of a newer version, or damaged: someone must look.
    #[error("{0}")]
    Unusable(String),
    /// No such task.
    #[error("no task {0}")]
    UnknownTask(TaskId),
}

/// By which rule a write is refused; nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another claim was handed out since: the claim is lost.
    #[error("task {task}: fence stale: epoch {claimed}, the store is at {current}")]
    FenceStale {
        /// The task.
        task: TaskId,
        /// The claim's epoch.
        claimed: Epoch,
        /// The row's epoch.
        current: Epoch,
    },
    /// The claim's epoch was never handed out.
    #[error("task {task}: fence unknown: epoch {claimed}, the store is at {current}")]
    FenceUnknown {
        /// The task.
        task: TaskId,
        /// The claim's epoch.
        claimed: Epoch,
        /// The row's epoch.
        current: Epoch,
    },
    /// The claim was released.
    #[error("task {task}: lease required: the claim was released")]
    LeaseRequired {
        /// The task.
        task: TaskId,
    },
    /// The token is not the claim's.
    #[error("task {task}: lease token mismatch")]
    LeaseTokenMismatch {
        /// The task.
        task: TaskId,
    },
    /// The lease ran out; nobody else claimed, so it may be renewed.
    #[error("task {task}: lease expired at {at}")]
    LeaseExpired {
        /// The task.
        task: TaskId,
        /// When it ran out.
        at: Timestamp,
    },
    /// The batch does not continue the log's head.
    #[error("task {task}: revision conflict: batch continues {expected}, the head is {seq} {hash}")]
    RevisionConflict {
        /// The task.
        task: TaskId,
        /// The seq the batch continues.
        expected: Seq,
        /// The head's seq.
        seq: Seq,
        /// The head's hash.
        hash: Hash,
    },
    /// An inbox item newer than the last one seen forbids suspending or ending.
    #[error("task {task}: inbox moved to {tail}")]
    InboxMoved {
        /// The task.
        task: TaskId,
        /// The newest item.
        tail: Position,
    },
}

impl Conflict {
    /// Whether the claim may still be good: the lease can be renewed, or the inbox read.
    pub const fn is_recoverable(&self) -> bool {
        matches!(self, Self::LeaseExpired { .. } | Self::InboxMoved { .. })
    }
}

/// Why an append, release or block failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Refused by a rule; nothing was written.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The batch contradicts itself (seqs, sizes, hashes, a foreign task): a bug of the
    /// caller. Nothing was written.
    #[error("invalid batch for task {task}: {rule}")]
    Invalid {
        /// The task.
        task: TaskId,
        /// The rule it breaks.
        rule: String,
    },
    /// It may or may not have been written: read back before anything else (ST-9).
    #[error("task {task}: the fate of the commit is unknown: {detail}")]
    CommitUnknown {
        /// The task.
        task: TaskId,
        /// What broke.
        detail: String,
    },
    /// Nothing was written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why tasks could not be claimed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Claims may or may not have been made: ask `held_by` (ST-9).
    #[error("the fate of the claim is unknown: {0}")]
    CommitUnknown(String),
    /// Nothing was claimed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a task could not be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The key was used for something else.
    #[error("key {key} was used for task {task} with other contents; use another key")]
    KeyConflict {
        /// The key.
        key: DedupKey,
        /// The task made under it.
        task: TaskId,
    },
    /// The id is taken.
    #[error("task {0} exists already")]
    Exists(TaskId),
    /// The new task contradicts itself: a bug of the caller.
    #[error("invalid new task {task}: {rule}")]
    Invalid {
        /// The task.
        task: TaskId,
        /// The rule it breaks.
        rule: String,
    },
    /// It may or may not have been created: read its row.
    #[error("task {task}: the fate of the creation is unknown: {detail}")]
    CommitUnknown {
        /// The task.
        task: TaskId,
        /// What broke.
        detail: String,
    },
    /// Nothing was written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an item was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliverError {
    /// The task is over and takes no such item.
    #[error("task {task} is over ({status}) and takes no {kind}")]
    TaskOver {
        /// The task.
        task: TaskId,
        /// How it ended.
        status: plica_kernel::row::Status,
        /// The kind of the item.
        kind: &'static str,
    },
    /// The key was used for another item; the first stands.
    #[error("task {task}: key {key} was used for another item; the first stands")]
    KeyConflict {
        /// The task.
        task: TaskId,
        /// The key.
        key: DedupKey,
    },
    /// The item is larger than `limits::ITEM_BYTES_MAX`.
    #[error("task {task}: an item of {size} bytes is too large")]
    TooLarge {
        /// The task.
        task: TaskId,
        /// Its size in bytes.
        size: usize,
    },
    /// The item cannot be written down (a number beyond 2^53 − 1, too deep a nesting): a bug of
    /// the sender. Nothing was delivered.
    #[error("invalid item for task {task}: {rule}")]
    Invalid {
        /// The task.
        task: TaskId,
        /// The rule it breaks.
        rule: String,
    },
    /// It may or may not have been delivered: delivering again under the same key is safe.
    #[error("task {task}: the fate of the delivery is unknown: {detail}")]
    CommitUnknown {
        /// The task.
        task: TaskId,
        /// What broke.
        detail: String,
    },
    /// Nothing was delivered.
    #[error(transparent)]
    Store(#[from] StoreError),
}
