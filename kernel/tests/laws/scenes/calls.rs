//! Calls of a reply: run, refused, ruled on, answered, waited for.

use plica_kernel::event::{Budget, CallStatus};

use super::assert_scene;
use crate::common::scene::{outcome, scene, start};

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
