//! Faults of a store and of the way to it: a layer that any suite can put around any store.
//!
//! What befalls each call is the [`FaultPlan`]'s choice, so a test can script it and a
//! simulation can draw it. With [`Quiet`] the layer does nothing at all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::id::{DedupKey, TaskId};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_ports::Store;
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimError, ClaimRequest, Claimed, CreateError, Created, DeliverError,
    Delivered, NewTask, Renewed, StoreError, Verdict,
};

use crate::layer::{Call, Layer, Layered};

/// What befalls a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing.
    Clear,
    /// The store cannot be reached: nothing is asked of it.
    Unavailable,
    /// The request takes so long to arrive. Whoever gives up waiting does not call it back:
    /// it arrives all the same.
    Slow(Duration),
    /// The connection breaks before the request arrives: nothing is written, and the caller
    /// cannot know.
    LostBefore,
    /// The connection breaks before the answer arrives: all is written, and the caller cannot
    /// know.
    LostAfter,
    /// The connection breaks at once, but the request is on its way and arrives after so long.
    Adrift(Duration),
    /// The request arrives twice; the first answer counts.
    Twice,
}

/// Says what befalls each call.
#[async_trait]
pub trait FaultPlan: Send + Sync {
    /// What befalls the next call. A call that writes nothing cannot be lost or doubled: for
    /// it those fates are `Unavailable` and `Clear`.
    fn fate(&self, call: Call) -> Fate;

    /// Holds a call up for as long as its caller is out of action: on its way in and on the
    /// way out. Never returns once the caller is gone for good.
    async fn pass(&self) {}
}

/// No faults.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl FaultPlan for Quiet {
    fn fate(&self, _: Call) -> Fate {
        Fate::Clear
    }
}

/// Fates for the next calls of one kind, in order; all other calls are clear.
#[derive(Debug)]
pub struct Scripted {
    call: Call,
    fates: Mutex<VecDeque<Fate>>,
}

impl Scripted {
    /// These fates for the next calls of this kind.
    pub fn new(call: Call, fates: impl IntoIterator<Item = Fate>) -> Self {
        Self { call, fates: Mutex::new(fates.into_iter().collect()) }
    }
}

impl FaultPlan for Scripted {
    fn fate(&self, call: Call) -> Fate {
        let mut fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        if call == self.call { fates.pop_front().unwrap_or(Fate::Clear) } else { Fate::Clear }
    }
}

/// A store that faults befall; make one with [`faulty`].
pub struct Faults<P> {
    inner: Arc<dyn Store>,
    plan: Arc<P>,
}

/// `store` behind the faults of `plan`.
pub fn faulty<P: FaultPlan>(store: Arc<dyn Store>, plan: Arc<P>) -> Layered<Faults<P>> {
    Layered(Faults { inner: store, plan })
}

const LOST: &str = "the connection broke";

fn unavailable() -> StoreError {
    StoreError::Unavailable("no connection".into())
}

/// How a call that writes came out.
enum Sent<T> {
    Answered(T),
    Unavailable,
    Unknown,
}

/// Sends a request that writes, and lets its fate befall it. `send` makes a request that
/// lives on by itself; it is made a second time only for [`Fate::Twice`].
async fn send<T, F>(fate: Fate, send: impl Fn() -> F) -> Sent<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let later = |after: Duration| {
        let request = send();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            request.await
        })
    };
    match fate {
        Fate::Clear => Sent::Answered(send().await),
        Fate::Unavailable => Sent::Unavailable,
        Fate::Slow(after) => match later(after).await {
            Ok(answer) => Sent::Answered(answer),
            Err(_) => Sent::Unknown,
        },
        Fate::LostBefore => Sent::Unknown,
        Fate::LostAfter => {
            send().await;
            Sent::Unknown
        }
        Fate::Adrift(after) => {
            later(after);
            Sent::Unknown
        }
        Fate::Twice => {
            let answer = send().await;
            send().await;
            Sent::Answered(answer)
        }
    }
}

