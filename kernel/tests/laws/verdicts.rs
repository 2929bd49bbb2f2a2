//! What a verifier says of a log, promise by promise (PR-1), by someone who trusts neither the
//! worker nor the store.

use std::collections::BTreeSet;

use plica_kernel::body::ContentRef;
use plica_kernel::canonical::{Domain, Hash, from_slice, to_vec};
use plica_kernel::envelope::SealedEvent;
use plica_kernel::event::*;
use plica_kernel::id::Seq;
use plica_kernel::ledger::verify::{Break, Promise, Verified, Verifier};
use serde_json::Value;

use crate::common::hand::*;

/// Two turns and a snapshot, each event an append of its own.
fn log() -> Vec<SealedEvent> {
    let mut hand = Hand::begin(true);
    hand.say("go");
    hand.reply(&[text("done")]);
    hand.rest();
    hand.snapshot();
    hand.wake();
    hand.say("more");
    hand.log.events().cloned().collect()
}

fn verify(events: &[SealedEvent], head: Option<(Seq, Hash)>) -> Verified {
    let mut verifier = Verifier::new(plica_kernel::id::TaskId::new("hand").unwrap(), []);
    for event in events {
        verifier.push(event.seq, &event.hash, &event.body);
    }
    verifier.finish(head)
}

fn head(events: &[SealedEvent]) -> Option<(Seq, Hash)> {
    events.last().map(|event| (event.seq, event.hash))
}

/// The event at `at` and all that follow, with the body of that one edited and everything hashed and
/// chained anew.
fn rewritten(events: &[SealedEvent], at: usize, edit: impl Fn(&mut Value)) -> Vec<SealedEvent> {
    let mut events = events.to_vec();
    for index in at..events.len() {
        let mut value: Value = from_slice(&events[index].body).unwrap();
        if index == at {
            edit(&mut value);
        } else {
            value["prev"] = events[index - 1].hash.to_string().into();
        }
        events[index].body = to_vec(&value).unwrap();
        events[index].hash = Domain::Event.hash(&events[index].body);
    }
    events
}

fn told(breaks: &[Break]) -> Vec<(u64, Promise, &str)> {
    breaks.iter().map(|found| (found.seq.0, found.promise, found.rule.as_str())).collect()
}

const INTEGRITY: Promise = Promise::Integrity;
const CAUSALITY: Promise = Promise::Causality;

#[test]
fn pr_1_a_sound_log_has_no_break_and_is_folded() {
    let events = log();
    for head in [None, head(&events)] {
        let found = verify(&events, head);
        assert_eq!((found.breaks, found.not_checked), (vec![], Vec::<String>::new()));
        let task = found.task.unwrap();
        assert_eq!((task.head().seq, task.id().as_str()), (Seq(events.len() as u64), "hand"));
    }
}

#[test]
fn pr_1_an_event_that_is_missing_is_named_by_its_own_seq() {
    let mut events = log();
    let end = head(&events);
    events.remove(3);
    let found = verify(&events, end);
    let rules = [
        (4, INTEGRITY, "missing: the next event stored is 5"),
        (5, INTEGRITY, "prev is not the hash of the event before"),
    ];
    assert_eq!(told(&found.breaks), rules);
    assert!(found.task.is_none(), "what is not whole is not folded");
}

/// The row says what the last event is: a log that ends before it, or otherwise, is not whole.
#[test]
fn pr_1_a_log_that_ends_before_the_row_says_is_not_whole() {
    let mut events = log();
    let end = head(&events);
    let last = events.pop().unwrap();
    let before = head(&events).unwrap();
    let missing = format!("missing: the row says the log ends with event {}", last.seq);
    assert_eq!(told(&verify(&events, end).breaks), [(last.seq.0, INTEGRITY, missing.as_str())]);
    assert_eq!(told(&verify(&events, Some(before)).breaks), []);
    let other = "the row's head is another event than the log's last";
    let forged = Some((before.0, Hash::from_bytes([7; 32])));
    assert_eq!(told(&verify(&events, forged).breaks), [(before.0.0, INTEGRITY, other)]);
    let behind = Some((Seq(before.0.0 - 1), before.1));
    assert_eq!(told(&verify(&events, behind).breaks), [(before.0.0 - 1, INTEGRITY, other)]);
}

#[test]
fn pr_1_an_append_is_whole() {
    let events = log();
    let more = |count: u32| move |value: &mut Value| value["more"] = count.into();
    let last = events.len() - 1;
    // The append of the last event says that others follow.
    let cut = rewritten(&events, last, more(2));
    assert_eq!(
        told(&verify(&cut, None).breaks),
        [(events.len() as u64 + 1, INTEGRITY, "missing: the last append is not whole")]
    );
    // Three events in one append: two, one and none still follow.
    let three = rewritten(&rewritten(&events, 3, more(2)), 4, more(1));
    assert_eq!(told(&verify(&three, head(&three)).breaks), []);
    for counts in [[2, 0], [2, 2], [1, 1]] {
        let broken = rewritten(&rewritten(&events, 3, more(counts[0])), 4, more(counts[1]));
        let found = verify(&broken, head(&broken)).breaks;
        assert_eq!(told(&found)[0], (5, INTEGRITY, "an append is not whole"), "{counts:?}");
    }
}

