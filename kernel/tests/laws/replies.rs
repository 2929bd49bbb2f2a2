//! Replies with more calls, and calls with longer names, than an event holds (EV-7).

use plica_kernel::canonical::to_vec;
use plica_kernel::decide::{CallPlan, RecordError, reply};
use plica_kernel::event::{Budget, DecisionRecorded, Payload};
use plica_kernel::limits::PAYLOAD_BYTES_MAX;
use plica_kernel::state::Entry;

use crate::common::scene::{answer, scene};
use plica_kernel::decide::Act;

/// The decision on a reply with these calls, in a task whose model was asked.
fn decided(calls: Vec<CallPlan>) -> DecisionRecorded {
    let mut scene = scene(true, Budget::default());
    scene.replies("", calls);
    let events = scene.world.log.envelopes();
    let decision = events.into_iter().find_map(|event| match event.payload {
        Payload::DecisionRecorded(decision) => Some(decision),
        _ => None,
    });
    decision.unwrap()
}

#[test]
fn ev_7_calls_beyond_the_32nd_are_counted_and_answered() {
    let deny = CallPlan::Deny { reason: "no".into(), tool: "Tool".into() };
    let mut scene = scene(true, Budget::default());
    let mut many = answer("", vec![deny; 35]);
    many.calls.truncate(32);
    scene.reply(many);
    let messages = &scene.world.task.runtime().messages;
    let Some(Entry::Results(results)) = messages.last() else { panic!("{messages:?}") };
    assert_eq!((results.results.len(), results.over), (32, 3));
}

#[test]
fn to_4_a_reply_whose_calls_are_not_all_ruled_on_is_refused() {
    let deny = CallPlan::Deny { reason: "no".into(), tool: "Tool".into() };
    let scene = scene(true, Budget::default());
    let Act::Ask(action) = scene.act else { panic!("{:?}", scene.act) };
    for (asked, ruled) in [(2, 1), (1, 2), (33, 33)] {
        let mut odd = answer("", vec![deny.clone(); asked]);
        odd.calls = vec![deny.clone(); ruled];
        let refused = reply(&mut scene.world.draft(), action, odd);
        assert!(matches!(refused, Err(RecordError::Misplaced { .. })), "{refused:?}");
    }
}

/// Rules stand in the decision as long as all of it fits, to the last byte; the calls and what
/// they wait for stand there in any case.
#[test]
fn ev_7_rules_make_room_for_calls() {
    let calls = |kind: usize| -> Vec<CallPlan> {
        let long = |index: usize| CallPlan::Deny { reason: "no".into(), tool: format!("{index:-<70}") };
        let rule = |index: usize| CallPlan::Ask {
            args: "{}".into(),
            expires_ms: None,
            rule: Some(format!("{index:-<40}")),
            tool: format!("{index:-<70}"),
        };
        let wait = |length: usize| CallPlan::Wait { event: Some("e".repeat(length)), seconds: Some(1) };
        let waits = (0..10).map(|_| wait(96)).chain([wait(kind)]);
        waits.chain((0..5).map(long)).chain((0..16).map(rule)).collect()
    };
    let size = |decision: &DecisionRecorded| to_vec(decision).unwrap().len();
    let ruled = |decision: &DecisionRecorded| decision.calls.iter().filter(|call| call.rule.is_some()).count();
    let shortest = decided(calls(1));
    assert_eq!(ruled(&shortest), 16);
    let longest = 1 + PAYLOAD_BYTES_MAX - size(&shortest);
    let fits = decided(calls(longest));
    assert_eq!((size(&fits), ruled(&fits)), (PAYLOAD_BYTES_MAX, 16));
    let too_long = decided(calls(longest + 1));
    assert_eq!((too_long.calls.len(), ruled(&too_long)), (32, 0));
}
