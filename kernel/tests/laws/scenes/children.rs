//! Children: all, any, in the background, mixed with other waits, failing and late.

use plica_kernel::body::{Body, ContentRef, MEDIA_TEXT};
use plica_kernel::decide::{Act, CallPlan, reply};
use plica_kernel::event::SubtaskStatus::{Cancelled, Completed, Failed};
use plica_kernel::event::{ApprovalVerdict, Budget, Failure, FailureReason};
use plica_kernel::id::{CallId, Epoch, Seq};
use plica_kernel::wake::Item;

use super::assert_scene;
use crate::common::scene::{Scene, answer, ask, call, question, scene, spawn, wait};

const ALL: (bool, bool) = (false, false);
const ANY: (bool, bool) = (false, true);
const BACKGROUND: (bool, bool) = (true, false);

fn child((background, any): (bool, bool)) -> CallPlan {
    spawn(background, any, Budget::default())
}

/// The scene of a task, and the decision on these calls.
fn decided(interactive: bool, calls: Vec<CallPlan>) -> (Scene, Seq) {
    let mut scene = scene(interactive, Budget::default());
    scene.replies("", calls);
    let decision = scene.last_decision();
    (scene, decision)
}

/// A child that failed, with what it says.
fn failed(scene: &mut Scene, call: CallId, background: bool, detail: Option<&str>, answer: Body) {
    let child = scene.world.task.id().child(call, 1);
    let failure = Failure { detail: detail.map(str::to_owned), reason: FailureReason::LlmError };
    let item = Item::Child {
        answer,
        background,
        call,
        child: child.clone(),
        failure: Some(failure),
        spent: Default::default(),
        status: Failed,
    };
    scene.deliver_as(&format!("task:{child}"), item);
}

/// A reply whose open calls are all children waits for all of them, and is woken once.
#[test]
fn wa_5_all_children_of_a_reply_are_waited_for_together() {
    let (mut scene, decision) = decided(false, vec![child(ALL), child(ALL), child(ALL)]);
    scene.child_ends(call(decision, 2), false, Completed, "third").goes_on();
    scene.child_ends(call(decision, 0), false, Completed, "first").goes_on();
    scene.child_ends(call(decision, 1), false, Cancelled, "").goes_on();
    assert_scene("children-all", &scene);
}

/// A message wakes a task that waits for several: those that have ended are taken, and the others
/// are waited for on.
#[test]
fn en_6_a_message_while_children_are_waited_for() {
    let (mut scene, decision) = decided(false, vec![child(ALL), child(ALL)]);
    scene.child_ends(call(decision, 1), false, Completed, "second").goes_on();
    scene.say("hello").goes_on();
    scene.child_ends(call(decision, 0), false, Completed, "first").goes_on();
    assert_scene("children-and-a-message", &scene);
}

/// The model is told why a child failed, whichever of its words there are.
#[test]
fn wa_5_children_that_fail() {
    let (mut scene, decision) = decided(false, vec![child(ALL); 5]);
    let none = Body::default();
    failed(&mut scene, call(decision, 0), false, Some("no key"), none.clone());
    failed(&mut scene, call(decision, 1), false, None, none);
    failed(&mut scene, call(decision, 2), false, Some("cut off"), Body::Inline("half".into()));
    let whole = Body::Ref(ContentRef::of(MEDIA_TEXT, b"a long answer"));
    failed(&mut scene, call(decision, 3), false, Some("cut off"), whole);
    scene.child_ends(call(decision, 4), false, Failed, "").goes_on();
    assert_scene("children-that-fail", &scene);
}

