//! The decorator: every call of the port, with what goes wrong with it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
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
use plica_ports::{ContentError, ContentStore, Store};

use super::{Call, Fault, Faults};

/// A store whose calls go wrong when `faults` says so.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<dyn Store>,
    faults: Arc<dyn Faults>,
    /// The append that is on its way.
    late: Arc<Mutex<Option<(Claim, Batch)>>>,
}

impl Faulty {
    /// `inner`, with what `faults` decides.
    pub fn new(inner: Arc<dyn Store>, faults: Arc<dyn Faults>) -> Self {
        Self { inner, faults, late: Arc::default() }
    }

    /// The store behind it, which does not fail.
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        self.faults.strikes(call).filter(|fault| fault.concerns(call))
    }

    /// A call that commits nothing, or what may simply be committed again.
    async fn look<T, E: From<StoreError>>(&self, call: Call, run: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.go(call, self.fault(call), run, outage).await
    }

    /// Makes the call, `fault` and all; `unknown` is how the loss of its answer is told.
    async fn go<T, E: From<StoreError>>(
        &self,
        call: Call,
        fault: Option<Fault>,
        run: impl Future<Output = Result<T, E>>,
        unknown: impl FnOnce(String) -> E,
    ) -> Result<T, E> {
        match fault {
            Some(Fault::Unavailable) => Err(outage(format!("{call:?} is not let through"))),
            Some(Fault::LostBeforeCommit | Fault::LostOnItsWay) => Err(unknown(format!("{call:?} was lost"))),
            Some(Fault::LostAfterCommit) => {
                // A refusal commits nothing whose answer could be lost, but the caller does not
                // hear of it either.
                let _ = run.await;
                Err(unknown(format!("the answer of {call:?} was lost")))
            }
            Some(Fault::Delay { before, after }) => {
                tokio::time::sleep(before).await;
                let answer = run.await;
                tokio::time::sleep(after).await;
                answer
            }
            Some(Fault::DeliveredTwice) | None => run.await,
        }
    }

    fn kept(&self) -> Result<&dyn ContentStore, ContentError> {
        self.inner.content().ok_or_else(|| ContentError::Unavailable("the store behind keeps no content".into()))
    }
}

/// The error of a store that cannot be reached.
fn outage<E: From<StoreError>>(why: String) -> E {
    StoreError::Unavailable(why).into()
}

