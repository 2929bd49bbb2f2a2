//! Stores with something around them: faults, witnesses, planted bugs.
//!
//! A [`Layer`] says what it does differently from the store it is laid around, and
//! [`Layered`] makes a [`Store`] of it. What a layer does not name goes through unchanged, so
//! a layer with nothing in it is no different from the store inside.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::Hash;
use plica_kernel::id::{DedupKey, LedgerId, Position, Queue, Seq, TaskId};
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimError, ClaimRequest, Claimed, CommitFate, CreateError, Created,
    DeliverError, Delivered, NewTask, Outlook, Page, Renewed, Row, StoreError, StoredEvent, TaskFilter, Verdict,
    Worker, WorkerRow,
};
use plica_ports::{ContentError, ContentStore, KeptBody, Removed, Store};

pub use crate::call::Call;

/// Something around a store. Every method does what the store inside does, unless the layer
/// says otherwise.
#[async_trait]
pub trait Layer: Send + Sync {
    /// The store inside.
    fn inner(&self) -> &Arc<dyn Store>;

    /// Before every call; says how long its answer will take on its way out. An error is the
    /// call's answer, and the store inside is not asked.
    ///
    /// # Errors
    /// Whatever keeps the call from the store inside.
    async fn enter(&self, call: Call) -> Result<Duration, StoreError> {
        let _ = call;
        Ok(Duration::ZERO)
    }

    /// After every call that went in, before its answer goes out.
    async fn leave(&self, call: Call, after: Duration) {
        let _ = call;
        if !after.is_zero() {
            tokio::time::sleep(after).await;
        }
    }

    /// Stands for [`Store::ledger`].
    async fn ledger(&self) -> Result<LedgerId, StoreError> {
        self.inner().ledger().await
    }

    /// Stands for [`Store::now`].
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.inner().now().await
    }

    /// Stands for [`Store::create`].
    async fn create(&self, task: NewTask) -> Result<Created, CreateError> {
        self.inner().create(task).await
    }

    /// Stands for [`Store::claim`].
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        self.inner().claim(request).await
    }

    /// Stands for [`Store::renew`].
    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        self.inner().renew(claims, lease).await
    }

    /// Stands for [`Store::release`].
    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        self.inner().release(claim, not_before).await
    }

    /// Stands for [`Store::append`].
    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        self.inner().append(claim, batch).await
    }

    /// Stands for [`Store::settle`].
    async fn settle(&self, task: &TaskId, seq: Seq, hash: &Hash) -> Result<CommitFate, StoreError> {
        self.inner().settle(task, seq, hash).await
    }

    /// Stands for [`Store::deliver`].
    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        self.inner().deliver(task, actor, item, dedup).await
    }

    /// Stands for [`Store::inbox`].
    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        self.inner().inbox(task, after).await
    }

    /// Stands for [`Store::inbox_tails`].
    async fn inbox_tails(&self, tasks: &[TaskId]) -> Result<Vec<Position>, StoreError> {
        self.inner().inbox_tails(tasks).await
    }

    /// Stands for [`Store::read`].
    async fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.inner().read(task, from, limit).await
    }

    /// Stands for [`Store::baselines`].
    async fn baselines(&self, task: &TaskId, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.inner().baselines(task, limit).await
    }

    /// Stands for [`Store::row`].
    async fn row(&self, task: &TaskId) -> Result<Option<Row>, StoreError> {
        self.inner().row(task).await
    }

    /// Stands for [`Store::tasks`].
    async fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError> {
        self.inner().tasks(filter, page).await
    }

    /// Stands for [`Store::watch`].
    async fn watch(&self, task: &TaskId, after: Seq, tail: Position, timeout: Duration) -> Result<bool, StoreError> {
        self.inner().watch(task, after, tail, timeout).await
    }

    /// Stands for [`Store::wait_claimable`].
    async fn wait_claimable(&self, queues: &[Queue], timeout: Duration) -> Result<(), StoreError> {
        self.inner().wait_claimable(queues, timeout).await
    }

    /// Stands for [`Store::outlook`].
    async fn outlook(&self, queues: &[Queue]) -> Result<Outlook, StoreError> {
        self.inner().outlook(queues).await
    }

    /// Stands for [`Store::held_by`].
    async fn held_by(&self, worker: &Worker) -> Result<Vec<TaskId>, StoreError> {
        self.inner().held_by(worker).await
    }

    /// Stands for [`Store::adopt`].
    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError> {
        self.inner().adopt(worker, task, lease).await
    }

    /// Stands for [`Store::block`].
    async fn block(&self, claim: &Claim, why: &Blocked) -> Result<(), AppendError> {
        self.inner().block(claim, why).await
    }

    /// Stands for [`Store::unblock`].
    async fn unblock(&self, task: &TaskId) -> Result<bool, StoreError> {
        self.inner().unblock(task).await
    }

    /// Stands for [`Store::register`].
    async fn register(&self, worker: &Worker, queues: &[Queue], lease: Duration) -> Result<(), StoreError> {
        self.inner().register(worker, queues, lease).await
    }

    /// Stands for [`Store::deregister`].
    async fn deregister(&self, worker: &Worker) -> Result<(), StoreError> {
        self.inner().deregister(worker).await
    }

    /// Stands for [`Store::workers`].
    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.inner().workers().await
    }

    /// Stands for [`Store::describe`].
    async fn describe(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.inner().describe().await
    }

    /// Stands for [`ContentStore::put`] of the store's own content store.
    async fn put(&self, blob: &Blob) -> Result<(), ContentError> {
        content_of(self.inner())?.put(blob).await
    }

    /// Stands for [`ContentStore::get`] of the store's own content store.
    async fn get(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError> {
        content_of(self.inner())?.get(reference).await
    }

    /// Stands for [`ContentStore::clock`] of the store's own content store.
    async fn clock(&self) -> Result<Timestamp, ContentError> {
        content_of(self.inner())?.clock().await
    }

    /// Stands for [`ContentStore::aged`] of the store's own content store.
    async fn aged(&self, before: Timestamp, after: Option<&Hash>, limit: usize) -> Result<Vec<KeptBody>, ContentError> {
        content_of(self.inner())?.aged(before, after, limit).await
    }

    /// Stands for [`ContentStore::remove`] of the store's own content store.
    async fn remove(&self, bodies: &[Hash], before: Timestamp) -> Result<Removed, ContentError> {
        content_of(self.inner())?.remove(bodies, before).await
    }
}

