//! From a log to a state, by the newest snapshot that can be used.

use plica_kernel::canonical::Hash;
use plica_kernel::decode::{DecodeError, decode};
use plica_kernel::envelope::Envelope;
use plica_kernel::event::Payload;
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::snapshot;
use plica_kernel::state::{
    Task,
    fold::{Folder, fold_version, landing_of},
};
use plica_ports::store::StoredEvent;
use plica_ports::{ContentStore, Store};

use crate::error::LoadError;

/// Events read at once.
const PAGE: usize = 1_000;
/// Events up to which a log is folded from its first one: that costs less than to look for a
/// snapshot, which is a read or two more.
const SHORT: u64 = 32;
/// Baselines looked at first: the newest one is as a rule a snapshot that can be used.
const RECENT_BASELINES: usize = 4;
/// By how much more are looked at when none of those could be used.
const MORE_BASELINES: usize = 16;

/// Which state to fold.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// As of this event instead of the last.
    pub at: Option<Seq>,
    /// The last event, as far as is known: a hint at how long the log is.
    pub head: Option<Seq>,
    /// From the first event, whatever snapshots there are.
    pub ignore_snapshots: bool,
    /// Read all sealed segments, so that every list can be seen whole.
    pub whole: bool,
}

/// Folds the state of a task. Without `at` nobody else may append to the log meanwhile: only who
/// holds the task's claim leaves it out.
///
/// # Errors
/// See [`LoadError`]; a snapshot that cannot be used is no error but passed over.
pub async fn load(
    store: &dyn Store,
    content: &dyn ContentStore,
    task: &TaskId,
    options: LoadOptions,
) -> Result<Task, LoadError> {
    let mut ancestor = None;
    for leg in legs(store, content, task, options).await?.into_iter().rev() {
        ancestor = Some(leg.fold(store, ancestor.as_ref()).await?);
    }
    let mut state = ancestor.ok_or_else(|| LoadError::UnknownTask(task.clone()))?;
    if options.whole {
        read_segments(content, &mut state).await?;
    }
    Ok(state)
}

/// A part of what a state is folded from: the log of the task, or of one it branched off from.
struct Leg {
    task: TaskId,
    /// The last event that counts.
    at: Option<Seq>,
    base: Option<Task>,
    landings: Vec<Seq>,
    /// All events, where they have been read already.
    read: Option<Vec<Result<(Envelope, Hash), LoadError>>>,
}

/// The logs that a state is folded from: the task's own first, then, as far as no snapshot makes
/// it unnecessary, that of the task it was forked from, and so on (SN-4).
async fn legs(
    store: &dyn Store,
    content: &dyn ContentStore,
    task: &TaskId,
    options: LoadOptions,
) -> Result<Vec<Leg>, LoadError> {
    let mut legs: Vec<Leg> = Vec::new();
    let (mut task, mut options) = (task.clone(), options);
    loop {
        if legs.iter().any(|leg| leg.task == task) {
            let rule = format!("it descends from task {task}, which descends from it");
            return Err(LoadError::Unreadable { task, seq: Seq(1), rule });
        }
        let leg = match Leg::of_short(store, &task, options).await? {
            Some(leg) => leg,
            None => {
                let (base, landings) = start(store, content, &task, options).await?;
                Leg { task, at: options.at, base, landings, read: None }
            }
        };
        let source = leg.source(store).await?;
        legs.push(leg);
        match source {
            Some((source, seq)) => (task, options.at) = (source, Some(seq)),
            None => return Ok(legs),
        }
    }
}

/// The task that a fork branched off from, and the last event that it inherits.
pub(crate) async fn source_of(store: &dyn Store, task: &TaskId) -> Result<Option<(TaskId, Seq)>, LoadError> {
    let Some(first) = store.read(task, Seq(1), 1).await?.into_iter().next() else { return Ok(None) };
    Ok(forked_from(&read_event(task, &first)?))
}

fn forked_from(first: &Envelope) -> Option<(TaskId, Seq)> {
    match &first.payload {
        Payload::TaskForked(forked) => Some((forked.source.clone(), forked.source_seq)),
        _ => None,
    }
}

impl Leg {
    /// That of a log which is known to be short, and is: it is read whole.
    async fn of_short(store: &dyn Store, task: &TaskId, options: LoadOptions) -> Result<Option<Self>, LoadError> {
        let LoadOptions { at, head, .. } = options;
        let Some(last) = at.or(head).filter(|last| last.0 <= SHORT) else { return Ok(None) };
        let limit = if at.is_some() { usize::try_from(last.0).unwrap_or(PAGE) } else { PAGE };
        let stored = store.read(task, Seq(1), limit).await?;
        if stored.len() == PAGE {
            return Ok(None);
        }
        let read = |stored: &StoredEvent| Ok((read_event(task, stored)?, stored.hash));
        let read: Vec<Result<(Envelope, Hash), LoadError>> = stored.iter().map(read).collect();
        let landings = read.iter().flatten().filter_map(|(event, _)| landing_of(event)).collect();
        Ok(Some(Self { task: task.clone(), at, base: None, landings, read: Some(read) }))
    }

