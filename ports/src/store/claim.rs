use std::fmt;
use std::time::Duration;

use plica_kernel::canonical::{Domain, Hash};
use plica_kernel::id::{Epoch, InstanceId, Position, Queue, RunId, Seq, TaskId, WorkerId};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::InboxItem;

/// A lease token: 32 random bytes known to the holder alone; the store keeps its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub [u8; 32]);

impl Token {
    /// What the store keeps: `H("plica/token/v1\n" ‖ token)`.
    pub fn hash(&self) -> Hash {
        Domain::Token.hash(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What tells one process from every other that ever ran on one host (ST-16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The kernel's boot id.
    pub boot: String,
    /// The pid namespace.
    pub namespace: String,
    /// The process id in it.
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub started: u64,
}

/// One worker process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Its name in lists.
    pub id: WorkerId,
    /// This start of it; only the same instance may take its claims up again.
    pub instance: InstanceId,
    /// The host it runs on, for people.
    pub host: String,
    /// The version it runs.
    pub version: String,
    /// Which process it is, when that can be known.
    pub process: Option<ProcessIdentity>,
}

/// What a worker asks for.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: Worker,
    /// The queues it serves; empty means every queue.
    pub queues: Vec<Queue>,
    /// How long the claims are to hold unless renewed.
    pub lease: Duration,
    /// At most so many.
    pub max: usize,
    /// This task and no other.
    pub task: Option<TaskId>,
    /// Tasks to pass over (RC-9).
    pub except: Vec<TaskId>,
}

/// A worker's hold of one task: what every write proves.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The task.
    pub task: TaskId,
    /// The fence.
    pub epoch: Epoch,
    /// The hold's id, as its events carry it.
    pub run: RunId,
    /// The secret.
    pub token: Token,
}

/// A task that was handed out.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The hold.
    pub claim: Claim,
    /// Seq of the last event.
    pub seq: Seq,
    /// Hash of the last event.
    pub hash: Hash,
    /// The untaken inbox items, in order.
    pub items: Vec<InboxItem>,
    /// The store's time and inbox tail.
    pub verdict: Verdict,
    /// When the lease ends unless renewed.
    pub lease_until: Timestamp,
}

/// What every verdict of claim, renew, release and append brings along (ST-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The store's time.
    pub now: Timestamp,
    /// Position of the newest item ever delivered.
    pub inbox_tail: Position,
}

/// The verdicts of a renewal, in the order asked.
#[derive(Debug, Clone)]
pub struct Renewed {
    /// The store's time.
    pub now: Timestamp,
    /// One a claim.
    pub verdicts: Vec<Result<Position, super::Conflict>>,
}
