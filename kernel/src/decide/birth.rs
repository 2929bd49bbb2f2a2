use alloc::{string::String, vec::Vec};

use super::draft::{Draft, Drafted, RecordError, Stamp};
use super::record::say;
use crate::body::{Blob, Body};
use crate::canonical::genesis_hash;
use crate::event::{MessageOrigin, Role, TaskCreated};
use crate::id::TaskId;

/// A task to be born.
#[derive(Debug, Clone)]
pub struct Birth {
    /// Its id.
    pub id: TaskId,
    /// Who asks for it.
    pub actor: String,
    /// The goal, whole.
    pub goal: String,
    /// The first event; its `goal` is filled in from the text.
    pub created: TaskCreated,
    /// Bodies that the first event cites, such as the definition.
    pub blobs: Vec<Blob>,
}

/// The first append of a task: its creation, and its goal as the first message.
///
/// # Errors
/// When a value does not fit an event.
pub fn born(birth: Birth, stamp: Stamp) -> Result<Drafted, RecordError> {
    let Birth { id, actor, goal, mut created, mut blobs } = birth;
    created.goal = Body::text(&goal, &mut blobs);
    let prev = genesis_hash(&created.ledger, &id);
    // Only a root's goal is a person's word.
    let origin = if created.parent.is_none() { MessageOrigin::Human } else { MessageOrigin::System };
    let mut draft = Draft::genesis(id, &actor, stamp, prev, created.into())?;
    draft.keep(blobs);
    say(&mut draft, &actor, Role::User, Some(origin), &goal)?;
    draft.finish()
}
