//! Plugins and definitions in force (RC-8, EN-8).

use plica_kernel::body::{ContentRef, MEDIA_DEFINITION};
use plica_kernel::canonical::to_vec;
use plica_kernel::decide::{Act, Inputs, Next, Revision, advance, next, revise};
use plica_kernel::event::*;
use plica_kernel::id::CallId;
use plica_kernel::limits::PAYLOAD_BYTES_MAX;
use plica_kernel::row::Status;
use plica_kernel::wake::Item;

use crate::common::hand::{self, Hand, tool_use};
use crate::common::scene::scene;
use crate::common::world::{composer, text_of};
use crate::common::{Habits, World, fold};

fn pin(name: &str, version: &str) -> PluginPin {
    PluginPin {
        kind: PluginKind::Tool,
        name: name.into(),
        parameters: None,
        source: "host".into(),
        version: version.into(),
    }
}

fn quiet() -> World {
    World::born(1, Habits { crash: 0, message: 0, cancel: 0, revise: 0, ..Habits::wild(true, Budget::default()) })
}

fn kinds(world: &World) -> Vec<EventType> {
    world.log.events().map(|event| event.kind).collect()
}

/// However many there are, each stands in the append of the first request, and no payload is
/// too large for it.
#[test]
fn rc_8_pins_that_do_not_fit_are_split_over_events_of_one_append() {
    let mut world = quiet();
    let pins: Vec<PluginPin> = (0..100).map(|index| pin(&format!("Tool{index}-{}", "n".repeat(60)), "1")).collect();
    let mut draft = world.draft();
    let mut inputs = Inputs { pins: pins.clone(), ..world.inputs() };
    let act = advance(&mut draft, &mut inputs, &composer()).unwrap();
    world.commit(draft);
    assert!(matches!(act, Act::Ask(_)));
    let last = world.log.appends.last().unwrap();
    let pinned: Vec<_> = last.iter().filter(|event| event.kind == EventType::PluginsPinned).collect();
    assert!(pinned.len() > 1 && pinned.iter().all(|event| event.body.len() < PAYLOAD_BYTES_MAX + 1024));
    assert_eq!(last[pinned.len()].kind, EventType::ContextPlanComposed);
    assert_eq!(world.task.governance().pins, pins);
}

/// An event holds as many as fit its payload, counted to the byte.
#[test]
fn rc_8_an_event_holds_as_many_pins_as_fit() {
    let events = |length: usize| -> Vec<(usize, usize)> {
        let mut scene = scene(true, Budget::default());
        // The tool is on record already.
        let mut pins = vec![pin("Tool", "0")];
        pins.extend((0..40).map(|index| pin(&format!("{index:-<20}"), "1")));
        pins.push(pin(&"n".repeat(length), "1"));
        scene.pins = Some(pins);
        scene.refuses(Some(0)).goes_on();
        let pinned = scene.world.log.envelopes().into_iter().filter_map(|event| match event.payload {
            Payload::PluginsPinned(pinned) => Some(pinned),
            _ => None,
        });
        pinned.skip(1).map(|pinned| (pinned.plugins.len(), to_vec(&pinned).unwrap().len())).collect()
    };
    let short = events(1);
    assert_eq!(short.len(), 1, "{short:?}");
    let room = PAYLOAD_BYTES_MAX - 1 - short[0].1;
    assert_eq!(events(1 + room), [(41, PAYLOAD_BYTES_MAX - 1)]);
    let split: Vec<usize> = events(2 + room).into_iter().map(|(pins, _)| pins).collect();
    assert_eq!(split, [40, 1]);
}

/// Only what is not on record as it is: another version takes the place of the one before.
#[test]
fn rc_8_another_version_is_on_record_before_what_begins_with_it() {
    let mut hand = Hand::begin(true);
    hand.say("go");
    hand.push(PluginsPinned { plugins: vec![pin("Read", "1"), pin("Bash", "1")] });
    hand.push(PluginsPinned { plugins: vec![pin("Read", "2")] });
    assert_eq!(hand.task().governance().pins, [pin("Read", "2"), pin("Bash", "1")]);

    let mut world = quiet();
    world.delegate(&[]);
    let first = kinds(&world).iter().filter(|kind| **kind == EventType::PluginsPinned).count();
    world.say();
    world.advance();
    let second = kinds(&world).iter().filter(|kind| **kind == EventType::PluginsPinned).count();
    assert_eq!((first, second), (1, 1), "the same versions are not written twice");
}

/// What was approved starts with the version of the worker that starts it, which is on record.
#[test]
fn rc_8_an_approved_call_starts_with_what_is_pinned() {
    let mut hand = Hand::begin(true);
    hand.say("go");
    hand.push(PluginsPinned { plugins: vec![pin("Tool", "1")] });
    let decision = hand.reply(&[tool_use()]);
    let call = CallId { decision, index: 0 };
    hand.push(hand::asked(call));
    let mut world = quiet();
    world.deliver(Item::Verdict { call, reason: None, verdict: ApprovalVerdict::Approve });
    let stamp = world.draft().stamp().clone();
    let mut draft = plica_kernel::decide::Draft::new(hand.task().clone(), stamp);
    let mut inputs = Inputs { pins: vec![pin("Tool", "2")], ..world.inputs() };
    advance(&mut draft, &mut inputs, &composer()).unwrap();
    let events = draft.finish().unwrap().events;
    let kinds: Vec<EventType> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventType::ApprovalResolved, EventType::PluginsPinned, EventType::ToolCallStarted]);
}