/// Any: the first result wakes, the other calls are answered, and their children go on.
#[test]
fn wa_5_the_first_of_any_children_is_enough() {
    let (mut scene, decision) = decided(true, vec![child(ANY), child(ANY), child(ANY)]);
    scene.child_ends(call(decision, 1), false, Completed, "second").goes_on();
    scene.note("Another ends while the model is asked: it joins before the turn ends.");
    scene.child_ends(call(decision, 0), false, Failed, "").goes_on();
    scene.replies("on my way", vec![]);
    scene.replies("well", vec![]);
    scene.note("The last ends while the task waits for a message.");
    scene.child_ends(call(decision, 2), false, Completed, "third").goes_on();
    assert_scene("children-any", &scene);
}

/// A background child's call is answered at once; how it ended joins as a message.
#[test]
fn wa_5_background_children() {
    let (mut scene, decision) = decided(true, vec![child(BACKGROUND), child(BACKGROUND), child(BACKGROUND)]);
    scene.replies("they are on it", vec![]);
    scene.child_ends(call(decision, 1), true, Completed, "done").goes_on();
    scene.note("A second ends while the model is asked, and the third with a long answer.");
    scene.child_ends(call(decision, 0), true, Cancelled, "stopped");
    let third = call(decision, 2);
    let child = scene.world.task.id().child(third, 1);
    let answer = Body::Ref(ContentRef::of(MEDIA_TEXT, b"a long answer"));
    scene.deliver(Item::Child {
        answer,
        background: true,
        call: third,
        child,
        failure: None,
        spent: Default::default(),
        status: Completed,
    });
    scene.replies("fine", vec![]);
    assert_scene("children-in-the-background", &scene);
}

/// A child that goes on by itself says why it failed as well, and one with nothing to say is told of.
#[test]
fn wa_5_background_children_that_fail_or_are_silent() {
    let (mut scene, decision) = decided(true, vec![child(BACKGROUND); 3]);
    scene.replies("they are on it", vec![]);
    failed(&mut scene, call(decision, 0), true, Some("no key"), Body::default());
    scene.child_ends(call(decision, 1), true, Completed, "").child_ends(call(decision, 2), true, Failed, "").goes_on();
    assert_scene("children-in-the-background-that-fail", &scene);
}

/// A task that is no conversation ends with its answer, and tells children that go on to stop.
#[test]
fn en_6_a_task_that_is_done_stops_its_background_children() {
    let (mut scene, decision) = decided(false, vec![child(BACKGROUND), child(BACKGROUND)]);
    scene.child_ends(call(decision, 1), true, Completed, "in time");
    scene.replies("done", vec![]);
    scene.note("It says something more, since one had ended in time.");
    scene.replies("done, and well", vec![]);
    assert_scene("children-of-one-that-is-done", &scene);
}

/// Any other mixture wakes at each arrival.
#[test]
fn wa_5_children_beside_other_waits() {
    let (mut scene, decision) = decided(false, vec![child(ALL), child(ALL), ask("{}"), wait(Some(60), None)]);
    scene.child_ends(call(decision, 0), false, Completed, "first").goes_on();
    scene.rules(call(decision, 2), ApprovalVerdict::Deny, None).goes_on();
    scene.passes(60_000).goes_on();
    scene.note("Only a child is left.");
    scene.child_ends(call(decision, 1), false, Completed, "second").goes_on();
    assert_scene("children-and-other-waits", &scene);
}

/// Some children are waited for one by one, another together with a question.
#[test]
fn wa_5_any_children_beside_one_that_is_waited_for() {
    let (mut scene, decision) = decided(false, vec![child(ANY), child(ALL), child(ANY), question("which?")]);
    scene.child_ends(call(decision, 0), false, Completed, "first").goes_on();
    scene.note("The other that was one of any goes on by itself; its end joins as a message.");
    scene.child_ends(call(decision, 2), false, Completed, "third").goes_on();
    scene.answers(call(decision, 3), "this").goes_on();
    scene.child_ends(call(decision, 1), false, Completed, "second").goes_on();
    assert_scene("children-any-and-all", &scene);
}

