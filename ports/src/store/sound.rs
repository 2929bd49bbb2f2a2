//! Whether what is to be written agrees with itself, whatever a store holds: pure functions, so that
//! every adapter in Rust refuses the same. They hash everything, so they are called before a lock is
//! taken; large writes ([`body_bytes`]) belong on a thread that may block.

use std::collections::BTreeSet;

use plica_kernel::body::Blob;
use plica_kernel::canonical::{Domain, content_hash, from_slice, to_vec};
use plica_kernel::envelope::SealedEvent;
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::limits::{CONTENT_BYTES_MAX, EVENT_BYTES_MAX};
use plica_kernel::row::Projection;
use plica_kernel::wake::Wake;

use super::rules::item_bytes;
use super::{Batch, Claim, NewTask};

/// What a row shows of a goal.
const GOAL_CHARS_MAX: usize = 200;

/// Whether a new root task is what a store may take on trust: its events as in [`check_batch`], a
/// row that can be kept, bodies that are those of their references.
///
/// # Errors
/// The rule that is broken, in words.
pub fn check_root(task: &NewTask) -> Result<(), String> {
    if task.facts.parent.is_some() {
        return Err("a child is created by an append of its parent".into());
    }
    check_new(task)
}

/// Whether a batch is what a store may take on trust from the holder of `claim`: at least one
/// event, seqs that run on from `after`, sizes in bounds, hashes of the bodies, a row that ends with
/// the last, children of its own, and deliveries that some inbox could take: the sender can see what
/// no store would keep, so that is not passed over (ST-7).
///
/// # Errors
/// The rule that is broken, in words.
pub fn check_batch(claim: &Claim, batch: &Batch) -> Result<(), String> {
    if claim.task != batch.task {
        return Err(format!("the claim is of task {}", claim.task));
    }
    check_events(batch.after, &batch.events, &batch.row)?;
    if batch.seen.0 < batch.consumed.iter().map(|position| position.0).max().unwrap_or(0) {
        return Err("an item is consumed that was not seen".into());
    }
    for delivery in &batch.deliveries {
        item_bytes(&delivery.task, &delivery.item)
            .map_err(|error| format!("it delivers what nobody takes: {error}"))?;
    }
    check_blobs(&batch.blobs)?;
    let mut ids: BTreeSet<&TaskId> = BTreeSet::from([&batch.task]);
    for child in &batch.children {
        check_new(child)?;
        if child.facts.parent.as_ref() != Some(&batch.task) {
            return Err(format!("child {} names another parent", child.id));
        }
        if child.key.is_some() {
            return Err(format!("child {} has a caller's key", child.id));
        }
        if !ids.insert(&child.id) {
            return Err(format!("child {} is not the only task of this id", child.id));
        }
    }
    Ok(())
}

/// Whether a body is what its reference says, and not too large.
///
/// # Errors
/// The rule that is broken, in words.
pub fn check_blob(blob: &Blob) -> Result<(), String> {
    let size = blob.bytes.len();
    if size > CONTENT_BYTES_MAX {
        return Err(format!("it has {size} bytes, more than {CONTENT_BYTES_MAX}"));
    }
    if size as u64 != blob.reference.size || content_hash(&blob.bytes) != blob.reference.sha256 {
        return Err("its bytes are not those of the reference".into());
    }
    Ok(())
}

/// Bytes of bodies that a write brings, those of the tasks that it creates included.
pub fn body_bytes(blobs: &[Blob], children: &[NewTask]) -> usize {
    let theirs = children.iter().flat_map(|child| &child.blobs);
    blobs.iter().chain(theirs).map(|blob| blob.bytes.len()).sum()
}

fn check_blobs(blobs: &[Blob]) -> Result<(), String> {
    blobs.iter().try_for_each(|blob| check_blob(blob).map_err(|rule| format!("content {}: {rule}", blob.reference)))
}

fn check_new(task: &NewTask) -> Result<(), String> {
    if task.facts.priority > 3 {
        return Err(format!("priority {} is not 0 to 3", task.facts.priority));
    }
    if task.facts.goal.chars().count() > GOAL_CHARS_MAX {
        return Err(format!("the row's goal has more than {GOAL_CHARS_MAX} characters"));
    }
    check_events(Seq(0), &task.events, &task.row)?;
    check_blobs(&task.blobs)
}

fn check_events(after: Seq, events: &[SealedEvent], row: &Projection) -> Result<(), String> {
    let mut last = after;
    for event in events {
        if event.seq != last.next() {
            return Err(format!("event {} does not follow {last}", event.seq));
        }
        last = event.seq;
        if event.body.len() > EVENT_BYTES_MAX {
            return Err(format!("event {last} has {} bytes, more than {EVENT_BYTES_MAX}", event.body.len()));
        }
        if Domain::Event.hash(&event.body) != event.hash {
            return Err(format!("event {last} does not have the hash it comes with"));
        }
    }
    match events.last() {
        None => Err("no events".into()),
        Some(event) if (event.seq, event.hash) != (row.seq, row.hash) => {
            Err("the row does not end with the last event".into())
        }
        Some(_) if !row.wake.fits() => Err("more than 8 wake alternatives".into()),
        Some(_) if !reads_back(&row.wake) => Err("the wake does not read back as written".into()),
        Some(_) => Ok(()),
    }
}

/// Whether a wake is the same after a store has kept it as text: one that is not, such as a wait
/// for an event of no kind, would make the row unreadable for everyone.
fn reads_back(wake: &Wake) -> bool {
    to_vec(wake).is_ok_and(|bytes| from_slice::<Wake>(&bytes).is_ok_and(|read| read == *wake))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_1_a_body_is_of_its_reference_and_not_too_large() {
        let mut blob = Blob::new("text/plain", b"body".to_vec());
        assert_eq!(check_blob(&blob), Ok(()));
        blob.bytes[0] = b'B';
        assert!(check_blob(&blob).is_err_and(|rule| rule.contains("reference")));
        blob.bytes = vec![0; CONTENT_BYTES_MAX + 1];
        assert!(check_blob(&blob).is_err_and(|rule| rule.contains("more than")));
    }
}
