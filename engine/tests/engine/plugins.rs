//! Plugins that a worker has, lacks or has in another version, and definitions that change
//! (RC-8, EN-8), in virtual time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_engine::{ClientError, Stop};
use plica_kernel::event::{CallStatus, EventType, FailureReason, Payload, PluginPin};
use plica_kernel::id::{DedupKey, Seq, TaskId};
use plica_kernel::row::Status;
use plica_kernel::wake::Item;
use plica_ports::{
    CallContext, Guard, GuardView, Outgoing, Parcel, Record, Ruling, Store, Tool, ToolDeclaration, ToolError,
    ToolOutput,
};
use serde_json::json;
use tokio::time::Instant;

use crate::common::{Note, say};
use crate::waits::stage::{Stage, call, calls};

const USER: &str = "user:ada";

fn note(text: &str) -> serde_json::Value {
    calls(&[call("Note", json!({ "note": text }))])
}

fn ask() -> serde_json::Value {
    calls(&[call("AskUser", json!({ "question": "Which?" }))])
}

async fn pins(stage: &Stage, task: &TaskId) -> Vec<Vec<PluginPin>> {
    let payloads = stage.payloads(task).await.into_iter();
    let pinned = payloads.filter_map(|payload| match payload {
        Payload::PluginsPinned(pinned) => Some(pinned.plugins),
        _ => None,
    });
    pinned.collect()
}

async fn answer(stage: &Stage, task: &TaskId) {
    let state = stage.client.state(task, None, false).await.unwrap();
    let question = *state.governance().questions.keys().next().unwrap();
    stage.client.answer_question(task, USER, question, "that one").await.unwrap();
}

/// Versioned, so it is pinned.
struct Strict;

impl Guard for Strict {
    fn name(&self) -> &str {
        "strict"
    }

    fn version(&self) -> Option<&str> {
        Some("7")
    }

    fn rule(&self, _: &GuardView<'_>) -> Ruling {
        Ruling::Allow { rule: None }
    }
}

#[tokio::test(start_paused = true)]
async fn rc_8_what_is_in_force_stands_in_the_append_of_the_first_request_once() {
    let stage = Stage::guarded(&[("main", &[note("a"), note("b"), say("done")])], Some(Arc::new(Strict)));
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    let pinned = pins(&stage, &task).await;
    let [pins] = pinned.as_slice() else { panic!("{pinned:?}") };
    let named: Vec<(&str, &str, &str)> =
        pins.iter().map(|pin| (pin.name.as_str(), pin.source.as_str(), pin.version.as_str())).collect();
    assert_eq!(named, [("Note", "host", "1"), ("strict", "host", "7")]);
    assert!(pins[0].parameters.is_some());
    assert_eq!(stage.kinds(&task).await[2..4], [EventType::PluginsPinned, EventType::ContextPlanComposed]);
    stage.is_at_rest(&task).await;
}

/// Three claims, a lease apart, of which nothing is written; then the task fails with names.
#[tokio::test(start_paused = true)]
async fn rc_8_a_worker_that_lacks_a_plugin_writes_nothing_and_fails_the_task_at_last() {
    let stage = Stage::new(&[("main", &[ask(), note("a"), say("done")])]);
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    answer(&stage, &task).await;
    let before = stage.row(&task).await.projection.seq;
    let began = Instant::now();
    let other = stage.worker_of(|host| host);
    let works = tokio::spawn(async move { other.run(Stop::new()).await });
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(stage.row(&task).await.projection.seq, before, "nothing is written by two claims");
    works.await.unwrap().unwrap();
    assert!(began.elapsed() >= Duration::from_secs(60), "a lease passes between two claims");
    let Some(Payload::TaskFailed(failed)) = stage.payloads(&task).await.pop() else { panic!() };
    assert_eq!(failed.reason, FailureReason::PluginMissing);
    assert!(failed.detail.as_ref().is_some_and(|detail| detail.contains("tool Note 1 of host")), "{failed:?}");
    stage.is_at_rest(&task).await;
}

/// A worker that has what is pinned goes on with what another one left.
#[tokio::test(start_paused = true)]
async fn rc_8_what_one_worker_lacks_another_goes_on_with() {
    let stage = Stage::new(&[("main", &[ask(), note("a"), say("done")])]);
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    answer(&stage, &task).await;
    let other = stage.worker_of(|host| host);
    let works = tokio::spawn(async move { other.run(Stop::new()).await });
    tokio::time::sleep(Duration::from_secs(40)).await;
    stage.work().await;
    works.await.unwrap().unwrap();
    assert_eq!(stage.status(&task).await, Status::Completed);
    stage.is_at_rest(&task).await;
}