/// A child that says twice how it ended is heard once.
#[test]
fn id_2_a_child_that_ends_twice() {
    let (mut scene, decision) = decided(false, vec![child(ALL), child(ALL)]);
    scene.child_ends(call(decision, 0), false, Completed, "first").say("hello").goes_on();
    scene.child_ends(call(decision, 0), false, Failed, "again").goes_on();
    assert_scene("a-child-that-ends-twice", &scene);
}

/// Whatever else a reply waits for, each of its children wakes the task.
#[test]
fn wa_5_two_children_and_what_they_are_waited_for_with() {
    let others = [wait(None, Some("x")), question("which?"), ask("{}"), child(ANY), child(BACKGROUND)];
    let mut needs = vec![];
    for other in others {
        let (scene, _) = decided(false, vec![child(ALL), child(ALL), other]);
        let wake = scene.world.task.wake().clone();
        needs.push(wake.any.iter().map(|one| format!("{} {}", one.need, one.key)).collect::<Vec<_>>().join(", "));
    }
    assert_eq!(
        needs,
        ["1 group:8, 1 event:x", "1 group:8, 1 answer:8", "1 group:8, 1 answer:8", "1 group:8", "2 group:8"]
    );
}

/// A child's first append is written by its parent's: of epoch 0 and the parent's run.
#[test]
fn wa_5_a_child_begins_under_its_parents_run() {
    let scene = scene(false, Budget::default());
    let Act::Ask(action) = scene.act else { panic!("the model is asked") };
    let mut draft = scene.world.draft();
    reply(&mut draft, action, answer("", vec![child(ALL)])).unwrap();
    let drafted = draft.finish().unwrap();
    let parent = drafted.envelopes.last().unwrap().clone();
    let [born] = drafted.children.as_slice() else { panic!("one child") };
    for event in &born.envelopes {
        assert_eq!((event.epoch, &event.run, event.at), (Epoch(0), &parent.run, parent.at));
    }
    assert_ne!(parent.epoch, Epoch(0));
}

/// Children share what is left of the budget with each other and with their parent.
#[test]
fn en_4_children_get_equal_shares() {
    let steps = |steps: u64| Budget { steps: Some(steps), ..Budget::default() };
    let mut scene = scene(false, steps(10));
    scene.replies("", vec![child(ALL), question("which?"), child(ALL), child(ALL)]);
    let children = scene.world.task.governance().children();
    let slices: Vec<_> = children.map(|(_, child)| child.budget).collect();
    // Nine are left after the request: 9 / 4, 7 / 3, 5 / 2, and three for the parent.
    assert_eq!(slices, [2, 2, 2].map(steps));
}

/// What a child does not spend of its slice comes back.
#[test]
fn en_4_children_share_a_budget() {
    let caps = Budget { nano_usd: Some(100), steps: Some(9), tokens: Some(91), wall_ms: None };
    let mut scene = scene(false, caps);
    let own = |steps: u64| spawn(false, false, Budget { steps: Some(steps), wall_ms: Some(5), ..Budget::default() });
    scene.replies("", vec![own(20), child(BACKGROUND), own(1)]);
    let decision = scene.decision();
    scene.child_ends(call(decision, 0), false, Completed, "first");
    scene.child_ends(call(decision, 2), false, Completed, "third").goes_on();
    assert_scene("children-and-a-budget", &scene);
}

/// A child of a turn that was interrupted is told to stop, and says later what it spent; one that
/// goes on by itself goes on.
#[test]
fn en_6_children_and_an_interrupt() {
    let (mut scene, decision) = decided(true, vec![child(BACKGROUND), child(ALL), child(ALL)]);
    scene.child_ends(call(decision, 2), false, Completed, "third");
    scene.deliver(Item::Interrupt { reason: None }).goes_on();
    scene.child_ends(call(decision, 1), false, Cancelled, "").goes_on();
    assert_scene("children-and-an-interrupt", &scene);
}
