//! Waiting, waking and steering, in virtual time.

mod bounds;
mod crash;
pub mod stage;

use std::sync::Arc;
use std::time::Duration;

use plica_engine::{ClientError, NotBefore};
use plica_kernel::event::{ApprovalVerdict, Budget, EventType, FailureReason, Payload};
use plica_kernel::id::{CallId, Seq};
use plica_kernel::ledger::Identity;
use plica_kernel::row::Status;
use plica_kernel::wake::Item;
use plica_ports::{Guard, GuardView, Ruling};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::back::Folder;
use crate::common::say;
use stage::{Stage, call, calls, delegate};

const USER: &str = "user:ada";

fn note(text: &str) -> Value {
    call("Note", json!({ "note": text }))
}

fn first_call(decision: u64) -> CallId {
    CallId { decision: Seq(decision), index: 0 }
}

/// Orders that change nothing any more are carried out all the same, and leave the task at rest.
#[tokio::test(start_paused = true)]
async fn st_7_orders_that_come_twice_leave_a_task_at_rest() {
    let stage = Stage::new(&[("main", &[say("one"), say("two")])]);
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    for _ in 0..2 {
        stage.client.reopen(&task, USER, None).await.unwrap();
    }
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Waiting);
    stage.is_at_rest(&task).await;
    for _ in 0..2 {
        stage.client.close(&task, USER, None).await.unwrap();
    }
    stage.work().await;
    stage.is_at_rest(&task).await;
    assert!(stage.client.send(&task, USER, "hello").await.is_err(), "a closed conversation takes no message");
    stage.client.reopen(&task, USER, None).await.unwrap();
    // The order to reopen lies before it.
    stage.client.send(&task, USER, "hello").await.unwrap();
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Completed);
}

/// An order to stop does not strike what a person begins after it was carried out.
#[tokio::test(start_paused = true)]
async fn en_6_a_second_cancel_does_not_strike_the_task_once_it_is_reopened() {
    let stage = Stage::new(&[("main", &[say("one")])]);
    let task = stage.submit(|_| ()).await;
    for _ in 0..2 {
        stage.client.cancel(&task, USER, None).await.unwrap();
        stage.client.interrupt(&task, USER, None).await.unwrap();
    }
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Cancelled);
    stage.client.reopen(&task, USER, None).await.unwrap();
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Waiting);
    stage.is_at_rest(&task).await;
}

/// A turn goes on when its conversation is closed and reopened under it.
#[tokio::test(start_paused = true)]
async fn en_6_reopening_does_not_break_a_turn_off() {
    let stage = Stage::new(&[("main", &[json!({ "text": "late", "delay_ms": 5_000 })])]);
    let task = stage.submit(|_| ()).await;
    let works = stage.works();
    stage.reaches(&task, EventType::LLMRequestStarted).await;
    stage.client.close(&task, USER, None).await.unwrap();
    stage.reaches(&task, EventType::ConversationClosed).await;
    stage.client.reopen(&task, USER, None).await.unwrap();
    works.await.unwrap().unwrap();
    assert_eq!(stage.status(&task).await, Status::Completed);
    assert_eq!(stage.count(&task, EventType::LLMRequestStarted).await, 1);
}

