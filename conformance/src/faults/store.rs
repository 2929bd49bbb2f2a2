//! The decorator: what goes wrong with each call of the port.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::body::Blob;
use plica_kernel::canonical::Hash;
use plica_kernel::id::{DedupKey, Queue, TaskId};
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimError, ClaimRequest, Claimed, CreateError, Created, DeliverError,
    Delivered, NewTask, Renewed, StoreError, Verdict, Worker,
};
use plica_ports::{ContentError, Removed, Store};

use super::{Call, Fault, Faults};
use crate::layer::{Layer, Layered};

/// A store whose calls go wrong when a source of faults says so.
pub type Faulty = Layered<Striking>;

impl Faulty {
    /// `inner`, with what `faults` decides.
    pub fn new(inner: Arc<dyn Store>, faults: Arc<dyn Faults>) -> Self {
        Self(Striking { inner, faults, late: Arc::default() })
    }

    /// The store behind it, which does not fail.
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.0.inner
    }
}

/// The layer of faults around a store; [`Faulty`] is the store that it makes.
#[derive(Clone)]
pub struct Striking {
    inner: Arc<dyn Store>,
    faults: Arc<dyn Faults>,
    /// The append that is on its way.
    late: Arc<Mutex<Option<(Claim, Batch)>>>,
}

impl fmt::Debug for Striking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Striking").finish_non_exhaustive()
    }
}

/// The error of a store that cannot be reached.
fn outage<E: From<StoreError>>(why: String) -> E {
    StoreError::Unavailable(why).into()
}

fn append_unknown(task: &TaskId) -> impl FnOnce(String) -> AppendError + use<> {
    let task = task.clone();
    move |detail| AppendError::CommitUnknown { task, detail }
}

impl Striking {
    fn fault(&self, call: Call) -> Option<Fault> {
        self.faults.strikes(call).filter(|fault| fault.concerns(call))
    }

    /// Makes a call that writes, whatever goes wrong with it. `request` makes one that lives on by
    /// itself; `unknown` is how the loss of its answer is told.
    async fn send<T, E, F>(
        &self,
        call: Call,
        fault: Option<Fault>,
        request: impl Fn(Arc<dyn Store>) -> F,
        unknown: impl FnOnce(String) -> E,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let request = || request(self.inner.clone());
        let later = |wait: Duration| {
            let request = request();
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                request.await
            })
        };
        match fault {
            None | Some(Fault::DeliveredTwice) => request().await,
            Some(Fault::Unavailable) => Err(outage(format!("{call:?} is not let through"))),
            Some(Fault::LostBeforeCommit | Fault::LostOnItsWay) => Err(unknown(format!("{call:?} was lost"))),
            Some(Fault::LostAfterCommit) => {
                // A refusal commits nothing whose answer could be lost, but the caller does not
                // hear of it either.
                let _ = request().await;
                Err(unknown(format!("the answer of {call:?} was lost")))
            }
            Some(Fault::Adrift(wait)) => {
                later(wait);
                Err(unknown(format!("{call:?} is on its way")))
            }
            Some(Fault::Delay { before, after }) => {
                let answer = match later(before).await {
                    Ok(answer) => answer,
                    Err(_) => Err(unknown(format!("{call:?} broke off"))),
                };
                tokio::time::sleep(after).await;
                answer
            }
            Some(Fault::Twice) => {
                let first = request().await;
                // Whatever becomes of the copy, its sender has had his answer.
                let _ = request().await;
                first
            }
        }
    }

    /// The same for a call that its caller may simply make again.
    async fn again<T, E, F>(&self, call: Call, request: impl Fn(Arc<dyn Store>) -> F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.send(call, self.fault(call), request, outage).await
    }
}

#[async_trait]
impl Layer for Striking {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    /// What only reads goes wrong here, what writes in its own method.
    async fn enter(&self, call: Call) -> Result<Duration, StoreError> {
        self.faults.pass().await;
        if call.writes() {
            return Ok(Duration::ZERO);
        }
        match self.fault(call) {
            Some(Fault::Unavailable) => Err(outage(format!("{call:?} is not let through"))),
            Some(Fault::Delay { before, after }) => {
                tokio::time::sleep(before).await;
                Ok(after)
            }
            _ => Ok(Duration::ZERO),
        }
    }

    async fn leave(&self, _: Call, after: Duration) {
        if !after.is_zero() {
            tokio::time::sleep(after).await;
        }
        self.faults.pass().await;
    }