    /// Where what comes before its first event is found.
    async fn source(&self, store: &dyn Store) -> Result<Option<(TaskId, Seq)>, LoadError> {
        match (&self.base, &self.read) {
            (Some(_), _) => Ok(None),
            (None, None) => source_of(store, &self.task).await,
            // What cannot be read stops the fold, where its place can be named.
            (None, Some(read)) => {
                Ok(read.first().and_then(|first| first.as_ref().ok()).and_then(|(first, _)| forked_from(first)))
            }
        }
    }

    async fn fold(self, store: &dyn Store, ancestor: Option<&Task>) -> Result<Task, LoadError> {
        let Self { task, at, base, landings, read } = self;
        let mut from = base.as_ref().map_or(Seq(1), |base| base.head().seq.next());
        let mut folder = Folder::new(base, landings);
        let push = |folder: &mut Folder, event: &Envelope, hash: Hash| {
            let pushed = folder.push(event, hash, ancestor);
            pushed.map_err(|error| LoadError::Unreadable { task: task.clone(), seq: event.seq, rule: error.rule })
        };
        if let Some(read) = read {
            for read in read {
                let (event, hash) = read?;
                push(&mut folder, &event, hash)?;
            }
            return folder.finish().ok_or(LoadError::UnknownTask(task));
        }
        loop {
            let page = store.read(&task, from, PAGE).await?;
            for stored in &page {
                if at.is_some_and(|at| stored.seq > at) {
                    break;
                }
                push(&mut folder, &read_event(&task, stored)?, stored.hash)?;
            }
            match page.last() {
                Some(last) if page.len() == PAGE && at.is_none_or(|at| last.seq < at) => from = last.seq.next(),
                _ => break,
            }
        }
        folder.finish().ok_or(LoadError::UnknownTask(task))
    }
}

/// Reads every sealed segment that is still unread.
pub(crate) async fn read_segments(content: &dyn ContentStore, state: &mut Task) -> Result<(), LoadError> {
    loop {
        let unread = snapshot::unread(state);
        if unread.is_empty() {
            return Ok(());
        }
        for (list, reference) in unread {
            let task = state.id().clone();
            let bytes =
                content.get(&reference).await.map_err(|source| LoadError::Content { task: task.clone(), source })?;
            snapshot::supply(state, list, &bytes)
                .map_err(|_| LoadError::Content { task, source: plica_ports::ContentError::Corrupt(reference) })?;
        }
    }
}

pub(crate) fn read_event(task: &TaskId, stored: &StoredEvent) -> Result<Envelope, LoadError> {
    let unreadable = |rule: String| LoadError::Unreadable { task: task.clone(), seq: stored.seq, rule };
    let event = decode(&stored.body, &stored.hash).map_err(|error| match error {
        DecodeError::NewerVersion { what, .. } => LoadError::NewerVersion { task: task.clone(), seq: stored.seq, what },
        DecodeError::Corrupt { rule, .. } => unreadable(rule),
    })?;
    if event.seq != stored.seq {
        return Err(unreadable(format!("stored as event {} but says it is {}", stored.seq, event.seq)));
    }
    Ok(event)
}

/// Where a fold starts, and the places that the rewinds and redriven seals after it land on.
async fn start(
    store: &dyn Store,
    content: &dyn ContentStore,
    task: &TaskId,
    options: LoadOptions,
) -> Result<(Option<Task>, Vec<Seq>), LoadError> {
    let mut limit = RECENT_BASELINES;
    loop {
        let stored = store.baselines(task, limit).await?;
        let (base, landings) = newest_snapshot(content, task, &stored, options).await;
        if base.is_some() || stored.len() < limit {
            return Ok((base, landings));
        }
        limit = limit.saturating_mul(MORE_BASELINES);
    }
}

/// The newest snapshot that can be used (of this fold version, whole, and no later turn lands
/// before it) and the landings of the turns after it.
async fn newest_snapshot(
    content: &dyn ContentStore,
    task: &TaskId,
    baselines: &[StoredEvent],
    options: LoadOptions,
) -> (Option<Task>, Vec<Seq>) {
    let mut landings = Vec::new();
    for stored in baselines.iter().filter(|stored| options.at.is_none_or(|at| stored.seq <= at)) {
        // A baseline that cannot be read will stop the fold, where its place can be named.
        let Ok(event) = read_event(task, stored) else { continue };
        landings.extend(landing_of(&event));
        let Payload::TaskSnapshot(taken) = &event.payload else { continue };
        if options.ignore_snapshots || landings.iter().any(|landing| *landing < taken.through) {
            continue;
        }
        if taken.fold != fold_version() {
            tracing::debug!(%task, seq = %event.seq, "snapshot passed over: of another version");
            continue;
        }
        let Ok(bytes) = content.get(&taken.state_ref).await else {
            tracing::warn!(%task, seq = %event.seq, "snapshot passed over: its content cannot be had");
            continue;
        };
        match snapshot::load(&event, &bytes) {
            Some(state) => return (Some(state), landings),
            None => tracing::debug!(%task, seq = %event.seq, "snapshot passed over: unreadable"),
        }
    }
    (None, landings)
}
