//! Rewinds: what is open is closed, what people said is kept, files are put back.

use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::decide::{AfterCrash, Orphan, restored};
use plica_kernel::event::{Budget, CallResolution, FileWas, LeftFile, PlannedFile, RestorePlan};
use plica_kernel::id::{Position, Seq};
use plica_kernel::wake::Item;

use super::{assert_scene, open_everything};
use crate::common::scene::{Scene, call, scene, start};

/// An interactive task whose first turn is over, and where that ended.
fn one_turn() -> (Scene, Seq) {
    let mut scene = scene(true, Budget { steps: Some(20), ..Budget::default() });
    scene.replies("hello", vec![]);
    let end = scene.head();
    (scene, end)
}

/// Someone asks to go back, and a worker finds out what that comes to.
fn goes_back(scene: &mut Scene, to: Seq, plan: RestorePlan, blobs: Vec<Blob>) {
    let position = ask_for(scene, to);
    scene.goes_on();
    scene.prepared(position, to, blobs, plan).goes_on();
}

fn ask_for(scene: &mut Scene, to_seq: Seq) -> Position {
    scene.deliver(Item::Rewind { to_seq });
    Position(scene.world.delivered.len() as u64)
}

#[test]
fn sn_1_sn_5_a_rewind_closes_everything_that_is_open() {
    let (mut scene, end) = one_turn();
    scene.say("look around").goes_on();
    open_everything(&mut scene);
    scene.note("Two people speak, one before and one after a third wants to go back.");
    scene.say("stop that").deliver(Item::Interrupt { reason: None });
    let position = ask_for(&mut scene, end);
    scene.say("do this instead").deliver(Item::Interrupt { reason: None }).goes_on();
    scene.prepared(position, end, vec![], RestorePlan::default()).goes_on();
    assert_scene("rewind-everything-open", &scene);
}

#[test]
fn sn_5_a_rewind_that_lands_nowhere_changes_nothing_and_is_on_record() {
    let (mut scene, _) = one_turn();
    scene.note("Nobody can go back to where a turn is under way, nor to what is not there yet.");
    for to in [Seq(3), Seq(99)] {
        let position = ask_for(&mut scene, to);
        scene.goes_on();
        scene.seen.rewinds.insert(position, Err("a turn is under way there".into()));
        scene.goes_on();
    }
    assert_scene("rewind-refused", &scene);
}

fn file(path: &str, left: Option<&str>) -> PlannedFile {
    let before = FileWas::Kept(ContentRef::of("text/plain", b"new"));
    let after = FileWas::Kept(ContentRef::of("text/plain", b"old"));
    PlannedFile { after, before, left: left.map(str::to_owned), path: path.into(), workspace: "/w".into() }
}

#[test]
fn sn_8_files_are_put_back_after_the_plan_is_on_record() {
    let (mut scene, end) = one_turn();
    let files = vec![file("a.txt", None), file("b.txt", Some("it was too large to keep"))];
    let kept = vec![Blob::new("text/plain", b"new".to_vec())];
    goes_back(&mut scene, end, RestorePlan { files }, kept);
    scene.note("The worker is lost while it puts files back; the next one finishes, but for one file.");
    scene.crash().say("again").goes_on();
    let left = LeftFile { path: "b.txt".into(), why: "it was too large to keep".into() };
    scene.records(|draft| restored(draft, 1, &[left]).unwrap());
    assert_scene("rewind-files-left", &scene);
}

#[test]
fn sn_8_all_files_are_put_back() {
    let (mut scene, end) = one_turn();
    goes_back(&mut scene, end, RestorePlan { files: vec![file("a.txt", None)] }, vec![]);
    scene.records(|draft| restored(draft, 1, &[]).unwrap());
    assert_scene("rewind-files-restored", &scene);
}

#[test]
fn sn_5_a_rewind_settles_what_a_lost_worker_left_open_and_runs_nothing_again() {
    let (mut scene, end) = one_turn();
    scene.say("do it").goes_on();
    scene.replies("", vec![start(r#"{"n":0}"#), start(r#"{"n":1}"#), start(r#"{"n":2}"#)]);
    let position = ask_for(&mut scene, end);
    scene.crash().goes_on();
    let found = Orphan::Found(crate::common::scene::outcome(plica_kernel::event::CallStatus::Ok, "it was done"));
    scene.settles(&[found, Orphan::RetrySafe, Orphan::Lost], AfterCrash::Close);
    scene.prepared(position, end, vec![], RestorePlan::default()).goes_on();
    assert_scene("rewind-after-crash", &scene);
}

#[test]
fn sn_5_words_on_calls_before_a_rewind_are_kept() {
    let (mut scene, end) = one_turn();
    scene.say("do it").goes_on();
    scene.replies("", vec![start("{}")]);
    let lost = call(scene.decision(), 0);
    scene.crash().goes_on();
    scene.settles(&[Orphan::Lost], AfterCrash::Resolve);
    scene.note("A person says what became of the lost call, and wants to go back all the same.");
    let word =
        |output: &str| Item::Resolve { call: lost, output: Some(output.into()), verdict: CallResolution::Landed };
    scene.deliver(word("before"));
    let position = ask_for(&mut scene, end);
    scene.deliver(word("after"));
    scene.prepared(position, end, vec![], RestorePlan::default()).goes_on();
    assert_scene("rewind-and-resolve", &scene);
}

#[test]
fn st_7_a_task_that_is_over_goes_back() {
    let mut scene = scene(false, Budget::default());
    scene.replies("done", vec![]);
    let end = scene.head();
    goes_back(&mut scene, end, RestorePlan::default(), vec![]);
    scene.say("one thing more").goes_on();
    scene.replies("there you are", vec![]);
    assert_scene("rewind-from-the-end", &scene);
}

#[test]
fn to_3_a_rewind_ends_a_call_that_runs_again() {
    let (mut scene, end) = one_turn();
    scene.say("do it").goes_on();
    scene.replies("", vec![start("{}")]);
    let lost = call(scene.decision(), 0);
    scene.crash().goes_on();
    scene.settles(&[Orphan::Lost], AfterCrash::Resolve);
    scene.note("A person says that it did not happen; it runs, its worker is lost, someone goes back.");
    scene.deliver(Item::Resolve { call: lost, output: None, verdict: CallResolution::NotLanded });
    scene.replies("", vec![]);
    let position = ask_for(&mut scene, end);
    scene.crash().goes_on();
    scene.settles(&[Orphan::RetrySafe], AfterCrash::Close);
    scene.prepared(position, end, vec![], RestorePlan::default()).goes_on();
    assert_scene("rewind-of-a-rerun", &scene);
}