/// Who cancels a task waits for no worker that could have gone on with it.
#[tokio::test(start_paused = true)]
async fn rc_8_a_cancel_needs_no_plugin() {
    let stage = Stage::new(&[("main", &[ask(), say("done")])]);
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    stage.client.cancel(&task, USER, None).await.unwrap();
    stage.worker_of(|host| host).run(Stop::new()).await.unwrap();
    assert_eq!(stage.status(&task).await, Status::Cancelled);
}

/// A rewind needs no plugin, but one that is refused leaves what the task needs in force.
#[tokio::test(start_paused = true)]
async fn rc_8_a_refused_rewind_lets_nobody_go_on_who_lacks_a_plugin() {
    let stage = Stage::new(&[("main", &[ask(), note("a"), say("done")])]);
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    let (nowhere, key) = (Item::Rewind { to_seq: Seq(999) }, DedupKey::new("nowhere").unwrap());
    stage.store.deliver(&task, USER, &nowhere, &key).await.unwrap();
    answer(&stage, &task).await;
    let (other, stop) = (stage.worker_of(|host| host), Stop::new());
    let told = stop.clone();
    let works = tokio::spawn(async move { other.run(told).await });
    stage.reaches(&task, EventType::LateResultRecorded).await;
    stop.stop();
    works.await.unwrap().unwrap();
    assert_eq!(stage.kinds(&task).await.last(), Some(&EventType::LateResultRecorded), "refused, and no more");
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Completed);
    stage.is_at_rest(&task).await;
}

