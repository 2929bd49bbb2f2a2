//! Approvals: asked for, given, refused, expired, late, in any order.

use plica_kernel::decide::{CallPlan, ChangedFile, Foreseen, Spawn};
use plica_kernel::event::ApprovalVerdict::{Approve, Deny, Expire};
use plica_kernel::event::{Budget, CallStatus, FileWas, Payload};

use super::assert_scene;
use crate::common::scene::{Scene, ask, call, outcome, scene};
use crate::common::world::created;

/// A call that nobody may let run any more so many milliseconds after it was asked about.
fn ask_within(expires_ms: u64) -> CallPlan {
    CallPlan::Ask { args: "{}".into(), expires_ms: Some(expires_ms), rule: None, tool: "Tool".into() }
}

fn ask_for_a_child() -> CallPlan {
    CallPlan::Ask { args: r#"{"goal":"help"}"#.into(), expires_ms: None, rule: None, tool: "Task".into() }
}

/// The scene, and the decision on these calls.
fn asked(calls: Vec<CallPlan>) -> (Scene, plica_kernel::id::Seq) {
    let mut scene = scene(false, Budget::default());
    scene.replies("", calls);
    let decision = scene.decision();
    (scene, decision)
}

#[test]
fn en_3_three_calls_of_one_reply_are_ruled_on_in_any_order() {
    let (mut scene, decision) = asked(vec![ask("1"), ask("2"), ask("3")]);
    scene.note("The last is refused, the first may run.");
    scene.rules(call(decision, 2), Deny, Some("too dear")).goes_on();
    scene.rules(call(decision, 0), Approve, Some("well")).goes_on();
    scene.note("While it runs, the second is refused, and then a different answer comes for the last.");
    scene.rules(call(decision, 1), Deny, None).rules(call(decision, 2), Approve, None).goes_on();
    scene.ends(0, outcome(CallStatus::Ok, "one"));
    assert_scene("rulings-in-any-order", &scene);
}

/// Nobody rules in time: the deadline wakes the task. What was said in time counts, whenever it is
/// taken, and what was said too late is kept.
#[test]
fn en_3_an_approval_expires_unless_it_came_in_time() {
    let (mut scene, decision) = asked(vec![ask_within(2_000), ask_within(1_000), ask_within(3_000)]);
    scene.passes(999).goes_on();
    scene.note("The first is allowed a millisecond before the second expires; the worker looks later.");
    scene.rules(call(decision, 0), Approve, None).passes(1).goes_on();
    scene.note("The third is allowed too late.");
    scene.passes(2_500).rules(call(decision, 2), Approve, None).goes_on();
    scene.ends(0, outcome(CallStatus::Ok, "one"));
    assert_scene("approvals-that-expire", &scene);
}

/// A person's word may be `expire` as well.
#[test]
fn en_3_a_person_lets_an_approval_expire() {
    let (mut scene, decision) = asked(vec![ask("1")]);
    scene.rules(call(decision, 0), Expire, None).goes_on();
    assert_scene("approval-let-go", &scene);
}

/// What an approved spawn comes to is known to the worker, or why it comes to nothing.
#[test]
fn en_3_wa_5_spawns_that_were_asked_about() {
    let (mut scene, decision) = asked(vec![ask_for_a_child(), ask_for_a_child(), ask_for_a_child(), ask_for_a_child()]);
    let child = Spawn { any: false, created: created("child", Budget::default(), false), goal: "help".into() };
    scene.seen.spawns.insert(call(decision, 0), Ok(child.clone()));
    scene.seen.spawns.insert(call(decision, 1), Err("no such agent".into()));
    scene.seen.spawns.insert(call(decision, 3), Ok(child));
    (0..3).for_each(|index| {
        scene.rules(call(decision, index), Approve, None);
    });
    scene.rules(call(decision, 3), Deny, Some("one is enough")).goes_on();
    assert_scene("approved-spawns", &scene);
}

/// An approved call starts with what it will change, with the plugins of the worker that starts
/// it, and with the arguments that were asked about.
#[test]
fn en_3_rc_8_an_approved_call_starts_with_another_worker() {
    let (mut scene, decision) = asked(vec![ask(r#"{"n":1}"#)]);
    scene.crash();
    let file = ChangedFile { after: None, before: FileWas::Absent, path: "a.txt".into() };
    scene.seen.foreseen.insert(call(decision, 0), Foreseen { blobs: vec![], files: vec![file] });
    scene.rules(call(decision, 0), Approve, None).goes_on();
    scene.ends(0, outcome(CallStatus::Ok, "ran"));
    assert_scene("approved-by-another-worker", &scene);
}

/// The digest is of the exact call: of its task, its place, its tool and its arguments.
#[test]
fn en_3_no_two_calls_have_one_digest() {
    let digests = |calls: Vec<CallPlan>| {
        let (scene, _) = asked(calls);
        let asked = scene.world.log.envelopes().into_iter().filter_map(|event| match event.payload {
            Payload::ApprovalRequested(asked) => Some(asked.digest),
            _ => None,
        });
        asked.collect::<Vec<_>>()
    };
    let mut all = digests(vec![ask("1"), ask("1"), ask_for_a_child(), ask_within(5)]);
    assert_eq!(digests(vec![ask("1")]), all[..1], "it says nothing of when, or by whom");
    all.extend(digests(vec![ask("2")]));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5);
}
