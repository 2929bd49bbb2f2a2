//! What a person says of a call whose outcome is unknown (TO-3, CA-6).

use plica_engine::ClientError;
use plica_kernel::event::{CallResolution, CallStatus, EventType, Payload};
use plica_kernel::id::{CallId, TaskId};
use plica_kernel::row::Status;
use plica_ports::OnCrash;

use crate::common::{Bench, calls, say};

const USER: &str = "user:ada";

/// A task that is parked over a call whose outcome is unknown.
async fn parked(replies: &[serde_json::Value]) -> (Bench, TaskId, CallId) {
    let mut bench = Bench::new(replies);
    bench.definition.on_crash = OnCrash::Park;
    let task = bench.submit("Work.").await;
    bench.crash_in_a_call().await;
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Waiting);
    let state = bench.client.state(&task, None, false).await.unwrap();
    let [unknown] = &state.runtime().unknown[..] else { panic!("one call: {:?}", state.runtime().unknown) };
    assert_eq!(unknown.tool, "Note");
    (bench, task, unknown.call)
}

async fn said(bench: &Bench, task: &TaskId) -> String {
    format!("{:?}", bench.client.messages(task).await.unwrap())
}

#[tokio::test]
async fn to_3_a_call_that_landed_is_told_with_what_it_brought() {
    let (bench, task, call) = parked(&[calls(&["hang"]), say("went on")]).await;
    bench.client.resolve(&task, USER, call, CallResolution::Landed, Some("version 3".into())).await.unwrap();
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    assert!(said(&bench, &task).await.contains("it happened. Its output:\\nversion 3"));
    assert_eq!(bench.note.keys.lock().unwrap().len(), 1, "nothing ran again");
    let kinds = bench.kinds(&task).await;
    assert!(kinds.contains(&EventType::StepAttemptResumed), "a person's word carries a parked attempt on");
    bench.sound(&task).await;
}

#[tokio::test]
async fn to_3_ca_6_a_call_that_did_not_land_runs_now_under_the_same_key() {
    let (bench, task, call) = parked(&[calls(&["hang once"]), say("went on")]).await;
    bench.client.resolve(&task, USER, call, CallResolution::NotLanded, None).await.unwrap();
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    let keys = bench.note.keys.lock().unwrap().clone();
    assert!(keys.len() == 2 && keys[0] == keys[1], "the same call: {keys:?}");
    let events = bench.events(&task).await;
    let resolved = events.iter().find(|event| event.kind() == EventType::CallResolved).unwrap().seq;
    let started = events.iter().rfind(|event| event.kind() == EventType::ToolCallStarted).unwrap();
    assert_eq!(started.links.decision, Some(resolved), "what allows it is the person's word");
    assert!(matches!(&started.payload, Payload::ToolCallStarted(started) if started.attempt == 2));
    assert!(said(&bench, &task).await.contains("did not happen and was to run now. It ended well:"));
    bench.sound(&task).await;
}

/// The agent may have been moved to a definition without the tool: then nothing runs, and the model
/// is told so.
#[tokio::test]
async fn to_3_en_8_a_call_whose_tool_is_gone_does_not_run_now() {
    let (bench, task, call) = parked(&[calls(&["hang"]), say("went on")]).await;
    let mut other = bench.definition.clone();
    other.tools.retain(|tool| tool != "Note");
    bench.client.revise(&task, USER, &other, &[]).await.unwrap();
    bench.work().await;
    bench.client.resolve(&task, USER, call, CallResolution::NotLanded, None).await.unwrap();
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    assert_eq!(bench.note.keys.lock().unwrap().len(), 1, "nothing ran again");
    assert!(said(&bench, &task).await.contains("not run: there is no tool Note any more"));
    bench.sound(&task).await;
}

#[tokio::test]
async fn to_3_a_call_that_is_cut_off_again_is_unknown_again() {
    let (bench, task, call) = parked(&[calls(&["hang"]), say("went on")]).await;
    bench.client.resolve(&task, USER, call, CallResolution::NotLanded, None).await.unwrap();
    bench.crash_in_a_call().await;
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed, "the model was told and went on");
    let outcomes: Vec<CallStatus> = bench
        .events(&task)
        .await
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::ToolCallFinished(finished) => Some(finished.status),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [CallStatus::Unknown, CallStatus::Unknown]);
    let state = bench.client.state(&task, None, false).await.unwrap();
    assert_eq!(state.runtime().unknown[0].starts, 2);
    bench.sound(&task).await;
}

#[tokio::test]
async fn to_3_the_first_word_stands_and_what_does_not_apply_is_refused() {
    let (bench, task, call) = parked(&[calls(&["hang"]), say("went on")]).await;
    let other = CallId { index: 7, ..call };
    let refused = bench.client.resolve(&task, USER, other, CallResolution::Skip, None).await;
    assert!(matches!(refused, Err(ClientError::NotUnknown { .. })));
    bench.client.resolve(&task, USER, call, CallResolution::Skip, None).await.unwrap();
    let second = bench.client.resolve(&task, USER, call, CallResolution::NotLanded, None).await;
    assert!(matches!(second, Err(ClientError::Deliver(_))), "{second:?}");
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    assert!(said(&bench, &task).await.contains("go on without it"));
    let settled = bench.client.resolve(&task, USER, call, CallResolution::Skip, None).await;
    assert!(matches!(settled, Err(ClientError::NotUnknown { .. })));
    bench.sound(&task).await;
}
