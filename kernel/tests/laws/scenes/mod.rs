//! Scenes: what is recorded, event by event, when this and then that happens to a task.
//!
//! Each is a text in `tests/scenes`. It changes when a decision of the kernel does, and then is
//! read: every line of it is meant.

mod approvals;
mod budgets;
mod calls;
mod children;
mod jobs;
mod late;
mod waits;

use crate::common::scene::Scene;

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
