//! Questions, waits for events and for the time, and what people say meanwhile.

use plica_kernel::decide::CallPlan;
use plica_kernel::event::{Budget, CallStatus};

use super::assert_scene;
use crate::common::scene::{Scene, ask, call, outcome, question, scene, start, wait};

fn decided(calls: Vec<CallPlan>) -> Scene {
    let mut scene = scene(false, Budget::default());
    scene.replies("", calls);
    scene
}

/// What people say while a call waits stands after its result, and ends no wait.
#[test]
fn en_6_a_message_while_a_question_waits() {
    let mut scene = decided(vec![question("which colour?"), question("how many?")]);
    let decision = scene.decision();
    scene.say("hurry").goes_on();
    scene.answers(call(decision, 1), "two").say("please").goes_on();
    scene.note("The second was answered; the answer to the first comes twice.");
    scene.answers(call(decision, 0), "red").answers(call(decision, 0), "blue").goes_on();
    assert_scene("questions-and-messages", &scene);
}

/// A timer is not early, and fires once.
#[test]
fn wa_6_a_wait_for_the_time() {
    let mut scene = decided(vec![wait(Some(10), None), wait(Some(20), None)]);
    scene.passes(9_999).goes_on();
    scene.passes(1).goes_on();
    scene.goes_on();
    scene.note("A worker that looks late.");
    scene.passes(60_000).goes_on();
    assert_scene("timers", &scene);
}

/// A hundred years are the longest wait.
#[test]
fn rc_10_no_wait_is_longer_than_a_hundred_years() {
    assert_scene("the-longest-wait", &decided(vec![wait(Some(u64::MAX), None)]));
}

/// An event ends every wait for its kind; one of another kind, none.
#[test]
fn wa_2_waits_for_events() {
    let calls = vec![wait(None, Some("built")), wait(None, Some("tested")), wait(None, Some("built"))];
    let mut scene = decided(calls);
    scene.happens("deployed", None).goes_on();
    scene.happens("built", Some("v2")).goes_on();
    scene.happens("tested", None).goes_on();
    scene.note("What nobody waited for is there when someone does.");
    scene.replies("", vec![wait(None, Some("deployed"))]);
    assert_scene("events", &scene);
}

/// Either, or both: whichever is first. Items come before a due timer.
#[test]
fn wa_6_waits_for_an_event_or_the_time() {
    let mut scene = decided(vec![wait(Some(5), Some("a")), wait(Some(5), Some("b")), wait(Some(9), Some("c"))]);
    scene.note("It is time, but the event was there first.");
    scene.happens("a", None).passes(6_000).goes_on();
    scene.passes(4_000).goes_on();
    assert_scene("event-or-time", &scene);
}

/// A wait beside a question, an approval and a call that runs: woken at each arrival.
#[test]
fn en_6_a_mixture_wakes_at_each_arrival() {
    let mut scene = decided(vec![wait(Some(30), Some("x")), question("which?"), start("{}"), ask("{}")]);
    let decision = scene.decision();
    scene.note("What runs is waited for first; a message that comes meanwhile is taken then.");
    scene.say("hello").goes_on();
    scene.ends(2, outcome(CallStatus::Ok, "ran"));
    scene.answers(call(decision, 1), "this").goes_on();
    scene.happens("x", Some(r#"{"n":1}"#)).goes_on();
    scene.rules(call(decision, 3), plica_kernel::event::ApprovalVerdict::Deny, None).goes_on();
    assert_scene("a-mixture", &scene);
}

/// One that is to stop begins nothing: a message, an answer, and a ruling are for the next.
#[test]
fn en_1_one_that_is_to_stop_leaves_what_came_to_the_next() {
    let mut scene = decided(vec![question("which?"), start("{}")]);
    let decision = scene.decision();
    scene.seen.stopping = true;
    scene.answers(call(decision, 0), "this").say("hello").goes_on();
    scene.note("What it runs it still ends.");
    scene.ends(1, outcome(CallStatus::Ok, "ran"));
    scene.seen.stopping = false;
    scene.crash().goes_on();
    assert_scene("one-that-is-to-stop", &scene);
}
