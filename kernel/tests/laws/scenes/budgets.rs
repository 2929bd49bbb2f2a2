//! Budgets: asked for, granted, denied, given back by a child, ruled on before an order.

use plica_kernel::event::ApprovalVerdict::{Approve, Deny};
use plica_kernel::event::{Budget, RestorePlan, SubtaskStatus};
use plica_kernel::id::{CallId, Position, Seq};
use plica_kernel::wake::Item;

use super::assert_scene;
use crate::common::scene::{Scene, call, deny, scene, spawn};

fn steps(steps: u64) -> Budget {
    Budget { steps: Some(steps), ..Budget::default() }
}

/// The call that the approval of more budget goes by.
fn asked(scene: &Scene) -> CallId {
    scene.world.task.governance().budget_approval().expect("more budget is asked for").0
}

/// At the cap the task asks, and a message neither ends the wait nor refills anything.
#[test]
fn en_4_more_budget_is_asked_for_and_granted() {
    let caps = Budget { nano_usd: Some(7), steps: Some(1), tokens: Some(5), wall_ms: Some(1_000) };
    let mut scene = scene(true, caps);
    scene.replies("", vec![deny("no")]);
    scene.say("hello").goes_on();
    scene.note("What is granted leaves room for one request more.");
    scene.rules(asked(&scene), Approve, Some("go on")).goes_on();
    scene.replies("done", vec![]);
    assert_scene("budget-granted", &scene);
}

/// A refusal fails the task, also an interactive one, and a second word is too late.
#[test]
fn en_4_more_budget_is_denied() {
    let mut scene = scene(true, steps(1));
    scene.replies("", vec![deny("no")]);
    let asked = asked(&scene);
    scene.rules(asked, Deny, Some("enough")).rules(asked, Approve, None).say("oh").goes_on();
    assert_scene("budget-denied", &scene);
}

/// What a child did not spend of its slice is the parent's again.
#[test]
fn en_4_a_child_gives_back_what_it_did_not_spend() {
    let mut scene = scene(true, steps(4));
    scene.replies("", vec![spawn(true, false, steps(3))]);
    let child = call(scene.last_decision(), 0);
    scene.child_ends(child, true, SubtaskStatus::Completed, "done").goes_on();
    assert_scene("budget-given-back", &scene);
}

/// A ruling that came before an order that lets approvals lapse counts: the budget is of the task
/// and not of its turn. One that came after it is too late.
#[test]
fn en_4_a_ruling_on_a_budget_and_an_interrupt() {
    for (name, before) in [("budget-before-an-interrupt", true), ("budget-after-an-interrupt", false)] {
        let mut scene = scene(true, steps(1));
        scene.replies("", vec![deny("no")]);
        let (asked, stop) = (asked(&scene), Item::Interrupt { reason: None });
        if before {
            scene.rules(asked, Approve, None).deliver(stop).goes_on();
        } else {
            scene.deliver(stop).rules(asked, Approve, None).goes_on();
        }
        assert_scene(name, &scene);
    }
}

/// A try that failed was charged its step: the next needs room as well, once its back-off is over.
#[test]
fn en_4_mo_3_a_request_that_failed_asks_for_more_budget() {
    let mut scene = scene(true, steps(1));
    scene.refuses(Some(500)).passes(499).goes_on();
    scene.passes(1).goes_on();
    scene.rules(asked(&scene), Approve, None).goes_on();
    assert_scene("budget-for-a-second-try", &scene);
}

/// The same where a person goes back; a rewind that is refused lets nothing lapse.
#[test]
fn en_4_a_ruling_on_a_budget_and_a_rewind() {
    let mut scene = scene(true, steps(1));
    scene.replies("done", vec![]);
    let boundary = scene.head();
    scene.say("more").goes_on();
    scene.note("A rewind that cannot be carried out, and then one that can.");
    scene.rules(asked(&scene), Approve, None).deliver(Item::Rewind { to_seq: Seq(2) });
    scene.seen.rewinds.insert(Position(3), Err("no turn has ended there".into()));
    scene.goes_on();
    scene.replies("", vec![deny("no")]);
    let asked = asked(&scene);
    scene.rules(asked, Approve, None).deliver(Item::Rewind { to_seq: boundary });
    scene.prepared(Position(5), boundary, vec![], RestorePlan { files: vec![] }).goes_on();
    assert_scene("budget-before-a-rewind", &scene);
}