impl<P: FaultPlan> Faults<P> {
    fn fate(&self, call: Call) -> Fate {
        self.plan.fate(call)
    }
}

/// Whether the call writes and so may be lost in a way that its caller cannot see; such calls
/// meet their fate in their own method, all others in `enter`.
const fn may_be_lost(call: Call) -> bool {
    matches!(call, Call::Create | Call::Claim | Call::Renew | Call::Release | Call::Append | Call::Deliver)
}

#[async_trait]
impl<P: FaultPlan> Layer for Faults<P> {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn enter(&self, call: Call) -> Result<(), StoreError> {
        self.plan.pass().await;
        if may_be_lost(call) {
            return Ok(());
        }
        match self.fate(call) {
            Fate::Clear | Fate::Twice => Ok(()),
            Fate::Slow(after) => {
                tokio::time::sleep(after).await;
                Ok(())
            }
            Fate::Unavailable | Fate::LostBefore | Fate::LostAfter | Fate::Adrift(_) => Err(unavailable()),
        }
    }

    async fn leave(&self, _: Call) {
        self.plan.pass().await;
    }

    async fn create(&self, task: NewTask) -> Result<Created, CreateError> {
        let id = task.id.clone();
        let request = || {
            let (store, task) = (self.inner.clone(), task.clone());
            async move { store.create(task).await }
        };
        match send(self.fate(Call::Create), request).await {
            Sent::Answered(answer) => answer,
            Sent::Unavailable => Err(unavailable().into()),
            Sent::Unknown => Err(CreateError::CommitUnknown { task: id, detail: LOST.into() }),
        }
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        // A claim that arrives twice would hand out tasks that nobody hears of, which is what
        // a lost answer does.
        let fate = match self.fate(Call::Claim) {
            Fate::Twice => Fate::LostAfter,
            fate => fate,
        };
        let request = || {
            let (store, request) = (self.inner.clone(), request.clone());
            async move { store.claim(&request).await }
        };
        match send(fate, request).await {
            Sent::Answered(answer) => answer,
            Sent::Unavailable => Err(unavailable().into()),
            Sent::Unknown => Err(ClaimError::CommitUnknown(LOST.into())),
        }
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        let request = || {
            let (store, claims) = (self.inner.clone(), claims.to_vec());
            async move { store.renew(&claims, lease).await }
        };
        match send(self.fate(Call::Renew), request).await {
            Sent::Answered(answer) => answer,
            Sent::Unavailable | Sent::Unknown => Err(unavailable()),
        }
    }

    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        let request = || {
            let (store, claim) = (self.inner.clone(), claim.clone());
            async move { store.release(&claim, not_before).await }
        };
        match send(self.fate(Call::Release), request).await {
            Sent::Answered(answer) => answer,
            Sent::Unavailable => Err(unavailable().into()),
            Sent::Unknown => Err(AppendError::CommitUnknown { task: claim.task.clone(), detail: LOST.into() }),
        }
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let request = || {
            let (store, claim, batch) = (self.inner.clone(), claim.clone(), batch.clone());
            async move { store.append(&claim, &batch).await }
        };
        match send(self.fate(Call::Append), request).await {
            Sent::Answered(answer) => answer,
            Sent::Unavailable => Err(unavailable().into()),
            Sent::Unknown => Err(AppendError::CommitUnknown { task: claim.task.clone(), detail: LOST.into() }),
        }
    }

    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        let request = || {
            let (store, task, actor) = (self.inner.clone(), task.clone(), actor.to_owned());
            let (item, dedup) = (item.clone(), dedup.clone());
            async move { store.deliver(&task, &actor, &item, &dedup).await }
        };
        match send(self.fate(Call::Deliver), request).await {
            Sent::Answered(answer) => answer,
            Sent::Unavailable => Err(unavailable().into()),
            Sent::Unknown => Err(DeliverError::CommitUnknown { task: task.clone(), detail: LOST.into() }),
        }
    }
}
