//! Whole tasks on the memory store with the scripted model.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Bench, calls, say};
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
