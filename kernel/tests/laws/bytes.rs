//! Laws about stored bytes: what is ignored, what is refused, and who notices.

use plica_kernel::canonical::{Domain, Hash, from_slice, to_vec};
use plica_kernel::decode::decode_trusted;
use plica_kernel::envelope::SealedEvent;
use plica_kernel::event::{Budget, Payload};
use plica_kernel::id::Seq;
use plica_kernel::ledger::verify::{Promise, Verifier};
use plica_kernel::snapshot;
use plica_kernel::state::fold::landing_of;
use proptest::prelude::*;
use serde_json::Value;

use crate::common::world::text_of;
use crate::common::{Choices, Habits, Log, World, fold, fold_with, log};

fn walk() -> impl Strategy<Value = World> {
    (any::<u64>(), 1..40usize, any::<bool>())
        .prop_map(|(seed, steps, interactive)| World::walk(seed, steps, Habits::wild(interactive, Budget::default())))
}

/// Puts a member that nobody knows into every object whose members are ours to name.
fn add_unknown(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                // A patch refuses what it does not know (FO-3); these are maps of others' names.
                if !matches!(name.as_str(), "patch" | "labels" | "metrics") {
                    add_unknown(member);
                }
            }
            members.insert("~".into(), Value::from(0));
        }
        Value::Array(items) => items.iter_mut().for_each(add_unknown),
        _ => {}
    }
}

/// The same log with each body edited, canonical again, hashed again and chained again.
fn rewritten(log: &Log, edit: impl Fn(&mut Value)) -> Log {
    let mut log = log.clone();
    let mut prev: Option<Hash> = None;
    for event in log.appends.iter_mut().flatten() {
        let mut value: Value = from_slice(&event.body).unwrap();
        if let Some(prev) = prev {
            value["prev"] = prev.to_string().into();
        }
        edit(&mut value);
        event.body = to_vec(&value).unwrap();
        event.hash = Domain::Event.hash(&event.body);
        prev = Some(event.hash);
    }
    log
}

