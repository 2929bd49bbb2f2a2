//! What a task at rest waits for, of all that goes on by itself.

use plica_kernel::decide::CallOutcome;
use plica_kernel::event::{Budget, CallStatus, SubtaskStatus};
use plica_kernel::limits::WAKE_ALTERNATIVES_MAX;
use plica_kernel::wake::WakeKey;

use crate::common::scene::{Scene, call, outcome, scene, spawn, start};

/// Two children are spawned of which the first result is enough: the other goes on by itself.
fn leaves_one_to_itself(scene: &mut Scene) -> WakeKey {
    scene.replies("", vec![spawn(false, true, Budget::default()), spawn(false, true, Budget::default())]);
    let decision = scene.decision();
    scene.child_ends(call(decision, 0), false, SubtaskStatus::Completed, "found it");
    scene.goes_on();
    WakeKey::Group(decision)
}

fn keys(scene: &Scene) -> Vec<WakeKey> {
    let any = &scene.world.task.wake().any;
    assert!(any.iter().all(|alternative| alternative.need == 1));
    any.iter().map(|alternative| alternative.key.clone()).collect()
}

/// Each child that was left to itself reports under its group; all others, and jobs, share a key.
/// As many as a row holds are waited for, and the message always is.
#[test]
fn wa_5_what_goes_on_by_itself_wakes_a_task_at_rest() {
    let mut scene = scene(true, Budget::default());
    let mut expected = vec![WakeKey::Message];
    for rounds in 0..WAKE_ALTERNATIVES_MAX + 1 {
        expected.push(leaves_one_to_itself(&mut scene));
        scene.replies("done", vec![]);
        expected.truncate(WAKE_ALTERNATIVES_MAX);
        assert_eq!(keys(&scene), expected, "after {rounds} rounds");
        scene.say("go on").goes_on();
    }
    // A job comes before them all; children that never had a group share its key.
    scene.replies("", vec![start("{}"), spawn(true, false, Budget::default()), spawn(true, false, Budget::default())]);
    scene.ends(0, CallOutcome { job: Some("sleep 9".into()), ..outcome(CallStatus::Ok, "") });
    scene.replies("done", vec![]);
    expected.insert(1, WakeKey::Background);
    expected.truncate(WAKE_ALTERNATIVES_MAX);
    assert_eq!(keys(&scene), expected);
}

/// The same with a budget that is asked for.
#[test]
fn wa_5_en_4_what_goes_on_by_itself_may_give_back_what_it_did_not_spend() {
    let mut scene = scene(true, Budget { steps: Some(2), ..Budget::default() });
    let own = Budget { steps: Some(1), ..Budget::default() };
    scene.replies("", vec![spawn(true, false, own)]);
    let any = keys(&scene);
    assert!(matches!(any.as_slice(), [WakeKey::Answer(_), WakeKey::Background]), "{any:?}");
}
