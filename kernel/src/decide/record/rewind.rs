//! Going back: a rewind, what it does to files, and a parked attempt that goes on.

use alloc::{boxed::Box, string::String, vec::Vec};

use super::items::{join, keep_late_answer};
use super::turn::{Closing, close_open, take_orders};
use crate::body::{Blob, Body, MEDIA_JSON, MEDIA_RESTORE};
use crate::canonical::to_vec;
use crate::decide::draft::{Draft, RecordError, Stamp};
use crate::envelope::Origin;
use crate::event::{
    FilesRestored, FilesRestoring, LateKind, LateResultRecorded, LeftFile, RestorePlan, StepAttemptResumed, TaskRewound,
};
use crate::id::{Position, Seq};
use crate::state::Task;
use crate::wake::{InboxItem, Item};

/// What a worker found out about a rewind before it is recorded.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Bodies that the plan cites.
    pub blobs: Vec<Blob>,
    /// The state as of the seq it lands on.
    pub landing: Box<Task>,
    /// The files that tools changed since.
    pub plan: RestorePlan,
}

/// Goes back: closes all that is open, lands, and says which files will be put back before the
/// first is written (SN-1, SN-5, SN-8). What people said before they asked for it belongs to
/// what is left behind; what they say afterwards opens the next turn.
pub(in crate::decide) fn rewind(
    draft: &mut Draft,
    position: Position,
    prepared: &Result<Prepared, String>,
    items: &[InboxItem],
) -> Result<(), RecordError> {
    let at = items.iter().position(|item| item.position == position);
    let at = at.ok_or_else(|| draft.misplaced("no such item"))?;
    let (before, item) = (&items[..at], &items[at]);
    let Item::Rewind { to_seq } = item.item else { return Err(draft.misplaced("the item is no rewind")) };
    let Prepared { blobs, landing, plan } = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return refuse(draft, item, to_seq, why),
    };
    close_open(draft, &Closing::end("cancelled: the task was rewound while the call ran"), items)?;
    if !draft.task().status().is_over() {
        join(draft, before)?;
    }
    for word in before.iter().filter(|item| matches!(item.item, Item::Resolve { .. })) {
        keep_late_answer(draft, word)?;
        draft.consume(word.position);
    }
    take_orders(draft, before);
    draft.push_landing(&item.actor, Origin::System, TaskRewound { to_seq }, landing)?;
    draft.consume(position);
    if !plan.files.is_empty() {
        draft.keep(blobs.iter().cloned());
        let plan_blob = Blob::new(MEDIA_RESTORE, to_vec(plan)?);
        let restoring = FilesRestoring { files: plan.files.len() as u64, plan: plan_blob.reference.clone() };
        draft.keep([plan_blob]);
        draft.push("engine", Origin::Engine, None, restoring)?;
    }
    draft.snapshot()
}

/// A rewind that lands nowhere changes nothing, but who asked for what is on record (ST-8).
fn refuse(draft: &mut Draft, item: &InboxItem, to_seq: Seq, why: &str) -> Result<(), RecordError> {
    let Stamp { epoch, run, .. } = draft.stamp().clone();
    let said = alloc::format!("a rewind to event {to_seq} was refused: {why}");
    let late = LateResultRecorded {
        answers: to_seq.min(draft.task().head().seq),
        call: None,
        identity: draft.task().identity(1, &run, epoch),
        kind: LateKind::Stale,
        output: Body::text(&said, draft.blobs()),
        spent: None,
        status: None,
    };
    draft.push(&item.actor, Origin::Engine, None, late)?;
    draft.consume(item.position);
    Ok(())
}

/// Records that the files of the plan in force were put back, but for those `left`.
///
/// # Errors
/// When no files are being put back.
pub fn restored(draft: &mut Draft, restored: u64, left: &[LeftFile]) -> Result<(), RecordError> {
    let Some(restoring) = &draft.task().governance().restoring else {
        return Err(draft.misplaced("no files are being put back"));
    };
    let plan = restoring.seq;
    let left = match left {
        [] => None,
        left => Some(Body::of(&String::from_utf8_lossy(&to_vec(&left)?), MEDIA_JSON, draft.blobs())),
    };
    draft.push("engine", Origin::Engine, None, FilesRestored { left, plan, restored }).map(|_| ())
}

/// A person's message carries a parked attempt on.
pub(in crate::decide) fn resume(draft: &mut Draft, seal: Seq) -> Result<(), RecordError> {
    draft.push("engine", Origin::Engine, None, StepAttemptResumed { seal }).map(|_| ())
}
