//! Bugs on purpose: each is one that a store, a tool or an engine could have, and that the
//! oracle has to catch. Nothing outside the simulation can switch one on.

mod layer;
mod rewrite;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plica_kernel::event::ApprovalVerdict;
use plica_kernel::id::{Position, Seq, TaskId};
use plica_kernel::limits::IDLE_CLAIMS_MAX;
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::Store;
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimAfter, Claimed, NewTask, StoreError, Verdict, Worker,
};

use super::prng::Prng;

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A bug to be caught.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum PlantedBug { $($(#[$doc])* $name,)* }

        impl PlantedBug {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

bugs! {
    /// A tool that must not run twice says that it may.
    RetryOfMutations,
    /// A target that refuses keys it knows forgets them.
    TargetForgetsKeys,
    /// A tool that looks for a result finds one whether or not there is any.
    RecoveryInvents,
    /// A tool says that it is done and has done nothing.
    DoneWithoutEffect,
    /// A tool reports the result of another call.
    ResultsMixedUp,
    /// An append is let in under any epoch.
    EpochUnchecked,
    /// An append is let in after its lease is over.
    LeaseUnchecked,
    /// A task suspends or ends over items that its holder has not seen.
    SeenUnchecked,
    /// An append is acknowledged and then not written.
    AckBeforeCommit,
    /// A delivery is acknowledged and then not written.
    AckBeforeDelivery,
    /// The same key delivers again.
    KeysForgotten,
    /// Items are gone once an append tries to take them, written or not.
    ConsumedBeforeAppend,
    /// Items stay when an append takes them.
    NeverConsumed,
    /// A part of a batch is written.
    TornBatch,
    /// Two workers are given the same claim.
    ClaimGivenTwice,
    /// A task is given away while its lease lasts.
    ClaimBeforeLeaseEnds,
    /// A claim that is lost is renewed.
    LostClaimRenewed,
    /// Claims count as idle although appends came between them.
    PoisonMiscounted,
    /// The bodies of a batch are not written.
    BodiesDropped,
    /// What a dead worker held is never handed out again.
    ExpiredNeverClaimable,
    /// An item does not wake the task that waits for it.
    WakeupLost,
    /// A readback says that everything is written.
    ReadbackSaysWritten,
    /// A commit of unknown fate counts as failed and is written anew on the head there is.
    RewriteOnUnknown,
    /// A claim comes with the head before the last append.
    StaleHead,
    /// A task that is handed back until later is handed out at once.
    NotBeforeForgotten,
    /// Any process may adopt what another holds.
    AdoptsFromOthers,
    /// An item lands in the inbox of another task.
    WrongInbox,
    /// What is read is not what was written.
    BytesRewritten,
    /// An answer, event or child's end that comes just as its task suspends does not wake it.
    WakeLostAtSuspend,
    /// Each item counts twice towards the `need` of a wait.
    NeedCountedTwice,
    /// A timer is set earlier than what waits for it.
    TimerEarly,
    /// A call runs under the approval of another.
    ApprovalReused,
    /// A ruling is taken for one on another call.
    WrongCallRuledOn,
    /// What a person is asked about is not bound to the exact call.
    DigestUnbound,
    /// A ruling counts although the approval had expired.
    ExpiryForgotten,
    /// A refusal is taken for an approval.
    DenialApproves,
    /// A second answer to a question is taken too.
    QuestionAnsweredTwice,
    /// Children are not told that their parent stopped them.
    CancelNotCascaded,
    /// A child is made in another transaction than its spawn.
    ChildOutsideAppend,
    /// An item that was taken is handed out again.
    ItemHandedOutAgain,
    /// The end of a child that goes on by itself is told twice.
    BackgroundToldTwice,
    /// A parent is told another answer than its child's.
    ChildsAnswersMixedUp,
    /// What children spent is forgotten.
    SpendingForgotten,
    /// An interrupt is taken and not carried out.
    InterruptLost,
    /// A rewind lands one event earlier than it was told to.
    RewoundTooFar,
    /// An attempt that is to wait for a person is run again.
    ParkedIsRedriven,
    /// A definition that a task can move to is refused.
    RevisionRefused,
    /// A tool says that it is of another version than it is.
    VersionHidden,
    /// A worker that lacks a tool says that it has it.
    ToolPretended,
    /// A task that rests is handed back before its observers have seen that.
    HandedBackUnobserved,
    /// An observer's place is recorded as farther than it was shown the log.
    PlaceTooFar,
    /// Content is collected that is too young for it.
    YoungCollected,
    /// Content that nothing reaches is never collected.
    GarbageKept,
    /// What a former holder ran is not recorded as lost.
    JobLossForgotten,
    /// The model is told twice how a job ended.
    JobToldTwice,
    /// A job goes on though it is told to end.
    JobOutlivesHold,
    /// A job that was killed is said to have exited.
    JobExitInvented,
    /// A task that waits with live jobs is not due.
    JobRowNotDue,
    /// What forks reach is not looked at when content is collected.
    ForkOverlooked,
}

impl PlantedBug {
    /// Where the bug is: in the store, or in what a worker makes of it.
    const fn side(self) -> Side {
        match self {
            Self::RewriteOnUnknown
            | Self::NeedCountedTwice
            | Self::TimerEarly
            | Self::ApprovalReused
            | Self::DigestUnbound
            | Self::QuestionAnsweredTwice
            | Self::InterruptLost
            | Self::RewoundTooFar
            | Self::ParkedIsRedriven
            | Self::RevisionRefused
            | Self::HandedBackUnobserved
            | Self::JobLossForgotten
            | Self::JobToldTwice
            | Self::PlaceTooFar => Side::Worker,
            _ => Side::Store,
        }
    }
}

/// Which side of the connection a layer stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Inside the store.
    Store,
    /// In the worker.
    Worker,
}

#[derive(Default)]
struct State {
    /// The last claim of each task that is not handed back, and whose it is.
    held: BTreeMap<TaskId, (Claim, Worker)>,
    tasks: BTreeSet<TaskId>,
    gone: BTreeSet<(TaskId, Position)>,
    asleep: BTreeSet<TaskId>,
    claims: BTreeMap<TaskId, u32>,
    keys: u64,
    /// Items by task and position, as they were handed out last.
    items: BTreeMap<(TaskId, Position), InboxItem>,
    /// An item of each task that was taken.
    taken: BTreeMap<TaskId, InboxItem>,
    /// Interrupts that nobody is told of.
    hidden: BTreeSet<(TaskId, Position)>,
    /// What the bug remembers of each task.
    remembered: BTreeMap<TaskId, u64>,
}

/// A layer with a bug.
pub struct Planted {
    inner: Arc<dyn Store>,
    bug: Option<PlantedBug>,
    prng: Prng,
    state: Mutex<State>,
}

impl Planted {
    /// A layer with `bug`, if it is one of this side.
    pub fn new(inner: Arc<dyn Store>, bug: Option<PlantedBug>, side: Side, seed: u64) -> Self {
        let bug = bug.filter(|bug| bug.side() == side);
        Self { inner, bug, prng: Prng::named(seed, "planted"), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the bug is this one.
    fn is(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether the bug is this one and strikes now; it does so `per_mille` times in a thousand.
    fn strikes(&self, bug: PlantedBug, per_mille: u64) -> bool {
        self.is(bug) && self.prng.chance(per_mille)
    }

    async fn verdict(&self, task: &TaskId) -> Result<Verdict, StoreError> {
        let tails = self.inner.inbox_tails(std::slice::from_ref(task)).await?;
        Ok(Verdict { now: self.inner.now().await?, inbox_tail: tails.first().copied().unwrap_or_default() })
    }

    fn holder(&self, task: &TaskId) -> Option<(Claim, Worker)> {
        self.state().held.get(task).cloned()
    }

    /// A task that another than `worker` holds.
    fn of_another(&self, worker: &Worker) -> Option<(Claim, Worker)> {
        self.state().held.values().find(|(_, holder)| holder.instance != worker.instance).cloned()
    }

    /// The claim of another, handed out as it is.
    async fn second_hand(&self, claim: Claim, lease: Duration) -> Result<Option<Claimed>, StoreError> {
        let Some(row) = self.inner.row(&claim.task).await? else { return Ok(None) };
        let items = self.inner.inbox(&claim.task, Position(0)).await?;
        let verdict = self.verdict(&claim.task).await?;
        let lease_until = verdict.now.plus_millis(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
        let (seq, hash) = (row.projection.seq, row.projection.hash);
        Ok(Some(Claimed { claim, seq, hash, items, verdict, lease_until }))
    }

    async fn backdate(&self, claimed: &mut Claimed) -> Result<(), StoreError> {
        if claimed.seq > Seq(2) {
            claimed.seq = Seq(claimed.seq.0 - 1);
            let before = self.inner.read(&claimed.claim.task, claimed.seq, 1).await?;
            claimed.hash = before.first().map_or(claimed.hash, |event| event.hash);
        }
        Ok(())
    }

    /// Whether the claim counts as one too many.
    async fn is_miscounted(&self, claimed: &Claimed) -> bool {
        let claims = {
            let mut state = self.state();
            let claims = state.claims.entry(claimed.claim.task.clone()).or_default();
            *claims += 1;
            *claims
        };
        claims >= IDLE_CLAIMS_MAX && self.inner.block(&claimed.claim, &Blocked::Poison).await.is_ok()
    }

    async fn take(&self, mut claimed: Claimed, worker: &Worker) -> Result<Option<Claimed>, StoreError> {
        if self.is(PlantedBug::PoisonMiscounted) && self.is_miscounted(&claimed).await {
            return Ok(None);
        }
        if self.strikes(PlantedBug::StaleHead, 200) {
            self.backdate(&mut claimed).await?;
        }
        let task = claimed.claim.task.clone();
        self.state().held.insert(task.clone(), (claimed.claim.clone(), worker.clone()));
        self.hand_out(&task, &mut claimed.items);
        Ok(Some(claimed))
    }

    /// Does to items what the bug does to them on their way to a holder.
    fn hand_out(&self, task: &TaskId, items: &mut Vec<InboxItem>) {
        let mut state = self.state();
        items.retain(|item| !state.gone.contains(&(task.clone(), item.position)));
        match self.bug {
            Some(PlantedBug::ItemHandedOutAgain) => {
                state.items.extend(items.iter().map(|item| ((task.clone(), item.position), item.clone())));
                items.extend(state.taken.remove(task));
            }
            Some(PlantedBug::ExpiryForgotten) => {
                items.iter_mut().for_each(|item| item.at = Timestamp::from_micros(0));
            }
            Some(PlantedBug::InterruptLost) => {
                let lost = |item: &InboxItem| matches!(item.item, Item::Interrupt { .. });
                state.hidden.extend(items.iter().filter(|item| lost(item)).map(|item| (task.clone(), item.position)));
                items.retain(|item| !lost(item));
            }
            _ => {}
        }
    }

    /// Does to a batch what the bug does to every one; says which children it leaves out.
    fn spoil(&self, batch: &mut Batch) -> Vec<NewTask> {
        match self.bug {
            Some(PlantedBug::SeenUnchecked) => batch.seen = Position(u64::MAX),
            Some(PlantedBug::NeverConsumed) => batch.consumed.clear(),
            Some(PlantedBug::JobRowNotDue) => rewrite::row_not_due(batch),
            Some(PlantedBug::BodiesDropped) => batch.blobs.clear(),
            Some(PlantedBug::ConsumedBeforeAppend) => {
                let consumed = batch.consumed.iter().map(|position| (batch.task.clone(), *position));
                self.state().gone.extend(consumed);
            }
            Some(PlantedBug::CancelNotCascaded) => {
                batch.deliveries.retain(|sent| !matches!(sent.item, Item::Cancel { .. }));
            }
            Some(PlantedBug::HandedBackUnobserved) if batch.rests() => batch.claim = ClaimAfter::ByStatus,
            Some(PlantedBug::ChildOutsideAppend) => return std::mem::take(&mut batch.children),
            Some(PlantedBug::InterruptLost) => {
                let mut state = self.state();
                let of_task = state.hidden.iter().filter(|(task, _)| *task == batch.task);
                let lost: Vec<Position> = of_task.map(|(_, position)| *position).collect();
                batch.seen = lost.iter().copied().fold(batch.seen, Position::max);
                batch.consumed.extend(lost);
                state.hidden.retain(|(task, _)| *task != batch.task);
            }
            Some(bug) => {
                rewrite::deliveries(bug, batch);
                let mut state = self.state();
                rewrite::events(bug, batch, state.remembered.entry(batch.task.clone()).or_default());
            }
            None => {}
        }
        Vec::new()
    }

    /// Makes children late, or never.
    async fn make_up_for(&self, children: Vec<NewTask>) {
        for child in children {
            if self.prng.chance(700) {
                // Nobody is told: the parent's append is acknowledged either way.
                let _ = self.inner.create(child).await;
            }
        }
    }

    /// The item as the store takes it in.
    fn bent(&self, item: &Item) -> Item {
        let mut item = item.clone();
        match (&mut item, self.bug) {
            (Item::Verdict { call, .. }, Some(PlantedBug::WrongCallRuledOn)) => call.index ^= 1,
            (Item::Verdict { verdict, .. }, Some(PlantedBug::DenialApproves)) => *verdict = ApprovalVerdict::Approve,
            _ => {}
        }
        item
    }

    /// Writes the first events of a batch and forgets the rest.
    async fn tear(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let mut torn = batch.clone();
        torn.events.truncate(batch.events.len() - 1);
        if let Some(last) = torn.events.last() {
            (torn.row.seq, torn.row.hash) = (last.seq, last.hash);
        }
        self.inner.append(claim, &torn).await?;
        Err(AppendError::CommitUnknown { task: claim.task.clone(), detail: "torn".into() })
    }

    async fn rewritten(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let head = self.inner.row(&claim.task).await?.map(|row| (row.projection.seq, row.projection.hash));
        match head {
            Some(head) => self.inner.append(claim, &rewrite::rebased(batch, head)).await,
            None => Err(StoreError::UnknownTask(claim.task.clone()).into()),
        }
    }
}
