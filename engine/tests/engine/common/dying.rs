//! A store beneath which a worker dies at one of its appends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use plica_conformance::layer::{Layer, Layered};
use plica_engine::{Stop, Worker};
use plica_ports::Store;
use plica_ports::store::{AppendError, Appended, Batch, Claim};
use tokio::sync::Notify;

/// A worker dies at one of its appends: before it is written, or before it hears of that.
pub struct Dying {
    inner: Arc<dyn Store>,
    /// Appends that it lives to see.
    lives: AtomicUsize,
    written: bool,
    died: Notify,
}

#[async_trait]
impl Layer for Dying {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        if self.lives.fetch_update(SeqCst, SeqCst, |lives| lives.checked_sub(1)).is_ok() {
            return self.inner.append(claim, batch).await;
        }
        if self.written {
            self.inner.append(claim, batch).await?;
        }
        self.died.notify_one();
        std::future::pending().await
    }
}

impl Dying {
    /// `inner`, as a worker sees it who dies after so many appends.
    pub fn after(inner: Arc<dyn Store>, appends: usize, written: bool) -> Arc<Layered<Self>> {
        let lives = AtomicUsize::new(appends);
        Arc::new(Layered(Self { inner, lives, written, died: Notify::new() }))
    }

    /// The worker on this store works until it is dead; `meanwhile` happens while it lives.
    pub async fn kills(&self, worker: Worker, meanwhile: impl Future<Output = ()>) {
        let working = tokio::spawn(async move { worker.run(Stop::new()).await });
        meanwhile.await;
        self.died.notified().await;
        working.abort();
        assert!(working.await.unwrap_err().is_cancelled());
    }
}
