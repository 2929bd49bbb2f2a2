//! The store port: the log, the task row and the inbox, under one roof.
//!
//! * **ST-13** A waiting task may keep its claim ([`ClaimAfter::Retain`]): its worker owns live
//!   background jobs. Only the holder is told of what comes, and `claimable_at` is the lease's end.
//!   The row that such an append writes has a timer that has gone off, so however the claim ends,
//!   the task is claimable at once.
//! * **ST-17** No recorded event is ever changed or removed: the port has no such call, and
//!   the store itself refuses it.

mod append;
mod claim;
mod error;
mod inbox;
mod read;
pub mod rules;
pub mod sound;

use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::canonical::Hash;
use plica_kernel::id::{DedupKey, LedgerId, Position, Seq, TaskId};
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};

pub use append::{Appended, Batch, ClaimAfter, CommitFate, Created, Delivery, Facts, NewTask};
pub use claim::{Claim, ClaimRequest, Claimed, ProcessIdentity, Renewed, Token, Verdict, Worker};
pub use error::{AppendError, ClaimError, Conflict, CreateError, DeliverError, StoreError};
pub use inbox::Delivered;
pub use read::{Page, Row, StoredEvent, TaskFilter, WorkerRow};

use crate::content::ContentStore;

/// A place where tasks live.
///
/// Every method may fail with `Unavailable`, which means that nothing is known to be wrong
/// but the store cannot be reached now; nothing was written unless the error says
/// `CommitUnknown`.
#[async_trait]
pub trait Store: Send + Sync {
    /// The store's own name: a UUID made with the store, never changed (EV-4). A store that
    /// does not exist yet is made here: this is for writers.
    async fn ledger(&self) -> Result<LedgerId, StoreError>;

    /// The store's time.
    ///
    /// * **ST-6** Leases, timers and recorded times all follow this clock, whatever the
    ///   workers' own clocks say.
    async fn now(&self) -> Result<Timestamp, StoreError>;

    /// Writes a new root task: its first events under epoch 0, its bodies and its row.
    ///
    /// * **ST-16** With a caller's key it is idempotent: the same key with the same
    ///   fingerprint returns the first task; with another one it is `KeyConflict`. Nothing
    ///   is written in either case.
    async fn create(&self, task: NewTask) -> Result<Created, CreateError>;

    /// Takes tasks to work on.
    ///
    /// * **ST-1** Picks tasks whose `claimable_at` is due (or the one named, if it is due),
    ///   priority class by class, 0 first, then by `claimable_at`; sets holder, epoch + 1 and
    ///   lease. Two workers never get the same task and never wait for each other. Returns
    ///   the head, the untaken inbox items and a secret token of which the store keeps only
    ///   the hash.
    /// * **ST-12** The cost does not grow with the number of tasks that wait.
    /// * **ST-16** On one host a claim whose holder process is known to be gone is
    ///   claimable at once.
    /// * **ST-18** Counts claims since the last append, but for one taken up again by the
    ///   instance that held the last; from the third on the next claim waits
    ///   (`limits::idle_backoff_ms`), the tenth blocks the task as poison: it is not handed
    ///   out again.
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError>;

    /// Extends leases, all claims of a worker in one statement; need not be flushed.
    ///
    /// * **ST-2** One verdict a claim, in order: the store's time and `inbox_tail`, or the
    ///   conflict by which the claim is lost. A lease that ran out while nobody else claimed
    ///   can be renewed (ST-5).
    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError>;

    /// Hands a claim back without ending the task.
    ///
    /// * **ST-2** A ready or running task is claimable at once, or from `not_before` on; a
    ///   waiting or ended one stays as it is. With a `not_before` the claim does not count
    ///   towards ST-18.
    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError>;

    /// Writes a batch, whole or not at all.
    ///
    /// * **ST-3** Checks, in this order, in one transaction: epoch (older `FenceStale`, newer
    ///   `FenceUnknown`), not released (`LeaseRequired`), token (`LeaseTokenMismatch`), lease
    ///   by the store's clock (`LeaseExpired`), head seq and hash (`RevisionConflict`), and
    ///   when the batch suspends or ends the task no inbox item newer than `seen`
    ///   (`InboxMoved`). All hold and everything is written, or the named conflict and
    ///   nothing is.
    /// * **ST-4** Events, bodies, row, consumed items, deliveries, children and what becomes
    ///   of the claim are one transaction. A suspend or an end releases the claim unless the
    ///   batch says otherwise.
    /// * **ST-5** A worker that stalled past its lease is refused once another has claimed.
    /// * **ST-7** A suspend makes the same wake test as a delivery, under the same lock: if
    ///   untaken items already wake the task it is claimable at once. A delivery inside an
    ///   append never fails that append.
    /// * **ST-8** Consumed items are gone for every later claim; others stay.
    /// * **ST-9** A commit whose fate is unknown is `CommitUnknown`.
    /// * **ST-15** All rows it touches are locked in ascending byte order of id first.
    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError>;

