//! Crashes: what becomes of calls that a lost worker had begun.

use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::content_hash;
use plica_kernel::decide::{AfterCrash, CallOutcome, CallPlan, ChangedFile, Orphan};
use plica_kernel::event::{ApprovalVerdict, Budget, CallResolution, CallStatus, FileWas, SubtaskStatus};
use plica_kernel::wake::Item;

use super::{assert_scene, everything_open};
use crate::common::scene::{Scene, ask, call, outcome, scene, spawn, start, wait};

/// A result that was found, with a file that the call had changed.
fn found() -> Orphan {
    let kept = Blob::new("text/plain", b"old".to_vec());
    let before = FileWas::Kept(ContentRef::of("text/plain", b"old"));
    let file = ChangedFile { after: Some(content_hash(b"new")), before, path: "a.txt".into() };
    Orphan::Found(CallOutcome { blobs: vec![kept], files: vec![file], ..outcome(CallStatus::Ok, "it was done") })
}

/// A step with these calls is cut off, and another worker takes over.
fn cut_off(scene: &mut Scene, calls: usize) {
    scene.replies("", vec![start("{}"); calls]);
    scene.crash().goes_on();
}

#[test]
fn rc_2_what_is_known_of_calls_that_were_cut_off_settles_them() {
    let mut scene = scene(false, Budget::default());
    scene.note("One call's result is found, one may run again, one is lost, one had ended before.");
    scene.replies("", vec![start(r#"{"n":0}"#), start(r#"{"n":1}"#), start(r#"{"n":2}"#), start(r#"{"n":3}"#)]);
    scene.ends(3, outcome(CallStatus::Ok, "well"));
    scene.crash().goes_on();
    scene.settles(&[found(), Orphan::RetrySafe, Orphan::Lost], AfterCrash::Resolve);
    scene.ends(1, outcome(CallStatus::Ok, "at last"));
    assert_scene("crash-resolved", &scene);
}

#[test]
fn rc_2_a_call_that_may_run_again_is_started_three_times_at_most() {
    let mut scene = scene(false, Budget::default());
    cut_off(&mut scene, 1);
    scene.settles(&[Orphan::RetrySafe], AfterCrash::Resolve).crash().goes_on();
    scene.settles(&[Orphan::RetrySafe], AfterCrash::Resolve).crash().goes_on();
    scene.note("It was started three times.");
    scene.settles(&[Orphan::RetrySafe], AfterCrash::Resolve);
    assert_scene("crash-three-starts", &scene);
}

#[test]
fn rc_3_a_step_that_is_redriven_runs_again_from_before_it_began() {
    let mut scene = scene(false, Budget::default());
    scene.note("A person speaks while the step is under way, and the worker is lost.");
    scene.replies("", vec![start(r#"{"n":0}"#), start(r#"{"n":1}"#), start(r#"{"n":2}"#)]);
    scene.ends(2, outcome(CallStatus::Ok, "well"));
    scene.say("hurry").crash().goes_on();
    scene.note("The files that the first call changed stay known.");
    let after = scene.redriven();
    scene.settles(&[found(), Orphan::Lost], after);
    scene.replies("done", vec![]);
    assert_scene("crash-redriven", &scene);
}

#[test]
fn rc_3_the_third_seal_in_a_row_parks() {
    let mut scene = scene(true, Budget::default());
    for _ in 0..2 {
        cut_off(&mut scene, 1);
        let after = scene.redriven();
        scene.settles(&[Orphan::Lost], after);
    }
    scene.note("The step breaks a third time.");
    cut_off(&mut scene, 1);
    let after = scene.redriven();
    scene.settles(&[Orphan::Lost], after);
    assert_scene("crash-three-seals", &scene);
}

#[test]
fn rc_3_a_step_that_parks_names_its_calls_and_a_message_goes_on() {
    let mut scene = scene(false, Budget::default());
    let deny = CallPlan::Deny { reason: "not allowed".into(), tool: "Rm".into() };
    let calls = vec![start("{}"), start("{}"), start("{}"), start("{}"), deny, CallPlan::Question("which?".into())];
    scene.replies("", calls);
    scene.ends(3, outcome(CallStatus::Error, "no such file"));
    scene.crash().goes_on();
    scene.settles(&[found(), Orphan::RetrySafe, Orphan::Lost], AfterCrash::Park);
    scene.note("A person reads it and goes on.");
    scene.say("go on").goes_on();
    scene.replies("done", vec![]);
    assert_scene("crash-parked", &scene);
}

#[test]
fn rc_3_a_parked_step_leaves_what_goes_on_in_the_background() {
    let mut scene = everything_open(true);
    scene.crash().goes_on();
    scene.settles(&[Orphan::Lost], AfterCrash::Park);
    scene.note("The child that went on by itself ends, which opens no turn.");
    last_child_ends(&mut scene).goes_on();
    scene.note("A person goes on.");
    scene.say("go on").goes_on();
    assert_scene("crash-parked-everything-open", &scene);
}

/// The child that is left, in the background, ends.
fn last_child_ends(scene: &mut Scene) -> &mut Scene {
    let call = scene.world.task.governance().children().next().expect("a child is open").1.call;
    scene.child_ends(call, true, SubtaskStatus::Completed, "found it")
}

#[test]
fn rc_3_a_step_that_spawned_a_child_parks_instead_of_being_redriven() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![start("{}"), spawn(true, false, Budget::default())]);
    scene.crash().goes_on();
    let after = scene.redriven();
    scene.settles(&[Orphan::Lost], after);
    assert_scene("crash-child-spawned", &scene);
}

#[test]
fn rc_3_a_step_that_waits_parks_instead_of_being_redriven() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![start("{}"), wait(Some(60), None)]);
    scene.crash().goes_on();
    let after = scene.redriven();
    scene.settles(&[Orphan::Lost], after);
    assert_scene("crash-wait-open", &scene);
}

#[test]
fn rc_3_a_step_that_took_in_what_would_not_come_again_parks() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![spawn(true, false, Budget::default())]);
    scene.note("A child's answer comes while the next step is under way.");
    scene.replies("", vec![start("{}"), CallPlan::Question("which?".into())]);
    last_child_ends(&mut scene).goes_on().crash().goes_on();
    let after = scene.redriven();
    scene.settles(&[Orphan::Lost], after);
    assert_scene("crash-answer-taken", &scene);
}

