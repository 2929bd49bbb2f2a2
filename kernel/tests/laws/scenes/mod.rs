//! Scenes: what is recorded, event by event, when this and then that happens to a task.
//!
//! Each is a text in `tests/scenes`. It changes when a decision of the kernel does, and then is
//! read: every line of it is meant.

mod approvals;
mod births;
mod budgets;
mod calls;
mod children;
mod crashes;
mod jobs;
mod late;
mod plugins;
mod requests;
mod rewinds;
mod turns;
mod waits;

use plica_kernel::decide::{CallOutcome, CallPlan};
use plica_kernel::event::{Budget, CallStatus};

use crate::common::scene::{Scene, ask, outcome, scene, spawn, start, wait};

/// The scene's text is the one on record under this name.
fn assert_scene(name: &str, scene: &Scene) {
    assert_text(name, &scene.text());
}

/// The text is the one on record under this name.
pub fn assert_text(name: &str, text: &str) {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenes");
    insta::with_settings!({
        snapshot_path => folder,
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

/// A task that has everything open that can be.
fn everything_open(interactive: bool) -> Scene {
    let mut scene = scene(interactive, Budget { steps: Some(20), ..Budget::default() });
    open_everything(&mut scene);
    scene
}

/// The model's reply comes to a call that runs, an approval, a question, a wait, a child that is
/// waited for, one that is not, and a job.
fn open_everything(scene: &mut Scene) {
    scene.note("Everything that can be open is open.");
    let calls = vec![
        start(r#"{"n":0}"#),
        start(r#"{"n":1}"#),
        ask(r#"{"n":2}"#),
        CallPlan::Question("which one?".into()),
        wait(Some(3_600), Some("ping")),
        spawn(false, false, Budget::default()),
        spawn(true, false, Budget::default()),
    ];
    scene.replies("", calls);
    scene.ends(0, CallOutcome { job: Some("sleep 9".into()), ..outcome(CallStatus::Ok, "") });
}
