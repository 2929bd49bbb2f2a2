//! Calls of a reply: run, refused, too many, with files, whole outputs and records beside them.

use plica_kernel::body::{Blob, ContentRef, MEDIA_TEXT};
use plica_kernel::canonical::Hash;
use plica_kernel::decide::{Aside, CallOutcome, CallPlan, ChangedFile, Foreseen, PluginRecord, Sent, observed};
use plica_kernel::event::{Budget, CallStatus, FileWas};
use plica_kernel::id::{DedupKey, TaskId};
use plica_kernel::message::Block;
use plica_kernel::wake::Item;

use super::assert_scene;
use crate::common::scene::{answer, deny, outcome, scene, start, todo, wait};

#[test]
fn to_4_en_1_two_calls_run_and_the_model_is_told_of_both() {
    let mut scene = scene(false, Budget::default());
    scene.note("The model asks for two calls at once.");
    scene.replies("let me see", vec![start(r#"{"n":1}"#), start(r#"{"n":2}"#)]);
    scene.note("The second ends first.");
    scene.ends(1, outcome(CallStatus::Ok, "second"));
    scene.ends(0, outcome(CallStatus::Error, "first"));
    scene.replies("done", vec![]);
    assert_scene("two-calls", &scene);
}

/// Patches stand directly after their decision, wherever their calls stand in the reply, and what
/// is denied has its reason.
#[test]
fn to_4_en_3_a_reply_of_calls_that_do_not_run() {
    let mut scene = scene(false, Budget::default());
    let long = CallPlan::Deny { reason: "unknown tool".into(), tool: "T".repeat(300) };
    scene.replies("", vec![deny("denied: Tool"), todo(r#"[{"do":1}]"#), long, todo("[]")]);
    assert_scene("calls-that-do-not-run", &scene);
}

/// Calls of one reply share the event that they wait for, and so do any number of them.
#[test]
fn ev_7_calls_beyond_the_32nd_are_answered_too_many() {
    let mut scene = scene(false, Budget::default());
    let over = Block::ToolUse { args: "{}".into(), id: None, tool: "Tool".into() };
    let mut many = answer("", vec![wait(None, Some("x")); 32]);
    many.blocks.extend([over.clone(), over]);
    scene.reply(many);
    scene.happens("x", None).goes_on();
    assert_scene("too-many-calls", &scene);
}

/// What a call changes is on record before it starts, and what it changed and put aside with its
/// result.
#[test]
fn to_5_en_9_a_call_with_files_a_whole_output_and_records() {
    let mut scene = scene(false, Budget::default());
    let blob =
        |text: &str| Blob { bytes: text.as_bytes().to_vec(), reference: ContentRef::of(MEDIA_TEXT, text.as_bytes()) };
    let (old, whole) = (blob("the old a"), blob("all of it"));
    let kept = FileWas::Kept(old.reference.clone());
    let (changes, removes) = (
        ChangedFile { after: Some(Hash::from_bytes([1; 32])), before: kept, path: "a.txt".into() },
        ChangedFile { after: None, before: FileWas::Large(Hash::from_bytes([2; 32])), path: "b.txt".into() },
    );
    let foreseen = Foreseen { blobs: vec![old], files: vec![changes.clone(), removes.clone()] };
    let writes = CallPlan::Start { args: "{}".into(), foreseen, rule: Some("allow".into()), tool: "Write".into() };
    scene.note("It is known what the call will change.");
    scene.replies("", vec![writes]);
    scene.note("It changed one more, wrote more than the model is told, and had its say elsewhere.");
    let record = |kind: &str| PluginRecord { plugin: "env".into(), kind: kind.into(), body: format!("{kind}!") };
    let sent = Sent {
        task: TaskId::new("another").unwrap(),
        actor: "tool:Write".into(),
        item: Item::Message { text: "look".into() },
        dedup: DedupKey::new("look-1").unwrap(),
    };
    let created = ChangedFile { after: Some(Hash::from_bytes([3; 32])), before: FileWas::Absent, path: "c.txt".into() };
    scene.ends(
        0,
        CallOutcome {
            aside: Aside { records: vec![record("seen"), record("done")], sent: vec![sent] },
            blobs: vec![whole.clone()],
            files: vec![changes, removes, created],
            whole: Some(whole.reference),
            ..outcome(CallStatus::Ok, "a part of it")
        },
    );
    assert_scene("files-and-records", &scene);
}

/// What observers make of the events that they were shown is recorded while the task waits, and
/// wakes nobody.
#[test]
fn en_5_en_9_records_of_an_observer() {
    let mut scene = scene(true, Budget::default());
    scene.replies("done", vec![]);
    let record = PluginRecord { plugin: "audit".into(), kind: "delivered_through".into(), body: "9".into() };
    let aside = Aside { records: vec![record], sent: vec![] };
    scene.records(|draft| observed(draft, aside).unwrap());
    assert_scene("records-of-an-observer", &scene);
}
