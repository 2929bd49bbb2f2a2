//! The store's decisions as pure functions, so that every adapter in Rust makes the same
//! ones: what a write is checked against, and when a task is claimable. What a write must be in itself
//! is checked in [`super::sound`].

use plica_kernel::canonical::{Hash, to_vec};
use plica_kernel::id::{Epoch, Position, Seq, TaskId};
use plica_kernel::limits::ITEM_BYTES_MAX;
use plica_kernel::row::Status;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;

use super::{Batch, Claim, Conflict, DeliverError};

/// The columns of a locked row that the verdict on a write depends on.
#[derive(Debug, Clone)]
pub struct LockedRow {
    /// The highest epoch given out.
    pub epoch: Epoch,
    /// Hash of the holder's token; none when nobody holds the task.
    pub token: Option<Hash>,
    /// When the lease ends.
    pub lease_until: Option<Timestamp>,
    /// The head's seq.
    pub seq: Seq,
    /// The head's hash.
    pub hash: Hash,
    /// Position of the newest inbox item ever delivered.
    pub inbox_tail: Position,
}

/// Whether a claim is still its task's: epoch, not released, token. In the order of ST-3.
///
/// # Errors
/// The first rule that is broken.
pub fn check_claim(row: &LockedRow, claim: &Claim) -> Result<(), Conflict> {
    let task = || claim.task.clone();
    if claim.epoch < row.epoch {
        return Err(Conflict::FenceStale { task: task(), claimed: claim.epoch, current: row.epoch });
    }
    if claim.epoch > row.epoch {
        return Err(Conflict::FenceUnknown { task: task(), claimed: claim.epoch, current: row.epoch });
    }
    match &row.token {
        None => Err(Conflict::LeaseRequired { task: task() }),
        Some(hash) if *hash != claim.token.hash() => Err(Conflict::LeaseTokenMismatch { task: task() }),
        Some(_) => Ok(()),
    }
}

/// Whether a batch may be written, in the order of ST-3.
///
/// # Errors
/// The first rule that is broken.
pub fn check_append(row: &LockedRow, claim: &Claim, batch: &Batch, now: Timestamp) -> Result<(), Conflict> {
    check_claim(row, claim)?;
    let task = || claim.task.clone();
    match row.lease_until {
        Some(until) if now < until => {}
        until => return Err(Conflict::LeaseExpired { task: task(), at: until.unwrap_or_default() }),
    }
    if (row.seq, row.hash) != (batch.after, batch.after_hash) {
        return Err(Conflict::RevisionConflict { task: task(), expected: batch.after, seq: row.seq, hash: row.hash });
    }
    if batch.suspends_or_ends() && row.inbox_tail > batch.seen {
        return Err(Conflict::InboxMoved { task: task(), tail: row.inbox_tail });
    }
    Ok(())
}

/// The canonical bytes of an item for `task`, by which a store tells whether two items under
/// one key are the same (ST-7).
///
/// # Errors
/// [`DeliverError::Invalid`] when it has none, [`DeliverError::TooLarge`] when they are more
/// than a store has to keep.
pub fn item_bytes(task: &TaskId, item: &Item) -> Result<Vec<u8>, DeliverError> {
    let bytes = to_vec(item).map_err(|error| DeliverError::Invalid { task: task.clone(), rule: error.to_string() })?;
    if bytes.len() > ITEM_BYTES_MAX {
        return Err(DeliverError::TooLarge { task: task.clone(), size: bytes.len() });
    }
    Ok(bytes)
}

/// Everything that says when a task may next be claimed.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// Its status.
    pub status: Status,
    /// Whether someone holds it, and until when.
    pub lease_until: Option<Timestamp>,
    /// Whether untaken inbox items wake it: its condition is met or one of them steers; for a
    /// task that is over, whether one of them outlives it; for one that is ready or running,
    /// whether one of them stops it.
    pub woken: bool,
    /// Its timer.
    pub wake_at: Option<Timestamp>,
    /// Not to be claimed before this time.
    pub not_before: Option<Timestamp>,
    /// Whether it is blocked.
    pub blocked: bool,
}

/// When a task may next be claimed; never is `None`. A time in the past is kept as it is, so
/// that tasks are handed out in the order in which they became due.
pub fn claimable_at(standing: &Standing, now: Timestamp) -> Option<Timestamp> {
    if standing.blocked {
        return None;
    }
    if standing.lease_until.is_some() {
        return standing.lease_until;
    }
    match standing.status {
        // What was due before keeps its place.
        Status::Ready | Status::Running if standing.woken => {
            Some(standing.not_before.map_or(now, |time| time.min(now)))
        }
        Status::Ready | Status::Running => Some(standing.not_before.unwrap_or(now)),
        // A timer that went off before keeps its place.
        Status::Waiting if standing.woken => Some(standing.wake_at.map_or(now, |time| time.min(now))),
        Status::Waiting => standing.wake_at,
        Status::Completed | Status::Failed | Status::Cancelled => standing.woken.then_some(now),
    }
}

/// Whether untaken items wake a task of this status: met alternative or steering item while
/// it waits, an item that outlives it once it is over. One that is ready or running is woken
/// from a not-before by what stops it: a person who cancels waits for no back-off.
pub fn is_woken(status: Status, wake: &plica_kernel::wake::Wake, untaken: &[plica_kernel::wake::InboxItem]) -> bool {
    match status {
        Status::Ready | Status::Running => untaken.iter().any(|item| item.item.stops()),
        Status::Waiting => wake.is_woken_by(untaken),
        Status::Completed | Status::Failed | Status::Cancelled => {
            untaken.iter().any(|item| item.item.outlives_the_task())
        }
    }
}

/// The fingerprint under which a caller's key is bound to what was asked for.
pub fn fingerprint(parts: &[&[u8]]) -> Hash {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    plica_kernel::canonical::content_hash(&bytes)
}