fn order() -> Item {
    Item::Revise { definition: ContentRef::of(MEDIA_DEFINITION, b"{\"other\":1}") }
}

fn revision(budget: Budget) -> Revision {
    Revision { agent: "other".into(), budget, interactive: false }
}

/// Takes the order that lies in the inbox.
fn take(world: &mut World, checked: Result<Revision, String>) {
    let mut draft = world.draft();
    let mut inputs = world.inputs();
    let Act::Revise(position) = advance(&mut draft, &mut inputs, &composer()).unwrap() else { panic!("{world:?}") };
    revise(&mut draft, position, &inputs.items, checked).unwrap();
    world.commit(draft);
}

#[test]
fn en_8_a_task_moves_to_another_definition_between_two_steps() {
    let mut world = quiet();
    let before = world.task.definition().clone();
    let Act::Ask(_) = world.advance() else { panic!() };
    world.deliver(order());
    // A request is open: the order waits.
    assert!(matches!(next(&world.task, &world.inputs()), Next::Act(Act::Ask(_))));
    assert_eq!(world.task.definition(), &before);
    world.delegate(&[]);
    let caps = Budget { steps: Some(7), ..Budget::default() };
    take(&mut world, Ok(revision(caps)));
    let task = &world.task;
    assert_ne!(task.definition(), &before);
    assert_eq!((task.agent(), task.is_interactive(), task.governance().budget), ("other", false, caps));
    assert!(task.governance().pins.is_empty(), "what the new definition names is pinned anew");
    assert_eq!(text_of(task), text_of(&fold(&world.log)));
    // The next request is made with it.
    world.advance();
    let plan = world.log.envelopes().into_iter().rev().find_map(|event| match event.payload {
        Payload::ContextPlanComposed(plan) => Some(plan.definition),
        _ => None,
    });
    assert_eq!(plan.as_ref(), Some(world.task.definition()));
}

#[test]
fn en_8_a_refused_definition_changes_nothing_and_is_on_record() {
    let mut world = quiet();
    let before = world.task.definition().clone();
    world.deliver(order());
    take(&mut world, Err("the workspace stays".into()));
    assert_eq!(world.task.definition(), &before);
    assert!(kinds(&world).contains(&EventType::AgentRevised));
    assert_eq!(world.untaken(), []);
}

/// A task that waits for its next message takes the order as it waits.
#[test]
fn en_8_a_task_at_rest_is_revised_without_being_woken() {
    let mut world = quiet();
    while world.task.status() != Status::Waiting {
        world.advance();
        world.finish_turn();
    }
    world.deliver(order());
    take(&mut world, Ok(revision(Budget::default())));
    assert_eq!(world.task.status(), Status::Waiting);
    assert_eq!(world.task.agent(), "other");
}

/// A call that waits to be let run keeps the tool that it was asked for; what else the new
/// definition names is pinned anew.
#[test]
fn en_8_a_revision_keeps_the_tools_of_calls_that_wait() {
    let mut hand = Hand::begin(true);
    hand.say("go");
    let guard = PluginPin { kind: PluginKind::Guard, ..pin("Tool", "1") };
    hand.push(PluginsPinned { plugins: vec![guard, pin("Tool", "1"), pin("Other", "1")] });
    let decision = hand.reply(&[tool_use()]);
    hand.push(hand::asked(hand::call(decision, 0)));
    let revised = AgentRevised {
        agent: "other".into(),
        budget: Budget::default(),
        definition: ContentRef::of(MEDIA_DEFINITION, b"{}"),
        interactive: true,
        refused: Some("the workspace stays".into()),
    };
    let pins = hand.task().governance().pins.clone();
    hand.push(revised.clone());
    assert_eq!(hand.task().governance().pins, pins, "a refused one changes nothing");
    hand.push(AgentRevised { refused: None, ..revised });
    assert_eq!(hand.task().governance().pins, [pin("Tool", "1")]);
}

/// Grants stay granted, and what was spent stays spent.
#[test]
fn en_8_a_revision_keeps_grants_and_refills_nothing() {
    let mut hand = Hand::begin(false);
    let revised = |caps: Option<u64>| AgentRevised {
        agent: "other".into(),
        budget: Budget { steps: caps, ..Budget::default() },
        definition: ContentRef::of(MEDIA_DEFINITION, b"{}"),
        interactive: false,
        refused: None,
    };
    hand.say("go");
    hand.push(revised(Some(4)));
    let seq = hand.head().next();
    hand.push(ApprovalRequested {
        args: plica_kernel::body::Body::Inline("{\"steps\":4}".into()),
        subject: Some(ApprovalSubject::Budget),
        ..hand::asked(hand::call(seq, 0))
    });
    hand.push(hand::ruled(hand::call(seq, 0), ApprovalVerdict::Approve));
    assert_eq!(hand.task().governance().budget.steps, Some(8));
    hand.push(revised(Some(10)));
    assert_eq!(hand.task().governance().budget.steps, Some(14));
    assert_eq!(hand.task().governance().allotted.steps, Some(10));
    hand.push(revised(None));
    assert_eq!(hand.task().governance().budget.steps, None);
    let plan = hand.compose();
    hand.ask(plan, 1);
    assert_eq!(
        hand.clone().try_push(None, revised(None)).unwrap_err().rule,
        "the definition changes only between two steps"
    );
}
