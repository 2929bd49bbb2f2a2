use std::time::Duration;

use plica_kernel::canonical::Hash;
use plica_kernel::id::{Epoch, Position, Queue, RunId, Seq, TaskId, WorkerId};
use plica_kernel::row::{Blocked, Projection, Status};
use plica_kernel::time::Timestamp;

use super::{Facts, Worker};

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Place in the log.
    pub seq: Seq,
    /// The hash it is stored under.
    pub hash: Hash,
    /// Its exact bytes.
    pub body: Vec<u8>,
}

/// A task's row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The task.
    pub id: TaskId,
    /// What it was created with.
    pub facts: Facts,
    /// What the kernel computed at the last append.
    pub projection: Projection,
    /// Recorded time of the last append, by the store's clock.
    pub updated_at: Timestamp,
    /// The highest epoch given out.
    pub epoch: Epoch,
    /// Who holds the task now; none when nobody does, whether or not the lease ran out.
    pub holder: Option<Worker>,
    /// The id of the holder's claim.
    pub run: Option<RunId>,
    /// When it was claimed.
    pub acquired_at: Option<Timestamp>,
    /// When the lease ends unless renewed.
    pub lease_until: Option<Timestamp>,
    /// When it may next be claimed; never while it waits for an event, is over with nothing
    /// that outlives it untaken, or is blocked.
    pub claimable_at: Option<Timestamp>,
    /// Position of the newest inbox item ever delivered.
    pub inbox_tail: Position,
    /// Claims since the last append (ST-18).
    pub idle_claims: u32,
    /// Why nobody may claim it.
    pub blocked: Option<Blocked>,
}

/// Which rows to list; members that are set all have to match.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// With this status.
    pub status: Option<Status>,
    /// In this queue.
    pub queue: Option<Queue>,
    /// Of this agent.
    pub agent: Option<String>,
    /// Children of this task.
    pub parent: Option<TaskId>,
    /// Whose id begins with this.
    pub prefix: Option<String>,
    /// Only blocked ones.
    pub blocked: bool,
}

/// A part of a list.
#[derive(Debug, Clone)]
pub struct Page {
    /// At most so many rows.
    pub limit: usize,
    /// Those that come after this one: creation time and id of the last row of the part before.
    pub after: Option<(Timestamp, TaskId)>,
}

impl Page {
    /// The first `limit` rows.
    pub fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }
}

/// What is due by itself in some queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outlook {
    /// Tasks under a lease that has not run out, whose holder is not known to be gone.
    pub held: u64,
    /// The earliest `claimable_at` of all that are not held: due now, a timer, a not-before.
    pub next: Option<Timestamp>,
    /// The store's time.
    pub now: Timestamp,
}

/// A registered worker.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerRow {
    /// Its name.
    pub id: WorkerId,
    /// Its host.
    pub host: String,
    /// Its version.
    pub version: String,
    /// The queues it serves; empty means every queue.
    pub queues: Vec<Queue>,
    /// Its lease.
    pub lease: Duration,
    /// When it was last seen.
    pub seen_at: Timestamp,
}
