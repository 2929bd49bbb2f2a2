//! Snapshots: the whole state as of a seq, at a cost that does not grow with the log (SN-7).
//!
//! A snapshot is an accelerator and nothing else (SN-1): one that is missing, damaged, of
//! another fold version or of a shape this version cannot read is passed over, and the fold
//! starts further back.
//!
//! The head's hash is no part of the bytes: it is the `prev` of the snapshot's own event,
//! which directly follows that head, and which may be of the same append.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::body::{Blob, ContentRef, MEDIA_STATE};
use crate::canonical::{CanonicalError, Hash, from_slice, to_vec};
use crate::envelope::Envelope;
use crate::event::{Payload, TaskSnapshot};
use crate::state::{ListName, SealedLists, Task, fold::fold_version};

#[derive(Serialize)]
struct Out<'a> {
    lists: &'a SealedLists,
    state: &'a Task,
}

#[derive(Deserialize)]
struct In {
    #[serde(default)]
    lists: SealedLists,
    state: Task,
}

const NO_HASH: Hash = Hash::from_bytes([0; 32]);

/// Takes a snapshot of `task`: the payload to record, with the state and the segments sealed
/// for the first time pushed to `blobs`.
///
/// # Errors
/// None in practice: a state is made of what was canonical already.
pub fn take(task: &mut Task, blobs: &mut Vec<Blob>) -> Result<TaskSnapshot, CanonicalError> {
    let through = task.head().seq;
    let (lists, mut state) = task.seal_lists(blobs)?;
    state.seal_head(NO_HASH);
    let blob = Blob::new(MEDIA_STATE, to_vec(&Out { lists: &lists, state: &state })?);
    let state_ref = blob.reference.clone();
    blobs.push(blob);
    Ok(TaskSnapshot { fold: fold_version(), state_ref, through })
}

/// The state that a snapshot holds, from its event and the bytes its `state_ref` names; `None`
/// when the event is no snapshot, or it is of another fold version, cannot be read, or is not
/// what the event says (SN-2).
///
/// Sealed segments stay unread: see [`unread`].
pub fn load(event: &Envelope, bytes: &[u8]) -> Option<Task> {
    let Payload::TaskSnapshot(snapshot) = &event.payload else { return None };
    if snapshot.fold != fold_version() || ContentRef::of(MEDIA_STATE, bytes).sha256 != snapshot.state_ref.sha256 {
        return None;
    }
    let In { lists, mut state } = from_slice(bytes).ok()?;
    state.precede_lists(lists);
    state.seal_head(event.prev);
    let fits =
        *state.id() == event.task && state.head().seq == snapshot.through && snapshot.through.next() == event.seq;
    fits.then_some(state)
}

/// The segments to read next before every list of the state can be seen whole; empty when
/// none is left. Each segment, once [supplied](supply), may name one before it.
pub fn unread(task: &Task) -> Vec<(ListName, ContentRef)> {
    task.unread_lists().map(|(name, sealed)| (name, sealed.last.clone())).collect()
}

/// Takes in the bytes of a segment that [`unread`] named.
///
/// # Errors
/// When the bytes are no segment of that list; the state then is as good as before.
pub fn supply(task: &mut Task, name: ListName, bytes: &[u8]) -> Result<(), CanonicalError> {
    task.supply_list(name, bytes)
}
