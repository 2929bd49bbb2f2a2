use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use super::draft::{Draft, Drafted, RecordError, Stamp};
use super::record::say;
use crate::body::{Blob, Body};
use crate::canonical::genesis_hash;
use crate::event::{MessageOrigin, Role, TaskCreated, TaskForked};
use crate::id::{LedgerId, TaskId};
use crate::state::Task;

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
    let mut draft = Draft::genesis(id, &actor, stamp, prev, created.into(), None)?;
    draft.keep(blobs);
    say(&mut draft, &actor, Role::User, Some(origin), &goal)?;
    draft.finish()
}

/// The first append of a fork of the task that folded to `source`, at the event it folded to
/// (SN-4): one event and a snapshot, whatever the length of the log it branches off, and a word on
/// background jobs where the conversation knows of some that run. The source is not written to.
///
/// # Errors
/// When the source is no root, or a turn is under way there.
pub fn forked(source: &Task, id: TaskId, actor: &str, ledger: LedgerId, stamp: Stamp) -> Result<Drafted, RecordError> {
    let prev = genesis_hash(&ledger, &id);
    let head = source.head();
    let forked = TaskForked { ledger, source: source.id().clone(), source_hash: head.hash, source_seq: head.seq };
    let mut draft = Draft::genesis(id, actor, stamp, prev, forked.into(), Some(source))?;
    say_whose_jobs(&mut draft, source)?;
    draft.snapshot()?;
    draft.finish()
}

/// Jobs that the conversation takes to run are the source's.
fn say_whose_jobs(draft: &mut Draft, source: &Task) -> Result<(), RecordError> {
    let governance = source.governance();
    let open = governance.open_jobs().map(|(action, _)| action.seq);
    let jobs: Vec<String> =
        open.chain(governance.untold_jobs().map(|job| job.job)).map(|job| job.to_string()).collect();
    if jobs.is_empty() {
        return Ok(());
    }
    let told = alloc::format!(
        "This conversation was branched off from task {}. Its background {} {} went on there; none runs here.",
        source.id(),
        if jobs.len() == 1 { "job" } else { "jobs" },
        jobs.join(" and ")
    );
    say(draft, "engine", Role::User, Some(MessageOrigin::System), &told)
}
