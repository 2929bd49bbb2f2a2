//! Going back: what a rewind lands on, which files tools changed since, and how they are put back
//! (SN-5, SN-8).

mod chain;

use std::collections::BTreeMap;
use std::path::Path;

use plica_kernel::body::{Blob, Body, ContentRef, MEDIA_BYTES};
use plica_kernel::canonical::{Hash, from_slice};
use plica_kernel::decide::Prepared;
use plica_kernel::event::{CallStatus, FileChange, FileWas, LeftFile, Payload, PlannedFile, RestorePlan};
use plica_kernel::id::{CallId, Seq, TaskId};
use plica_kernel::limits::PREIMAGE_BYTES_MAX;
use plica_kernel::state::Task;
use plica_kernel::time::Timestamp;
use plica_ports::{ContentError, ContentStore, Definition, FileNow, Files, FilesError, Store};

use crate::compose::{ComposeError, text_of};
use crate::error::LoadError;
use crate::load::{LoadOptions, load, read_event};

use self::chain::put_in_order;

/// Events read at once.
const PAGE: usize = 1_000;

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
    let mut changes = Changes { store, content, since: landing.head().at, found: Vec::new() };
    changes.collect(&landing).await?;
    let mut blobs = Vec::new();
    let mut plan = RestorePlan::default();
    for (place, change) in changes.by_file() {
        let same = change.last.iter().all(|last| change.first.hash() == last.hash());
        if same && change.first != FileWas::Unknown {
            continue;
        }
        plan.files.extend(planned(files, place, change, &mut blobs).await);
    }
    plan.files.extend(changes.found.iter().filter_map(|found| found.untold.clone()));
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

/// A file: its workspace and its path in it.
type Place = (String, String);

/// What became of one file.
struct Span {
    /// What it held before the first change.
    first: FileWas,
    /// What it may hold after the last: one that a call cut off had foreseen may not have happened.
    last: Vec<FileWas>,
}

impl Span {
    /// What the file that now holds what has this hash was left as.
    fn left_as(&self, now: Option<Hash>) -> Option<&FileWas> {
        self.last.iter().find(|was| was.hash() == Some(now))
    }

    fn add(&mut self, found: &Found) {
        if !found.foreseen {
            self.last.clear();
        }
        self.last.push(found.after.clone());
    }
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

/// One change, or changes that cannot be told apart.
struct Found {
    at: Timestamp,
    /// Whose change it is, when it is a call's.
    by: Option<(TaskId, CallId)>,
    place: Place,
    before: FileWas,
    after: FileWas,
    /// Whether it may not have happened.
    foreseen: bool,
    /// Set when the change itself is not on record.
    untold: Option<PlannedFile>,
}

/// Changes of files since a landing: by the task itself and by its children, theirs included.
struct Changes<'a> {
    store: &'a dyn Store,
    content: &'a dyn ContentStore,
    since: Timestamp,
    found: Vec<Found>,
}

