//! Turns: how they end, fail, are interrupted, and how tasks are cancelled.

use plica_kernel::decide::{CallOutcome, fail};
use plica_kernel::event::{Budget, CallStatus, Failure, FailureReason, JobEnd, SubtaskStatus};
use plica_kernel::id::Seq;
use plica_kernel::wake::Item;

use super::{assert_scene, everything_open};
use crate::common::scene::{Scene, call, outcome, scene, scene_of, spawn, start};

/// The turn fails for this reason.
fn fails(scene: &mut Scene, reason: FailureReason, detail: &str) {
    let failure = Failure { detail: Some(detail.into()), reason };
    let items = scene.world.untaken();
    scene.records(|draft| fail(draft, failure, &items).unwrap());
}

fn interrupt() -> Item {
    Item::Interrupt { reason: Some("wait a moment".into()) }
}

fn cancel() -> Item {
    Item::Cancel { reason: Some("no longer needed".into()) }
}

#[test]
fn en_6_a_turn_of_an_interactive_task_ends_with_its_answer_and_a_message_opens_the_next() {
    let mut scene = scene(true, Budget::default());
    scene.replies("hello", vec![]);
    scene.say("and you?").say("well?").goes_on();
    scene.note("A message that comes before the turn is over joins, and the model is asked again.");
    scene.say("one more");
    scene.replies("fine", vec![]);
    scene.replies("as I said", vec![]);
    assert_scene("turn-interactive", &scene);
}

#[test]
fn rc_7_the_second_internal_error_in_a_row_fails_an_interactive_task() {
    let mut scene = scene(true, Budget::default());
    scene.note("A bug breaks the turn, and again the one after the next.");
    fails(&mut scene, FailureReason::InternalError, "index out of bounds");
    scene.say("try again").goes_on();
    scene.replies("that went well", vec![]);
    scene.say("and this?").goes_on();
    fails(&mut scene, FailureReason::InternalError, "once more");
    scene.note("The second in a row is the end; what was said meanwhile is on record.");
    scene.say("hm").goes_on();
    scene.say("can you hear me?").deliver(interrupt());
    fails(&mut scene, FailureReason::InternalError, "and again");
    assert_scene("turn-internal-errors", &scene);
}

#[test]
fn rc_9_content_that_cannot_be_had_fails_an_interactive_task_too() {
    let mut scene = scene(true, Budget::default());
    fails(&mut scene, FailureReason::ContentError, &"gone ".repeat(300));
    assert_scene("turn-content-error", &scene);
}

#[test]
fn rc_8_a_plugin_that_nobody_has_fails_an_interactive_task_too() {
    let mut scene = scene(true, Budget::default());
    fails(&mut scene, FailureReason::PluginMissing, "Tool");
    assert_scene("turn-plugin-missing", &scene);
}

#[test]
fn en_6_an_interrupt_stops_the_turn_and_leaves_what_goes_on_in_the_background() {
    let mut scene = everything_open(false);
    scene.note("A person stops the turn, and again at once. A child ended before.");
    let decision = scene.decision();
    scene.child_ends(call(decision, 5), false, SubtaskStatus::Completed, "found it");
    scene.deliver(interrupt()).deliver(interrupt()).goes_on();
    assert_scene("interrupt-everything-open", &scene);
}

#[test]
fn en_6_after_an_interrupt_a_message_goes_on() {
    let mut scene = scene(true, Budget::default());
    scene.note("The model is being asked when a person stops the turn and says why.");
    scene.deliver(Item::Interrupt { reason: None }).say("not that way").goes_on();
    scene.note("A job alone is no reason to go on after an interrupt; at the end of a turn it is.");
    scene.replies("", vec![start("{}")]);
    scene.ends(0, CallOutcome { job: Some("sleep 9".into()), ..outcome(CallStatus::Ok, "") });
    scene.deliver(interrupt()).goes_on();
    scene.deliver(interrupt()).goes_on();
    scene.say("go on").goes_on();
    scene.replies("fine", vec![]);
    assert_scene("interrupt-and-go-on", &scene);
}

