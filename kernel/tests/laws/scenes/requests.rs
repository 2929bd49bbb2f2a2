//! Requests: refused and tried again, cut off, answered in odd ways.

use plica_kernel::body::Body;
use plica_kernel::decide::{Answer, Aside, PluginRecord, Sent};
use plica_kernel::event::{Budget, CallStatus, TaskStatePatch};
use plica_kernel::id::{DedupKey, TaskId};
use plica_kernel::message::Block;
use plica_kernel::wake::Item;

use super::assert_scene;
use crate::common::scene::{answer, outcome, scene, start};

#[test]
fn mo_3_a_refused_request_is_tried_again_when_its_time_has_come() {
    let mut scene = scene(false, Budget::default());
    scene.note("The provider is busy twice.");
    scene.refuses(Some(500));
    scene.passes(499).goes_on();
    scene.passes(1).goes_on();
    scene.refuses(Some(1_000));
    scene.note("Another worker takes over, and its request is cut off once: that is no refusal.");
    scene.crash().passes(1_000).goes_on();
    scene.crash().goes_on();
    scene.replies("done", vec![]);
    assert_scene("request-tried-again", &scene);
}

#[test]
fn mo_3_the_ninth_refusal_in_a_row_fails_the_turn() {
    let mut scene = scene(true, Budget::default());
    scene.note("Nine times the provider is busy; a tenth try is not made.");
    for _ in 0..9 {
        scene.refuses(Some(10)).passes(10).goes_on();
    }
    assert_scene("request-nine-tries", &scene);
}

#[test]
fn mo_3_rc_11_a_request_that_cannot_succeed_fails_the_turn_at_once() {
    let mut scene = scene(true, Budget::default());
    scene.note("The provider says that another try would not help.");
    scene.refuses(None);
    scene.note("A person goes on.");
    scene.say("try once more").goes_on();
    scene.replies("done", vec![]);
    assert_scene("request-not-retried", &scene);
}

#[test]
fn mo_3_rc_11_a_task_that_is_not_interactive_fails_with_its_request() {
    let mut scene = scene(false, Budget::default());
    scene.refuses(None);
    assert_scene("request-fails-task", &scene);
}

#[test]
fn rc_1_a_request_that_is_cut_off_three_times_in_a_row_fails_the_turn() {
    let mut scene = scene(false, Budget::default());
    scene.note("Each worker is lost before the reply is on record.");
    for _ in 0..3 {
        scene.crash().goes_on();
    }
    assert_scene("request-cut-off", &scene);
}

/// The model's reply is cut by its output limit.
fn cut(text: &str) -> Answer {
    Answer { stop: "length".into(), truncated: true, ..answer(text, vec![]) }
}

#[test]
fn rc_7_three_truncated_replies_in_a_row_fail_the_turn() {
    let mut scene = scene(true, Budget::default());
    scene.note("Two replies are cut; one that asks for a call ends the row, cut or not.");
    scene.reply(cut("on and")).reply(cut("on and"));
    scene.reply(Answer { truncated: true, ..answer("", vec![start("{}")]) });
    scene.ends(0, outcome(CallStatus::Ok, "seen"));
    scene.note("Three are cut; one of them holds nothing at all.");
    scene.reply(cut("on and")).reply(cut("")).reply(cut("on and"));
    assert_scene("replies-truncated", &scene);
}

#[test]
fn rc_7_three_empty_replies_in_a_row_end_the_turn_with_an_empty_answer() {
    let mut scene = scene(true, Budget::default());
    scene.note("Two replies hold nothing; one with text ends the turn and the row.");
    scene.replies("", vec![]).replies("", vec![]).replies("here I am", vec![]);
    scene.say("go on").goes_on();
    scene.note("Three hold nothing, one of them but a thought.");
    let thought = Block::Thinking { signature: None, text: "hm".into() };
    scene.replies("", vec![]);
    scene.reply(Answer { blocks: vec![thought], ..answer("", vec![]) });
    scene.replies("", vec![]);
    assert_scene("replies-empty", &scene);
}

#[test]
fn mo_4_all_that_comes_with_a_reply_is_on_record_with_it() {
    let mut scene = scene(false, Budget::default());
    scene.note("The reply has thoughts, a price, odd parts, and a policy, a guard and a call beside it.");
    let record = PluginRecord { plugin: "watch".into(), kind: "seen".into(), body: "one reply".into() };
    let sent = Sent {
        task: TaskId::new("other").unwrap(),
        actor: "plugin:watch".into(),
        item: Item::Message { text: "it replied".into() },
        dedup: DedupKey::new("watch-1").unwrap(),
    };
    let patch = TaskStatePatch {
        add_notes: vec!["the disk is full".into()],
        goal: Some(Body::Inline("make room".into())),
        next_action: Some("list files".into()),
        phase: Some("look".into()),
        todos: None,
    };
    let plain = answer("let me look", vec![start("{}")]);
    let mut blocks = vec![Block::Thinking { signature: Some("sig".into()), text: "where is it".into() }];
    blocks.extend(plain.blocks.clone());
    scene.reply(Answer {
        aside: Aside { records: vec![record], sent: vec![sent] },
        blocks,
        cost_nano_usd: Some(123_456),
        elapsed_ms: 2_345,
        extra: Some(r#"{"odd": 1.50}"#.into()),
        patch: Some(("plan".into(), patch)),
        stop: "calls".into(),
        ..plain
    });
    assert_scene("reply-with-all", &scene);
}

#[test]
fn ev_7_a_long_reply_is_content_that_its_request_cites() {
    let mut scene = scene(true, Budget::default());
    scene.note("The text and what is not understood of the reply are too long for their events.");
    let text = "word ".repeat(220);
    let extra = format!("[{}1]", "0, ".repeat(400));
    scene.reply(Answer { extra: Some(extra), cost_nano_usd: None, ..answer(&text, vec![]) });
    assert_scene("reply-too-long", &scene);
}
