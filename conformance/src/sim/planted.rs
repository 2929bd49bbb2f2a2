//! Bugs on purpose: each is one that a store, a tool or an engine could have, and that the
//! oracle has to catch. Nothing outside the simulation can switch one on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::canonical::{Domain, Hash};
use plica_kernel::id::{DedupKey, Position, Queue, Seq, TaskId};
use plica_kernel::limits::IDLE_CLAIMS_MAX;
use plica_kernel::row::{Blocked, Status};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::Store;
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimError, ClaimRequest, Claimed, CommitFate, Conflict, DeliverError,
    Delivered, Renewed, StoreError, Verdict, Worker,
};
use serde_json::Value;

use super::prng::Prng;
use crate::layer::Layer;

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
        let workers = bug == Some(PlantedBug::RewriteOnUnknown);
        let bug = bug.filter(|_| workers == (side == Side::Worker));
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
        let mut state = self.state();
        state.held.insert(claimed.claim.task.clone(), (claimed.claim.clone(), worker.clone()));
        claimed.items.retain(|item| !state.gone.contains(&(claimed.claim.task.clone(), item.position)));
        Ok(Some(claimed))
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
            Some(head) => self.inner.append(claim, &rebased(batch, head)).await,
            None => Err(StoreError::UnknownTask(claim.task.clone()).into()),
        }
    }
}

/// The batch as if it continued another head.
fn rebased(batch: &Batch, (after, after_hash): (Seq, Hash)) -> Batch {
    let mut batch = batch.clone();
    let shift = after.0 - batch.after.0;
    let mut prev = after_hash;
    for event in &mut batch.events {
        let mut body: Value = serde_json::from_slice(&event.body).unwrap_or_default();
        for name in ["seq", "parent", "decision", "action"] {
            if let Some(seq) = body[name].as_u64().filter(|seq| *seq > batch.after.0) {
                body[name] = Value::from(seq + shift);
            }
        }
        body["prev"] = Value::from(prev.to_string());
        event.seq = Seq(event.seq.0 + shift);
        event.body = body.to_string().into_bytes();
        event.hash = Domain::Event.hash(&event.body);
        prev = event.hash;
    }
    (batch.row.seq, batch.row.hash) = (Seq(batch.row.seq.0 + shift), prev);
    (batch.after, batch.after_hash) = (after, after_hash);
    batch
}