    /// Reads back, under the row's lock, what became of an append that ended in
    /// `CommitUnknown` (ST-9): whether the event at `seq` has `hash`.
    async fn settle(&self, task: &TaskId, seq: Seq, hash: &Hash) -> Result<CommitFate, StoreError>;

    /// Puts an item into a task's inbox; needs no claim.
    ///
    /// * **ST-7** Durable before it returns; idempotent by key for the life of the task (the
    ///   same key with another item is `KeyConflict`, the first stands; the items alone are
    ///   compared, so whoever repeats them is told where the first went);
    ///   makes a waiting task claimable when its wake is met or the item steers, and a ready or
    ///   running one that waits out a not-before when the item stops it (EN-6). A task that
    ///   is over takes rewind, reopening and late evidence, each of which makes it claimable
    ///   until an append takes it; the rest is `TaskOver`.
    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError>;

    /// The untaken items of a task after `after`, in order.
    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError>;

    /// The `inbox_tail` (position of the newest item ever delivered, 0 for none) of each of
    /// these tasks, in order; a cheap read for holders. An unknown task has tail 0.
    async fn inbox_tails(&self, tasks: &[TaskId]) -> Result<Vec<Position>, StoreError>;

    /// Stored events from `from` on, at most `limit`, in order, as their exact bytes.
    ///
    /// * **ST-11** Reads never block writes; one call is one consistent view.
    async fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError>;

    /// The baseline events of a task (snapshots, rewinds, seals, forks), newest first, by an
    /// index (ST-11), at most `limit`.
    async fn baselines(&self, task: &TaskId, limit: usize) -> Result<Vec<StoredEvent>, StoreError>;

    /// The row of a task.
    async fn row(&self, task: &TaskId) -> Result<Option<Row>, StoreError>;

    /// Rows that match, newest first (by creation, then id descending), `page.limit` of them
    /// after `page.after`.
    async fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError>;

    /// Returns when the task's head is beyond `after` or its inbox tail beyond `tail`, or
    /// when `timeout` is over, whichever is first; says whether something is new.
    ///
    /// * **ST-11** New events are seen within 100 ms without busy polling.
    async fn watch(&self, task: &TaskId, after: Seq, tail: Position, timeout: Duration) -> Result<bool, StoreError>;

    /// Returns when some task of `queues` may have become claimable, or after `timeout`.
    /// A hint: it may return early, and late by no more than `timeout`.
    async fn wait_claimable(&self, queues: &[plica_kernel::id::Queue], timeout: Duration) -> Result<(), StoreError>;

    /// When the next task of `queues` becomes claimable by itself (ready later, lease's end,
    /// timer), and how many are held now: what `--until-idle` asks.
    async fn outlook(&self, queues: &[plica_kernel::id::Queue]) -> Result<read::Outlook, StoreError>;

    /// Tasks that the store thinks this worker instance holds (ST-9).
    async fn held_by(&self, worker: &Worker) -> Result<Vec<TaskId>, StoreError>;

    /// Takes up again a task that this same process instance holds: a new claim (epoch + 1,
    /// new token) that need not wait for the lease. `None` when another holds it or nobody
    /// does (ST-9).
    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError>;

    /// Blocks the task that `claim` holds and releases the claim (RC-9).
    async fn block(&self, claim: &Claim, why: &Blocked) -> Result<(), AppendError>;

    /// Lifts a block and the idle-claim count; says whether there was a block.
    async fn unblock(&self, task: &TaskId) -> Result<bool, StoreError>;

    /// Notes that a worker is alive (ST-19).
    async fn register(
        &self,
        worker: &Worker,
        queues: &[plica_kernel::id::Queue],
        lease: Duration,
    ) -> Result<(), StoreError>;

    /// Forgets a worker that ends (ST-19).
    async fn deregister(&self, worker: &Worker) -> Result<(), StoreError>;

    /// Workers seen within `2 ×` their lease, newest first (ST-19).
    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError>;

    /// This store's content store, when bodies live in the same place: then an append writes
    /// its batch's bodies in its own transaction (CO-2).
    fn content(&self) -> Option<&dyn ContentStore>;

    /// What the store is and which versions it runs on, for `doctor`: name, value.
    async fn describe(&self) -> Result<Vec<(String, String)>, StoreError>;
}

pub use read::Outlook;
