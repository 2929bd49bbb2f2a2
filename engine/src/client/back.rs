//! Going back and aside: rewinds and forks, and where they may land.

use plica_kernel::decide::{Stamp, forked};
use plica_kernel::event::{Payload, RestorePlan, SuspendReason};
use plica_kernel::id::{Epoch, Seq, TaskId};
use plica_kernel::state::Task;
use plica_kernel::wake::Item;
use plica_ports::Files;
use plica_ports::store::{Delivered, Facts, Row};

use super::{Client, new_run_id, new_task, new_task_id};
use crate::error::ClientError;
use crate::load::read_event;
use crate::rewind;

/// Ends of turns that a refusal names.
const ENDS_NAMED: usize = 5;
/// Events read at once to find the last place where no turn was under way.
const BOUNDARIES_LOOKED_AT: u64 = 256;

impl Client {
    /// Goes back to a turn boundary: what the conversation says after `to_seq` is left behind, and
    /// files that tools changed since are put back (SN-5).
    ///
    /// # Errors
    /// [`ClientError::NoBoundary`] when no turn has ended there, and as [`Self::deliver`].
    pub async fn rewind(&self, task: &TaskId, actor: &str, to_seq: Seq) -> Result<Delivered, ClientError> {
        self.check_unreported(task).await?;
        self.landing(task, to_seq).await?;
        self.deliver(task, actor, &Item::Rewind { to_seq }, None).await
    }

    /// Nothing opens a child again that has told its parent how it ended.
    pub(super) async fn check_unreported(&self, task: &TaskId) -> Result<(), ClientError> {
        let row = self.row(task).await?;
        let Some(mut above) = row.facts.parent.filter(|_| row.projection.status.is_over()) else { return Ok(()) };
        loop {
            let row = self.row(&above).await?;
            match row.facts.parent {
                Some(parent) if row.projection.status.is_over() => above = parent,
                _ => return Err(ClientError::Reported { task: task.clone(), above }),
            }
        }
    }

    /// What a rewind to `to_seq` would do to files as they are now; nothing is changed.
    ///
    /// # Errors
    /// [`ClientError::NoBoundary`] when no turn has ended there, or the log cannot be read.
    pub async fn plan_rewind(&self, task: &TaskId, to_seq: Seq, files: &dyn Files) -> Result<RestorePlan, ClientError> {
        let landing = self.landing(task, to_seq).await?;
        let now = self.state(task, None, false).await?;
        Ok(rewind::prepare(&*self.store, self.content()?, Some(files), &now, landing).await?.plan)
    }

    async fn landing(&self, task: &TaskId, to_seq: Seq) -> Result<Task, ClientError> {
        let head = self.row(task).await?.projection.seq;
        let landing = rewind::landing(&*self.store, self.content()?, task, head, to_seq).await?;
        match landing {
            Ok(landing) => Ok(landing),
            Err(why) => {
                let ends = self.last_ends(task, head).await?;
                Err(ClientError::NoBoundary { task: task.clone(), seq: to_seq, why, ends })
            }
        }
    }

    /// Branches off a new task that inherits the conversation, counters and workspace of `task` as
    /// of `at`, or of the last place where no turn was under way, and waits for a message (SN-4).
    /// The source is not written to.
    ///
    /// # Errors
    /// [`ClientError::NoBoundary`] when a turn is under way there, [`ClientError::NoRoot`] for a
    /// child, and when the store cannot be read or written.
    pub async fn fork(&self, task: &TaskId, actor: &str, at: Option<Seq>) -> Result<TaskId, ClientError> {
        let row = self.row(task).await?;
        if row.facts.parent.is_some() {
            return Err(ClientError::NoRoot { task: task.clone(), root: self.root_of(&row).await? });
        }
        let source = match at {
            Some(at) => self.landing(task, at).await?,
            None => self.last_boundary(task, row.projection.seq).await?,
        };
        let (ledger, now) = (self.store.ledger().await?, self.store.now().await?);
        let stamp = Stamp { now, epoch: Epoch(0), run: new_run_id() };
        let facts =
            Facts { source: Some(task.clone()), not_before: None, created_at: now.max(source.head().at), ..row.facts };
        let drafted = forked(&source, new_task_id(), actor, ledger, stamp)?;
        let mut fork = new_task(drafted, facts);
        if let Some(content) = &self.content {
            for blob in std::mem::take(&mut fork.blobs) {
                content.put(&blob).await?;
            }
        }
        Ok(self.store.create(fork).await?.id)
    }

    /// The root that a child descends from.
    async fn root_of(&self, child: &Row) -> Result<TaskId, ClientError> {
        let mut root = child.id.clone();
        let mut parent = child.facts.parent.clone();
        while let Some(above) = parent {
            parent = self.row(&above).await?.facts.parent;
            root = above;
        }
        Ok(root)
    }

    /// The last few events at which a turn ended, the newest last.
    async fn last_ends(&self, task: &TaskId, head: Seq) -> Result<Vec<Seq>, ClientError> {
        let mut ends = Vec::new();
        let mut before = Seq(head.0 + 1);
        while ends.len() < ENDS_NAMED && before > Seq(1) {
            let from = Seq(before.0.saturating_sub(BOUNDARIES_LOOKED_AT).max(1));
            let page = self.store.read(task, from, usize::try_from(before.0 - from.0).unwrap_or(usize::MAX)).await?;
            for stored in page.iter().rev() {
                if ends.len() < ENDS_NAMED && ends_a_turn(&read_event(task, stored)?.payload) {
                    ends.push(stored.seq);
                }
            }
            before = from;
        }
        ends.reverse();
        Ok(ends)
    }

    /// The state at the last event after which no turn was under way.
    async fn last_boundary(&self, task: &TaskId, head: Seq) -> Result<Task, ClientError> {
        let now = self.state(task, None, false).await?;
        if now.is_turn_boundary() {
            return Ok(now);
        }
        let mut before = head;
        loop {
            let from = Seq(before.0.saturating_sub(BOUNDARIES_LOOKED_AT).max(1));
            let page = self.store.read(task, from, usize::try_from(before.0 - from.0).unwrap_or(usize::MAX)).await?;
            for stored in page.iter().rev() {
                if ends_a_turn(&read_event(task, stored)?.payload) {
                    return self.state(task, Some(stored.seq), false).await;
                }
            }
            if from == Seq(1) {
                let why = "no turn has ended yet".into();
                return Err(ClientError::NoBoundary { task: task.clone(), seq: head, why, ends: Vec::new() });
            }
            before = from;
        }
    }
}

/// Whether no turn is under way after this event.
fn ends_a_turn(payload: &Payload) -> bool {
    match payload {
        Payload::TaskSuspended(suspended) => !matches!(suspended.reason, SuspendReason::Calls | SuspendReason::Budget),
        Payload::TaskForked(_) | Payload::TaskRewound(_) => true,
        payload => payload.kind().is_terminal(),
    }
}
