//! Snapshots: when they are taken, and which are passed over.

use plica_kernel::body::ContentRef;
use plica_kernel::canonical::Hash;
use plica_kernel::decode::decode;
use plica_kernel::envelope::Envelope;
use plica_kernel::event::*;
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::limits::{SNAPSHOT_EVENTS_MIN, SNAPSHOT_ROUNDS};
use plica_kernel::snapshot;

use crate::common::hand::Hand;
use crate::common::scene::{Scene, outcome, scene, start};

/// The seqs of the snapshots so far.
fn taken(scene: &Scene) -> Vec<u64> {
    let snapshots = scene.world.log.events().filter(|event| event.kind == EventType::TaskSnapshot);
    snapshots.map(|event| event.seq.0).collect()
}

/// A suspend takes one when sixteen events came since the last.
#[test]
fn sn_3_a_suspend_takes_a_snapshot_when_it_is_due() {
    let mut scene = scene(true, Budget::default());
    scene.replies("hello", vec![]);
    let mut last = 0;
    for _ in 0..12 {
        let before = taken(&scene).len();
        scene.say("go on").goes_on();
        scene.replies("well", vec![]);
        // The suspend is the last event of the turn, and the snapshot stands before it.
        let head = scene.head().0;
        let snapshot = taken(&scene).len() > before;
        let came = if snapshot { head - 2 - last } else { head - 1 - last };
        assert_eq!(snapshot, came >= SNAPSHOT_EVENTS_MIN, "{came} events before {head}");
        last = if snapshot { head - 1 } else { last };
    }
    assert!(taken(&scene).len() > 3);
}

/// A long turn takes one after every twenty rounds.
#[test]
fn sn_3_a_snapshot_is_taken_after_twenty_rounds() {
    let mut scene = scene(true, Budget::default());
    for round in 1..=2 * SNAPSHOT_ROUNDS + 1 {
        scene.replies("", vec![start("{}")]);
        scene.ends(0, outcome(CallStatus::Ok, "seen"));
        assert_eq!(taken(&scene).len() as u64, u64::from(round / SNAPSHOT_ROUNDS), "after round {round}");
    }
}

/// A log with one snapshot as its last event, and what that cites.
fn with_snapshot() -> (Envelope, Vec<u8>) {
    let mut hand = Hand::begin(true);
    hand.say("go");
    hand.snapshot();
    let event = hand.log.events().last().unwrap();
    let event = decode(&event.body, &event.hash).unwrap();
    let Payload::TaskSnapshot(snapshot) = &event.payload else { panic!("a snapshot") };
    let bytes = hand.log.blobs[&snapshot.state_ref.sha256].clone();
    (event, bytes)
}

/// The event, with something different about its payload.
fn otherwise(event: &Envelope, differ: impl FnOnce(&mut TaskSnapshot)) -> Envelope {
    let Payload::TaskSnapshot(snapshot) = &event.payload else { panic!("a snapshot") };
    let mut snapshot = snapshot.clone();
    differ(&mut snapshot);
    Envelope { payload: snapshot.into(), ..event.clone() }
}

#[test]
fn sn_2_a_snapshot_that_is_not_what_its_event_says_is_passed_over() {
    let (event, bytes) = with_snapshot();
    let whole = snapshot::load(&event, &bytes).unwrap();
    assert_eq!((whole.head().seq.next(), whole.head().hash), (event.seq, event.prev));

    let mut longer = bytes.clone();
    longer.insert(1, b' ');
    let unread = snapshot::load(&otherwise(&event, |it| it.state_ref = ContentRef::of("x", &longer)), &longer);
    assert!(unread.is_none(), "bytes that are not canonical");

    // An unknown member is no harm, but these are not the bytes that the event cites.
    let other = String::from_utf8(bytes.clone()).unwrap().replacen("{", r#"{"a":1,"#, 1).into_bytes();
    assert!(snapshot::load(&otherwise(&event, |it| it.state_ref = ContentRef::of("x", &other)), &other).is_some());
    assert!(snapshot::load(&event, &other).is_none(), "other bytes");

    let fold = otherwise(&event, |it| it.fold = Hash::from_bytes([7; 32]));
    assert!(snapshot::load(&fold, &bytes).is_none(), "another fold");
    let task = Envelope { task: TaskId::new("other").unwrap(), ..event.clone() };
    assert!(snapshot::load(&task, &bytes).is_none(), "another task's");
    let later = Envelope { seq: event.seq.next(), ..event.clone() };
    assert!(snapshot::load(&later, &bytes).is_none(), "an event between");
    let through = Envelope { seq: event.seq.next(), ..otherwise(&event, |it| it.through = event.seq) };
    assert!(snapshot::load(&through, &bytes).is_none(), "of another seq");
    let earlier = otherwise(&event, |it| it.through = Seq(it.through.0 - 1));
    assert!(snapshot::load(&earlier, &bytes).is_none(), "of another seq, and an event between");
    let none = Envelope { payload: TaskCancelled { reason: None }.into(), ..event.clone() };
    assert!(snapshot::load(&none, &bytes).is_none(), "no snapshot");
}
