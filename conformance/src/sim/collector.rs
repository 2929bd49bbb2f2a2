//! Someone who collects content while everyone works (CO-3).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_engine::{Client, GcOptions};
use plica_kernel::body::{Blob, ContentRef, MEDIA_TEXT};
use plica_kernel::canonical::Hash;
use plica_kernel::limits::GRACE_MIN_MS;
use plica_kernel::time::Timestamp;
use plica_ports::store::{Page, Row, StoreError, TaskFilter};
use plica_ports::{ContentError, ContentStore, KeptBody, Removed, Store};

use super::oracle::Oracle;
use super::planted::PlantedBug;
use super::prng::Prng;
use crate::layer::{Layer, Layered};

/// How long content is spared that nothing reaches.
const GRACE: Duration = Duration::from_millis(GRACE_MIN_MS);

/// Content that nobody cites, and when it was put last, by the content store's clock.
struct Garbage {
    reference: ContentRef,
    put_at: Timestamp,
}

/// Someone who collects.
pub struct Collector {
    prng: Prng,
    client: Client,
    /// Where bodies are, without the bug.
    content: Arc<dyn ContentStore>,
    oracle: Arc<Oracle>,
    garbage: Vec<Garbage>,
}

impl Collector {
    /// Someone who collects what `content` keeps for the tasks of `store`.
    pub fn new(
        seed: u64,
        store: Arc<dyn Store>,
        content: Arc<dyn ContentStore>,
        oracle: Arc<Oracle>,
        planted: Option<PlantedBug>,
    ) -> Self {
        let flawed = Arc::new(Flawed { inner: content.clone(), planted });
        let store = Arc::new(Layered(Overlooking { inner: store, planted }));
        let client = Client::with_content(store, flawed);
        Self { prng: Prng::named(seed, "collector"), client, content, oracle, garbage: Vec::new() }
    }

    /// Collects now and then, for good.
    pub async fn go_on(mut self) {
        loop {
            self.litter().await;
            tokio::time::sleep(Duration::from_millis(self.prng.between(3_000, 90_000))).await;
            self.collect().await;
        }
    }

    /// Puts something that nobody will cite, or puts it once more.
    async fn litter(&mut self) {
        let number = self.prng.below(4);
        let blob = Blob::new(MEDIA_TEXT, format!("litter {number}").into_bytes());
        let Ok(put_at) = self.content.clock().await else { return };
        if let Err(error) = self.content.put(&blob).await {
            return self.oracle.violated("content", error.to_string());
        }
        self.garbage.retain(|one| one.reference != blob.reference);
        self.garbage.push(Garbage { reference: blob.reference, put_at });
    }

    /// Collects once; what it came to is judged when it came to its end.
    async fn collect(&mut self) {
        let Ok(began) = self.content.clock().await else { return };
        let options = GcOptions { grace: GRACE, dry_run: false };
        let collected = self.client.gc(options, &mut |_| {}).await;
        self.oracle.note(|| format!("content is collected: {collected:?}"));
        // What cannot be reached now is no reason to remove anything, and is looked at again.
        let is_over = collected.is_ok();
        self.judge(began, is_over).await;
    }

    /// Whatever is cited is there, and so is what is young; what was old when a collection began
    /// that came to its end is gone.
    async fn judge(&mut self, began: Timestamp, is_over: bool) {
        self.oracle.keeps_what_is_cited(&*self.content).await;
        let Ok(now) = self.content.clock().await else { return };
        let mut left = Vec::new();
        for one in std::mem::take(&mut self.garbage) {
            let age = |at: Timestamp| Duration::from_millis(at.millis_since(one.put_at));
            let is_there = self.content.get(&one.reference).await.is_ok();
            if is_over && age(began) > GRACE && is_there {
                return self.oracle.violated("content", format!("{} is not collected", one.reference));
            }
            if age(now) < GRACE && !is_there {
                return self.oracle.violated("content", format!("{} was collected in its grace", one.reference));
            }
            if is_there {
                left.push(one);
            }
        }
        self.garbage = left;
    }
}

/// The clock of a machine of its own, on which what takes a world minutes takes hours, so that a
/// grace can end while the world lasts.
#[derive(Debug)]
pub struct HurriedClock(pub Arc<super::time::WorldClock>);

/// How much faster it goes. A body is put at most two minutes before it is cited, which is well
/// within the shortest grace all the same.
const HURRY: i64 = 40;

#[async_trait]
impl plica_memory::StoreClock for HurriedClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.0.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(super::time::BEGINNING.saturating_add(elapsed.saturating_mul(HURRY)))
    }

    async fn reached(&self, time: Timestamp) {
        let left = time.micros().saturating_sub(self.now().micros()) / HURRY + 1;
        tokio::time::sleep(Duration::from_micros(u64::try_from(left).unwrap_or(0))).await;
    }
}

/// A content store with a bug in what collections ask of it.
struct Flawed {
    inner: Arc<dyn ContentStore>,
    planted: Option<PlantedBug>,
}

impl Flawed {
    fn bent(&self, before: Timestamp) -> Timestamp {
        if self.planted == Some(PlantedBug::YoungCollected) { before.plus_millis(GRACE_MIN_MS) } else { before }
    }
}

#[async_trait]
impl ContentStore for Flawed {
    async fn put(&self, blob: &Blob) -> Result<(), ContentError> {
        self.inner.put(blob).await
    }

    async fn get(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError> {
        self.inner.get(reference).await
    }

    async fn clock(&self) -> Result<Timestamp, ContentError> {
        self.inner.clock().await
    }

    async fn aged(&self, before: Timestamp, after: Option<&Hash>, limit: usize) -> Result<Vec<KeptBody>, ContentError> {
        if self.planted == Some(PlantedBug::GarbageKept) {
            return Ok(Vec::new());
        }
        self.inner.aged(self.bent(before), after, limit).await
    }

    async fn remove(&self, bodies: &[Hash], before: Timestamp) -> Result<Removed, ContentError> {
        self.inner.remove(bodies, self.bent(before)).await
    }
}

/// A store with a bug in the list of its tasks.
struct Overlooking {
    inner: Arc<dyn Store>,
    planted: Option<PlantedBug>,
}

#[async_trait]
impl Layer for Overlooking {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError> {
        let mut rows = self.inner.tasks(filter, page).await?;
        if self.planted == Some(PlantedBug::ForkOverlooked) {
            rows.retain(|row| row.facts.source.is_none());
        }
        Ok(rows)
    }
}