/// A task that is not due for long is cancelled now, and so is one that waits out a back-off that
/// nobody holds it for.
#[tokio::test(start_paused = true)]
async fn en_6_a_cancel_waits_for_no_not_before() {
    let began = Instant::now();
    let refused = json!({ "text": "x", "error": { "status": 429, "retry_after_ms": 600_000 } });
    let stage = Stage::new(&[("main", &[refused])]);
    let later =
        stage.submit(|submission| submission.not_before = Some(NotBefore::In(Duration::from_secs(3_600)))).await;
    let backing_off = stage.submit(|_| ()).await;
    let works = stage.works();
    stage.reaches(&backing_off, EventType::LLMRetryScheduled).await;
    while stage.row(&backing_off).await.holder.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for task in [&later, &backing_off] {
        stage.client.cancel(task, USER, None).await.unwrap();
    }
    works.await.unwrap().unwrap();
    for task in [&later, &backing_off] {
        assert_eq!(stage.status(task).await, Status::Cancelled);
        stage.is_at_rest(task).await;
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// Nobody waits for a reply that nobody will read.
#[tokio::test(start_paused = true)]
async fn en_6_an_interrupt_breaks_a_request_off_within_a_second() {
    let stage = Stage::new(&[("main", &[json!({ "text": "x", "delay_ms": 60_000 })])]);
    let task = stage.submit(|_| ()).await;
    let works = stage.works();
    stage.reaches(&task, EventType::LLMRequestStarted).await;
    let asked = Instant::now();
    stage.client.interrupt(&task, USER, None).await.unwrap();
    stage.reaches(&task, EventType::TurnInterrupted).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    works.await.unwrap().unwrap();
    assert_eq!(stage.status(&task).await, Status::Waiting);
}

/// What a wrong, late or second answer finds is one wake or none, and a record.
#[tokio::test(start_paused = true)]
async fn st_8_an_answer_to_the_wrong_thing_is_kept_and_wakes_nobody() {
    let stage = Stage::new(&[("main", &[calls(&[call("AskUser", json!({ "question": "Which?" }))]), say("done")])]);
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    let asked = first_call(8);
    stage.client.rule(&task, USER, asked, ApprovalVerdict::Approve, None).await.unwrap();
    stage.client.answer_question(&task, USER, CallId { index: 1, ..asked }, "nobody asked").await.unwrap();
    stage.work().await;
    stage.is_at_rest(&task).await;
    assert_eq!(stage.count(&task, EventType::TaskWoken).await, 0);
    assert_eq!(stage.count(&task, EventType::LateResultRecorded).await, 2);
    stage.client.answer_question(&task, USER, asked, "the red one").await.unwrap();
    let again = Item::Answer { call: asked, text: "the blue one".into() };
    stage.client.deliver(&task, USER, &again, None).await.unwrap();
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Completed);
    assert_eq!(stage.count(&task, EventType::QuestionAnswered).await, 1);
    assert_eq!(stage.count(&task, EventType::LateResultRecorded).await, 3);
    assert!(stage.conversation(&task).await.contains("the red one"));
    stage.is_at_rest(&task).await;
}

/// Asks about everything that changes something, for ten seconds.
struct Hasty;

impl Guard for Hasty {
    fn name(&self) -> &str {
        "hasty"
    }

    fn rule(&self, view: &GuardView<'_>) -> Ruling {
        if view.steers {
            return Ruling::Allow { rule: None };
        }
        Ruling::Ask { expires_after: Some(Duration::from_secs(10)), rule: None }
    }
}

/// EN-3: nobody rules in time, somebody rules in time and nobody looks for long, somebody rules
/// too late.
#[tokio::test(start_paused = true)]
async fn en_3_an_approval_is_granted_in_time_or_not_at_all() {
    for (ruled_after_s, runs) in [(None, 0), (Some(9), 1), (Some(11), 0)] {
        let stage = Stage::guarded(&[("main", &[calls(&[note("a")]), say("done")])], Some(Arc::new(Hasty)));
        let task = stage.submit(|_| ()).await;
        if let Some(seconds) = ruled_after_s {
            let works = stage.works();
            stage.reaches(&task, EventType::TaskSuspended).await;
            // The worker is gone before anyone rules.
            works.abort();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            stage.client.rule(&task, USER, first_call(8), ApprovalVerdict::Approve, None).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        stage.work().await;
        assert_eq!(stage.status(&task).await, Status::Completed, "ruled after {ruled_after_s:?}");
        assert_eq!(stage.note.keys.lock().unwrap().len(), runs, "ruled after {ruled_after_s:?}");
        assert_eq!(stage.count(&task, EventType::ApprovalResolved).await, 1);
        stage.is_at_rest(&task).await;
    }
}

/// A spawn that a rule asks about runs as it was approved, or not at all.
#[tokio::test(start_paused = true)]
async fn en_3_a_spawn_can_be_asked_about() {
    for (verdict, children) in [(ApprovalVerdict::Approve, 1), (ApprovalVerdict::Deny, 0)] {
        let stage = Stage::new(&[
            ("child", &[say("the child's answer")]),
            ("main", &[calls(&[delegate("child", json!({ "goal": "G".repeat(3_000) }))]), say("done")]),
        ]);
        let task = stage.submit(|submission| submission.definition.ask = vec!["Task".into()]).await;
        stage.work().await;
        assert_eq!(stage.status(&task).await, Status::Waiting);
        assert_eq!(stage.children(&task).await.len(), 0, "not before it is approved");
        stage.client.rule(&task, USER, first_call(8), verdict, None).await.unwrap();
        stage.work().await;
        assert_eq!(stage.status(&task).await, Status::Completed);
        assert_eq!(stage.children(&task).await.len(), children);
        assert_eq!(stage.conversation(&task).await.contains("the child's answer"), children == 1);
        stage.is_at_rest(&task).await;
    }
}

/// Children of one reply, one waited for by itself and one with the others: the turn goes on
/// whichever is first.
#[tokio::test(start_paused = true)]
async fn wa_5_a_reply_may_wait_for_some_children_alone_and_for_some_together() {
    for joins in [["any", "all"], ["all", "any"]] {
        let slow = json!({ "text": "slow", "delay_ms": 9_000 });
        let delegates = [delegate("quick", json!({ "join": joins[0] })), delegate("slow", json!({ "join": joins[1] }))];
        let stage =
            Stage::new(&[("quick", &[say("quick")]), ("slow", &[slow]), ("main", &[calls(&delegates), say("done")])]);
        let task = stage.submit(|_| ()).await;
        stage.work().await;
        assert_eq!(stage.status(&task).await, Status::Completed, "{joins:?}");
        assert_eq!(stage.count(&task, EventType::SubtaskCompleted).await, 2);
        stage.is_at_rest(&task).await;
    }
}

/// A background child is told once it ends, also where the first result was to be enough, and a
/// turn does not end over its answer.
#[tokio::test(start_paused = true)]
async fn wa_5_a_background_childs_answer_joins_once() {
    let late = json!({ "text": "the child's answer", "delay_ms": 2_000 });
    let delegates = calls(&[delegate("child", json!({ "background": true, "join": "any" }))]);
    for (delay_ms, interactive) in [(0, true), (5_000, false)] {
        let ends = json!({ "text": "started", "delay_ms": delay_ms });
        let stage = Stage::new(&[
            ("child", std::slice::from_ref(&late)),
            ("main", &[delegates.clone(), ends, say("heard of it")]),
        ]);
        let task = stage.submit(|submission| submission.definition.interactive = interactive).await;
        stage.work().await;
        let told = stage.conversation(&task).await;
        assert_eq!(told.matches("the child's answer").count(), 1, "{told}");
        assert!(told.contains("heard of it"), "{told}");
        assert_eq!(stage.row(&task).await.blocked, None);
    }
}

/// An event of the longest kind that can be waited for is waited for by its whole name.
#[tokio::test(start_paused = true)]
async fn wa_2_a_wait_names_its_event_whole() {
    for kind in ["k".repeat(96), "\"\\".repeat(48), "é".repeat(48)] {
        let stage = Stage::new(&[("main", &[calls(&[call("Wait", json!({ "event": kind }))]), say("done")])]);
        let task = stage.submit(|_| ()).await;
        stage.work().await;
        assert_eq!(stage.status(&task).await, Status::Waiting);
        stage.client.signal(&task, USER, kind, None, None).await.unwrap();
        stage.work().await;
        assert_eq!(stage.status(&task).await, Status::Completed);
    }
}

/// However many waits a reply makes, its decision can be recorded, and each call is answered.
#[tokio::test(start_paused = true)]
async fn ev_7_many_long_waits_fit_into_a_decision() {
    for kinds in [1, 40] {
        let wait = |index: usize| {
            let kind = format!("{:\"<60}", index % kinds);
            call("Wait", json!({ "event": kind, "seconds": 1 }))
        };
        let waits: Vec<Value> = (0..40).map(wait).collect();
        let stage = Stage::new(&[("main", &[calls(&waits), say("done")])]);
        let task = stage.submit(|_| ()).await;
        stage.work().await;
        assert_eq!(stage.status(&task).await, Status::Completed);
        assert!(stage.conversation(&task).await.contains("too many waits"));
    }
}

/// ID-3: evidence that comes after the model was told that nobody knows is shown to it.
#[tokio::test(start_paused = true)]
async fn id_3_late_evidence_is_shown_where_the_outcome_was_unknown() {
    let stage = Stage::new(&[("main", &[calls(&[note("hang")]), say("I wonder"), say("I see")])]);
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    let works = stage.works();
    stage.note.begun.notified().await;
    works.abort();
    tokio::time::sleep(Duration::from_secs(31)).await;
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Waiting);
    let (action, call) = (Seq(9), first_call(8));
    let state = stage.client.state(&task, Some(action), false).await.unwrap();
    let identity: Identity = state.governance().action(action).unwrap().identity.clone();
    let evidence = Item::Evidence {
        action,
        call,
        identity,
        output: "it was done".into(),
        status: plica_kernel::event::CallStatus::Ok,
    };
    stage.client.deliver(&task, "engine", &evidence, None).await.unwrap();
    stage.client.send(&task, USER, "Well?").await.unwrap();
    stage.work().await;
    let told = stage.conversation(&task).await;
    assert!(told.contains("it was done") && told.contains("I see"), "{told}");
    assert_eq!(stage.count(&task, EventType::LateResultRecorded).await, 1);
    stage.is_at_rest(&task).await;
}

/// What children spent counts towards the cap.
#[tokio::test(start_paused = true)]
async fn en_4_at_the_cap_the_task_asks_and_what_its_children_spent_counts() {
    let stage = Stage::new(&[
        ("child", &[say("answer")]),
        ("main", &[calls(&[delegate("child", json!({}))]), calls(&[delegate("child", json!({}))]), say("done")]),
    ]);
    for verdict in [ApprovalVerdict::Deny, ApprovalVerdict::Approve] {
        let task = stage.submit(|submission| submission.definition.budget.steps = Some(4)).await;
        stage.work().await;
        let state = stage.client.state(&task, None, false).await.unwrap();
        let (call, approval) = state.governance().budget_approval().unwrap();
        assert_eq!(approval.grants(), Some(Budget { steps: Some(4), ..Budget::default() }));
        assert_eq!(stage.status(&task).await, Status::Waiting);
        stage.is_at_rest(&task).await;
        stage.client.rule(&task, USER, call, verdict, None).await.unwrap();
        stage.work().await;
        match stage.payloads(&task).await.last() {
            Some(Payload::TaskFailed(failed)) if verdict == ApprovalVerdict::Deny => {
                assert_eq!(failed.reason, FailureReason::Budget);
            }
            Some(Payload::TaskCompleted(_)) if verdict == ApprovalVerdict::Approve => {}
            last => panic!("{last:?}"),
        }
        stage.is_at_rest(&task).await;
    }
}

/// A child that has spent its slice asks like any other task, while its parent waits for it.
#[tokio::test(start_paused = true)]
async fn en_4_a_child_asks_at_the_end_of_its_slice() {
    let round = || calls(&[note("x")]);
    let stage = Stage::new(&[
        ("child", &[round(), round(), say("answer")]),
        ("main", &[calls(&[delegate("child", json!({}))]), say("done")]),
    ]);
    // Four steps are left after the first: two for the child, two for its parent.
    let task = stage.submit(|submission| submission.definition.budget.steps = Some(5)).await;
    stage.work().await;
    let child = stage.children(&task).await.remove(0);
    let state = stage.client.state(&child, None, false).await.unwrap();
    assert_eq!(state.governance().budget.steps, Some(2));
    let (call, _) = state.governance().budget_approval().unwrap();
    stage.client.rule(&child, USER, call, ApprovalVerdict::Approve, None).await.unwrap();
    stage.work().await;
    let state = stage.client.state(&task, None, false).await.unwrap();
    assert_eq!(stage.status(&task).await, Status::Completed);
    assert_eq!(
        (state.governance().steps, state.governance().spent().steps, state.governance().reserved().steps),
        (2, 5, 0)
    );
}

/// Neither going back nor aside gives back what was spent: either way the task asks.
#[tokio::test(start_paused = true)]
async fn en_4_going_back_or_aside_refills_no_budget() {
    let stage = Stage::new(&[("main", &[say("one"), say("two"), say("three")])]);
    let task = stage
        .submit(|submission| {
            submission.definition.interactive = true;
            submission.definition.budget.steps = Some(2);
        })
        .await;
    stage.work().await;
    let boundary = stage.row(&task).await.projection.seq;
    stage.client.send(&task, USER, "Go on.").await.unwrap();
    stage.work().await;
    let fork = stage.client.fork(&task, USER, Some(boundary)).await.unwrap();
    let late = stage.client.fork(&task, USER, None).await.unwrap();
    stage.client.rewind(&task, USER, boundary).await.unwrap();
    stage.work().await;
    // The early branch has a step left, which the others have spent.
    for (task, spent) in [(&fork, 1), (&late, 2), (&task, 2)] {
        assert_eq!(stage.client.state(task, None, false).await.unwrap().governance().spent().steps, spent, "{task}");
        for _ in spent..3 {
            stage.client.send(task, USER, "And now?").await.unwrap();
            stage.work().await;
        }
        let state = stage.client.state(task, None, false).await.unwrap();
        assert_eq!(state.governance().spent().steps, 2);
        assert!(state.governance().budget_approval().is_some(), "{task} asks for more");
        stage.is_at_rest(task).await;
    }
}

/// A budget is the task's and not a turn's: what was granted before someone asked to go back, or to
/// stop, is granted.
#[tokio::test(start_paused = true)]
async fn en_4_a_budget_that_is_raised_before_a_way_back_stays_raised() {
    for goes_back in [true, false] {
        let stage = Stage::new(&[("main", &[say("one"), say("two")])]);
        let task = stage
            .submit(|submission| {
                submission.definition.interactive = true;
                submission.definition.budget.steps = Some(1);
            })
            .await;
        stage.work().await;
        let boundary = stage.row(&task).await.projection.seq;
        stage.client.send(&task, USER, "Go on.").await.unwrap();
        stage.work().await;
        let state = stage.client.state(&task, None, false).await.unwrap();
        let (call, _) = state.governance().budget_approval().unwrap();
        stage.client.rule(&task, USER, call, ApprovalVerdict::Approve, None).await.unwrap();
        if goes_back {
            stage.client.rewind(&task, USER, boundary).await.unwrap();
        } else {
            stage.client.interrupt(&task, USER, None).await.unwrap();
        }
        stage.work().await;
        let state = stage.client.state(&task, None, false).await.unwrap();
        assert_eq!(state.governance().budget.steps, Some(2), "goes back: {goes_back}");
        assert_eq!(stage.count(&task, EventType::LateResultRecorded).await, 0);
        stage.client.send(&task, USER, "And now?").await.unwrap();
        stage.work().await;
        assert_eq!(stage.client.answer(&task).await.unwrap().as_deref(), Some("two"));
        stage.is_at_rest(&task).await;
    }
}

/// A subtask that has told its parent how it ended is not opened again, neither by going back nor
/// by reopening it, and none forks: each refusal names what to do instead.
#[tokio::test(start_paused = true)]
async fn sn_4_sn_5_a_subtask_that_has_reported_stays_as_it_is() {
    let stage =
        Stage::new(&[("child", &[say("answer")]), ("main", &[calls(&[delegate("child", json!({}))]), say("done")])]);
    let task = stage.submit(|_| ()).await;
    stage.work().await;
    let child = stage.children(&task).await.remove(0);
    let before = stage.row(&child).await;
    let reopened = stage.client.reopen(&child, USER, None).await.unwrap_err();
    let rewound = stage.client.rewind(&child, USER, before.projection.seq).await.unwrap_err();
    for refused in [reopened, rewound] {
        assert!(matches!(refused, ClientError::Reported { .. }), "{refused}");
        assert!(refused.to_string().contains(&format!("`plica show {task}`")), "{refused}");
    }
    let forked = stage.client.fork(&child, USER, None).await.unwrap_err();
    assert!(forked.to_string().contains(&format!("`plica fork {task}`")), "{forked}");
    stage.work().await;
    assert_eq!(stage.row(&child).await.projection, before.projection, "nothing was delivered");
    // A root is opened again.
    stage.client.reopen(&task, USER, None).await.unwrap();
    stage.work().await;
    assert_eq!(stage.status(&task).await, Status::Waiting);
}

/// What a child's call had foreseen is put back with its parent, though the child's worker is lost
/// and nobody has taken the child up yet.
#[tokio::test(start_paused = true)]
async fn sn_5_what_a_child_was_cut_off_at_is_put_back_too() {
    for (lost, by_another) in [("before", None), ("after", None), ("after", Some("mine"))] {
        let cut = call("Put", json!({ "path": "a", "text": "two", "lost": lost }));
        let replies = [say("first"), calls(&[delegate("helper", json!({}))]), say("never")];
        let folder = Arc::new(Folder::new());
        let mut stage = Stage::with(&[("helper", &[calls(&[cut])]), ("main", &replies)], |host| {
            host.tool(folder.clone()).files(folder.clone())
        });
        stage.give("Put");
        let task = stage.submit(|submission| submission.definition.interactive = true).await;
        stage.work().await;
        let first = stage.row(&task).await.projection.seq;
        stage.client.send(&task, USER, "and now?").await.unwrap();
        let working = stage.works();
        folder.has_lost_one().await;
        working.abort();
        assert!(working.await.unwrap_err().is_cancelled());
        if let Some(text) = by_another {
            folder.put("a", text);
        }
        stage.client.rewind(&task, USER, first).await.unwrap();
        stage.work().await;
        assert_eq!(folder.text("a").as_deref(), by_another, "lost {lost} the change");
        let left = stage.payloads(&task).await.into_iter().find_map(|payload| match payload {
            Payload::FilesRestored(restored) => restored.left,
            _ => None,
        });
        let left = left.expect("the child that was at work is named").inline().unwrap().to_owned();
        assert_eq!(left.contains("\"a\""), by_another.is_some(), "{left}");
        let child = stage.children(&task).await.remove(0);
        assert_eq!(stage.status(&child).await, Status::Cancelled);
    }
}

/// A child that is waited for is told to stop by the append of the rewind itself.
#[tokio::test(start_paused = true)]
async fn sn_1_a_rewind_closes_what_is_open_in_its_own_append() {
    let asks = [calls(&[call("AskUser", json!({ "question": "which?" }))]), say("never")];
    let replies = [say("first"), calls(&[delegate("helper", json!({}))]), say("second")];
    let stage = Stage::new(&[("helper", &asks), ("main", &replies)]);
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    stage.work().await;
    let first = stage.row(&task).await.projection.seq;
    stage.client.send(&task, USER, "and now?").await.unwrap();
    stage.work().await;
    let child = stage.children(&task).await.remove(0);
    stage.client.rewind(&task, USER, first).await.unwrap();
    stage.work().await;
    let kinds = stage.kinds(&task).await;
    let rewound = kinds.iter().position(|kind| *kind == EventType::TaskRewound).unwrap();
    assert_eq!(kinds[rewound - 1], EventType::SubtaskCompleted);
    let stored = stage.client.events(&task, Seq(rewound as u64), 1).await.unwrap();
    let closed = plica_kernel::decode::decode(&stored[0].body, &stored[0].hash).unwrap();
    assert!(closed.more > 0, "one append");
    assert_eq!((stage.status(&task).await, stage.status(&child).await), (Status::Waiting, Status::Cancelled));
    stage.is_at_rest(&child).await;
}