fn stored(event: &SealedEvent) -> (Seq, &Hash, &[u8]) {
    (event.seq, &event.hash, &event.body)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn ev_3_ev_8_unknown_members_never_change_the_fold(world in walk()) {
        let newer = rewritten(&world.log, add_unknown);
        let head = newer.events().last().unwrap().hash;
        let same = text_of(&world.task).replace(&world.task.head().hash.to_string(), &head.to_string());
        prop_assert_eq!(&text_of(&fold(&newer)), &same);
        prop_assert_eq!(&text_of(&fold_with(&newer, |hash| newer.blobs.get(hash).cloned())), &same);
        prop_assert_eq!(log::verify_log(&newer).breaks, vec![]);
    }

    #[test]
    fn ev_9_any_single_byte_that_differs_is_a_break_at_its_event(world in walk(), seed in any::<u64>()) {
        let mut choices = Choices::new(seed);
        let events: Vec<&SealedEvent> = world.log.events().collect();
        for _ in 0..4 {
            let at = choices.below(events.len());
            let mut damaged = events[at].clone();
            let byte = choices.below(damaged.body.len());
            damaged.body[byte] ^= 1 << choices.below(8);
            let mut damaged_log = events.clone();
            damaged_log[at] = &damaged;
            let found = log::verify(world.task.id(), damaged_log.into_iter().map(stored));
            prop_assert_eq!(found.breaks.len(), 1, "{:?}", found.breaks);
            prop_assert_eq!(found.breaks[0].seq, damaged.seq);
            prop_assert_eq!(found.breaks[0].promise, Promise::Integrity);
            prop_assert_eq!(found.breaks[0].rule.as_str(), "hash differs from the body");
        }
    }

    #[test]
    fn ev_9_a_lost_a_doubled_and_a_swapped_event_are_named(world in walk(), seed in any::<u64>()) {
        let events: Vec<&SealedEvent> = world.log.events().collect();
        let at = Choices::new(seed).below(events.len() - 1);
        let first = |events: Vec<&SealedEvent>| {
            log::verify(world.task.id(), events.into_iter().map(stored)).breaks.first().map(|found| found.seq)
        };
        let mut lost = events.clone();
        lost.remove(at);
        prop_assert_eq!(first(lost), Some(events[at].seq));
        let mut doubled = events.clone();
        doubled.insert(at, events[at]);
        prop_assert_eq!(first(doubled), Some(events[at].seq.next()));
        let mut swapped = events.clone();
        swapped.swap(at, at + 1);
        prop_assert_eq!(first(swapped), Some(events[at].seq));
    }

    /// Someone who writes an event anew and hashes it gives himself away at the next event's
    /// `prev`, or by the row's head when there is none.
    #[test]
    fn ev_4_a_rehashed_event_breaks_the_chain_after_it(world in walk(), seed in any::<u64>()) {
        let mut events: Vec<SealedEvent> = world.log.events().cloned().collect();
        let at = Choices::new(seed).below(events.len());
        let mut value: Value = from_slice(&events[at].body).unwrap();
        value["actor"] = "someone else".into();
        events[at].body = to_vec(&value).unwrap();
        events[at].hash = Domain::Event.hash(&events[at].body);
        let landings: Vec<Seq> = world.log.envelopes().iter().filter_map(landing_of).collect();
        let mut verifier = Verifier::new(world.task.id().clone(), landings);
        for event in &events {
            verifier.push(event.seq, &event.hash, &event.body);
        }
        let head = world.task.head();
        let breaks = verifier.finish(Some((head.seq, head.hash))).breaks;
        prop_assert_eq!(breaks.len(), 1, "{:?}", &breaks);
        let expected = if at + 1 < events.len() { events[at].seq.next() } else { events[at].seq };
        prop_assert_eq!(breaks[0].seq, expected);
    }

    #[test]
    fn ev_9_damaged_bodies_decode_or_fail_cleanly(world in walk(), seed in any::<u64>()) {
        let mut choices = Choices::new(seed);
        let events: Vec<&SealedEvent> = world.log.events().collect();
        for _ in 0..32 {
            let mut body = choices.pick(&events).body.clone();
            for _ in 0..=choices.below(3) {
                let at = choices.below(body.len());
                match choices.below(3) {
                    0 => body[at] = *choices.pick(b"{}[]\",:0129azntf-\\\xc3\xa9"),
                    1 => drop(body.remove(at)),
                    _ => body.insert(at, *choices.pick(b"0123456789\"{")),
                }
            }
            if let Ok(event) = decode_trusted(&body) {
                let mut task = world.task.clone();
                let _ = task.apply(&event, Domain::Event.hash(&body));
                // What decodes has canonical bytes of its own.
                prop_assert!(event.seal().is_ok());
            }
        }
    }

    #[test]
    fn sn_2_a_snapshot_lacking_a_member_is_passed_over_and_an_unknown_one_is_ignored(world in walk(), seed in any::<u64>()) {
        let mut world = world;
        world.finish();
        let mut choices = Choices::new(seed);
        for mut event in world.log.envelopes() {
            let Payload::TaskSnapshot(taken) = &event.payload else { continue };
            let bytes = world.log.blobs[&taken.state_ref.sha256].clone();
            let whole: Value = from_slice(&bytes).unwrap();
            let mut load = |value: &Value| {
                let bytes = to_vec(value).unwrap();
                let Payload::TaskSnapshot(taken) = &mut event.payload else { unreachable!("it was one above") };
                taken.state_ref = plica_kernel::body::ContentRef::of(&taken.state_ref.media, &bytes);
                snapshot::load(&event, &bytes)
            };
            let mut more = whole.clone();
            more["state"]["~"] = 1.into();
            more["state"]["runtime"]["~"] = 1.into();
            prop_assert_eq!(load(&more), load(&whole));
            for (slice, names) in [
                ("/state", &["agent", "context", "definition", "governance", "head", "runtime", "status", "task", "wake"][..]),
                ("/state/runtime", &["held", "messages", "phase", "rounds", "turn_usage"]),
                ("/state/governance", &["actions", "approvals", "generation", "resume", "steps", "tokens"]),
            ] {
                let mut less = whole.clone();
                less.pointer_mut(slice).unwrap().as_object_mut().unwrap().remove(*choices.pick(names)).unwrap();
                prop_assert!(load(&less).is_none());
            }
        }
    }
}