/// RC-9: what a newer version wrote is called neither sound nor tampered with; what follows it is
/// not folded, and its bytes are looked at all the same.
#[test]
fn rc_9_what_a_newer_version_wrote_is_not_called_tampered() {
    let events = log();
    let newer = rewritten(&events, 3, |value| value["v"] = 2.into());
    let found = verify(&newer, head(&newer));
    assert_eq!(told(&found.breaks), []);
    assert_eq!(found.not_checked, ["event 4 and what follows: written by a newer version (envelope format 2)"]);
    assert!(found.task.is_none());
    // It may also be damaged, which its hash does not hide.
    let mut damaged = newer;
    damaged[3].body.push(b' ');
    damaged[3].hash = Domain::Event.hash(&damaged[3].body);
    let found = verify(&damaged, None);
    assert_eq!(found.breaks[0].seq, Seq(4));
    // Whether its append is whole is its own affair.
    let appended = rewritten(&events, 2, |value| value["more"] = 1.into());
    let appended = rewritten(&appended, 3, |value| value["type"] = "RetentionChanged".into());
    assert_eq!(told(&verify(&appended, head(&appended)).breaks), []);
}

#[test]
fn pr_1_a_body_that_is_not_what_was_written_breaks_integrity_alone() {
    let events = log();
    let mut damaged = events.clone();
    damaged[3].body[2] ^= 1;
    let found = verify(&damaged, head(&damaged));
    assert_eq!(told(&found.breaks), [(4, INTEGRITY, "hash differs from the body")]);
    assert!(found.task.is_none());
    // In the middle of an append, too: what the damaged one said of its append is not known.
    let mut appended = rewritten(&events, 2, |value| value["more"] = 1.into());
    appended[3].body[2] ^= 1;
    assert_eq!(told(&verify(&appended, None).breaks), [(4, INTEGRITY, "hash differs from the body")]);
}

/// An event that is stored in another's place says so itself.
#[test]
fn pr_1_an_event_of_another_place_or_task_is_named() {
    let events = log();
    for (edit, rule) in [
        ((|value: &mut Value| value["task"] = "other".into()) as fn(&mut Value), "says it is event 4 of task other"),
        (|value| value["seq"] = 9.into(), "says it is event 9 of task hand"),
    ] {
        let moved = rewritten(&events, 3, edit);
        let found = verify(&moved, head(&moved));
        assert_eq!(told(&found.breaks), [(4, INTEGRITY, rule)]);
        assert!(found.task.is_none());
    }
    let unchained = rewritten(&events, 3, |value| value["prev"] = events[0].hash.to_string().into());
    let found = verify(&unchained, head(&unchained));
    assert_eq!(told(&found.breaks), [(4, INTEGRITY, "prev is not the hash of the event before")]);
    assert!(found.task.is_none());
}

/// The first event that cannot follow is named, and none after it; integrity goes on.
#[test]
fn pr_1_causality_is_checked_to_the_first_break() {
    let events = log();
    let unlinked = rewritten(&events, 2, |value| value["decision"] = 1.into());
    let mut found = verify(&unlinked, head(&unlinked));
    let rule = "a decision's `decision` is its own seq, and it has no other link";
    assert_eq!(told(&found.breaks), [(3, CAUSALITY, rule)]);
    assert!(found.task.take().is_none());
    let mut both = unlinked;
    both[6].body[2] ^= 1;
    assert_eq!(told(&verify(&both, None).breaks), [(3, CAUSALITY, rule), (7, INTEGRITY, "hash differs from the body")]);
}

/// SN-1: a snapshot of this version is the fold; one of another version is nobody's to judge.
#[test]
fn sn_1_a_snapshot_that_is_not_the_fold_is_a_break() {
    let events = log();
    let at = events.iter().position(|event| event.kind == EventType::TaskSnapshot).unwrap();
    let seq = events[at].seq.0;
    let state = |name: &'static str| {
        move |value: &mut Value| value["payload"][name]["sha256"] = Hash::from_bytes([5; 32]).to_string().into()
    };
    let forged = rewritten(&events, at, state("state_ref"));
    let found = verify(&forged, head(&forged));
    assert_eq!(told(&found.breaks), [(seq, INTEGRITY, "the snapshot differs from the fold")]);
    assert!(found.task.is_some(), "the log itself folds");
    let other = rewritten(&forged, at, |value| value["payload"]["fold"] = Hash::from_bytes([1; 32]).to_string().into());
    let found = verify(&other, head(&other));
    assert_eq!(told(&found.breaks), []);
    assert_eq!(found.not_checked, [format!("snapshot at event {seq}: of another fold version")]);
}

/// What an event cites is handed on for the caller to look up, sealed segments of a snapshot
/// included; what cannot be had or checked is on record.
#[test]
fn co_1_the_caller_looks_up_what_is_cited() {
    let mut hand = Hand::begin(true);
    (0..130).for_each(|index| {
        hand.say(&format!("said {index}"));
    });
    hand.snapshot();
    let mut verifier = Verifier::new(hand.task().id().clone(), []);
    let mut cited: Vec<ContentRef> = vec![];
    for event in hand.log.events() {
        cited = verifier.push(event.seq, &event.hash, &event.body).content;
    }
    let known: BTreeSet<Hash> = cited.iter().map(|reference| reference.sha256).collect();
    assert_eq!(known, hand.log.blobs.keys().copied().collect(), "the state and its segment");
    verifier.content_broken(Seq(7), "content differs");
    verifier.could_not_check("the content of event 8");
    let found = verifier.finish(None);
    assert_eq!(told(&found.breaks), [(7, INTEGRITY, "content differs")]);
    assert_eq!(found.not_checked, ["the content of event 8"]);
}
