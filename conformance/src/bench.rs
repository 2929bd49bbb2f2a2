//! The bench on which a store is tested: workers, tasks, claims and waiting by the store's own
//! clock, in as few words as a test needs.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use plica_kernel::id::{DedupKey, InstanceId, LedgerId, Position, Queue, Seq, TaskId, WorkerId};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item, Wake};
use plica_ports::Store;
use plica_ports::store::{
    AppendError, Appended, Batch, ClaimRequest, Claimed, Conflict, Delivered, Facts, NewTask, Row, StoredEvent,
    Verdict, Worker,
};

use crate::{Log, Subject, opening_facts};

/// A lease that does not run out while a test runs.
pub const LEASE: Duration = Duration::from_secs(120);
/// A lease that a test waits out, on a clock that cannot be moved too.
pub const SHORT_LEASE: Duration = Duration::from_millis(30);
/// A lease that a test waits out after an append that it must not run out on.
pub const BRIEF_LEASE: Duration = Duration::from_secs(1);
/// How often a clock that cannot be moved is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// By how much a clock that can be moved is ahead at each step, as a clock of its own would be:
/// so that what is stamped later shows a later time.
const TICK: Duration = Duration::from_micros(1);

/// A subject with what a test says about it.
#[derive(Debug)]
pub struct Bench {
    /// What is tested.
    pub subject: Subject,
    ledger: LedgerId,
    tasks: AtomicU64,
}

impl Bench {
    /// A bench with an empty store.
    pub async fn new(subject: Subject) -> Self {
        let ledger = subject.store().ledger().await.expect("a store tells its name");
        Self { subject, ledger, tasks: AtomicU64::new(0) }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.subject.store()
    }

    /// The store's name.
    pub fn ledger(&self) -> &LedgerId {
        &self.ledger
    }

    /// The store's time.
    pub async fn now(&self) -> Timestamp {
        self.store().now().await.expect("a store tells the time")
    }

