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
use plica_ports::store::sound::{body_bytes, check_batch, check_blob, check_root};
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimError, ClaimRequest, Claimed, CommitFate, CreateError, Created,
    DeliverError, Delivered, NewTask, Outlook, Page, Renewed, Row, StoreError, StoredEvent, TaskFilter, Verdict,
    Worker, WorkerRow,
};
use plica_ports::{ContentError, ContentStore, KeptBody, Removed, Store};

use crate::error::store_error;
use crate::migrations::migrate;
use crate::rows::{id, time};
use crate::writer::Query;
use crate::{PostgresStore, append, claim, content, inbox, lease, read, workers};

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

impl PostgresStore {
    /// The store's time, or the server's where there is no store yet.
    pub(crate) async fn time(&self) -> Result<Timestamp, StoreError> {
        if let Some(row) =
            self.view(&Query::of("SELECT plica.now_us() AS now")).await?.and_then(|rows| rows.into_iter().next())
        {
            return time(&row, "now");
        }
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now";
        let row = self.connection().await?.query_typed_one(sql, &[]).await;
        time(&row.map_err(|error| store_error(&self.place, &error))?, "now")
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn ledger(&self) -> Result<LedgerId, StoreError> {
        let query = Query::of("SELECT ledger FROM plica.meta");
        let mut found = self.view(&query).await?;
        if found.is_none() {
            migrate(&self.place, &*self.connection().await?).await?;
            found = self.view(&query).await?;
        }
        match found.as_deref() {
            Some([row, ..]) => id(row, "ledger", LedgerId::new),
            _ => Err(StoreError::Unusable(format!("{} has no name", self.place))),
        }
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.time().await
    }

    async fn create(&self, task: NewTask) -> Result<Created, CreateError> {
        let task = Arc::new(task);
        let look = Arc::clone(&task);
        checked(body_bytes(&task.blobs, &[]), move || check_root(&look))
            .await?
            .map_err(|rule| CreateError::Invalid { task: task.id.clone(), rule })?;
        append::create(self, &task).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        claim::claim(self, request).await
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        lease::renew(self, claims, lease).await
    }

    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        lease::release(self, claim, not_before).await
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let invalid = |rule| AppendError::Invalid { task: batch.task.clone(), rule };
        let look = |claim: &Claim, batch: &Batch| check_batch(claim, batch).and_then(|()| inbox::parcels(batch));
        let bytes = body_bytes(&batch.blobs, &batch.children);
        let parcels = if bytes < LARGE {
            look(claim, batch)
        } else {
            let (claim, batch) = (claim.clone(), batch.clone());
            checked(bytes, move || look(&claim, &batch)).await?
        };
        append::append(self, claim, batch, &parcels.map_err(invalid)?).await
    }

    async fn settle(&self, task: &TaskId, seq: Seq, hash: &Hash) -> Result<CommitFate, StoreError> {
        lease::settle(self, task, seq, hash).await
    }

    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        inbox::deliver(self, task, actor, item, dedup).await
    }

    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        read::inbox(self, task, after).await
    }

    async fn inbox_tails(&self, tasks: &[TaskId]) -> Result<Vec<Position>, StoreError> {
        read::inbox_tails(self, tasks).await
    }

    async fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        read::events(self, task, from, limit).await
    }

    async fn baselines(&self, task: &TaskId, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        read::baselines(self, task, limit).await
    }

    async fn row(&self, task: &TaskId) -> Result<Option<Row>, StoreError> {
        read::row(self, task).await
    }

    async fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError> {
        read::tasks(self, filter, page).await
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
        read::held_by(self, worker).await
    }

    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError> {
        claim::adopt(self, worker, task, lease).await
    }

    async fn block(&self, claim: &Claim, why: &Blocked) -> Result<(), AppendError> {
        lease::block(self, claim, why).await
    }

    async fn unblock(&self, task: &TaskId) -> Result<bool, StoreError> {
        lease::unblock(self, task).await
    }

    async fn register(&self, worker: &Worker, queues: &[Queue], lease: Duration) -> Result<(), StoreError> {
        workers::register(self, worker, queues, lease).await
    }

    async fn deregister(&self, worker: &Worker) -> Result<(), StoreError> {
        workers::deregister(self, worker).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        workers::list(self).await
    }

    fn content(&self) -> Option<&dyn ContentStore> {
        Some(self)
    }

    async fn describe(&self) -> Result<Vec<(String, String)>, StoreError> {
        let client = self.connection().await?;
        let version = client.query_typed_one("SELECT version() AS version", &[]).await;
        drop(client);
        let version = version.map_err(|error| store_error(&self.place, &error))?;
        let mut said = vec![
            ("store".to_owned(), "postgres".to_owned()),
            ("place".to_owned(), self.place.to_string()),
            ("tls".to_owned(), self.place.secrecy().to_owned()),
            ("server".to_owned(), crate::rows::get(&version, "version")?),
        ];
        match read::describe(self).await? {
            Some(more) => said.extend(more),
            None => said.push(("state".to_owned(), "not created yet: the first task creates it".to_owned())),
        }
        Ok(said)
    }
}

#[async_trait]
impl ContentStore for PostgresStore {
    async fn put(&self, blob: &Blob) -> Result<(), ContentError> {
        let refused = if blob.bytes.len() < LARGE {
            check_blob(blob)
        } else {
            let look = blob.clone();
            checked(blob.bytes.len(), move || check_blob(&look)).await.map_err(content::unavailable)?
        };
        refused.map_err(|rule| ContentError::Refused { reference: blob.reference.clone(), rule })?;
        content::put(self, blob).await
    }

    async fn get(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError> {
        let Some(bytes) = content::get(self, reference).await? else {
            return Err(ContentError::Missing(reference.clone()));
        };
        let asked = reference.clone();
        let look = move || if content::is_sound(&asked, &bytes) { Ok(bytes) } else { Err(asked) };
        let checked =
            checked(usize::try_from(reference.size).unwrap_or(LARGE), look).await.map_err(content::unavailable)?;
        checked.map_err(ContentError::Corrupt)
    }

    async fn clock(&self) -> Result<Timestamp, ContentError> {
        self.time().await.map_err(content::unavailable)
    }

    async fn aged(&self, before: Timestamp, after: Option<&Hash>, limit: usize) -> Result<Vec<KeptBody>, ContentError> {
        content::aged(self, before, after, limit).await
    }

    async fn remove(&self, bodies: &[Hash], before: Timestamp) -> Result<Removed, ContentError> {
        content::remove(self, bodies, before).await
    }
}