#[async_trait]
impl Layer for Planted {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        let mut request = request.clone();
        if self.is(PlantedBug::ExpiredNeverClaimable) {
            request.except.extend(self.state().held.keys().cloned());
        }
        request.except.extend(self.state().asleep.iter().cloned());
        let claimed = self.inner.claim(&request).await?;
        let mut taken = Vec::new();
        for one in claimed {
            taken.extend(self.take(one, &request.worker).await?);
        }
        if let Some((claim, holder)) = self.of_another(&request.worker).filter(|_| taken.is_empty()) {
            if self.strikes(PlantedBug::ClaimGivenTwice, 100) {
                taken.extend(self.second_hand(claim, request.lease).await?);
            } else if self.strikes(PlantedBug::ClaimBeforeLeaseEnds, 100) {
                let stolen = self.inner.adopt(&holder, &claim.task, request.lease).await?;
                taken.extend(stolen);
            }
        }
        Ok(taken)
    }

    async fn held_by(&self, worker: &Worker) -> Result<Vec<TaskId>, StoreError> {
        if self.is(PlantedBug::AdoptsFromOthers) {
            return Ok(self.state().held.keys().cloned().collect());
        }
        self.inner.held_by(worker).await
    }

    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError> {
        let holder = self.holder(task).filter(|_| self.is(PlantedBug::AdoptsFromOthers));
        let holder = holder.map_or_else(|| worker.clone(), |(_, holder)| holder);
        match self.inner.adopt(&holder, task, lease).await? {
            Some(claimed) => Ok(self.take(claimed, worker).await?),
            None => Ok(None),
        }
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        let mut renewed = self.inner.renew(claims, lease).await?;
        if self.is(PlantedBug::LostClaimRenewed) {
            renewed.verdicts.iter_mut().filter(|verdict| verdict.is_err()).for_each(|lost| *lost = Ok(Position(0)));
        }
        Ok(renewed)
    }

    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        let not_before = not_before.filter(|_| !self.is(PlantedBug::NotBeforeForgotten));
        let verdict = self.inner.release(claim, not_before).await?;
        self.state().held.remove(&claim.task);
        Ok(verdict)
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let mut batch = batch.clone();
        match self.bug {
            Some(PlantedBug::SeenUnchecked) => batch.seen = Position(u64::MAX),
            Some(PlantedBug::NeverConsumed) => batch.consumed.clear(),
            Some(PlantedBug::BodiesDropped) => batch.blobs.clear(),
            Some(PlantedBug::ConsumedBeforeAppend) => {
                let consumed = batch.consumed.iter().map(|position| (batch.task.clone(), *position));
                self.state().gone.extend(consumed);
            }
            Some(PlantedBug::AckBeforeCommit) if self.prng.chance(100) => {
                return Ok(Appended { verdict: self.verdict(&batch.task).await?, held: !batch.rests() });
            }
            Some(PlantedBug::TornBatch) if batch.events.len() > 1 && self.prng.chance(100) => {
                return self.tear(claim, &batch).await;
            }
            _ => {}
        }
        let mut appended = self.inner.append(claim, &batch).await;
        appended = match (appended, self.bug) {
            (Err(AppendError::Conflict(Conflict::FenceStale { .. })), Some(PlantedBug::EpochUnchecked)) => {
                let current = self.holder(&claim.task).map_or_else(|| claim.clone(), |(current, _)| current);
                self.inner.append(&current, &batch).await
            }
            (Err(AppendError::Conflict(Conflict::LeaseExpired { .. })), Some(PlantedBug::LeaseUnchecked)) => {
                self.inner.renew(std::slice::from_ref(claim), Duration::from_secs(1)).await?;
                self.inner.append(claim, &batch).await
            }
            (Err(AppendError::CommitUnknown { .. }), Some(PlantedBug::RewriteOnUnknown)) => {
                self.rewritten(claim, &batch).await
            }
            (appended, _) => appended,
        };
        if matches!(appended, Ok(Appended { held: false, .. })) {
            self.state().held.remove(&claim.task);
        }
        appended
    }

    async fn settle(&self, task: &TaskId, seq: Seq, hash: &Hash) -> Result<CommitFate, StoreError> {
        if self.is(PlantedBug::ReadbackSaysWritten) {
            return Ok(CommitFate::Written);
        }
        self.inner.settle(task, seq, hash).await
    }

    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        if self.strikes(PlantedBug::AckBeforeDelivery, 200) {
            let tail = self.verdict(task).await?.inbox_tail;
            return Ok(Delivered { position: tail.next(), fresh: true });
        }
        let (mut task, mut dedup) = (task.clone(), dedup.clone());
        if self.is(PlantedBug::KeysForgotten) {
            let number = {
                let mut state = self.state();
                state.keys += 1;
                state.keys
            };
            dedup = DedupKey::new(format!("{dedup}-{number}")).unwrap_or(dedup);
        }
        self.state().tasks.insert(task.clone());
        if self.strikes(PlantedBug::WrongInbox, 200) {
            let other = self.state().tasks.iter().find(|other| **other != task).cloned();
            task = other.unwrap_or(task);
        }
        let waits = self.inner.row(&task).await?.is_some_and(|row| row.projection.status == Status::Waiting);
        if waits && self.is(PlantedBug::WakeupLost) {
            self.state().asleep.insert(task.clone());
        }
        self.inner.deliver(&task, actor, item, &dedup).await
    }

    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        let mut items = self.inner.inbox(task, after).await?;
        let state = self.state();
        items.retain(|item| !state.gone.contains(&(task.clone(), item.position)));
        Ok(items)
    }

    async fn read(
        &self,
        task: &TaskId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<plica_ports::store::StoredEvent>, StoreError> {
        let mut events = self.inner.read(task, from, limit).await?;
        if let Some(event) = events.last_mut().filter(|_| self.strikes(PlantedBug::BytesRewritten, 50)) {
            event.body.push(b' ');
        }
        Ok(events)
    }

    async fn wait_claimable(&self, queues: &[Queue], timeout: Duration) -> Result<(), StoreError> {
        if self.is(PlantedBug::ExpiredNeverClaimable) || self.is(PlantedBug::WakeupLost) {
            // What is due and never handed out would be waited for in vain without a pause.
            tokio::time::sleep(timeout).await;
            return Ok(());
        }
        self.inner.wait_claimable(queues, timeout).await
    }
}
