//! What waiting costs, and what becomes of it when its worker dies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use plica_conformance::layer::{Call, Layer, Layered};
use plica_engine::Stop;
use plica_kernel::event::{EventType, Payload};
use plica_kernel::id::Position;
use plica_kernel::row::Status;
use plica_kernel::wake::Item;
use plica_ports::Store;
use plica_ports::store::StoreError;
use serde_json::json;

use super::stage::{Stage, call, calls};
use super::{USER, first_call, note};
use crate::common::dying::Dying;
use crate::common::say;

/// Counts what is asked of a store.
struct Counting {
    inner: Arc<dyn Store>,
    asked: Mutex<BTreeMap<Call, usize>>,
}

#[async_trait]
impl Layer for Counting {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn enter(&self, call: Call) -> Result<Duration, StoreError> {
        *self.asked.lock().unwrap().entry(call).or_default() += 1;
        Ok(Duration::ZERO)
    }
}

/// What a worker asks of its store in an hour in which so many tasks wait.
async fn an_hour_of_waiting(tasks: usize) -> BTreeMap<Call, usize> {
    let stage = Stage::new(&[("main", &[calls(&[call("Wait", json!({ "event": "go" }))]), say("gone")])]);
    for _ in 0..tasks {
        let task = stage.submit(|_| ()).await;
        stage.work().await;
        let row = stage.row(&task).await;
        assert_eq!((row.projection.status, row.holder, row.claimable_at), (Status::Waiting, None, None));
    }
    let counting = Arc::new(Layered(Counting { inner: stage.store.clone(), asked: Mutex::default() }));
    let (worker, stop) = (stage.other(counting.clone()), Stop::new());
    let told = stop.clone();
    let working = tokio::spawn(async move { worker.run(told).await });
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    stop.stop();
    working.await.unwrap().unwrap();
    counting.0.asked.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn wa_1_a_task_that_waits_is_held_by_nobody_and_costs_no_call() {
    let nobody = an_hour_of_waiting(0).await;
    assert!(nobody.contains_key(&Call::WaitClaimable));
    assert_eq!(an_hour_of_waiting(20).await, nobody);
}

/// A worker claims what is due and dies after so many appends; its lease runs out.
async fn die_after(stage: &Stage, appends: usize, written: bool) {
    let dying = Dying::after(stage.store.clone(), appends, written);
    dying.0.kills(stage.other(dying.clone()), std::future::ready(())).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn wa_3_a_crash_between_match_and_wake_redelivers_the_same_wake() {
    for written in [false, true] {
        let stage = Stage::new(&[("main", &[calls(&[call("Wait", json!({ "event": "go" }))]), say("gone")])]);
        let task = stage.submit(|_| ()).await;
        stage.work().await;
        let item = Item::Event { data: Some("now".into()), event: "go".into() };
        let delivered = stage.store.deliver(&task, USER, &item, &"once".parse().unwrap()).await.unwrap();
        die_after(&stage, 0, written).await;
        let untaken = stage.store.inbox(&task, Position(0)).await.unwrap();
        assert_eq!(untaken.is_empty(), written, "an item is gone only with the append that records it");
        stage.work().await;
        let woken: Vec<_> = stage.payloads(&task).await.into_iter().filter_map(woken_by).collect();
        assert_eq!(woken, [Some(delivered.position)], "written: {written}");
        assert_eq!(stage.status(&task).await, Status::Completed);
        stage.is_at_rest(&task).await;
    }
}

fn woken_by(payload: Payload) -> Option<Option<Position>> {
    match payload {
        Payload::TaskWoken(woken) => Some(woken.item.position),
        _ => None,
    }
}

/// A crash while a call waits for an answer leaves the question as it is; the call that ran beside
/// it is settled.
#[tokio::test(start_paused = true)]
async fn rc_4_a_call_that_waits_for_an_answer_is_not_half_done() {
    let asks = calls(&[call("AskUser", json!({ "question": "which?" })), note("beside it")]);
    let stage = Stage::new(&[("main", &[asks, say("that one")])]);
    let task = stage.submit(|_| ()).await;
    // The request, then the reply with the question, are on record; the end of the note is not.
    die_after(&stage, 2, false).await;
    assert_eq!(stage.count(&task, EventType::QuestionAsked).await, 1);
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Waiting, "{:?}", stage.kinds(&task).await);
    assert_eq!(stage.count(&task, EventType::QuestionAsked).await, 1);
    let finished = stage.payloads(&task).await.into_iter().filter_map(|payload| match payload {
        Payload::ToolCallFinished(finished) => Some(finished.call.index),
        _ => None,
    });
    assert_eq!(finished.collect::<Vec<_>>(), [1], "the question is no call that was broken off");
    let decision = stage.payloads(&task).await.into_iter().find_map(|payload| match payload {
        Payload::QuestionAsked(asked) => Some(asked.call.decision.0),
        _ => None,
    });
    stage.client.answer_question(&task, USER, first_call(decision.unwrap()), "the first").await.unwrap();
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Completed);
    stage.is_at_rest(&task).await;
}