fn append_unknown(task: &TaskId) -> impl FnOnce(String) -> AppendError {
    let task = task.clone();
    move |detail| AppendError::CommitUnknown { task, detail }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Faulty {
    async fn ledger(&self) -> Result<LedgerId, StoreError> {
        self.look(Call::Ledger, self.inner.ledger()).await
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.look(Call::Now, self.inner.now()).await
    }

    async fn create(&self, task: NewTask) -> Result<Created, CreateError> {
        let id = task.id.clone();
        let fault = self.fault(Call::Create);
        let unknown = |detail| CreateError::CommitUnknown { task: id, detail };
        self.go(Call::Create, fault, self.inner.create(task), unknown).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        let fault = self.fault(Call::Claim);
        self.go(Call::Claim, fault, self.inner.claim(request), ClaimError::CommitUnknown).await
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        self.look(Call::Renew, self.inner.renew(claims, lease)).await
    }

    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        let fault = self.fault(Call::Release);
        self.go(Call::Release, fault, self.inner.release(claim, not_before), append_unknown(&claim.task)).await
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let fault = self.fault(Call::Append);
        let next = (fault == Some(Fault::LostOnItsWay)).then(|| (claim.clone(), batch.clone()));
        let late = std::mem::replace(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner), next);
        if let Some((claim, batch)) = late {
            // Nobody waits for its answer any more.
            let _ = self.inner.append(&claim, &batch).await;
        }
        let doubled;
        let batch = if fault == Some(Fault::DeliveredTwice) {
            let deliveries = batch.deliveries.iter().flat_map(|delivery| [delivery.clone(), delivery.clone()]);
            doubled = Batch { deliveries: deliveries.collect(), ..batch.clone() };
            &doubled
        } else {
            batch
        };
        self.go(Call::Append, fault, self.inner.append(claim, batch), append_unknown(&claim.task)).await
    }

    async fn settle(&self, task: &TaskId, seq: Seq, hash: &Hash) -> Result<CommitFate, StoreError> {
        self.look(Call::Settle, self.inner.settle(task, seq, hash)).await
    }

    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        let fault = self.fault(Call::Deliver);
        let run = async {
            let first = self.inner.deliver(task, actor, item, dedup).await;
            if fault == Some(Fault::DeliveredTwice) {
                // Whatever becomes of the copy, its sender has had his answer.
                let _ = self.inner.deliver(task, actor, item, dedup).await;
            }
            first
        };
        let unknown = |detail| DeliverError::CommitUnknown { task: task.clone(), detail };
        self.go(Call::Deliver, fault, run, unknown).await
    }

    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        self.look(Call::Inbox, self.inner.inbox(task, after)).await
    }

    async fn inbox_tails(&self, tasks: &[TaskId]) -> Result<Vec<Position>, StoreError> {
        self.look(Call::InboxTails, self.inner.inbox_tails(tasks)).await
    }

    async fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.look(Call::Read, self.inner.read(task, from, limit)).await
    }

    async fn baselines(&self, task: &TaskId, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.look(Call::Baselines, self.inner.baselines(task, limit)).await
    }

    async fn row(&self, task: &TaskId) -> Result<Option<Row>, StoreError> {
        self.look(Call::Row, self.inner.row(task)).await
    }

    async fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError> {
        self.look(Call::Tasks, self.inner.tasks(filter, page)).await
    }

    async fn watch(&self, task: &TaskId, after: Seq, tail: Position, timeout: Duration) -> Result<bool, StoreError> {
        self.look(Call::Watch, self.inner.watch(task, after, tail, timeout)).await
    }

    async fn wait_claimable(&self, queues: &[Queue], timeout: Duration) -> Result<(), StoreError> {
        self.look(Call::WaitClaimable, self.inner.wait_claimable(queues, timeout)).await
    }

    async fn outlook(&self, queues: &[Queue]) -> Result<Outlook, StoreError> {
        self.look(Call::Outlook, self.inner.outlook(queues)).await
    }

    async fn held_by(&self, worker: &Worker) -> Result<Vec<TaskId>, StoreError> {
        self.look(Call::HeldBy, self.inner.held_by(worker)).await
    }

    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError> {
        let fault = self.fault(Call::Adopt);
        self.go(Call::Adopt, fault, self.inner.adopt(worker, task, lease), ClaimError::CommitUnknown).await
    }

    async fn block(&self, claim: &Claim, why: &Blocked) -> Result<(), AppendError> {
        let fault = self.fault(Call::Block);
        self.go(Call::Block, fault, self.inner.block(claim, why), append_unknown(&claim.task)).await
    }

    async fn unblock(&self, task: &TaskId) -> Result<bool, StoreError> {
        self.look(Call::Unblock, self.inner.unblock(task)).await
    }

    async fn register(&self, worker: &Worker, queues: &[Queue], lease: Duration) -> Result<(), StoreError> {
        self.look(Call::Register, self.inner.register(worker, queues, lease)).await
    }

    async fn deregister(&self, worker: &Worker) -> Result<(), StoreError> {
        self.look(Call::Deregister, self.inner.deregister(worker)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.look(Call::Workers, self.inner.workers()).await
    }

    fn content(&self) -> Option<&dyn ContentStore> {
        self.inner.content().map(|_| self as &dyn ContentStore)
    }

    async fn describe(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.look(Call::Describe, self.inner.describe()).await
    }
}

/// A content error that an outage can become.
struct Content(ContentError);

impl From<StoreError> for Content {
    fn from(error: StoreError) -> Self {
        Self(ContentError::Unavailable(error.to_string()))
    }
}

#[async_trait]
impl ContentStore for Faulty {
    async fn put(&self, blob: &Blob) -> Result<(), ContentError> {
        let run = async { self.kept().map_err(Content)?.put(blob).await.map_err(Content) };
        self.look(Call::Put, run).await.map_err(|Content(error)| error)
    }

    async fn get(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError> {
        let run = async { self.kept().map_err(Content)?.get(reference).await.map_err(Content) };
        self.look(Call::Get, run).await.map_err(|Content(error)| error)
    }
}
