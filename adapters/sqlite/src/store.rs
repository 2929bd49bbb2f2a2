//! The two ports, each call handed to the module that keeps its clauses.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::Hash;
use plica_kernel::id::{DedupKey, LedgerId, Position, Queue, Seq, TaskId};
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::store::sound::{body_bytes, check_blob, check_root};
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimError, ClaimRequest, Claimed, CommitFate, CreateError, Created,
    DeliverError, Delivered, NewTask, Outlook, Page, Renewed, Row, StoreError, StoredEvent, TaskFilter, Verdict,
    Worker, WorkerRow,
};
use plica_ports::{ContentError, ContentStore, KeptBody, Removed, Store};

use crate::error::{Fail, Lost};
use crate::pack::Frames;
use crate::writer::Kind;
use crate::{SqliteStore, append, claim, content, inbox, lease, read, workers};

/// Bytes above which checking them leaves the runtime's own threads.
const LARGE: usize = 1 << 20;

/// Runs `check`, on another thread when it has much to hash.
async fn checked<T: Send + 'static>(bytes: usize, check: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    if bytes < LARGE {
        return Ok(check());
    }
    let cut_off = |error| StoreError::Unavailable(format!("a check was cut off: {error}"));
    tokio::task::spawn_blocking(check).await.map_err(cut_off)
}

fn no_task(task: &TaskId) -> StoreError {
    StoreError::UnknownTask(task.clone())
}

#[async_trait]
impl Store for SqliteStore {
    async fn ledger(&self) -> Result<LedgerId, StoreError> {
        self.write(Kind::Creates, |tx| Ok(tx.ledger.clone())).await.map_err(Lost::<StoreError>::store)
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.place.time.now())
    }

    async fn create(&self, task: NewTask) -> Result<Created, CreateError> {
        let id = task.id.clone();
        let task = Arc::new(task);
        let look = Arc::clone(&task);
        let frames = checked(body_bytes(&task.blobs, &[]), move || check_root(&look).map(|()| Frames::of(&look.blobs)))
            .await?
            .map_err(|rule| CreateError::Invalid { task: id.clone(), rule })?;
        self.write(Kind::Creates, move |tx| append::create(tx, &task, &frames)).await.map_err(|lost| lost.create(&id))
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        let Some(gone) = self.read(workers::gone).await? else { return Ok(Vec::new()) };
        let request = request.clone();
        self.write(Kind::Holds(Ok(Vec::new())), move |tx| claim::claim(tx, &request, &gone)).await.map_err(Lost::claim)
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        let claims = claims.to_vec();
        let none = claims.iter().map(|claim| Err(lease::unknown(claim))).collect();
        let absent = Kind::Lazy(Ok(Renewed { now: self.place.time.now(), verdicts: none }));
        self.write(absent, move |tx| Ok(lease::renew(tx, &claims, lease)?)).await.map_err(Lost::<StoreError>::store)
    }

    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        let task = claim.task.clone();
        let claim = claim.clone();
        self.write(Kind::Holds(Err(no_task(&task).into())), move |tx| lease::release(tx, &claim, not_before))
            .await
            .map_err(|lost| lost.append(&task))
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let task = batch.task.clone();
        let (claim, batch) = (claim.clone(), Arc::new(batch.clone()));
        let look = (claim.clone(), Arc::clone(&batch));
        let packed = checked(body_bytes(&batch.blobs, &batch.children), move || append::Packed::of(&look.0, &look.1))
            .await?
            .map_err(|rule| AppendError::Invalid { task: task.clone(), rule })?;
        self.write(Kind::Writes(Err(no_task(&task).into())), move |tx| append::append(tx, &claim, &batch, &packed))
            .await
            .map_err(|lost| lost.append(&task))
    }

    async fn settle(&self, task: &TaskId, seq: Seq, hash: &Hash) -> Result<CommitFate, StoreError> {
        let (task, hash) = (task.clone(), *hash);
        self.write(Kind::Writes(Err(no_task(&task))), move |tx| lease::settle(tx, &task, seq, &hash))
            .await
            .map_err(Lost::store)
    }

    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        let parcel = inbox::pack(task, item)?;
        let (to, actor, item, dedup) = (task.clone(), actor.to_string(), item.clone(), dedup.clone());
        let work = move |tx: &crate::Tx<'_>| inbox::deliver(tx, &to, &actor, &item, &dedup, &parcel);
        self.write(Kind::Writes(Err(no_task(task).into())), work).await.map_err(|lost| lost.deliver(task))
    }

    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        let asked = task.clone();
        let found = self.read(move |conn| read::inbox(conn, &asked, after)).await?.flatten();
        found.ok_or_else(|| no_task(task))
    }

    async fn inbox_tails(&self, tasks: &[TaskId]) -> Result<Vec<Position>, StoreError> {
        let asked = tasks.to_vec();
        let look = move |conn: &crate::Connection| {
            asked
                .iter()
                .map(|task| read::head(conn, task).map(|head| head.map_or(Position(0), |(_, tail)| tail)))
                .collect()
        };
        Ok(self.read(look).await?.unwrap_or_else(|| vec![Position(0); tasks.len()]))
    }

    async fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let asked = task.clone();
        let found = self.read(move |conn| read::events(conn, &asked, from, limit)).await?.flatten();
        found.ok_or_else(|| no_task(task))
    }

    async fn baselines(&self, task: &TaskId, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let asked = task.clone();
        let found = self.read(move |conn| read::baselines(conn, &asked, limit)).await?.flatten();
        found.ok_or_else(|| no_task(task))
    }

    async fn row(&self, task: &TaskId) -> Result<Option<Row>, StoreError> {
        let task = task.clone();
        Ok(self.read(move |conn| read::row(conn, &task)).await?.flatten())
    }

    async fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError> {
        let (filter, page) = (filter.clone(), page.clone());
        Ok(self.read(move |conn| read::tasks(conn, &filter, &page)).await?.unwrap_or_default())
    }

    async fn watch(&self, task: &TaskId, after: Seq, tail: Position, timeout: Duration) -> Result<bool, StoreError> {
        self.watch_task(task, after, tail, timeout).await
    }

    async fn wait_claimable(&self, queues: &[Queue], timeout: Duration) -> Result<(), StoreError> {
        self.wait_due(queues, timeout).await
    }

    async fn outlook(&self, queues: &[Queue]) -> Result<Outlook, StoreError> {
        self.sight(queues).await.map(|(outlook, _)| outlook)
    }

    async fn held_by(&self, worker: &Worker) -> Result<Vec<TaskId>, StoreError> {
        let worker = worker.clone();
        Ok(self.read(move |conn| read::held_by(conn, &worker)).await?.unwrap_or_default())
    }

    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError> {
        let (worker, task) = (worker.clone(), task.clone());
        self.write(Kind::Holds(Ok(None)), move |tx| claim::adopt(tx, &worker, &task, lease)).await.map_err(Lost::claim)
    }

    async fn block(&self, claim: &Claim, why: &Blocked) -> Result<(), AppendError> {
        let task = claim.task.clone();
        let (claim, why) = (claim.clone(), why.clone());
        self.write(Kind::Writes(Err(no_task(&task).into())), move |tx| lease::block(tx, &claim, &why))
            .await
            .map_err(|lost| lost.append(&task))
    }

    async fn unblock(&self, task: &TaskId) -> Result<bool, StoreError> {
        let task = task.clone();
        self.write(Kind::Writes(Err(no_task(&task))), move |tx| lease::unblock(tx, &task)).await.map_err(Lost::store)
    }

    async fn register(&self, worker: &Worker, queues: &[Queue], lease: Duration) -> Result<(), StoreError> {
        let (worker, queues) = (worker.clone(), queues.to_vec());
        self.write(Kind::LazyCreates, move |tx| Ok(workers::register(tx, &worker, &queues, lease)?))
            .await
            .map_err(Lost::<StoreError>::store)
    }

    async fn deregister(&self, worker: &Worker) -> Result<(), StoreError> {
        let worker = worker.clone();
        self.write(Kind::Lazy(Ok(())), move |tx| Ok(workers::deregister(tx, &worker)?))
            .await
            .map_err(Lost::<StoreError>::store)
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        let time = self.place.time.clone();
        Ok(self.read(move |conn| workers::list(conn, time.now())).await?.unwrap_or_default())
    }

    fn content(&self) -> Option<&dyn ContentStore> {
        Some(self)
    }

    async fn describe(&self) -> Result<Vec<(String, String)>, StoreError> {
        let mut said = vec![
            ("store".to_string(), "sqlite".to_string()),
            ("path".to_string(), self.place.path.display().to_string()),
            ("sqlite version".to_string(), rusqlite::version().to_string()),
        ];
        match self.read(read::describe).await? {
            Some(more) => said.extend(more),
            None => said.push(("state".to_string(), "not created yet: the first task creates it".to_string())),
        }
        Ok(said)
    }
}

