//! Background jobs: started, ended, killed, lost, and told of.

use plica_kernel::decide::CallOutcome;
use plica_kernel::event::{Budget, CallStatus, JobEnd};
use plica_kernel::id::Seq;
use plica_kernel::wake::Item;

use super::assert_scene;
use crate::common::scene::{Scene, call, outcome, question, scene, start};

/// A call that leaves this running ends well; says the job's id.
fn leaves(scene: &mut Scene, index: u32, what: &str) -> Seq {
    let before = scene.head();
    scene.ends(index, CallOutcome { job: Some(what.into()), ..outcome(CallStatus::Ok, "started") });
    before.next()
}

fn started(interactive: bool, what: &[&str]) -> (Scene, Vec<Seq>) {
    let mut scene = scene(interactive, Budget::default());
    scene.replies("", what.iter().map(|_| start("{}")).collect());
    let jobs = (0..).zip(what).map(|(index, what)| leaves(&mut scene, index, what)).collect();
    (scene, jobs)
}

/// The model is told of each job that has ended, once, in words that say how.
#[test]
fn st_13_jobs_that_end_in_every_way() {
    let (mut scene, jobs) = started(true, &["make\tall\n", "sleep 1", "tail -f", "make test"]);
    scene.replies("they run", vec![]);
    scene.note("Two end while the task rests: the first wakes it, and the model is told of both.");
    scene.job_ends(jobs[0], JobEnd::Exited, Some(2), "built").job_ends(jobs[1], JobEnd::Exited, None, "").goes_on();
    scene.note("One is killed while the model is asked.");
    scene.job_ends(jobs[2], JobEnd::Killed, None, "so far").goes_on();
    scene.replies("fine", vec![]);
    scene.note("The last is lost with its worker.");
    scene.crash().goes_on();
    assert_scene("jobs", &scene);
}

/// A line that says what runs is cut for the model, and an output that is long is only named.
#[test]
fn st_13_a_job_with_much_to_say() {
    let (mut scene, jobs) = started(true, &["x".repeat(300).as_str()]);
    scene.replies("it runs", vec![]);
    scene.job_ends(jobs[0], JobEnd::Exited, Some(0), &"y".repeat(1_500)).goes_on();
    assert_scene("a-job-with-much-to-say", &scene);
}

/// A task that is done kills what runs, and records as lost what a former worker ran.
#[test]
fn en_6_a_task_that_is_done_ends_its_jobs() {
    let (mut scene, _) = started(false, &["make"]);
    scene.replies("done", vec![]);
    assert_scene("a-job-of-one-that-is-done", &scene);
}

/// What a task does not wait for leaves it waiting; it is told with the next wake.
#[test]
fn st_13_a_job_that_ends_while_something_else_is_waited_for() {
    let (mut scene, jobs) = started(true, &["make"]);
    scene.replies("", vec![question("which?")]);
    let decision = scene.decision();
    scene.job_ends(jobs[0], JobEnd::Exited, Some(0), "built").goes_on();
    scene.say("hello").goes_on();
    scene.answers(call(decision, 0), "this").goes_on();
    assert_scene("a-job-beside-a-question", &scene);
}

/// A job that ended while its worker was lost stays ended, one that did not say so is lost, and
/// what comes after that is kept as late.
#[test]
fn st_13_id_2_jobs_of_a_worker_that_is_lost() {
    let (mut scene, jobs) = started(true, &["make", "sleep"]);
    scene.job_ends(jobs[0], JobEnd::Exited, Some(0), "built");
    scene.crash().goes_on();
    scene.job_ends(jobs[1], JobEnd::Exited, Some(1), "slept").goes_on();
    scene.replies("", vec![]);
    assert_scene("jobs-of-a-lost-worker", &scene);
}

/// A closed conversation is opened by no job: what it came to is on record, and told once a person
/// opens it again.
#[test]
fn st_13_a_job_of_a_closed_conversation() {
    let (mut scene, jobs) = started(true, &["make", "sleep"]);
    scene.replies("they run", vec![]);
    scene.deliver(Item::Close { reason: Some("enough".into()) }).goes_on();
    scene.job_ends(jobs[0], JobEnd::Exited, Some(0), "built").goes_on();
    scene.note("The other is lost with its worker.");
    scene.crash().goes_on();
    scene.note("A person opens it again.");
    scene.deliver(Item::Reopen { reason: None }).goes_on();
    assert_scene("a-job-of-a-closed-conversation", &scene);
}

/// A turn that was interrupted is carried on by no job.
#[test]
fn en_6_a_job_after_an_interrupt() {
    let (mut scene, jobs) = started(true, &["make"]);
    scene.deliver(Item::Interrupt { reason: None }).goes_on();
    scene.job_ends(jobs[0], JobEnd::Exited, Some(0), "built").goes_on();
    scene.say("well?").goes_on();
    assert_scene("a-job-after-an-interrupt", &scene);
}

/// What was delivered before the end of a task counts: a job that ended in time was not killed.
#[test]
fn en_6_a_job_that_ended_before_its_task() {
    let (mut scene, jobs) = started(true, &["make", "sleep"]);
    scene.replies("they run", vec![]);
    scene.deliver(Item::Cancel { reason: None });
    scene.job_ends(jobs[1], JobEnd::Exited, Some(0), "slept").goes_on();
    assert_scene("a-job-that-ended-before-its-task", &scene);
}
