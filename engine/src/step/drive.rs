//! Taking a claimed task up: it is folded, what it needs is read, and it is handed back when it
//! cannot be driven here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plica_kernel::id::{Position, Seq};
use plica_kernel::row::{Blocked, Status};
use plica_kernel::state::Task;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::store::rules::is_woken;
use plica_ports::store::{AppendError, Claimed, StoreError};
use tokio_util::sync::CancellationToken;

use super::flight::Flight;
use super::{OfCalls, Step};
use crate::act::millis;
use crate::commit::Committer;
use crate::compose::Composition;
use crate::error::LoadError;
use crate::follow::Followers;
use crate::heartbeat::Hold;
use crate::host::Host;
use crate::jobs::LiveJobs;
use crate::load::{LoadOptions, load};
use crate::outage::Outage;
use crate::plugins::{self, Lacks};
use crate::setup::{Setup, SetupError};

/// How long a task is left alone that could not go on because something was out of reach.
pub(super) const OUTAGE_REST_MS: u64 = 1_000;

/// How a worker's hold of a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Handed back: it waits, is over, or is for another holder.
    HandedBack,
    /// Lost to another holder, or to the store's silence.
    Lost,
    /// Only a newer version can read it.
    NewerVersion,
    /// It needs plugins that this worker has not.
    LacksPlugins,
    /// The store cannot be reached.
    Unavailable(String),
}

/// What a step is driven with.
#[derive(Clone)]
pub(crate) struct Drive {
    pub(crate) host: Arc<Host>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) lease: Duration,
    /// Said when the worker is to stop: nothing new is begun.
    pub(crate) stop: CancellationToken,
    pub(crate) outage: Arc<Outage>,
    pub(crate) lacks: Arc<Lacks>,
}

impl Drive {
    /// Drives the claimed task until it is handed back or lost.
    pub(crate) async fn run(self, claimed: Claimed) -> Ended {
        let task = match self.load(&claimed).await {
            Ok(task) => task,
            Err(ended) => return ended,
        };
        let setup = Setup::read(&self.host, &task).await;
        let (setup, unusable) = match setup {
            Ok(setup) => (setup, None),
            Err(SetupError::Unavailable(why)) => {
                self.set_aside().await;
                return Ended::Unavailable(why);
            }
            Err(SetupError::Unusable(failure)) => (Setup::none(), Some(failure)),
        };
        let lacking = plugins::lacking(&task, &setup.pins);
        let needs = unusable.is_none() && !lacking.is_empty() && !needs_no_plugin(&task, &claimed.items);
        if needs && !self.lacks.is_one_too_many(&task) {
            tracing::warn!(task = %task.id(), lacking = lacking.join(", "), "left to a worker that has what it needs");
            self.put_off(millis(self.lease)).await;
            return Ended::LacksPlugins;
        }
        let followers = match Followers::resume(&self.host, &self.hold, &task).await {
            Ok(followers) => followers,
            Err(why) => {
                self.set_aside().await;
                return Ended::Unavailable(why);
            }
        };
        let seen = claimed
            .items
            .last()
            .map_or(claimed.verdict.inbox_tail, |item| item.position.max(claimed.verdict.inbox_tail));
        let mut step = Step {
            drive: &self,
            task,
            setup,
            unusable,
            items: claimed.items,
            seen,
            pending: Vec::new(),
            flight: Flight::default(),
            jobs: LiveJobs::new(self.host.clone(), self.hold.clone()),
            composition: Composition::default(),
            followers,
            spawns: BTreeMap::new(),
            foreseen: OfCalls::default(),
            rewinds: BTreeMap::new(),
            looked: BTreeMap::new(),
            after_crash: None,
            stopping: false,
            parting: false,
            reconsidered: 0,
        };
        if needs {
            return step.fail(plugins::missing(&lacking)).await;
        }
        step.go().await
    }