    async fn create(&self, task: NewTask) -> Result<Created, CreateError> {
        let id = task.id.clone();
        let unknown = |detail| CreateError::CommitUnknown { task: id, detail };
        let request = |store: Arc<dyn Store>| {
            let task = task.clone();
            async move { store.create(task).await }
        };
        self.send(Call::Create, self.fault(Call::Create), request, unknown).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        let request = |store: Arc<dyn Store>| {
            let request = request.clone();
            async move { store.claim(&request).await }
        };
        self.send(Call::Claim, self.fault(Call::Claim), request, ClaimError::CommitUnknown).await
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        let request = |store: Arc<dyn Store>| {
            let claims = claims.to_vec();
            async move { store.renew(&claims, lease).await }
        };
        self.again(Call::Renew, request).await
    }

    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        let request = |store: Arc<dyn Store>| {
            let claim = claim.clone();
            async move { store.release(&claim, not_before).await }
        };
        self.send(Call::Release, self.fault(Call::Release), request, append_unknown(&claim.task)).await
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let fault = self.fault(Call::Append);
        let next = (fault == Some(Fault::LostOnItsWay)).then(|| (claim.clone(), batch.clone()));
        let late = std::mem::replace(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner), next);
        if let Some((claim, batch)) = late {
            // Nobody waits for its answer any more.
            let _ = self.inner.append(&claim, &batch).await;
        }
        let request = |store: Arc<dyn Store>| {
            let (claim, mut batch) = (claim.clone(), batch.clone());
            if fault == Some(Fault::DeliveredTwice) {
                batch.deliveries = batch.deliveries.into_iter().flat_map(|sent| [sent.clone(), sent]).collect();
            }
            async move { store.append(&claim, &batch).await }
        };
        self.send(Call::Append, fault, request, append_unknown(&claim.task)).await
    }

    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        let unknown = |detail| DeliverError::CommitUnknown { task: task.clone(), detail };
        let request = |store: Arc<dyn Store>| {
            let (task, actor) = (task.clone(), actor.to_owned());
            let (item, dedup) = (item.clone(), dedup.clone());
            async move { store.deliver(&task, &actor, &item, &dedup).await }
        };
        // All that a delivery delivers is itself.
        let fault = match self.fault(Call::Deliver) {
            Some(Fault::DeliveredTwice) => Some(Fault::Twice),
            fault => fault,
        };
        self.send(Call::Deliver, fault, request, unknown).await
    }

    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError> {
        let request = |store: Arc<dyn Store>| {
            let (worker, task) = (worker.clone(), task.clone());
            async move { store.adopt(&worker, &task, lease).await }
        };
        self.send(Call::Adopt, self.fault(Call::Adopt), request, ClaimError::CommitUnknown).await
    }

    async fn block(&self, claim: &Claim, why: &Blocked) -> Result<(), AppendError> {
        let request = |store: Arc<dyn Store>| {
            let (claim, why) = (claim.clone(), why.clone());
            async move { store.block(&claim, &why).await }
        };
        self.send(Call::Block, self.fault(Call::Block), request, append_unknown(&claim.task)).await
    }

    async fn unblock(&self, task: &TaskId) -> Result<bool, StoreError> {
        let request = |store: Arc<dyn Store>| {
            let task = task.clone();
            async move { store.unblock(&task).await }
        };
        self.again(Call::Unblock, request).await
    }

    async fn register(&self, worker: &Worker, queues: &[Queue], lease: Duration) -> Result<(), StoreError> {
        let request = |store: Arc<dyn Store>| {
            let (worker, queues) = (worker.clone(), queues.to_vec());
            async move { store.register(&worker, &queues, lease).await }
        };
        self.again(Call::Register, request).await
    }

    async fn deregister(&self, worker: &Worker) -> Result<(), StoreError> {
        let request = |store: Arc<dyn Store>| {
            let worker = worker.clone();
            async move { store.deregister(&worker).await }
        };
        self.again(Call::Deregister, request).await
    }

    async fn put(&self, blob: &Blob) -> Result<(), ContentError> {
        let request = |store: Arc<dyn Store>| {
            let blob = blob.clone();
            async move {
                let content = store.content().ok_or_else(no_content)?;
                content.put(&blob).await.map_err(Content)
            }
        };
        self.again(Call::Put, request).await.map_err(|Content(error)| error)
    }

    async fn remove(&self, bodies: &[Hash], before: Timestamp) -> Result<Removed, ContentError> {
        let request = |store: Arc<dyn Store>| {
            let bodies = bodies.to_vec();
            async move {
                let content = store.content().ok_or_else(no_content)?;
                content.remove(&bodies, before).await.map_err(Content)
            }
        };
        self.again(Call::Remove, request).await.map_err(|Content(error)| error)
    }
}

fn no_content() -> Content {
    Content(ContentError::Unavailable("the store behind keeps no content".into()))
}

/// A content error that an outage can become.
struct Content(ContentError);

impl From<StoreError> for Content {
    fn from(error: StoreError) -> Self {
        Self(ContentError::Unavailable(error.to_string()))
    }
}