impl Changes<'_> {
    async fn collect(&mut self, landing: &Task) -> Result<(), LoadError> {
        let workspace = self.workspace(landing.id(), landing.definition()).await?;
        // Children that were at work at the landing went on.
        let mut tasks: Vec<TaskId> = landing.governance().children().map(|(_, child)| child.child.clone()).collect();
        self.read(landing.id(), landing.head().seq.next(), workspace, &mut tasks).await?;
        while let Some(child) = tasks.pop() {
            let workspace = match self.store.read(&child, Seq(1), 1).await?.first() {
                Some(first) => match read_event(&child, first)?.payload {
                    Payload::TaskCreated(created) => self.workspace(&child, &created.definition).await?,
                    _ => continue,
                },
                None => continue,
            };
            self.read(&child, Seq(1), workspace, &mut tasks).await?;
        }
        self.found.sort_by_key(|found| found.at);
        Ok(())
    }

    async fn workspace(&self, task: &TaskId, definition: &ContentRef) -> Result<String, LoadError> {
        let broken = |source| LoadError::Content { task: task.clone(), source };
        let bytes = self.content.get(definition).await.map_err(broken)?;
        let read = Definition::from_bytes(&bytes).map_err(|_| broken(ContentError::Corrupt(definition.clone())))?;
        Ok(read.workspace)
    }

    async fn read(
        &mut self,
        task: &TaskId,
        from: Seq,
        workspace: String,
        children: &mut Vec<TaskId>,
    ) -> Result<(), LoadError> {
        let mut from = from;
        // A plan counts once it is known what became of it.
        let mut restoring: Option<(Seq, ContentRef)> = None;
        // What calls foresaw that have not ended yet, and when.
        let mut foreseen: BTreeMap<CallId, (Timestamp, Vec<FileChange>)> = BTreeMap::new();
        loop {
            let page = self.store.read(task, from, PAGE).await?;
            for stored in &page {
                let event = read_event(task, stored)?;
                match event.payload {
                    Payload::SubtaskSpawned(spawned) => children.push(spawned.child),
                    Payload::ToolCallStarted(started) if !started.files.is_empty() => {
                        foreseen.insert(started.call, (event.at, started.files));
                    }
                    Payload::ToolCallFinished(finished) if event.at >= self.since => {
                        // A call that runs again has not ended yet.
                        let ended = if finished.again { None } else { foreseen.remove(&finished.call) };
                        let (began, foreseen) = ended.unwrap_or((event.at, Vec::new()));
                        let silent = finished.files.is_empty();
                        let untold = finished.status == CallStatus::Unknown && silent && foreseen.is_empty();
                        for change in finished.files {
                            let change = with_before(change, &foreseen);
                            let by = (task, finished.call);
                            self.add(by, event.at, &workspace, change, false).await?;
                        }
                        for change in foreseen.into_iter().filter(|_| silent && finished.status != CallStatus::Ok) {
                            self.add((task, finished.call), began, &workspace, change, true).await?;
                        }
                        if untold {
                            let tool = event.actor.strip_prefix("tool:").unwrap_or(&event.actor);
                            let what = format!("what call {} ({tool}) changed", finished.call);
                            self.untold(event.at, &workspace, what, "nobody knows how far it got");
                        }
                        if finished.files_over > 0 {
                            let (call, over) = (finished.call, finished.files_over);
                            let what = format!("{over} more files that call {call} changed");
                            self.untold(event.at, &workspace, what, "more files than an event can name");
                        }
                    }
                    Payload::FilesRestoring(plan) => restoring = Some((event.seq, plan.plan)),
                    Payload::FilesRestored(restored) => {
                        if let Some((_, plan)) = restoring.take().filter(|(seq, _)| *seq == restored.plan) {
                            let left = self.left(task, restored.left.as_ref()).await?;
                            self.add_plan(task, event.at, &plan, &left).await?;
                        }
                    }
                    _ => {}
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => from = last.seq.next(),
                _ => return Ok(()),
            }
        }
    }

    async fn add(
        &mut self,
        (task, call): (&TaskId, CallId),
        at: Timestamp,
        workspace: &str,
        change: FileChange,
        foreseen: bool,
    ) -> Result<(), LoadError> {
        let path = text(self.content, task, &change.path).await?;
        let after = match change.after {
            None => FileWas::Absent,
            Some(hash) => FileWas::Large(hash),
        };
        let place = (workspace.into(), path);
        let by = Some((task.clone(), call));
        self.found.push(Found { at, by, place, before: change.before, after, foreseen, untold: None });
        Ok(())
    }

    /// What a rewind put back was changed by it.
    async fn add_plan(
        &mut self,
        task: &TaskId,
        at: Timestamp,
        plan: &ContentRef,
        left: &[LeftFile],
    ) -> Result<(), LoadError> {
        let plan = read_plan(self.content, task, plan).await?;
        for file in plan.files {
            if left.iter().any(|left| left.path == file.path) {
                continue;
            }
            let place = (file.workspace, file.path);
            let (before, after) = (file.before, file.after);
            self.found.push(Found { at, by: None, place, before, after, foreseen: false, untold: None });
        }
        Ok(())
    }

    async fn left(&self, task: &TaskId, left: Option<&Body>) -> Result<Vec<LeftFile>, LoadError> {
        let Some(left) = left else { return Ok(Vec::new()) };
        let text = text(self.content, task, left).await?;
        Ok(from_slice(text.as_bytes()).unwrap_or_default())
    }

    fn untold(&mut self, at: Timestamp, workspace: &str, what: String, why: &str) {
        let file = PlannedFile {
            after: FileWas::Unknown,
            before: FileWas::Unknown,
            left: Some(why.into()),
            path: what.clone(),
            workspace: workspace.into(),
        };
        let place = (workspace.into(), what);
        let (before, after) = (FileWas::Unknown, FileWas::Unknown);
        self.found.push(Found { at, by: None, place, before, after, foreseen: false, untold: Some(file) });
    }

    /// What became of each file from the first change to the last.
    fn by_file(&self) -> BTreeMap<Place, Span> {
        let mut files: BTreeMap<Place, Vec<&Found>> = BTreeMap::new();
        for found in self.found.iter().filter(|found| found.untold.is_none()) {
            files.entry(found.place.clone()).or_default().push(found);
        }
        let span = |(place, mut changes): (Place, Vec<&Found>)| {
            put_in_order(&mut changes);
            // Until its first change the file held what it held before.
            let first = changes.first()?.before.clone();
            let mut span = Span { last: vec![first.clone()], first };
            changes.into_iter().for_each(|found| span.add(found));
            Some((place, span))
        };
        files.into_iter().filter_map(span).collect()
    }
}

/// A change that was found again after a crash, with what its start foresaw.
fn with_before(change: FileChange, foreseen: &[FileChange]) -> FileChange {
    match foreseen.iter().find(|seen| seen.path == change.path && change.before == FileWas::Unknown) {
        Some(seen) => FileChange { before: seen.before.clone(), ..change },
        None => change,
    }
}

async fn text(content: &dyn ContentStore, task: &TaskId, body: &Body) -> Result<String, LoadError> {
    text_of(body, content).await.map_err(|error| match (error, body) {
        (ComposeError::Content(_), Body::Ref(reference)) => {
            LoadError::Content { task: task.clone(), source: ContentError::Corrupt(reference.clone()) }
        }
        (ComposeError::Content(why) | ComposeError::Unavailable(why), _) => {
            LoadError::Store(plica_ports::store::StoreError::Unavailable(why))
        }
    })
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
