//! What comes early, late or twice, and what people and workers say of calls whose outcome is
//! unknown.

use plica_kernel::decide::{AfterCrash, CallOutcome, ChangedFile, Foreseen, Orphan, PluginRecord};
use plica_kernel::event::{ApprovalVerdict, Budget, CallResolution, CallStatus, FileWas};
use plica_kernel::id::{CallId, Epoch, RunId, Seq};
use plica_kernel::ledger::Identity;

use super::assert_scene;
use crate::common::scene::{Scene, ask, call, deny, outcome, question, scene, start};

/// A call runs; its worker is lost, and nobody knows what became of the call.
fn unknown(interactive: bool) -> (Scene, CallId, Seq, Identity) {
    let mut scene = scene(interactive, Budget::default());
    scene.replies("", vec![start(r#"{"n":1}"#)]);
    let (decision, begun) = (scene.decision(), scene.begun(call(scene.decision(), 0)));
    let identity = scene.identity(begun);
    scene.crash().goes_on();
    scene.settles(&[Orphan::Lost], AfterCrash::Resolve);
    (scene, call(decision, 0), begun, identity)
}

/// RC-2: evidence that waits in the inbox is the result, and stays an error where it says so.
#[test]
fn id_3_evidence_settles_an_open_call() {
    let mut scene = scene(false, Budget::default());
    scene.replies("", vec![start("1"), start("2"), start("3")]);
    let calls = [0, 1].map(|index| call(scene.decision(), index));
    let starts = calls.map(|call| scene.begun(call));
    let identities = starts.map(|start| scene.identity(start));
    scene.note("While its worker runs them, what it says of them itself is left alone.");
    scene.reports((calls[0], starts[0]), &identities[0], (CallStatus::Ok, "one")).goes_on();
    scene.reports((calls[1], starts[1]), &identities[1], (CallStatus::Error, "two"));
    scene.crash().goes_on();
    scene.note("The same again is too late.");
    scene.reports((calls[0], starts[0]), &identities[0], (CallStatus::Ok, "one")).goes_on();
    scene.settles(&[Orphan::RetrySafe], AfterCrash::Resolve);
    scene.note("Of the one that runs again, what its first start came to is stale.");
    let third = call(calls[0].decision, 2);
    let stale = Identity { attempt: 1, ..identities[0].clone() };
    scene.crash();
    scene.reports((third, scene.begun(third)), &stale, (CallStatus::Ok, "three")).goes_on();
    assert_scene("evidence", &scene);
}

/// Evidence that names another call than the one that was begun there settles nothing.
#[test]
fn id_1_evidence_for_a_call_that_was_not_begun_there() {
    let mut scene = scene(false, Budget::default());
    scene.replies("", vec![start("1"), start("2")]);
    let calls = [0, 1].map(|index| call(scene.decision(), index));
    let begun = scene.begun(calls[0]);
    let identity = scene.identity(begun);
    scene.crash().reports((calls[1], begun), &identity, (CallStatus::Ok, "two")).goes_on();
    let earlier = Identity { generation: 0, run: RunId::new("before").unwrap(), fence: Epoch(0), ..identity };
    scene.reports((calls[0], begun), &earlier, (CallStatus::Ok, "one")).goes_on();
    assert_scene("evidence-for-another-call", &scene);
}

/// ID-3: where the model was told that nobody knows, it is told of what the worker says after all,
/// before its turn ends.
#[test]
fn id_3_evidence_for_a_call_of_unknown_outcome() {
    let (mut scene, unknown, begun, identity) = unknown(true);
    scene.note("It comes while the model is asked.");
    scene.reports((unknown, begun), &identity, (CallStatus::Ok, "it landed")).goes_on();
    scene.replies("nobody knows", vec![]);
    scene.replies("I see", vec![]);
    scene.note("It comes once more, and says that it failed, while the task rests.");
    scene.reports((unknown, begun), &identity, (CallStatus::Error, "it broke")).goes_on();
    assert_scene("evidence-for-an-unknown-call", &scene);
}

/// While other calls of its round are open, the model is about to be told: what was found stands
/// after the results. Of a call that is known to have ended, nothing is said.
#[test]
fn id_3_evidence_while_the_round_is_open() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![start("1"), question("which?"), start("3"), deny("no")]);
    let calls = [0, 2].map(|index| call(scene.decision(), index));
    let starts = calls.map(|call| scene.begun(call));
    let identities = starts.map(|start| scene.identity(start));
    scene.ends(2, outcome(CallStatus::Ok, "three"));
    scene.crash().goes_on();
    scene.settles(&[Orphan::Lost], AfterCrash::Resolve);
    scene.reports((calls[0], starts[0]), &identities[0], (CallStatus::Error, "one broke")).goes_on();
    scene.reports((calls[1], starts[1]), &identities[1], (CallStatus::Ok, "three")).goes_on();
    assert_scene("evidence-in-an-open-round", &scene);
}

/// A step that took late evidence in is not run again: that would not come once more.
#[test]
fn rc_3_a_step_that_was_told_of_late_evidence_parks() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![start("1"), start("2")]);
    let first = call(scene.decision(), 0);
    let begun = scene.begun(first);
    let identity = scene.identity(begun);
    scene.ends(0, outcome(CallStatus::Unknown, "timed out"));
    scene.crash().reports((first, begun), &identity, (CallStatus::Ok, "it landed")).goes_on();
    let after = scene.redriven();
    scene.settles(&[Orphan::RetrySafe], after);
    assert_scene("evidence-and-no-redrive", &scene);
}

