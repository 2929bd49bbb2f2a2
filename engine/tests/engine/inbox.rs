//! What comes while a worker reads the inbox of its task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use plica_conformance::layer::{Layer, Layered};
use plica_engine::Stop;
use plica_kernel::event::EventType;
use plica_kernel::id::{DedupKey, Position, TaskId};
use plica_kernel::row::Status;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::Store;
use plica_ports::store::StoreError;
use serde_json::json;

use crate::common::say;
use crate::waits::stage::{Stage, call, calls};

/// A store whose first answer about an inbox is on its way for so long that a cancel, which came
/// after it was read, is heard of before it.
struct Slow {
    inner: Arc<dyn Store>,
    read: AtomicBool,
}

#[async_trait]
impl Layer for Slow {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn inbox(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        let items = self.inner.inbox(task, after).await?;
        if !self.read.swap(true, Ordering::Relaxed) {
            let key = DedupKey::new("cancel").unwrap();
            self.inner.deliver(task, "user:ada", &Item::Cancel { reason: None }, &key).await.unwrap();
            tokio::time::sleep(Duration::from_secs(25)).await;
        }
        Ok(items)
    }
}

/// EN-6, ST-7: a holder counts as seen what it read, whatever it has heard of meanwhile.
#[tokio::test(start_paused = true)]
async fn en_6_a_cancel_that_comes_while_the_inbox_is_read_is_seen() {
    let slow = json!({ "text": "", "delay_ms": 40_000, "calls": [call("Note", json!({ "note": "a" }))] });
    let stage = Stage::new(&[("main", &[slow, calls(&[call("Note", json!({ "note": "b" }))]), say("done")])]);
    let task = stage.submit(|_| ()).await;
    let store = Arc::new(Layered(Slow { inner: stage.store.clone(), read: AtomicBool::new(false) }));
    let worker = stage.other(store);
    let stop = Stop::new();
    let told = stop.clone();
    let working = tokio::spawn(async move { worker.run(told).await });
    stage.reaches(&task, EventType::LLMRequestStarted).await;
    let message = Item::Message { text: "and hurry".into() };
    stage.store.deliver(&task, "user:ada", &message, &DedupKey::new("message").unwrap()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    stop.stop();
    working.await.unwrap().unwrap();
    assert_eq!(stage.status(&task).await, Status::Cancelled);
    stage.is_at_rest(&task).await;
}
