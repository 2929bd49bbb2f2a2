//! Whether what is to be written agrees with itself: checked, and packed, before the writer is
//! asked, so that neither hashing nor packing ever happens under the lock.

use std::collections::BTreeSet;

use plica_kernel::body::Blob;
use plica_ports::store::rules::{check_batch, check_new};
use plica_ports::store::{Batch, Claim, NewTask};

use crate::content;
use crate::inbox::{Parcel, pack};
use crate::pack::Frames;

/// What a row shows of a goal.
const GOAL_CHARS_MAX: usize = 200;

/// Bytes of the bodies of a new task.
pub(crate) fn size(task: &NewTask) -> usize {
    task.blobs.iter().map(|blob| blob.bytes.len()).sum()
}

/// Bytes of the bodies of a batch, its children's included.
pub(crate) fn size_of(batch: &Batch) -> usize {
    let own: usize = batch.blobs.iter().map(|blob| blob.bytes.len()).sum();
    own + batch.children.iter().map(size).sum::<usize>()
}

/// What of a batch is brought into the form in which it is kept.
#[derive(Debug)]
pub(crate) struct Packed {
    /// Its deliveries, in their order.
    pub parcels: Vec<Parcel>,
    /// Its bodies, those of its children included.
    pub frames: Frames,
}

/// Checks a new root task; packs its bodies.
pub(crate) fn check_root(task: &NewTask) -> Result<Frames, String> {
    if task.facts.parent.is_some() {
        return Err("a child is created by an append of its parent".into());
    }
    check_task(task)?;
    Ok(Frames::of(&task.blobs))
}

/// Checks a batch and the children it creates; packs their bodies and what it delivers.
pub(crate) fn check(claim: &Claim, batch: &Batch) -> Result<Packed, String> {
    if claim.task != batch.task {
        return Err(format!("the claim is of task {}", claim.task));
    }
    check_batch(batch)?;
    check_blobs(&batch.blobs)?;
    let mut ids = BTreeSet::from([&batch.task]);
    for child in &batch.children {
        check_task(child)?;
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
    let parcels = batch.deliveries.iter().map(|delivery| pack(&delivery.task, &delivery.item));
    let parcels = parcels.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let bodies = batch.blobs.iter().chain(batch.children.iter().flat_map(|child| &child.blobs));
    Ok(Packed { parcels, frames: Frames::of(bodies) })
}

fn check_task(task: &NewTask) -> Result<(), String> {
    check_new(task)?;
    if task.facts.goal.chars().count() > GOAL_CHARS_MAX {
        return Err(format!("the row's goal has more than {GOAL_CHARS_MAX} characters"));
    }
    check_blobs(&task.blobs)
}

fn check_blobs(blobs: &[Blob]) -> Result<(), String> {
    blobs.iter().try_for_each(|blob| content::check(blob).map_err(|rule| format!("content {}: {rule}", blob.reference)))
}
