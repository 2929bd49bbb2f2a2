//! The store port over one lock; each method is one call into the world.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::body::ContentRef;
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
use plica_ports::{ContentStore, Store};
use tokio::sync::Notify;

use crate::clock::{StoreClock, SystemClock};
use crate::draw::Draw;
use crate::world::World;

/// A store in the memory of this process. Share it with an `Arc`: every holder of it is a
/// client of the same store.
pub struct MemoryStore {
    clock: Arc<dyn StoreClock>,
    world: Mutex<World>,
    /// Told of every write; those who wait look again.
    changed: Notify,
}

impl MemoryStore {
    /// An empty store that follows the machine's clock and draws its secrets from the system.
    pub fn new() -> Self {
        Self::build(Arc::new(SystemClock::default()), Draw::from_system())
    }

    /// An empty store that follows `clock` and whose tokens and ids are functions of `seed`.
    pub fn with(clock: Arc<dyn StoreClock>, seed: u64) -> Self {
        Self::build(clock, Draw::seeded(seed))
    }

    fn build(clock: Arc<dyn StoreClock>, draw: Draw) -> Self {
        Self { clock, world: Mutex::new(World::new(draw)), changed: Notify::new() }
    }

    /// Changes a bit of a stored body, as a bad disk would, for tests of what notices it; says
    /// whether there was one to change.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when a write panicked before.
    pub fn damage(&self, reference: &ContentRef) -> Result<bool, StoreError> {
        self.write(|world, _| world.contents.damage(reference))
    }

    /// When a body was last put, from which collection counts its age (CO-3).
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when a write panicked before.
    pub fn put_at(&self, reference: &ContentRef) -> Result<Option<Timestamp>, StoreError> {
        self.look(|world, _| world.contents.put_at(reference))
    }

    fn lock(&self) -> Result<MutexGuard<'_, World>, StoreError> {
        let half_written = "a write to the memory store panicked half-way; start a new store";
        self.world.lock().map_err(|_| StoreError::Unusable(half_written.into()))
    }

    /// Looks at the world, at the store's time.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&World, Timestamp) -> T) -> Result<T, StoreError> {
        let world = self.lock()?;
        Ok(look(&world, self.clock.now()))
    }

    /// Changes the world. The clock is read under the lock, so times order as writes do.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut World, Timestamp) -> T) -> Result<T, StoreError> {
        let result = {
            let mut world = self.lock()?;
            let now = self.clock.now();
            write(&mut world, now)
        };
        self.changed.notify_waiters();
        Ok(result)
    }

    /// Returns once `holds`, which is looked at after every write, for as long as `timeout`.
    async fn until(
        &self,
        timeout: Duration,
        holds: impl Fn(&World) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let wait = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                // From here on no write is missed, the look below included.
                changed.as_mut().enable();
                if self.look(|world, _| holds(world))?? {
                    return Ok(true);
                }
                changed.await;
            }
        };
        tokio::time::timeout(timeout, wait).await.unwrap_or(Ok(false))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("now", &self.clock.now()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn ledger(&self) -> Result<LedgerId, StoreError> {
        self.look(|world, _| world.ledger.clone())
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    async fn create(&self, task: NewTask) -> Result<Created, CreateError> {
        self.write(|world, now| world.create(&task, now))?
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        Ok(self.write(|world, now| world.claim(request, now))??)
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        self.write(|world, now| world.renew(claims, lease, now))
    }

    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        self.write(|world, now| world.release(claim, not_before, now))?
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        self.write(|world, now| world.append(claim, batch, now))?
    }

    async fn settle(&self, task: &TaskId, seq: Seq, hash: &Hash) -> Result<CommitFate, StoreError> {
        self.look(|world, _| world.fate(task, seq, hash))?
    }

    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        self.write(|world, now| world.deliver(task, actor, item, dedup, now))?
    }

    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        self.look(|world, _| world.untaken(task, after))?
    }

    async fn inbox_tails(&self, tasks: &[TaskId]) -> Result<Vec<Position>, StoreError> {
        self.look(|world, _| world.inbox_tails(tasks))
    }

    async fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.look(|world, _| world.read(task, from, limit))?
    }

    async fn baselines(&self, task: &TaskId, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.look(|world, _| world.baselines(task, limit))?
    }

    async fn row(&self, task: &TaskId) -> Result<Option<Row>, StoreError> {
        self.look(|world, _| world.row(task))
    }

    async fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError> {
        self.look(|world, _| world.list(filter, page))
    }

    async fn watch(&self, task: &TaskId, after: Seq, tail: Position, timeout: Duration) -> Result<bool, StoreError> {
        self.until(timeout, |world| world.is_news(task, after, tail)).await
    }

    async fn wait_claimable(&self, queues: &[Queue], timeout: Duration) -> Result<(), StoreError> {
        let wait = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                match self.look(|world, now| (world.next_due(queues), now))? {
                    (Some(due), now) if due <= now => return Ok(()),
                    (Some(due), _) => tokio::select! {
                        biased;
                        () = changed => {}
                        () = self.clock.reached(due) => {}
                    },
                    (None, _) => changed.await,
                }
            }
        };
        tokio::time::timeout(timeout, wait).await.unwrap_or(Ok(()))
    }

    async fn outlook(&self, queues: &[Queue]) -> Result<Outlook, StoreError> {
        self.look(|world, now| world.outlook(queues, now))
    }

    async fn held_by(&self, worker: &Worker) -> Result<Vec<TaskId>, StoreError> {
        self.look(|world, _| world.held_by(worker))
    }

    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError> {
        Ok(self.write(|world, now| world.adopt(worker, task, lease, now))??)
    }

    async fn block(&self, claim: &Claim, why: &Blocked) -> Result<(), AppendError> {
        self.write(|world, now| world.block(claim, why, now))?
    }

    async fn unblock(&self, task: &TaskId) -> Result<bool, StoreError> {
        self.write(|world, now| world.unblock(task, now))?
    }

    async fn register(&self, worker: &Worker, queues: &[Queue], lease: Duration) -> Result<(), StoreError> {
        self.write(|world, now| world.register(worker, queues, lease, now))
    }

    async fn deregister(&self, worker: &Worker) -> Result<(), StoreError> {
        self.write(|world, _| {
            world.workers.remove(&worker.instance);
        })
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.look(|world, now| world.living(now))
    }

    fn content(&self) -> Option<&dyn ContentStore> {
        Some(self)
    }

    async fn describe(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.look(|world, _| {
            vec![
                ("store".into(), "memory".into()),
                ("version".into(), env!("CARGO_PKG_VERSION").into()),
                ("ledger".into(), world.ledger.to_string()),
                ("tasks".into(), world.tasks().count().to_string()),
                ("contents".into(), world.contents.len().to_string()),
            ]
        })
    }
}
