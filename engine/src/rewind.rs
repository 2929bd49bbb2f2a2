//! Going back: what a rewind lands on, which files tools changed since, and how they are put back
//! (SN-5, SN-8).

mod chain;
mod changes;
mod span;

use std::path::Path;

use plica_kernel::body::{Blob, ContentRef, MEDIA_BYTES};
use plica_kernel::canonical::from_slice;
use plica_kernel::decide::Prepared;
use plica_kernel::event::{FileWas, LeftFile, PlannedFile, RestorePlan};
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::limits::PREIMAGE_BYTES_MAX;
use plica_kernel::state::Task;
use plica_ports::{ContentError, ContentStore, FileNow, Files, FilesError, Store};

use crate::error::LoadError;
use crate::load::{LoadOptions, load};

use self::changes::Changes;
use self::span::{Place, Span, by_file};

/// Where a rewind of `task` to `to_seq` would land, or why it lands nowhere.
pub(crate) async fn landing(
    store: &dyn Store,
    content: &dyn ContentStore,
    task: &TaskId,
    head: Seq,
    to_seq: Seq,
) -> Result<Result<Task, String>, LoadError> {
    if to_seq == Seq(0) || to_seq > head {
        return Ok(Err(format!("the log has events 1 to {head}")));
    }
    let options = LoadOptions { at: Some(to_seq), whole: true, ..LoadOptions::default() };
    let state = load(store, content, task, options).await?;
    Ok(if state.is_turn_boundary() {
        Ok(state)
    } else {
        Err(format!("a turn is under way at event {to_seq}; a rewind lands where one has ended"))
    })
}

/// Everything that a rewind of `task`, folded to its head, to `landing` needs before it can be
/// recorded. Changes that are on record without what the file held before, and subtasks that are
/// still at work, are named and left. Without `files` no file can be put back, which is said of each.
pub(crate) async fn prepare(
    store: &dyn Store,
    content: &dyn ContentStore,
    files: Option<&dyn Files>,
    task: &Task,
    landing: Task,
) -> Result<Prepared, LoadError> {
    let changes = Changes::since(store, content, &landing).await?;
    let mut blobs = Vec::new();
    let mut plan = RestorePlan::default();
    for (place, change) in by_file(&changes.made) {
        let same = change.last.iter().all(|last| change.first.hash() == last.hash());
        if same && change.first != FileWas::Unknown {
            continue;
        }
        plan.files.extend(planned(files, place, change, &mut blobs).await);
    }
    plan.files.extend(changes.untold);
    // They are told to stop with the rewind, and may change files until they hear of it.
    plan.files.extend(task.governance().children().map(|(_, child)| PlannedFile {
        after: FileWas::Unknown,
        before: FileWas::Unknown,
        left: Some("it was at work; once it is over, rewind again".into()),
        path: format!("what subtask {} changes until it stops", child.child),
        workspace: String::new(),
    }));
    Ok(Prepared { blobs, landing: Box::new(landing), plan })
}

/// `None` when what a call had foreseen of the file did not happen.
async fn planned(files: Option<&dyn Files>, place: Place, span: Span, blobs: &mut Vec<Blob>) -> Option<PlannedFile> {
    let (workspace, path) = place;
    let last = span.last.last().cloned().unwrap_or(FileWas::Unknown);
    let mut planned = PlannedFile { after: span.first.clone(), before: last, left: None, path, workspace };
    planned.left = match &planned.after {
        FileWas::Unknown => Some("what it held is not on record: the call that changed it was cut off".into()),
        FileWas::Large(_) => Some(format!("it held more than {PREIMAGE_BYTES_MAX} bytes, which are not kept")),
        FileWas::Absent | FileWas::Kept(_) => None,
    };
    let Some(files) = files.filter(|_| planned.left.is_none()) else {
        planned.left.get_or_insert_with(|| "this worker has no access to files".into());
        return Some(planned);
    };
    match files.look(Path::new(&planned.workspace), &planned.path, PREIMAGE_BYTES_MAX).await {
        Err(error) => planned.left = Some(error.to_string()),
        Ok(now) if Some(now.hash()) == planned.after.hash() && span.last.len() > 1 => return None,
        Ok(now) if Some(now.hash()) == planned.after.hash() => {}
        Ok(now) => match (span.left_as(now.hash()), now) {
            (None, _) => planned.left = Some(FilesError::Changed.to_string()),
            // What it holds now is kept too, so that the rewind itself can be undone.
            (Some(_), FileNow::Present { bytes: Some(bytes), .. }) => {
                let blob = Blob::new(MEDIA_BYTES, bytes);
                planned.before = FileWas::Kept(blob.reference.clone());
                blobs.push(blob);
            }
            (Some(was), _) => planned.before = was.clone(),
        },
    }
    Some(planned)
}

/// Reads a plan that is on record.
pub(crate) async fn read_plan(
    content: &dyn ContentStore,
    task: &TaskId,
    plan: &ContentRef,
) -> Result<RestorePlan, LoadError> {
    let broken = |source| LoadError::Content { task: task.clone(), source };
    let bytes = content.get(plan).await.map_err(broken)?;
    from_slice(&bytes).map_err(|_| broken(ContentError::Corrupt(plan.clone())))
}

/// Puts the files of a plan back: one that is as it is to be is done, one that is as the plan
/// found it is written, anything else is left and named. `go_on` is asked before each.
///
/// Returns how many hold what they held, and those that were left; `None` when told to stop.
pub(crate) async fn restore(
    content: &dyn ContentStore,
    files: Option<&dyn Files>,
    plan: &RestorePlan,
    go_on: impl Fn() -> bool,
) -> Result<Option<(u64, Vec<LeftFile>)>, ContentError> {
    let (mut restored, mut left) = (0, Vec::new());
    for file in &plan.files {
        if !go_on() {
            return Ok(None);
        }
        let why = match (&file.left, files) {
            (Some(why), _) => Some(why.clone()),
            (None, None) => Some("this worker has no access to files".into()),
            (None, Some(files)) => put_back(content, files, file).await?,
        };
        match why {
            None => restored += 1,
            Some(why) => left.push(LeftFile { path: file.path.clone(), why }),
        }
    }
    Ok(Some((restored, left)))
}

async fn put_back(
    content: &dyn ContentStore,
    files: &dyn Files,
    file: &PlannedFile,
) -> Result<Option<String>, ContentError> {
    let wanted = match &file.after {
        FileWas::Kept(reference) => match content.get(reference).await {
            Ok(bytes) => Some(bytes),
            Err(error @ ContentError::Unavailable(_)) => return Err(error),
            Err(error) => return Ok(Some(error.to_string())),
        },
        FileWas::Absent | FileWas::Large(_) | FileWas::Unknown => None,
    };
    let Some(expected) = file.before.hash() else { return Ok(Some("what it holds is not on record".into())) };
    let put = files.put(Path::new(&file.workspace), &file.path, expected, wanted.as_deref()).await;
    Ok(put.err().map(|error| error.to_string()))
}
