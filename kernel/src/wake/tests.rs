use alloc::{format, string::ToString, vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::body::ContentRef;
use crate::event::{ApprovalVerdict, CallResolution, JobEnd};
use crate::id::{CallId, DedupKey, Seq, TaskId};

#[test]
fn wa_2_keys_have_one_spelling() {
    for (key, text) in [
        (WakeKey::Message, "message"),
        (WakeKey::Answer(Seq(7)), "answer:7"),
        (WakeKey::Group(Seq(12)), "group:12"),
        (WakeKey::Background, "background"),
        (WakeKey::Event("ci:done".into()), "event:ci:done"),
        (WakeKey::Event("message".into()), "event:message"),
    ] {
        assert_eq!(key.to_string(), text);
        assert_eq!(text.parse(), Ok(key));
    }
    for bad in [
        "",
        "Message",
        "message:",
        "answer",
        "answer:",
        "answer:07",
        "answer:+7",
        "answer:x",
        "group:-1",
        "event:",
        "event",
        "timer",
        "background:1",
    ] {
        assert_eq!(bad.parse::<WakeKey>(), Err(key::WakeKeyError(bad.into())), "{bad}");
    }
}

fn call() -> CallId {
    CallId { decision: Seq(7), index: 1 }
}

fn child(background: bool) -> Item {
    Item::Child {
        answer: crate::body::Body::Inline("a".into()),
        background,
        call: call(),
        child: TaskId::new("c").unwrap(),
        failure: None,
        spent: Default::default(),
        status: crate::event::SubtaskStatus::Completed,
    }
}

/// Matching looks at identity and at nothing that an item says.
#[test]
fn wa_2_items_carry_their_keys() {
    let message = Item::Message { text: "event:x".into() };
    let event = Item::Event { data: Some("message".into()), event: "x".into() };
    let answer = Item::Answer { call: call(), text: "t".into() };
    let verdict = Item::Verdict { call: call(), reason: None, verdict: ApprovalVerdict::Deny };
    let evidence = Item::Evidence {
        action: Seq(3),
        call: call(),
        identity: crate::ledger::Identity {
            attempt: 1,
            fence: crate::id::Epoch(1),
            generation: 0,
            resume: 0,
            run: crate::id::RunId::new("r").unwrap(),
        },
        output: "o".into(),
        status: crate::event::CallStatus::Ok,
    };
    let job = Item::Job { code: Some(-1), how: JobEnd::Exited, job: Seq(9), output: "o".into() };
    let revise = Item::Revise { definition: ContentRef::of("text/plain", b"{}") };
    // Item, key, whether it steers, stops, and is taken by a task that is over.
    for (item, key, steers, stops, outlives) in [
        (message, Some("message"), true, false, false),
        (event, Some("event:x"), false, false, false),
        (answer, Some("answer:7"), false, false, false),
        (verdict, Some("answer:7"), false, false, false),
        (child(false), Some("group:7"), false, false, false),
        (child(true), Some("background"), false, false, false),
        (job, Some("background"), false, false, false),
        (Item::Cancel { reason: None }, None, true, true, false),
        (Item::Interrupt { reason: None }, None, true, true, false),
        (Item::Close { reason: None }, None, true, false, false),
        (Item::Rewind { to_seq: Seq(2) }, None, true, true, true),
        (Item::Reopen { reason: None }, None, true, false, true),
        (
            Item::Resolve { call: call(), output: None, verdict: CallResolution::Skip },
            Some("message"),
            false,
            false,
            false,
        ),
        (revise, None, true, false, false),
        (evidence, None, false, false, true),
    ] {
        assert_eq!(item.key().map(|key| key.to_string()).as_deref(), key, "{}", item.kind());
        let is = (item.steers(), item.stops(), item.outlives_the_task());
        assert_eq!(is, (steers, stops, outlives), "{}", item.kind());
        let text = crate::canonical::to_vec(&item).unwrap();
        assert_eq!(crate::canonical::from_slice::<Item>(&text), Ok(item));
    }
}

fn delivered(items: Vec<Item>) -> Vec<InboxItem> {
    let deliver = |(index, item): (usize, Item)| InboxItem {
        at: Timestamp::from_micros(0),
        actor: "user:ada".into(),
        dedup: DedupKey::new(format!("k{index}")).unwrap(),
        item,
        position: Position(index as u64 + 1),
    };
    items.into_iter().enumerate().map(deliver).collect()
}

#[test]
fn st_7_a_wait_is_met_when_enough_items_carry_a_key() {
    let event = |kind: &str| Item::Event { data: None, event: kind.into() };
    let wait = |any: &[(WakeKey, u32)]| Wake {
        any: any.iter().map(|(key, need)| Alternative { key: key.clone(), need: *need }).collect(),
        at: None,
    };
    let group = WakeKey::Group(Seq(7));
    let x = WakeKey::Event("x".into());
    for (wake, items, met) in [
        (wait(&[(group.clone(), 2)]), vec![child(false)], false),
        (wait(&[(group.clone(), 2)]), vec![child(false), child(false)], true),
        (wait(&[(group.clone(), 2)]), vec![child(false), child(true)], false),
        (wait(&[(group.clone(), 2), (x.clone(), 1)]), vec![child(false), event("x")], true),
        (wait(&[(group, 2), (x.clone(), 1)]), vec![child(false), event("y")], false),
        (wait(&[(x.clone(), 0)]), vec![], false),
        (wait(&[(x.clone(), 0)]), vec![event("x")], true),
        (Wake::default(), vec![event("x")], false),
    ] {
        let items = delivered(items);
        let keys: Vec<WakeKey> = items.iter().filter_map(|item| item.item.key()).collect();
        assert_eq!(wake.is_met(keys.iter()), met, "{wake:?} {keys:?}");
        assert_eq!(wake.is_woken_by(&items), met, "{wake:?} {keys:?}");
    }
    let steered = delivered(vec![Item::Interrupt { reason: None }]);
    assert!(wait(&[(x, 1)]).is_woken_by(&steered));
}

/// A row holds eight alternatives (section 8 of the design).
#[test]
fn st_7_a_wait_has_at_most_eight_alternatives() {
    let wait = |alternatives: u64| Wake {
        any: (0..alternatives).map(|seq| Alternative { key: WakeKey::Answer(Seq(seq)), need: 1 }).collect(),
        at: None,
    };
    assert_eq!([0, 1, 7, 8, 9, 16].map(|count| wait(count).fits()), [true, true, true, true, false, false]);
}

proptest! {
    #[test]
    fn wa_2_any_text_is_a_key_of_that_text_or_none(text in "(message|background|(answer|group|event):[0-9a-z:+]{0,6}|.{0,12})") {
        if let Ok(key) = text.parse::<WakeKey>() {
            prop_assert_eq!(key.to_string(), text);
        }
    }
}