fn content_of(store: &Arc<dyn Store>) -> Result<&dyn ContentStore, ContentError> {
    store.content().ok_or_else(|| ContentError::Unavailable("the store inside keeps no content".into()))
}

fn unavailable(error: StoreError) -> ContentError {
    ContentError::Unavailable(error.to_string())
}

/// The store that a layer makes of the one inside.
#[derive(Debug, Clone)]
pub struct Layered<L>(pub L);

#[async_trait]
impl<L: Layer> Store for Layered<L> {
    async fn ledger(&self) -> Result<LedgerId, StoreError> {
        let back = self.0.enter(Call::Ledger).await?;
        let answer = self.0.ledger().await;
        self.0.leave(Call::Ledger, back).await;
        answer
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        let back = self.0.enter(Call::Now).await?;
        let answer = self.0.now().await;
        self.0.leave(Call::Now, back).await;
        answer
    }

    async fn create(&self, task: NewTask) -> Result<Created, CreateError> {
        let back = self.0.enter(Call::Create).await?;
        let answer = self.0.create(task).await;
        self.0.leave(Call::Create, back).await;
        answer
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        let back = self.0.enter(Call::Claim).await?;
        let answer = self.0.claim(request).await;
        self.0.leave(Call::Claim, back).await;
        answer
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        let back = self.0.enter(Call::Renew).await?;
        let answer = self.0.renew(claims, lease).await;
        self.0.leave(Call::Renew, back).await;
        answer
    }

    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        let back = self.0.enter(Call::Release).await?;
        let answer = self.0.release(claim, not_before).await;
        self.0.leave(Call::Release, back).await;
        answer
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let back = self.0.enter(Call::Append).await?;
        let answer = self.0.append(claim, batch).await;
        self.0.leave(Call::Append, back).await;
        answer
    }

    async fn settle(&self, task: &TaskId, seq: Seq, hash: &Hash) -> Result<CommitFate, StoreError> {
        let back = self.0.enter(Call::Settle).await?;
        let answer = self.0.settle(task, seq, hash).await;
        self.0.leave(Call::Settle, back).await;
        answer
    }

    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        let back = self.0.enter(Call::Deliver).await?;
        let answer = self.0.deliver(task, actor, item, dedup).await;
        self.0.leave(Call::Deliver, back).await;
        answer
    }

    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        let back = self.0.enter(Call::Inbox).await?;
        let answer = self.0.inbox(task, after).await;
        self.0.leave(Call::Inbox, back).await;
        answer
    }

    async fn inbox_tails(&self, tasks: &[TaskId]) -> Result<Vec<Position>, StoreError> {
        let back = self.0.enter(Call::InboxTails).await?;
        let answer = self.0.inbox_tails(tasks).await;
        self.0.leave(Call::InboxTails, back).await;
        answer
    }

    async fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let back = self.0.enter(Call::Read).await?;
        let answer = self.0.read(task, from, limit).await;
        self.0.leave(Call::Read, back).await;
        answer
    }

    async fn baselines(&self, task: &TaskId, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let back = self.0.enter(Call::Baselines).await?;
        let answer = self.0.baselines(task, limit).await;
        self.0.leave(Call::Baselines, back).await;
        answer
    }

    async fn row(&self, task: &TaskId) -> Result<Option<Row>, StoreError> {
        let back = self.0.enter(Call::Row).await?;
        let answer = self.0.row(task).await;
        self.0.leave(Call::Row, back).await;
        answer
    }

    async fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError> {
        let back = self.0.enter(Call::Tasks).await?;
        let answer = self.0.tasks(filter, page).await;
        self.0.leave(Call::Tasks, back).await;
        answer
    }

    async fn watch(&self, task: &TaskId, after: Seq, tail: Position, timeout: Duration) -> Result<bool, StoreError> {
        let back = self.0.enter(Call::Watch).await?;
        let answer = self.0.watch(task, after, tail, timeout).await;
        self.0.leave(Call::Watch, back).await;
        answer
    }

    async fn wait_claimable(&self, queues: &[Queue], timeout: Duration) -> Result<(), StoreError> {
        let back = self.0.enter(Call::WaitClaimable).await?;
        let answer = self.0.wait_claimable(queues, timeout).await;
        self.0.leave(Call::WaitClaimable, back).await;
        answer
    }

    async fn outlook(&self, queues: &[Queue]) -> Result<Outlook, StoreError> {
        let back = self.0.enter(Call::Outlook).await?;
        let answer = self.0.outlook(queues).await;
        self.0.leave(Call::Outlook, back).await;
        answer
    }

    async fn held_by(&self, worker: &Worker) -> Result<Vec<TaskId>, StoreError> {
        let back = self.0.enter(Call::HeldBy).await?;
        let answer = self.0.held_by(worker).await;
        self.0.leave(Call::HeldBy, back).await;
        answer
    }

    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError> {
        let back = self.0.enter(Call::Adopt).await?;
        let answer = self.0.adopt(worker, task, lease).await;
        self.0.leave(Call::Adopt, back).await;
        answer
    }

    async fn block(&self, claim: &Claim, why: &Blocked) -> Result<(), AppendError> {
        let back = self.0.enter(Call::Block).await?;
        let answer = self.0.block(claim, why).await;
        self.0.leave(Call::Block, back).await;
        answer
    }

    async fn unblock(&self, task: &TaskId) -> Result<bool, StoreError> {
        let back = self.0.enter(Call::Unblock).await?;
        let answer = self.0.unblock(task).await;
        self.0.leave(Call::Unblock, back).await;
        answer
    }

    async fn register(&self, worker: &Worker, queues: &[Queue], lease: Duration) -> Result<(), StoreError> {
        let back = self.0.enter(Call::Register).await?;
        let answer = self.0.register(worker, queues, lease).await;
        self.0.leave(Call::Register, back).await;
        answer
    }

    async fn deregister(&self, worker: &Worker) -> Result<(), StoreError> {
        let back = self.0.enter(Call::Deregister).await?;
        let answer = self.0.deregister(worker).await;
        self.0.leave(Call::Deregister, back).await;
        answer
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        let back = self.0.enter(Call::Workers).await?;
        let answer = self.0.workers().await;
        self.0.leave(Call::Workers, back).await;
        answer
    }

    async fn describe(&self) -> Result<Vec<(String, String)>, StoreError> {
        let back = self.0.enter(Call::Describe).await?;
        let answer = self.0.describe().await;
        self.0.leave(Call::Describe, back).await;
        answer
    }

    fn content(&self) -> Option<&dyn ContentStore> {
        self.0.inner().content().is_some().then_some(self as &dyn ContentStore)
    }
}