    /// Folds the task, and deals with one that cannot be folded (RC-9).
    async fn load(&self, claimed: &Claimed) -> Result<Task, Ended> {
        let id = &claimed.claim.task;
        let content = self.host.content().map_err(|error| Ended::Unavailable(error.to_string()))?;
        let whole = LoadOptions { whole: true, head: Some(claimed.seq), ..LoadOptions::default() };
        let mut loaded = load(&*self.host.store, content, id, whole).await;
        if let Err(LoadError::Content { source, .. }) = &loaded {
            // A snapshot whose segments are gone is slower, never wrong (SN-2).
            tracing::warn!(task = %id, %source, "snapshot passed over: folding from the first event");
            loaded = load(&*self.host.store, content, id, LoadOptions { ignore_snapshots: true, ..whole }).await;
        }
        let unreadable = match loaded {
            Ok(task) if (task.head().seq, task.head().hash) == (claimed.seq, claimed.hash) => return Ok(task),
            Ok(task) => Blocked::UnreadableLog {
                rule: format!("the log ends with event {} but the row with event {}", task.head().seq, claimed.seq),
                seq: task.head().seq.next().min(claimed.seq),
            },
            Err(LoadError::Unreadable { seq, rule, .. }) => Blocked::UnreadableLog { rule, seq },
            Err(LoadError::UnknownTask(_)) => Blocked::UnreadableLog { rule: "the log is empty".into(), seq: Seq(1) },
            Err(error @ LoadError::NewerVersion { .. }) => {
                tracing::warn!(task = %id, %error, "handed back");
                self.put_off(millis(self.lease)).await;
                return Err(Ended::NewerVersion);
            }
            Err(LoadError::Content { source, .. }) => {
                self.set_aside().await;
                return Err(Ended::Unavailable(source.to_string()));
            }
            Err(LoadError::Store(error)) => {
                self.set_aside().await;
                return Err(Ended::Unavailable(error.to_string()));
            }
        };
        match self.host.store.block(&self.hold.claim, &unreadable).await {
            Ok(()) => {
                tracing::error!(task = %id, why = %unreadable, "blocked: nothing is appended to a log that cannot be verified");
                Err(Ended::HandedBack)
            }
            // Whoever took the task over meanwhile is why the log is not as it was at the claim.
            Err(AppendError::Conflict(conflict)) => {
                tracing::warn!(task = %id, %conflict, "claim lost before the task was folded");
                Err(Ended::Lost)
            }
            Err(error) => Err(Ended::Unavailable(error.to_string())),
        }
    }

    /// Hands the claim back; when that fails the lease decides.
    pub(crate) async fn release(&self, not_before: Option<Timestamp>) {
        if let Err(error) = self.host.store.release(&self.hold.claim, not_before).await {
            tracing::warn!(task = %self.hold.claim.task, %error, "the claim could not be handed back: its lease will end it");
        }
    }

    /// Hands the claim back for a moment: an outage is no fault of the task, so the claim must
    /// not count towards poison (ST-18).
    pub(super) async fn set_aside(&self) {
        self.put_off(OUTAGE_REST_MS).await;
    }

    /// Hands the claim back for so long, so that it does not count towards poison (ST-18). Nothing
    /// hands out again what rests, and observers that keep their place may not have seen all of it
    /// yet: then the lease ends the claim, and the task is claimed once more (EN-5).
    pub(super) async fn put_off(&self, ms: u64) {
        if self.host.is_followed() && self.rests().await.unwrap_or(true) {
            return tracing::debug!(task = %self.hold.claim.task, "left to the end of its lease: observers may be behind");
        }
        self.release(Some(self.now().plus_millis(ms))).await;
    }

    /// Whether the task waits or is over, and nothing in its inbox changes that.
    async fn rests(&self) -> Result<bool, StoreError> {
        let (store, task) = (&self.host.store, &self.hold.claim.task);
        let Some(row) = store.row(task).await? else { return Err(StoreError::UnknownTask(task.clone())) };
        let rests = row.projection.status == Status::Waiting || row.projection.status.is_over();
        let items = store.inbox(task, Position(0)).await?;
        Ok(rests && !is_woken(row.projection.status, &row.projection.wake, &items))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.hold.store_time(self.host.clock.monotonic())
    }

    pub(super) fn committer(&self) -> Committer<'_> {
        Committer { host: &self.host, hold: &self.hold, lease: self.lease, outage: &self.outage }
    }
}

/// Whether a task is over, is to end, or is to move to another definition before anything else is
/// done with it: no plugin is needed for that.
fn needs_no_plugin(task: &Task, items: &[InboxItem]) -> bool {
    let frees = |item: &InboxItem| match item.item {
        Item::Cancel { .. } | Item::Rewind { .. } => true,
        Item::Revise { .. } => task.is_between_steps(),
        _ => false,
    };
    task.status().is_over() || items.iter().any(frees)
}
