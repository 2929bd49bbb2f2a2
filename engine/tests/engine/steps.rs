//! Whole tasks on the memory store with the scripted model.

use crate::common::{Bench, calls, say};
use plica_kernel::event::EventType;
use plica_kernel::row::Status;

#[tokio::test]
async fn en_1_a_plain_answer_completes_the_task() {
    let bench = Bench::new(&[say("Hello from the fold.")]);
    let task = bench.submit("Say hello.").await;
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    let kinds = bench.kinds(&task).await;
    let expected = [
        EventType::TaskCreated,
        EventType::MessagesAppended,
        EventType::PluginsPinned,
        EventType::ContextPlanComposed,
        EventType::LLMRequestStarted,
        EventType::LLMRequestFinished,
        EventType::MessagesAppended,
        EventType::DecisionRecorded,
        EventType::TaskCompleted,
    ];
    assert_eq!(kinds, expected);
    bench.sound(&task).await;
}

#[tokio::test]
async fn sp_1_a_round_with_one_call_costs_two_commits() {
    let bench = Bench::new(&[calls(&["a"]), calls(&["b"]), say("done")]);
    let task = bench.submit("Work.").await;
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    bench.sound(&task).await;
    // Creation, then two for each round, then one for the end and the last request before it.
    assert_eq!(bench.appends(&task).await, 1 + 2 * 2 + 2);
}

#[tokio::test]
async fn to_2_every_call_gets_its_key() {
    let bench = Bench::new(&[calls(&["a", "b"]), say("done")]);
    let task = bench.submit("Work.").await;
    bench.work().await;
    let mut keys = bench.note.keys.lock().unwrap().clone();
    keys.sort();
    assert_eq!(keys, [format!("{task}:8.0"), format!("{task}:8.1")]);
    bench.sound(&task).await;
}

#[tokio::test]
async fn rc_7_a_tool_that_panics_fails_the_turn_with_internal_error() {
    let bench = Bench::new(&[calls(&["panic"]), say("unreached")]);
    let task = bench.submit("Work.").await;
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Failed);
    let events = bench.events(&task).await;
    let Some(plica_kernel::event::Payload::TaskFailed(failed)) = events.last().map(|event| event.payload.clone())
    else {
        panic!("the log ends with {:?}", events.last());
    };
    assert_eq!(failed.reason, plica_kernel::event::FailureReason::InternalError);
    bench.sound(&task).await;
}