#[async_trait]
impl ContentStore for SqliteStore {
    async fn put(&self, blob: &Blob) -> Result<(), ContentError> {
        let blob = Arc::new(blob.clone());
        let look = Arc::clone(&blob);
        let frames = checked(blob.bytes.len(), move || check_blob(&look).map(|()| Frames::of([&*look])))
            .await
            .map_err(unavailable)?
            .map_err(|rule| ContentError::Refused { reference: blob.reference.clone(), rule })?;
        let work = move |tx: &crate::Tx<'_>| content::put(tx, &blob, &frames).map_err(Fail::Sql);
        self.write(Kind::Creates, work).await.map_err(Lost::<StoreError>::content)
    }

    async fn get(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError> {
        let asked = reference.clone();
        // Opened where it was read: a large body would hold up a thread of the runtime.
        let look = move |conn: &crate::Connection| Ok(content::get(conn, &asked)?.map(|kept| kept.open(&asked)));
        match self.read(look).await.map_err(unavailable)?.flatten() {
            None => Err(ContentError::Missing(reference.clone())),
            Some(None) => Err(ContentError::Corrupt(reference.clone())),
            Some(Some(bytes)) => Ok(bytes),
        }
    }

    async fn clock(&self) -> Result<Timestamp, ContentError> {
        Ok(self.place.time.now())
    }

    async fn aged(&self, before: Timestamp, after: Option<&Hash>, limit: usize) -> Result<Vec<KeptBody>, ContentError> {
        let after = after.copied();
        let look = move |conn: &crate::Connection| content::aged(conn, before, after.as_ref(), limit);
        Ok(self.read(look).await.map_err(unavailable)?.unwrap_or_default())
    }

    async fn remove(&self, bodies: &[Hash], before: Timestamp) -> Result<Removed, ContentError> {
        let bodies = bodies.to_vec();
        let work = move |tx: &crate::Tx<'_>| content::remove(tx, &bodies, before).map_err(Fail::Sql);
        self.write(Kind::Lazy(Ok(Removed::default())), work).await.map_err(Lost::<StoreError>::content)
    }
}

fn unavailable(error: StoreError) -> ContentError {
    ContentError::Unavailable(error.to_string())
}
