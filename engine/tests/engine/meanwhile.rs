//! Reading a task beside the worker that carries it on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use plica_conformance::layer::{Layer, Layered};
use plica_engine::{Client, Verdict};
use plica_kernel::event::EventType;
use plica_kernel::id::TaskId;
use plica_ports::Store;
use plica_ports::store::{StoreError, StoredEvent};
use serde_json::Value;
use tokio::sync::Notify;

use crate::back::USER;
use crate::common::{Bench, say};

/// A store on which the first reader of a task's baselines is held up once it has them.
struct Held {
    inner: Arc<dyn Store>,
    once: AtomicBool,
    gate: Arc<Gate>,
}

/// Where the reader is held up.
#[derive(Default)]
struct Gate {
    reached: Notify,
    goes_on: Notify,
}

#[async_trait]
impl Layer for Held {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn baselines(&self, task: &TaskId, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let found = self.inner.baselines(task, limit).await;
        if !self.once.swap(true, Ordering::AcqRel) {
            self.gate.reached.notify_one();
            self.gate.goes_on.notified().await;
        }
        found
    }
}

/// Turns after which a log is too long to be read whole without a look for its baselines.
const TURNS: usize = 12;

/// A task of many turns, and a client that is held up while it reads it.
async fn held() -> (Bench, TaskId, Arc<Gate>, Client) {
    let replies: Vec<Value> = (0..=TURNS).map(|turn| say(&format!("turn {turn}"))).collect();
    let mut bench = Bench::new(&replies);
    bench.definition.interactive = true;
    let task = bench.submit("go").await;
    bench.work().await;
    for _ in 1..TURNS {
        bench.client.send(&task, USER, "and").await.unwrap();
        bench.work().await;
    }
    let gate = Arc::new(Gate::default());
    let held = Held { inner: bench.store.clone(), once: AtomicBool::new(false), gate: gate.clone() };
    (bench, task, gate, Client::new(Arc::new(Layered(held))))
}

/// The task goes back to the end of its first turn.
async fn goes_back(bench: &Bench, task: &TaskId) {
    let kinds = bench.kinds(task).await;
    let first = kinds.iter().position(|kind| *kind == EventType::TaskSuspended).unwrap() as u64 + 1;
    bench.client.rewind(task, USER, plica_kernel::id::Seq(first)).await.unwrap();
    bench.work().await;
}

/// A rewind that is appended while a state is read is no damage: the state is that of before.
#[tokio::test]
async fn sn_6_a_state_is_read_beside_a_rewind() {
    let (bench, task, gate, client) = held().await;
    let before = bench.client.state(&task, None, false).await.unwrap().to_bytes().unwrap();
    let reader = task.clone();
    let read = tokio::spawn(async move { client.state(&reader, None, true).await });
    gate.reached.notified().await;
    goes_back(&bench, &task).await;
    gate.goes_on.notify_one();
    assert_eq!(read.await.unwrap().unwrap().to_bytes().unwrap(), before);
    assert_ne!(bench.client.state(&task, None, false).await.unwrap().to_bytes().unwrap(), before);
}

/// A log that grows while it is verified is whole; a row that stays behind its log is not.
#[tokio::test]
async fn pr_1_a_log_is_verified_beside_a_rewind() {
    let (bench, task, gate, client) = held().await;
    let before = bench.events(&task).await.len() as u64;
    let reader = task.clone();
    let read = tokio::spawn(async move {
        let mut verdict = Verdict::new();
        client.verify(&reader, &mut verdict).await.map(|()| verdict)
    });
    gate.reached.notified().await;
    goes_back(&bench, &task).await;
    gate.goes_on.notify_one();
    let verdict = read.await.unwrap().unwrap();
    assert!(verdict.is_ok(), "{:?}", verdict.breaks);
    assert_eq!(verdict.events, before);
    bench.sound(&task).await;
}