#[test]
fn en_6_a_cancel_ends_everything_that_is_open() {
    let mut scene = everything_open(true);
    scene.note("A person cancels the task, and speaks before it is over.");
    scene.say("never mind").deliver(interrupt()).deliver(cancel()).say("bye").deliver(cancel()).goes_on();
    assert_scene("cancel-everything-open", &scene);
}

/// The job that runs.
fn open_job(scene: &Scene) -> Seq {
    scene.world.task.governance().open_jobs().next().expect("a job runs").0.seq
}

#[test]
fn en_6_what_has_ended_before_a_cancel_has_ended_so() {
    let mut scene = everything_open(true);
    scene.note("Both children and the job have ended when the cancel is taken.");
    let (decision, job) = (scene.decision(), open_job(&scene));
    scene.child_ends(call(decision, 5), false, SubtaskStatus::Completed, "found it");
    scene.child_ends(call(decision, 6), true, SubtaskStatus::Completed, "found it too");
    scene.job_ends(job, JobEnd::Exited, Some(0), "slept");
    scene.deliver(cancel()).goes_on();
    assert_scene("cancel-after-ends", &scene);
}

#[test]
fn en_6_a_job_that_has_ended_before_a_task_at_rest_is_cancelled_has_ended_so() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![start("{}"), start("{}")]);
    for index in 0..2 {
        scene.ends(index, CallOutcome { job: Some("sleep 9".into()), ..outcome(CallStatus::Ok, "") });
    }
    scene.replies("both run", vec![]);
    scene.note("One job has ended when the cancel is taken, the other has not.");
    let job = open_job(&scene);
    scene.job_ends(job, JobEnd::Exited, Some(0), "slept");
    scene.deliver(cancel()).goes_on();
    assert_scene("cancel-after-a-job", &scene);
}

#[test]
fn en_6_a_cancel_of_a_task_whose_model_is_asked() {
    let mut scene = scene(false, Budget::default());
    scene.deliver(Item::Cancel { reason: None }).goes_on();
    assert_scene("cancel-request", &scene);
}

#[test]
fn rc_11_a_turn_that_fails_leaves_what_goes_on_in_the_background() {
    let mut scene = everything_open(true);
    scene.note("A bug breaks the turn of an interactive task.");
    fails(&mut scene, FailureReason::InternalError, "index out of bounds");
    assert_scene("turn-fails-everything-open", &scene);
}

#[test]
fn en_6_a_task_that_fails_ends_everything_that_is_open() {
    let mut scene = everything_open(false);
    scene.note("A bug breaks a task that is not interactive.");
    scene.say("how far are you?").deliver(cancel());
    fails(&mut scene, FailureReason::InternalError, "index out of bounds");
    assert_scene("task-fails-everything-open", &scene);
}

/// A task that spawned a child with a budget, and that child.
fn family() -> (Scene, Scene) {
    let mut parent = scene(false, Budget::default());
    let budget = Budget { steps: Some(10), tokens: Some(1_000), ..Budget::default() };
    parent.replies("", vec![spawn(false, false, budget)]);
    let child = scene_of(parent.children.remove(0), None);
    (parent, child)
}

#[test]
fn wa_5_a_child_that_is_done_tells_its_parent_what_it_spent_and_set_aside() {
    let (_, mut child) = family();
    child.goes_on();
    child.replies("", vec![spawn(true, false, Budget { steps: Some(3), ..Budget::default() })]);
    child.replies("done", vec![]);
    assert_scene("child-done", &child);
}

#[test]
fn wa_5_a_child_that_fails_tells_its_parent_why() {
    let (_, mut child) = family();
    child.goes_on();
    child.refuses(None);
    assert_scene("child-fails", &child);
}

#[test]
fn en_6_a_child_is_cancelled_with_its_parent() {
    let (mut parent, mut child) = family();
    child.goes_on();
    child.note("Its parent was cancelled.");
    parent.deliver(cancel()).goes_on();
    let told = parent.sent.pop().expect("the child is told");
    child.deliver(told.item).goes_on();
    assert_scene("child-cancelled", &child);
}