/// Another version is on record before it is used, and settles nothing that the one before it
/// began, though it might have run it again.
#[tokio::test(start_paused = true)]
async fn rc_8_another_version_is_used_from_the_next_request_and_takes_over_no_call() {
    let stage = Stage::new(&[("main", &[note("hang"), note("b"), say("done")])]);
    let task = stage.submit(|_| ()).await;
    let works = stage.works();
    stage.note.begun.notified().await;
    works.abort();
    tokio::time::sleep(Duration::from_secs(31)).await;
    let newer = Arc::new(Note::of_version("2"));
    stage.worker_of(|host| host.tool(newer.clone())).run(Stop::new()).await.unwrap();
    assert_eq!(stage.status(&task).await, Status::Completed);
    let statuses: Vec<CallStatus> = stage
        .payloads(&task)
        .await
        .into_iter()
        .filter_map(|payload| match payload {
            Payload::ToolCallFinished(finished) => Some(finished.status),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, [CallStatus::Unknown, CallStatus::Ok]);
    assert_eq!(newer.keys.lock().unwrap().len(), 1, "the first call did not run again");
    let versions: Vec<String> = pins(&stage, &task).await.concat().into_iter().map(|pin| pin.version).collect();
    assert_eq!(versions, ["1", "2"]);
    stage.is_at_rest(&task).await;
}

/// The new definition is in force from the next request on; what it may not change is refused
/// before anything is delivered.
#[tokio::test(start_paused = true)]
async fn en_8_a_task_moves_to_another_definition() {
    let stage = Stage::new(&[("main", &[say("one"), note("a"), say("two")])]);
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    stage.work().await;
    let first = stage.client.state(&task, None, false).await.unwrap().definition().clone();

    let mut elsewhere = stage.definition().clone();
    elsewhere.workspace = "/elsewhere".into();
    let refused = stage.client.revise(&task, USER, &elsewhere, &[]).await;
    assert!(matches!(refused, Err(ClientError::Revision { .. })), "{refused:?}");

    let mut other = stage.definition().clone();
    other.name = "other".into();
    other.instructions = "Do it otherwise.".into();
    other.tools.retain(|tool| tool != "Note");
    other.budget.steps = Some(9);
    stage.client.revise(&task, USER, &other, &[]).await.unwrap();
    // A task at rest takes the order as it rests.
    stage.work().await;
    assert_eq!(stage.count(&task, EventType::AgentRevised).await, 1);
    assert_eq!((stage.status(&task).await, stage.count(&task, EventType::TaskWoken).await), (Status::Waiting, 0));
    stage.is_at_rest(&task).await;
    stage.client.send(&task, USER, "Go on.").await.unwrap();
    stage.work().await;
    let state = stage.client.state(&task, None, false).await.unwrap();
    assert_ne!(state.definition(), &first);
    assert_eq!((state.agent(), state.governance().budget.steps), ("other", Some(9)));
    assert_eq!(state.status(), Status::Completed, "the new definition is not interactive");
    // The tool is unknown to the new agent.
    assert_eq!(stage.count(&task, EventType::ToolCallDenied).await, 1);
    assert_eq!(stage.count(&task, EventType::AgentRevised).await, 1);
    let plans: Vec<_> = stage
        .payloads(&task)
        .await
        .into_iter()
        .filter_map(|payload| match payload {
            Payload::ContextPlanComposed(plan) => Some(plan.definition),
            _ => None,
        })
        .collect();
    assert_eq!(plans[0], first);
    assert!(plans[1..].iter().all(|definition| definition == state.definition()));
    stage.is_at_rest(&task).await;
}

/// An order that comes while a request or a call runs is carried out after it.
#[tokio::test(start_paused = true)]
async fn en_8_a_running_task_moves_between_two_steps() {
    let stage = Stage::new(&[("main", &[note("a"), json!({ "text": "done", "delay_ms": 5_000 }), say("done")])]);
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    let works = stage.works();
    stage.reaches(&task, EventType::ToolCallFinished).await;
    let mut other = stage.definition().clone();
    other.name = "other".into();
    stage.client.revise(&task, USER, &other, &[]).await.unwrap();
    works.await.unwrap().unwrap();
    let kinds = stage.kinds(&task).await;
    assert_eq!(kinds[kinds.len() - 2..], [EventType::TaskSuspended, EventType::AgentRevised]);
    stage.is_at_rest(&task).await;
}

/// A call that waits for a ruling keeps its tool, whoever revises the task; it starts with what is
/// in force then.
#[tokio::test(start_paused = true)]
async fn en_8_a_call_that_waits_for_a_ruling_keeps_its_tool() {
    let stage = Stage::new(&[("main", &[note("a"), say("done")])]);
    let task = stage.submit(|submission| submission.definition.ask = vec!["Note".into()]).await;
    stage.work().await;
    let mut other = stage.definition().clone();
    other.tools.retain(|tool| tool != "Note");
    let refused = stage.client.revise(&task, USER, &other, &[]).await;
    assert!(matches!(refused, Err(ClientError::Revision { .. })), "{refused:?}");
    other.tools.push("Note".into());
    stage.client.revise(&task, USER, &other, &[]).await.unwrap();
    stage.work().await;
    stage.is_at_rest(&task).await;
    let state = stage.client.state(&task, None, false).await.unwrap();
    let call = *state.governance().approvals.keys().next().unwrap();
    stage.client.rule(&task, USER, call, plica_kernel::event::ApprovalVerdict::Approve, None).await.unwrap();
    // A worker that has not got the tool leaves the call to one that has.
    let (lacking, stop) = (stage.worker_of(|host| host), Stop::new());
    let told = stop.clone();
    let works = tokio::spawn(async move { lacking.run(told).await });
    tokio::time::sleep(Duration::from_secs(20)).await;
    stop.stop();
    works.await.unwrap().unwrap();
    assert_eq!(stage.status(&task).await, Status::Waiting);
    assert_eq!(stage.count(&task, EventType::ApprovalResolved).await, 0);
    let newer = Arc::new(Note::of_version("2"));
    stage.worker_of(|host| host.tool(newer.clone())).run(Stop::new()).await.unwrap();
    assert_eq!((stage.status(&task).await, newer.keys.lock().unwrap().len()), (Status::Completed, 1));
    let kinds = stage.kinds(&task).await;
    let at = kinds.iter().position(|kind| *kind == EventType::ToolCallStarted).unwrap();
    assert_eq!(kinds[at - 2..at], [EventType::ApprovalResolved, EventType::PluginsPinned]);
}

/// A definition that needs less is a way out for a task that no worker can go on with.
#[tokio::test(start_paused = true)]
async fn en_8_rc_8_a_task_moves_away_from_a_plugin_that_is_gone() {
    let stage = Stage::new(&[("main", &[ask(), say("done")])]);
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    let mut other = stage.definition().clone();
    other.tools.retain(|tool| tool != "Note");
    stage.client.revise(&task, USER, &other, &[]).await.unwrap();
    answer(&stage, &task).await;
    stage.worker_of(|host| host).run(Stop::new()).await.unwrap();
    assert_eq!(stage.status(&task).await, Status::Completed);
    stage.is_at_rest(&task).await;
}

/// Records each ruling and tells another task of it.
struct Clerk(std::sync::Mutex<Option<TaskId>>);

impl Guard for Clerk {
    fn name(&self) -> &str {
        "clerk"
    }

    fn rule(&self, _: &GuardView<'_>) -> Ruling {
        Ruling::Allow { rule: Some("the clerk".into()) }
    }

    fn aside(&self, view: &GuardView<'_>, _: &Ruling) -> (Vec<Record>, Vec<Outgoing>) {
        let record = Record { plugin: "clerk".into(), kind: "ruled".into(), body: view.tool.into() };
        let outgoing = self.0.lock().unwrap().clone().into_iter().map(|task| Outgoing {
            task,
            parcel: Parcel::Event { data: None, kind: "ruled".into() },
            key: "the first".into(),
        });
        (vec![record], outgoing.collect())
    }
}

/// What a guard returns beside its ruling stands in the append of the decision, and what it sends
/// arrives once.
#[tokio::test(start_paused = true)]
async fn en_9_a_guards_records_and_parcels_go_with_the_decision() {
    let clerk = Arc::new(Clerk(Default::default()));
    let wait = calls(&[call("Wait", json!({ "event": "ruled" }))]);
    let stage = Stage::guarded(
        &[("other", &[wait, say("heard")]), ("main", &[note("a"), note("b"), say("done")])],
        Some(clerk.clone()),
    );
    let other = stage.submit_to("other").await;
    stage.work().await;
    assert_eq!(stage.status(&other).await, Status::Waiting);
    *clerk.0.lock().unwrap() = Some(other.clone());
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    assert_eq!((stage.status(&task).await, stage.status(&other).await), (Status::Completed, Status::Completed));
    assert_eq!(stage.count(&other, EventType::TaskWoken).await, 1);
    let kinds = stage.kinds(&task).await;
    let decision = kinds.iter().position(|kind| *kind == EventType::DecisionRecorded).unwrap();
    assert_eq!(
        kinds[decision..decision + 3],
        [EventType::DecisionRecorded, EventType::ToolCallStarted, EventType::ExtensionRecorded]
    );
    let state = stage.client.state(&task, None, false).await.unwrap();
    assert_eq!(state.governance().extensions["clerk"]["ruled"].inline(), Some("Note"));
    stage.is_at_rest(&task).await;
    stage.is_at_rest(&other).await;
}

/// Tells another task what it was told.
struct Post(ToolDeclaration, TaskId);

#[async_trait]
impl Tool for Post {
    fn declaration(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let to = |task: TaskId| Outgoing {
            task,
            parcel: Parcel::Message(args.into()),
            key: context.idempotency_key.clone(),
        };
        // What is addressed to the task itself goes nowhere.
        let outgoing = vec![to(self.1.clone()), to(context.task.clone())];
        Ok(ToolOutput { outgoing, ..ToolOutput::text("sent") })
    }
}

#[tokio::test(start_paused = true)]
async fn en_9_a_tools_parcels_go_with_its_outcome() {
    let wait = calls(&[call("AskUser", json!({ "question": "Who calls?" }))]);
    let stage = Stage::new(&[("other", &[wait, say("thanks")]), ("main", &[note("hello"), say("done")])]);
    let other = stage.submit_to("other").await;
    let post = Post(Note::new().declaration().clone(), other.clone());
    let task = stage.submit(|_| ()).await;
    let worker = stage.worker_of(|host| host.tool(Arc::new(post)));
    worker.run(Stop::new()).await.unwrap();
    assert_eq!(stage.status(&task).await, Status::Completed);
    // It stands after the answer that the other task waits for.
    answer(&stage, &other).await;
    stage.work().await;
    let told = stage.conversation(&other).await;
    assert!(told.contains("hello") && told.contains("thanks"), "{told}");
    let said =
        stage.payloads(&task).await.iter().filter(|payload| payload.kind() == EventType::MessagesAppended).count();
    assert_eq!(said, 3, "the goal and two replies");
    stage.is_at_rest(&task).await;
}
