//! Plugins and definitions in force, what observers record, and conversations that are closed.

use plica_kernel::body::{ContentRef, MEDIA_DEFINITION};
use plica_kernel::decide::{Aside, PluginRecord, Revision, Sent, observed, revise};
use plica_kernel::event::{Budget, CallStatus, Failure, FailureReason, PluginKind, PluginPin};
use plica_kernel::id::{DedupKey, Position, TaskId};
use plica_kernel::wake::Item;

use super::assert_scene;
use crate::common::scene::{Scene, outcome, scene, start};

/// Someone orders the task to move to another definition.
fn order(scene: &mut Scene) -> Position {
    scene.deliver(Item::Revise { definition: ContentRef::of(MEDIA_DEFINITION, br#"{"other":1}"#) });
    Position(scene.world.delivered.len() as u64)
}

/// What became of that order is recorded.
fn revised(scene: &mut Scene, position: Position, checked: Result<Revision, String>) {
    let items = scene.world.untaken();
    scene.records(|draft| revise(draft, position, &items, checked).unwrap());
}

fn other(budget: Budget) -> Revision {
    Revision { agent: "other".into(), budget, interactive: true }
}

#[test]
fn en_8_a_task_moves_to_another_definition_between_two_steps() {
    let mut scene = scene(false, Budget { steps: Some(5), ..Budget::default() });
    scene.note("The order lies in the inbox until the step is over, a message behind it.");
    let position = order(&mut scene);
    scene.say("go on").goes_on();
    scene.replies("", vec![start("{}")]);
    scene.ends(0, outcome(CallStatus::Ok, "seen"));
    revised(&mut scene, position, Ok(other(Budget { tokens: Some(900), ..Budget::default() })));
    scene.replies("done", vec![]);
    assert_scene("revised", &scene);
}

#[test]
fn en_8_a_definition_that_is_refused_changes_nothing_and_is_on_record() {
    let mut scene = scene(true, Budget { steps: Some(5), ..Budget::default() });
    scene.replies("hello", vec![]);
    let position = order(&mut scene);
    scene.goes_on();
    revised(&mut scene, position, Err("it names a tool that nobody has".into()));
    assert_scene("revision-refused", &scene);
}

#[test]
fn en_4_en_8_a_definition_with_room_wakes_a_task_that_waits_for_its_budget() {
    let mut scene = scene(true, Budget { steps: Some(1), ..Budget::default() });
    scene.replies("", vec![start("{}")]);
    scene.ends(0, outcome(CallStatus::Ok, "seen"));
    scene.note("The budget of steps is spent; another definition has more.");
    let position = order(&mut scene);
    scene.goes_on();
    revised(&mut scene, position, Ok(other(Budget { steps: Some(3), ..Budget::default() })));
    assert_scene("revised-with-room", &scene);
}

#[test]
fn en_8_a_definition_that_cannot_be_used_fails_the_turn_that_needs_it() {
    let mut scene = scene(true, Budget::default());
    scene.replies("", vec![start("{}")]);
    let failure =
        Failure { detail: Some("the model's name is unknown".into()), reason: FailureReason::DefinitionError };
    scene.seen.unusable = Some(failure);
    scene.ends(0, outcome(CallStatus::Ok, "seen"));
    assert_scene("definition-unusable", &scene);
}

#[test]
fn en_8_a_request_that_is_tried_again_needs_its_definition() {
    let mut scene = scene(true, Budget::default());
    scene.refuses(Some(5));
    let failure = Failure { detail: None, reason: FailureReason::DefinitionError };
    scene.seen.unusable = Some(failure);
    scene.passes(5).goes_on();
    assert_scene("definition-unusable-retry", &scene);
}

fn pin(kind: PluginKind, name: &str, version: &str) -> PluginPin {
    PluginPin { kind, name: name.into(), parameters: None, source: "host".into(), version: version.into() }
}

#[test]
fn rc_8_another_version_is_recorded_at_takeover_and_a_missing_plugin_hands_back() {
    let mut scene = scene(true, Budget::default());
    scene.replies("hello", vec![]);
    scene.note("This worker has a guard besides, and the tool in another version.");
    scene.pins = Some(vec![pin(PluginKind::Guard, "Tool", "1"), pin(PluginKind::Tool, "Tool", "7")]);
    scene.say("again").goes_on();
    scene.replies("hello again", vec![]);
    scene.note("The next one has the tool and not the guard: it goes no further.");
    scene.pins = Some(vec![pin(PluginKind::Tool, "Tool", "7")]);
    scene.say("once more").goes_on();
    scene.note("One that has both goes on, with nothing new to record.");
    scene.pins = Some(vec![pin(PluginKind::Tool, "Tool", "7"), pin(PluginKind::Guard, "Tool", "1")]);
    scene.goes_on();
    assert_scene("plugins-pinned", &scene);
}

#[test]
fn en_5_en_9_what_observers_return_is_on_record_also_of_a_task_that_is_over() {
    let mut scene = scene(false, Budget::default());
    let record = |kind: &str, body: &str| PluginRecord { plugin: "audit".into(), kind: kind.into(), body: body.into() };
    let sent = Sent {
        task: TaskId::new("auditor").unwrap(),
        actor: "plugin:audit".into(),
        item: Item::Event { data: Some("5".into()), event: "seen".into() },
        dedup: DedupKey::new("audit-5").unwrap(),
    };
    scene.note("An observer saw what was recorded so far, and tells someone.");
    let records = vec![record("seen", "4"), record("through", "5"), record("seen", "5")];
    let told = Aside { records, sent: vec![sent] };
    assert!(!told.is_empty() && Aside::default().is_empty());
    assert!(
        !Aside { records: vec![], ..told.clone() }.is_empty() && !Aside { sent: vec![], ..told.clone() }.is_empty()
    );
    scene.records(|draft| observed(draft, told).unwrap());
    scene.replies("done", vec![]);
    scene.note("It sees the end as well.");
    let records = vec![record("through", "11")];
    scene.records(|draft| observed(draft, Aside { records, sent: vec![] }).unwrap());
    assert_scene("observed", &scene);
}

#[test]
fn st_7_a_conversation_is_closed_and_opened_again() {
    let mut scene = scene(true, Budget::default());
    scene.replies("hello", vec![]);
    scene.deliver(Item::Close { reason: Some("enough for today".into()) }).goes_on();
    scene.note("It is open again, and someone speaks.");
    scene.deliver(Item::Reopen { reason: Some("one thing more".into()) }).say("what is new?").goes_on();
    scene.note("Someone cancels it, and someone else opens it again.");
    scene.deliver(Item::Cancel { reason: None }).goes_on();
    scene.deliver(Item::Reopen { reason: None }).goes_on();
    assert_scene("closed-and-reopened", &scene);
}
