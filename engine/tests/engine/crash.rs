//! What becomes of an attempt that a crash broke, as its agent chooses (RC-3, RC-4).

use plica_kernel::event::{ApprovalVerdict, CallStatus, EventType, Payload, SealVerdict, SuspendReason};
use plica_kernel::id::{CallId, TaskId};
use plica_kernel::row::Status;
use plica_ports::{OnCrash, PermissionMode};
use serde_json::Value;

use crate::common::{Bench, calls, say};

const USER: &str = "user:ada";

fn bench(on_crash: OnCrash, replies: &[Value]) -> Bench {
    let mut bench = Bench::new(replies);
    bench.definition.on_crash = on_crash;
    bench
}

async fn seals(bench: &Bench, task: &TaskId) -> Vec<SealVerdict> {
    let sealed = |payload: &Payload| match payload {
        Payload::StepAttemptAbandoned(sealed) => Some(sealed.verdict),
        _ => None,
    };
    bench.events(task).await.iter().filter_map(|event| sealed(&event.payload)).collect()
}

async fn outcomes(bench: &Bench, task: &TaskId) -> Vec<CallStatus> {
    let finished = |payload: &Payload| match payload {
        Payload::ToolCallFinished(finished) => Some(finished.status),
        _ => None,
    };
    bench.events(task).await.iter().filter_map(|event| finished(&event.payload)).collect()
}

async fn is_parked(bench: &Bench, task: &TaskId) {
    assert_eq!(bench.status(task).await, Status::Waiting);
    let last = bench.events(task).await.pop().unwrap();
    assert!(matches!(&last.payload, Payload::TaskSuspended(suspended) if suspended.reason == SuspendReason::Parked));
    assert_eq!(bench.client.row(task).await.unwrap().claimable_at, None);
    bench.sound(task).await;
}

#[tokio::test]
async fn rc_3_a_parked_attempt_runs_nothing_again_and_a_person_carries_it_on() {
    let bench = bench(OnCrash::Park, &[calls(&["quick", "hang"]), say("went on")]);
    let task = bench.submit("Work.").await;
    bench.crash_in_a_call().await;
    bench.work().await;
    is_parked(&bench, &task).await;
    assert_eq!(seals(&bench, &task).await, [SealVerdict::Park]);
    assert_eq!(outcomes(&bench, &task).await, [CallStatus::Ok, CallStatus::Unknown]);
    let said = format!("{:?}", bench.client.messages(&task).await.unwrap());
    assert!(said.contains("finished (ok)") && said.contains("cut off; it may have happened"), "{said}");

    bench.client.send(&task, USER, "Go on.").await.unwrap();
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    assert_eq!(bench.note.keys.lock().unwrap().len(), 2, "nothing ran again");
    let kinds = bench.kinds(&task).await;
    let resumed = kinds.iter().position(|kind| *kind == EventType::StepAttemptResumed).unwrap();
    assert_eq!(
        kinds[resumed - 1..=resumed + 1],
        [EventType::TaskWoken, EventType::StepAttemptResumed, EventType::MessagesAppended]
    );
    bench.sound(&task).await;
}

#[tokio::test]
async fn rc_3_a_redriven_step_is_run_again_as_if_it_had_not_been() {
    let bench = bench(OnCrash::Redrive, &[calls(&["hang once"]), say("done")]);
    let task = bench.submit("Work.").await;
    bench.crash_in_a_call().await;
    bench.client.send(&task, USER, "Meanwhile.").await.unwrap();
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    assert_eq!(seals(&bench, &task).await, [SealVerdict::Redrive]);
    assert_eq!(outcomes(&bench, &task).await, [CallStatus::Interrupted, CallStatus::Ok]);
    let keys = bench.note.keys.lock().unwrap().clone();
    assert!(keys.len() == 2 && keys[0] != keys[1], "another call: {keys:?}");
    let said = format!("{:?}", bench.client.messages(&task).await.unwrap());
    assert_eq!(said.matches("hang once").count(), 1, "the broken attempt is dead: {said}");
    assert!(said.contains("Meanwhile."), "what a person said is not");
    assert_eq!(
        bench.client.state(&task, None, false).await.unwrap().governance().tool_calls,
        2,
        "what was done counts"
    );
    bench.sound(&task).await;
}

#[tokio::test]
async fn rc_3_three_seals_in_a_row_park() {
    let bench = bench(OnCrash::Redrive, &[calls(&["hang"]), say("went on")]);
    let task = bench.submit("Work.").await;
    for _ in 0..3 {
        bench.crash_in_a_call().await;
    }
    bench.work().await;
    is_parked(&bench, &task).await;
    assert_eq!(seals(&bench, &task).await, [SealVerdict::Redrive, SealVerdict::Redrive, SealVerdict::Park]);
    bench.client.send(&task, USER, "Go on.").await.unwrap();
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
}

#[tokio::test]
async fn rc_3_what_cannot_be_redriven_parks() {
    let mut bench = bench(OnCrash::Redrive, &[calls(&["hang"]), say("went on")]);
    bench.definition.permission_mode = PermissionMode::Default;
    let task = bench.submit("Work.").await;
    bench.work().await;
    approve(&bench, &task).await;
    bench.crash_in_a_call().await;
    bench.work().await;
    is_parked(&bench, &task).await;
    assert_eq!(bench.note.keys.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn rc_4_an_interrupted_call_that_a_person_had_approved_parks() {
    let mut bench = bench(OnCrash::Resolve, &[calls(&["hang", "quick"]), say("went on")]);
    bench.definition.permission_mode = PermissionMode::Default;
    let task = bench.submit("Work.").await;
    bench.work().await;
    approve(&bench, &task).await;
    bench.crash_in_a_call().await;
    bench.work().await;
    is_parked(&bench, &task).await;
    assert_eq!(outcomes(&bench, &task).await, [CallStatus::Unknown]);
    bench.client.send(&task, USER, "Leave it.").await.unwrap();
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    assert_eq!(bench.note.keys.lock().unwrap().len(), 1, "the call that waited for its answer was not run");
}

/// Approves the first call of the reply.
async fn approve(bench: &Bench, task: &TaskId) {
    let state = bench.client.state(task, None, false).await.unwrap();
    let call: CallId = *state.governance().approvals.keys().next().unwrap();
    bench.client.rule(task, USER, call, ApprovalVerdict::Approve, None).await.unwrap();
}