#[test]
fn rc_4_a_call_that_a_person_approved_and_that_is_lost_parks() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![ask("{}"), start("{}")]);
    let approved = call(scene.decision(), 0);
    scene.deliver(Item::Verdict { call: approved, reason: None, verdict: ApprovalVerdict::Approve }).goes_on();
    scene.crash().goes_on();
    scene.settles(&[Orphan::RetrySafe, Orphan::Lost], AfterCrash::Resolve);
    assert_scene("crash-approved-lost", &scene);
}

#[test]
fn rc_4_a_call_that_a_person_approved_and_that_may_run_again_runs_again() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![ask("{}"), start("{}")]);
    let approved = call(scene.decision(), 0);
    scene.deliver(Item::Verdict { call: approved, reason: None, verdict: ApprovalVerdict::Approve }).goes_on();
    scene.crash().goes_on();
    scene.settles(&[Orphan::Lost, Orphan::RetrySafe], AfterCrash::Resolve);
    assert_scene("crash-approved-again", &scene);
}

/// A call whose outcome was unknown runs again, since a person said that it did not happen.
fn running_again(scene: &mut Scene) {
    cut_off(scene, 1);
    let lost = call(scene.decision(), 0);
    scene.settles(&[Orphan::Lost], AfterCrash::Resolve);
    scene.replies("I do not know", vec![]);
    scene.note("A person says that the call did not happen: it runs now.");
    let verdict = CallResolution::NotLanded;
    scene.deliver(Item::Resolve { call: lost, output: None, verdict }).goes_on();
}

#[test]
fn to_3_a_call_that_runs_again_is_settled_like_any_other() {
    let mut scene = scene(true, Budget::default());
    running_again(&mut scene);
    scene.note("It is cut off, may run again, and is lost the next time.");
    scene.crash().goes_on();
    scene.settles(&[Orphan::RetrySafe], AfterCrash::Park);
    scene.crash().goes_on();
    scene.settles(&[Orphan::Lost], AfterCrash::Resolve);
    assert_scene("crash-of-a-rerun", &scene);
}

#[test]
fn to_3_the_result_of_a_call_that_ran_again_is_found() {
    let mut scene = scene(true, Budget::default());
    running_again(&mut scene);
    scene.crash().goes_on();
    scene.settles(&[found()], AfterCrash::Resolve);
    assert_scene("crash-of-a-rerun-found", &scene);
}
