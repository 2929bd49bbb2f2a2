//! The store port with a bug in it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::canonical::Hash;
use plica_kernel::id::{DedupKey, Position, Queue, Seq, TaskId};
use plica_kernel::row::Status;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::Store;
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimError, ClaimRequest, Claimed, CommitFate, Conflict, DeliverError,
    Delivered, Renewed, StoreError, StoredEvent, Verdict, Worker,
};

use super::{Planted, PlantedBug};
use crate::layer::Layer;

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
        let children = self.spoil(&mut batch);
        match self.bug {
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
        if appended.is_ok() {
            self.make_up_for(children).await;
            let mut state = self.state();
            let taken = batch.consumed.iter().find_map(|position| state.items.get(&(batch.task.clone(), *position)));
            if let Some(taken) = taken.cloned() {
                state.taken.insert(batch.task.clone(), taken);
            }
        }
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
        let lost = self.is(PlantedBug::WakeupLost) || self.is(PlantedBug::WakeLostAtSuspend) && !item.steers();
        if waits && lost {
            self.state().asleep.insert(task.clone());
        }
        self.inner.deliver(&task, actor, &self.bent(item), &dedup).await
    }

    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        let mut items = self.inner.inbox(task, after).await?;
        self.hand_out(task, &mut items);
        Ok(items)
    }

    async fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let mut events = self.inner.read(task, from, limit).await?;
        if let Some(event) = events.last_mut().filter(|_| self.strikes(PlantedBug::BytesRewritten, 50)) {
            event.body.push(b' ');
        }
        Ok(events)
    }

    async fn wait_claimable(&self, queues: &[Queue], timeout: Duration) -> Result<(), StoreError> {
        let asleep = !self.state().asleep.is_empty();
        if self.is(PlantedBug::ExpiredNeverClaimable) || asleep {
            // What is due and never handed out would be waited for in vain without a pause.
            tokio::time::sleep(timeout).await;
            return Ok(());
        }
        self.inner.wait_claimable(queues, timeout).await
    }
}
