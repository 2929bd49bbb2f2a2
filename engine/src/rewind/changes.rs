//! Which files tools changed since a landing, from the logs of the task and of its children.

use std::collections::BTreeMap;

use plica_kernel::body::{Body, ContentRef};
use plica_kernel::canonical::from_slice;
use plica_kernel::event::{CallStatus, FileChange, FileWas, LeftFile, Payload, PlannedFile, ToolCallFinished};
use plica_kernel::id::{CallId, Seq, TaskId};
use plica_kernel::state::Task;
use plica_kernel::time::Timestamp;
use plica_ports::store::StoreError;
use plica_ports::{ContentError, ContentStore, Definition, Store};

use super::read_plan;
use super::span::{Change, When};
use crate::compose::{ComposeError, text_of};
use crate::error::LoadError;
use crate::load::read_event;

/// Events read at once.
const PAGE: usize = 1_000;
/// After everything that is on record.
const END: When = (Timestamp::from_micros(i64::MAX), Seq(u64::MAX));

/// Changes of files since a landing: by the task itself and by its children, theirs included.
pub(super) struct Changes<'a> {
    store: &'a dyn Store,
    content: &'a dyn ContentStore,
    since: Timestamp,
    /// Those whose files are on record.
    pub(super) made: Vec<Change>,
    /// What else may have changed, as it is named.
    pub(super) untold: Vec<PlannedFile>,
}

/// A call that has started, and what it foresaw.
struct Started {
    at: When,
    files: Vec<FileChange>,
}

/// The log that is read.
struct Log<'a> {
    task: &'a TaskId,
    workspace: String,
    /// Calls that have not ended yet.
    open: BTreeMap<CallId, Started>,
    /// A plan counts once it is known what became of it.
    restoring: Option<(When, ContentRef)>,
}

impl<'a> Changes<'a> {
    /// Those since `landing`.
    pub(super) async fn since(
        store: &'a dyn Store,
        content: &'a dyn ContentStore,
        landing: &Task,
    ) -> Result<Self, LoadError> {
        let (made, untold) = (Vec::new(), Vec::new());
        let mut changes = Self { store, content, since: landing.head().at, made, untold };
        let workspace = changes.workspace(landing.id(), landing.definition()).await?;
        // Children that were at work at the landing went on.
        let mut tasks: Vec<TaskId> = landing.governance().children().map(|(_, child)| child.child.clone()).collect();
        changes.read(landing.id(), landing.head().seq.next(), workspace, &mut tasks).await?;
        while let Some(child) = tasks.pop() {
            let Some(first) = store.read(&child, Seq(1), 1).await?.into_iter().next() else { continue };
            let Payload::TaskCreated(created) = read_event(&child, &first)?.payload else { continue };
            let workspace = changes.workspace(&child, &created.definition).await?;
            changes.read(&child, Seq(1), workspace, &mut tasks).await?;
        }
        Ok(changes)
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
        mut from: Seq,
        workspace: String,
        children: &mut Vec<TaskId>,
    ) -> Result<(), LoadError> {
        let mut log = Log { task, workspace, open: BTreeMap::new(), restoring: None };
        loop {
            let page = self.store.read(task, from, PAGE).await?;
            for stored in &page {
                let event = read_event(task, stored)?;
                let now = (event.at, event.seq);
                match event.payload {
                    Payload::SubtaskSpawned(spawned) => children.push(spawned.child),
                    Payload::ToolCallStarted(started) => {
                        // One that runs again may have changed what it foresaw the first time.
                        let at = log.open.get(&started.call).map_or(now, |open| open.at);
                        log.open.insert(started.call, Started { at, files: started.files });
                    }
                    Payload::ToolCallFinished(finished) if event.at >= self.since => {
                        self.finished(&mut log, now, &event.actor, finished).await?;
                    }
                    Payload::FilesRestoring(plan) => log.restoring = Some((now, plan.plan)),
                    Payload::FilesRestored(restored) => {
                        if let Some((from, plan)) = log.restoring.take().filter(|(from, _)| from.1 == restored.plan) {
                            let left = self.left(task, restored.left.as_ref()).await?;
                            self.put_back(task, (from, now), &plan, &left).await?;
                        }
                    }
                    _ => {}
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => from = last.seq.next(),
                _ => break,
            }
        }
        // Calls of a child that is at work, or whose worker is gone.
        for (call, Started { at, files }) in std::mem::take(&mut log.open) {
            for change in files {
                self.add(&log, call, (at, END), change, true).await?;
            }
        }
        Ok(())
    }

    async fn finished(
        &mut self,
        log: &mut Log<'_>,
        now: When,
        actor: &str,
        finished: ToolCallFinished,
    ) -> Result<(), LoadError> {
        let call = finished.call;
        // A call that runs again has not ended yet.
        let ended = if finished.again { None } else { log.open.remove(&call) };
        let Started { at, files: foreseen } = ended.unwrap_or(Started { at: now, files: Vec::new() });
        let silent = finished.files.is_empty();
        if finished.status == CallStatus::Unknown && silent && foreseen.is_empty() {
            let tool = actor.strip_prefix("tool:").unwrap_or(actor);
            self.untold(log, format!("what call {call} ({tool}) changed"), "nobody knows how far it got");
        }
        for change in finished.files {
            let change = with_before(change, &foreseen);
            self.add(log, call, (at, now), change, false).await?;
        }
        for change in foreseen.into_iter().filter(|_| silent && finished.status != CallStatus::Ok) {
            self.add(log, call, (at, now), change, true).await?;
        }
        if finished.files_over > 0 {
            let what = format!("{} more files that call {call} changed", finished.files_over);
            self.untold(log, what, "more files than an event can name");
        }
        Ok(())
    }

    async fn add(
        &mut self,
        log: &Log<'_>,
        call: CallId,
        (from, until): (When, When),
        change: FileChange,
        foreseen: bool,
    ) -> Result<(), LoadError> {
        let path = text(self.content, log.task, &change.path).await?;
        let place = (log.workspace.clone(), path);
        let by = Some((log.task.clone(), call));
        let after = change.after.map_or(FileWas::Absent, FileWas::Large);
        self.made.push(Change { from, until, by, place, before: change.before, after, foreseen });
        Ok(())
    }

    /// What a rewind put back was changed by it.
    async fn put_back(
        &mut self,
        task: &TaskId,
        (from, until): (When, When),
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
            self.made.push(Change { from, until, by: None, place, before, after, foreseen: false });
        }
        Ok(())
    }

    async fn left(&self, task: &TaskId, left: Option<&Body>) -> Result<Vec<LeftFile>, LoadError> {
        let Some(left) = left else { return Ok(Vec::new()) };
        let text = text(self.content, task, left).await?;
        Ok(from_slice(text.as_bytes()).unwrap_or_default())
    }

    fn untold(&mut self, log: &Log<'_>, what: String, why: &str) {
        self.untold.push(PlannedFile {
            after: FileWas::Unknown,
            before: FileWas::Unknown,
            left: Some(why.into()),
            path: what,
            workspace: log.workspace.clone(),
        });
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
            LoadError::Store(StoreError::Unavailable(why))
        }
    })
}