/// TO-3: a person says what became of it, once.
#[test]
fn to_3_a_person_says_that_a_call_landed() {
    let (mut scene, unknown, ..) = unknown(true);
    scene.note("The word comes while the model is asked: it joins before the turn ends.");
    scene.resolves(unknown, CallResolution::Landed, Some("42 rows")).goes_on();
    scene.replies("I see", vec![]);
    scene.note("A second word is too late, and so is a third.");
    scene.resolves(unknown, CallResolution::Skip, None);
    scene.resolves(unknown, CallResolution::Landed, Some("43 rows"));
    scene.resolves(unknown, CallResolution::NotLanded, None).goes_on();
    assert_scene("resolved-landed", &scene);
}

/// A word opens a turn, as any other does.
#[test]
fn to_3_a_word_on_an_unknown_call_opens_a_turn() {
    for (name, verdict, output) in
        [("resolved-skip", CallResolution::Skip, None), ("resolved-landed-in-silence", CallResolution::Landed, None)]
    {
        let (mut scene, unknown, ..) = unknown(true);
        scene.replies("nobody knows", vec![]);
        scene.note("The word opens a turn.");
        scene.resolves(unknown, verdict, output).goes_on();
        assert_scene(name, &scene);
    }
}

/// One that did not happen runs now, as it was recorded, and what it came to joins as a message.
#[test]
fn to_3_a_call_that_did_not_land_runs_now() {
    let (mut scene, unknown, ..) = unknown(true);
    let file = ChangedFile { after: None, before: FileWas::Absent, path: "a.txt".into() };
    scene.seen.foreseen.insert(unknown, Foreseen { blobs: vec![], files: vec![file.clone()] });
    scene.replies("nobody knows", vec![]);
    scene.note("It runs before the model is asked again; a message waits until it has ended.");
    scene.resolves(unknown, CallResolution::NotLanded, None).say("well?").goes_on();
    let record = PluginRecord { plugin: "env".into(), kind: "seen".into(), body: "it".into() };
    let mut ended = CallOutcome { files: vec![file], ..outcome(CallStatus::Ok, "now it did") };
    ended.aside.records.push(record);
    scene.ends(0, ended);
    assert_scene("resolved-not-landed", &scene);
}

/// However the second run ends, the model is told; where nobody knows again, a person may say
/// again.
#[test]
fn to_3_a_call_that_runs_again_ends_in_every_way() {
    for (name, status) in [
        ("runs-again-and-fails", CallStatus::Error),
        ("runs-again-and-is-cut-off", CallStatus::Interrupted),
        ("runs-again-and-nobody-knows", CallStatus::Unknown),
    ] {
        let (mut scene, unknown, ..) = unknown(true);
        scene.replies("nobody knows", vec![]);
        scene.resolves(unknown, CallResolution::NotLanded, None).goes_on();
        scene.note("It ends.");
        scene.ends(0, outcome(status, "so it ended"));
        if status == CallStatus::Unknown {
            scene.resolves(unknown, CallResolution::Skip, None).goes_on();
        }
        assert_scene(name, &scene);
    }
}

/// ID-2: answers to what was never asked, or is answered, are kept as they were said.
#[test]
fn id_2_answers_that_come_too_late() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![ask("1"), question("which?")]);
    let (asked, questioned) = (call(scene.decision(), 0), call(scene.decision(), 1));
    scene.note("One is answered by what answers the other.");
    scene.answers(asked, "yes").rules(questioned, ApprovalVerdict::Approve, None).goes_on();
    scene.rules(asked, ApprovalVerdict::Deny, None).answers(questioned, "this").goes_on();
    scene.note("And again, once it is over.");
    scene.rules(asked, ApprovalVerdict::Deny, Some("no")).rules(asked, ApprovalVerdict::Expire, None);
    scene.answers(questioned, "that").goes_on();
    assert_scene("late-answers", &scene);
}

/// Of calls of decisions to come people may speak early: it counts once they are asked.
#[test]
fn st_7_answers_that_come_early() {
    let mut scene = scene(true, Budget::default());
    let decision = Seq(scene.head().0 + 3);
    scene.note("The next decision will have this seq.");
    scene.answers(call(decision, 0), "this").rules(call(decision, 1), ApprovalVerdict::Deny, None);
    scene.resolves(call(decision, 2), CallResolution::Skip, None).goes_on();
    scene.replies("", vec![question("which?"), ask("2")]);
    assert_scene("early-answers", &scene);
}