#[async_trait]
impl<L: Layer> ContentStore for Layered<L> {
    async fn put(&self, blob: &Blob) -> Result<(), ContentError> {
        let back = self.0.enter(Call::Put).await.map_err(unavailable)?;
        let answer = self.0.put(blob).await;
        self.0.leave(Call::Put, back).await;
        answer
    }

    async fn get(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError> {
        let back = self.0.enter(Call::Get).await.map_err(unavailable)?;
        let answer = self.0.get(reference).await;
        self.0.leave(Call::Get, back).await;
        answer
    }

    async fn clock(&self) -> Result<Timestamp, ContentError> {
        let back = self.0.enter(Call::Clock).await.map_err(unavailable)?;
        let answer = self.0.clock().await;
        self.0.leave(Call::Clock, back).await;
        answer
    }

    async fn aged(&self, before: Timestamp, after: Option<&Hash>, limit: usize) -> Result<Vec<KeptBody>, ContentError> {
        let back = self.0.enter(Call::Aged).await.map_err(unavailable)?;
        let answer = self.0.aged(before, after, limit).await;
        self.0.leave(Call::Aged, back).await;
        answer
    }

    async fn remove(&self, bodies: &[Hash], before: Timestamp) -> Result<Removed, ContentError> {
        let back = self.0.enter(Call::Remove).await.map_err(unavailable)?;
        let answer = self.0.remove(bodies, before).await;
        self.0.leave(Call::Remove, back).await;
        answer
    }
}