    /// Returns when the store's clock shows `time`: moves the clock if it can be moved, else
    /// looks at it until it gets there.
    pub async fn until(&self, time: Timestamp) {
        loop {
            let now = self.now().await;
            if now >= time {
                return;
            }
            if !self.subject.advance(Duration::from_micros((time.micros() - now.micros()).unsigned_abs())) {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Waits until the lease of `claimed` has run out.
    pub async fn lapse(&self, claimed: &Claimed) {
        self.until(claimed.lease_until).await;
    }

    /// A worker process of this name.
    pub fn worker(&self, name: &str) -> Worker {
        Worker {
            id: WorkerId::new(name).expect("names of the suite are ids"),
            instance: InstanceId::new(format!("{name}-instance")).expect("names of the suite are ids"),
            host: "bench".into(),
            version: "1".into(),
            process: None,
        }
    }

    /// An id that no other task of this bench has; later ones sort later.
    pub fn fresh_id(&self) -> TaskId {
        let number = self.tasks.fetch_add(1, Ordering::Relaxed) + 1;
        TaskId::new(format!("01980000-0000-7000-8000-{number:012}")).expect("a UUID is an id")
    }

    /// A task that is not created yet, with facts changed by `change`.
    pub async fn draft(&self, change: impl FnOnce(&mut Facts)) -> (Log, NewTask) {
        let mut facts = opening_facts(self.now().await);
        change(&mut facts);
        Log::begin(&self.ledger, &self.fresh_id(), facts)
    }

    /// A child of `parent` that is not created yet.
    pub async fn draft_child(&self, parent: &TaskId) -> (Log, NewTask) {
        let mut facts = opening_facts(self.now().await);
        facts.parent = Some(parent.clone());
        let number = self.tasks.fetch_add(1, Ordering::Relaxed);
        let id = TaskId::new(format!("{parent}.2.{number}.0")).expect("a child's id is an id");
        Log::begin(&self.ledger, &id, facts)
    }

    /// A new task with nothing special about it.
    pub async fn task(&self) -> Log {
        self.task_with(|_| ()).await
    }

    /// A new task with facts changed by `change`.
    pub async fn task_with(&self, change: impl FnOnce(&mut Facts)) -> Log {
        let (log, task) = self.draft(change).await;
        self.subject.advance(TICK);
        self.store().create(task).await.expect("a sound task is created");
        log
    }

    /// A new task that was claimed and suspended: nobody holds it.
    pub async fn sleeper(&self, wake: Wake) -> Log {
        let mut log = self.task().await;
        let claimed = self.hold(&self.worker("putter-to-sleep"), &log.id).await;
        let batch = log.suspending(&claimed, wake);
        self.append(&claimed, &batch).await;
        log.accept(&batch);
        log
    }

    /// A new task that was claimed and completed: nobody holds it.
    pub async fn finished(&self) -> Log {
        let mut log = self.task().await;
        let claimed = self.hold(&self.worker("finisher"), &log.id).await;
        let batch = log.completing(&claimed);
        self.append(&claimed, &batch).await;
        log.accept(&batch);
        log
    }

    /// What `worker` asks for when it takes whatever there is.
    pub fn request(&self, worker: &Worker, max: usize) -> ClaimRequest {
        ClaimRequest { worker: worker.clone(), queues: Vec::new(), lease: LEASE, max, task: None, except: Vec::new() }
    }

    /// Claims as asked.
    pub async fn claim(&self, request: &ClaimRequest) -> Vec<Claimed> {
        self.store().claim(request).await.expect("claiming works")
    }

    /// Tries to claim one task.
    pub async fn try_hold(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Option<Claimed> {
        let request = ClaimRequest { task: Some(task.clone()), lease, ..self.request(worker, 1) };
        self.subject.advance(TICK);
        let mut claimed = self.claim(&request).await;
        assert!(claimed.len() <= 1, "more than the named task was handed out");
        claimed.pop()
    }

    /// Claims one task that must be claimable.
    pub async fn hold(&self, worker: &Worker, task: &TaskId) -> Claimed {
        self.try_hold(worker, task, LEASE).await.expect("the task is claimable")
    }

    /// Claims one task for so short that the test waits the lease out.
    pub async fn hold_shortly(&self, worker: &Worker, task: &TaskId) -> Claimed {
        self.try_hold(worker, task, SHORT_LEASE).await.expect("the task is claimable")
    }

    /// Whether anybody could claim the task now, by its row.
    pub async fn is_claimable(&self, task: &TaskId) -> bool {
        let due = self.row(task).await.claimable_at;
        let now = self.now().await;
        due.is_some_and(|time| time <= now)
    }

    /// Appends a batch that must be accepted.
    pub async fn append(&self, claimed: &Claimed, batch: &Batch) -> Appended {
        self.subject.advance(TICK);
        self.store().append(&claimed.claim, batch).await.expect("a sound batch is written")
    }

    /// Appends a batch that must be refused by a conflict; checks that nothing was written.
    pub async fn refused(&self, claimed: &Claimed, batch: &Batch) -> Conflict {
        let before = (self.row(&batch.task).await, self.events(&batch.task).await);
        let error = self.store().append(&claimed.claim, batch).await.expect_err("the batch is refused");
        assert_eq!((self.row(&batch.task).await, self.events(&batch.task).await), before, "something was written");
        match error {
            AppendError::Conflict(conflict) => conflict,
            other => panic!("refused by {other:?} and not by a conflict"),
        }
    }

    /// Appends a batch that must be refused because it contradicts itself; checks that nothing
    /// was written.
    pub async fn invalid(&self, claimed: &Claimed, batch: &Batch) {
        let before = (self.row(&claimed.claim.task).await, self.events(&claimed.claim.task).await);
        let error = self.store().append(&claimed.claim, batch).await.expect_err("the batch is refused");
        let after = (self.row(&claimed.claim.task).await, self.events(&claimed.claim.task).await);
        assert_eq!(after, before, "something was written");
        assert!(matches!(error, AppendError::Invalid { .. }), "refused by {error:?} and not as invalid");
    }

    /// Hands a claim back.
    pub async fn release(&self, claimed: &Claimed, not_before: Option<Timestamp>) -> Verdict {
        self.subject.advance(TICK);
        self.store().release(&claimed.claim, not_before).await.expect("a claim is handed back")
    }

    /// The untaken items of a task.
    pub async fn untaken(&self, task: &TaskId) -> Vec<InboxItem> {
        self.store().inbox(task, Position(0)).await.expect("inboxes can be read")
    }

    /// Delivers an item that must be taken.
    pub async fn deliver(&self, task: &TaskId, item: &Item, key: &str) -> Delivered {
        self.subject.advance(TICK);
        self.store().deliver(task, "user:ada", item, &self.key(key)).await.expect("the item is taken")
    }

    /// A key.
    pub fn key(&self, text: &str) -> DedupKey {
        DedupKey::new(text).expect("keys of the suite are keys")
    }

    /// A queue.
    pub fn queue(&self, text: &str) -> Queue {
        Queue::new(text).expect("queues of the suite are queues")
    }

    /// A message.
    pub fn message(&self, text: &str) -> Item {
        Item::Message { text: text.into() }
    }

    /// An event from outside.
    pub fn event(&self, kind: &str) -> Item {
        Item::Event { data: None, event: kind.into() }
    }

    /// The row of a task that exists.
    pub async fn row(&self, task: &TaskId) -> Row {
        self.store().row(task).await.expect("rows can be read").expect("the task has a row")
    }

    /// All events of a task.
    pub async fn events(&self, task: &TaskId) -> Vec<StoredEvent> {
        self.store().read(task, Seq(1), usize::MAX).await.expect("logs can be read")
    }
}

/// Polls `wait` until whatever it waits with is set up, without waiting for it.
///
/// # Panics
/// When it is ready: there was nothing to be told of yet.
pub(crate) async fn settle_in<F: Future + ?Sized>(mut wait: Pin<&mut F>) {
    for _ in 0..8 {
        let polled = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context).is_ready())).await;
        assert!(!polled, "a wait ended before there was anything to be told of");
        tokio::task::yield_now().await;
    }
}
