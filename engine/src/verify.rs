//! Verification of tasks in a store (PR-1, as far as logs, content and snapshots go).

use plica_kernel::body::ContentRef;
use plica_kernel::decode::decode;
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::ledger::verify::{Promise, Verifier};
use plica_kernel::state::Task;
use plica_kernel::state::fold::landing_of;
use plica_ports::{ContentError, ContentStore, Store};

pub use plica_kernel::ledger::verify::Break;

use crate::error::LoadError;
use crate::load::{LoadOptions, load, source_of};

/// Events read at once.
const PAGE: usize = 1_000;

/// Whether a promise holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// It was checked and holds.
    Holds,
    /// It was checked and does not hold.
    Broken,
    /// It was not checked.
    NotChecked,
}

impl Level {
    /// The word for machines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "ok",
            Self::Broken => "broken",
            Self::NotChecked => "not_checked",
        }
    }
}

/// What a verification found, and what it could not check (PR-4).
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Tasks that were checked.
    pub tasks: u64,
    /// Events that were checked.
    pub events: u64,
    /// Bytes, order and content are those that were written.
    pub integrity: Level,
    /// Every event can follow what came before it.
    pub causality: Level,
    /// Who wrote it: needs signed checkpoints and a key.
    pub authenticity: Level,
    /// That nothing is missing at the end: needs a checkpoint from outside the store.
    pub completeness: Level,
    /// What could not be checked.
    pub not_checked: Vec<String>,
    /// What does not hold.
    pub breaks: Vec<Break>,
}

impl Verdict {
    /// A verdict on nothing yet.
    pub fn new() -> Self {
        Self {
            tasks: 0,
            events: 0,
            integrity: Level::Holds,
            causality: Level::Holds,
            authenticity: Level::NotChecked,
            completeness: Level::NotChecked,
            not_checked: vec![
                "authenticity: no signed checkpoint was given".into(),
                "completeness: no checkpoint from outside the store was given".into(),
            ],
            breaks: Vec::new(),
        }
    }

    /// Whether the level asked for was reached: integrity and causality.
    pub fn is_ok(&self) -> bool {
        self.integrity == Level::Holds && self.causality == Level::Holds && self.breaks.is_empty()
    }

    /// Checks one task of a store and adds what was found.
    ///
    /// # Errors
    /// When the store cannot be read or has no such task; a broken log is no error.
    pub async fn check(
        &mut self,
        store: &dyn Store,
        content: &dyn ContentStore,
        task: &TaskId,
    ) -> Result<(), LoadError> {
        let row = store.row(task).await?.ok_or_else(|| LoadError::UnknownTask(task.clone()))?;
        let head = (row.projection.seq, row.projection.hash);
        let baselines = store.baselines(task, usize::MAX).await?;
        let landings = baselines.iter().filter_map(|stored| landing_of(&decode(&stored.body, &stored.hash).ok()?));
        let mut verifier = Verifier::new(task.clone(), landings);
        match ancestor(store, content, task).await {
            Ok(None) => {}
            Ok(Some(ancestor)) => verifier = verifier.descends_from(ancestor),
            Err(error @ LoadError::NewerVersion { .. }) => verifier.could_not_check(error),
            Err(LoadError::Store(error)) => return Err(LoadError::Store(error)),
            // What the fork inherits is not what it names: its first event breaks.
            Err(error) => verifier.content_broken(Seq(1), format!("what it was forked from does not verify: {error}")),
        }
        let mut from = Seq(1);
        'log: loop {
            let page = store.read(task, from, PAGE).await?;
            for stored in &page {
                // A worker may append meanwhile: what the row knew of at first is checked.
                if stored.seq > head.0 && has_grown(store, task, head.0).await? {
                    break 'log;
                }
                for reference in verifier.push(stored.seq, &stored.hash, &stored.body).content {
                    check_content(content, stored.seq, &reference, &mut verifier).await?;
                }
                self.events += 1;
            }
            match page.last() {
                Some(last) if page.len() == PAGE => from = last.seq.next(),
                _ => break,
            }
        }
        let verified = verifier.finish(Some(head));
        self.tasks += 1;
        for found in &verified.breaks {
            match found.promise {
                Promise::Integrity => self.integrity = Level::Broken,
                Promise::Causality => self.causality = Level::Broken,
            }
        }
        if verified.task.is_none() && self.causality == Level::Holds {
            self.causality = Level::NotChecked;
            self.not_checked.push(format!("causality of task {task} after its first break"));
        }
        self.not_checked.extend(verified.not_checked.into_iter().map(|what| format!("task {task}: {what}")));
        self.breaks.extend(verified.breaks);
        Ok(())
    }
}

impl Default for Verdict {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the row, too, knows by now of events after `head`.
async fn has_grown(store: &dyn Store, task: &TaskId, head: Seq) -> Result<bool, LoadError> {
    Ok(store.row(task).await?.is_some_and(|row| row.projection.seq > head))
}

/// The state that a fork inherits, folded from its source's log alone; none for other tasks.
async fn ancestor(store: &dyn Store, content: &dyn ContentStore, task: &TaskId) -> Result<Option<Task>, LoadError> {
    let source = match source_of(store, task).await {
        // An own first event that cannot be read is found where it stands.
        Err(LoadError::Unreadable { .. } | LoadError::NewerVersion { .. }) => return Ok(None),
        source => source?,
    };
    let Some((source, seq)) = source else { return Ok(None) };
    let options = LoadOptions { at: Some(seq), ignore_snapshots: true, whole: true, ..LoadOptions::default() };
    load(store, content, &source, options).await.map(Some)
}

async fn check_content(
    content: &dyn ContentStore,
    seq: Seq,
    reference: &ContentRef,
    verifier: &mut Verifier,
) -> Result<(), LoadError> {
    match content.get(reference).await {
        Ok(_) => Ok(()),
        Err(error @ (ContentError::Missing(_) | ContentError::Corrupt(_) | ContentError::Refused { .. })) => {
            verifier.content_broken(seq, error);
            Ok(())
        }
        Err(ContentError::Unavailable(why)) => Err(LoadError::Store(plica_ports::store::StoreError::Unavailable(why))),
    }
}
