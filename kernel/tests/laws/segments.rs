//! Lists that only grow, in snapshots (SN-7): every one of them is sealed and read back.

use plica_kernel::body::Body;
use plica_kernel::event::*;
use plica_kernel::id::{Epoch, RunId};
use plica_kernel::ledger::Identity;
use plica_kernel::limits::CALLS_MAX;
use plica_kernel::snapshot;
use plica_kernel::state::{ListName, Task};

use crate::common::hand::*;
use crate::common::world::text_of;
use crate::common::{fold, fold_with};

const ENTRIES: usize = 130;

/// A log in which each list that only grows is longer than a segment.
fn grown() -> Hand {
    let mut hand = Hand::begin(true);
    for turn in 0..ENTRIES {
        hand.say(&format!("turn {turn}"));
        let plan = hand.compose();
        let request = hand.ask(plan, 1);
        hand.answered(request, RequestStatus::Ok);
        hand.push(AssistantThinkingRecorded { blocks: Body::Inline(format!("[{turn}]")), call: None });
        hand.push(late(&hand));
        hand.push(MessagesAppended { jobs: vec![], messages: vec![message(Role::Assistant, None, &[text("done")])] });
        hand.push(decision(0));
        hand.rest();
        hand.wake();
    }
    hand.say("deny all of these");
    for _ in 0..ENTRIES.div_ceil(CALLS_MAX) {
        let decision = hand.reply(&vec![tool_use(); CALLS_MAX]);
        for index in 0..CALLS_MAX as u32 {
            let reason = Body::Inline(format!("no {index}"));
            hand.push(ToolCallDenied { call: call(decision, index), reason, tool: "Tool".into() });
        }
    }
    hand
}

fn late(hand: &Hand) -> LateResultRecorded {
    let run = RunId::new("gone").unwrap();
    LateResultRecorded {
        answers: hand.head(),
        call: None,
        identity: Identity { attempt: 1, fence: Epoch(1), generation: 0, resume: 0, run },
        kind: LateKind::Stale,
        output: Body::default(),
        spent: None,
        status: None,
    }
}

fn lengths(task: &Task) -> [u64; 5] {
    let (runtime, governance) = (task.runtime(), task.governance());
    [
        runtime.messages.len(),
        runtime.turns.len(),
        task.context().thinking.len(),
        governance.denials.len(),
        governance.late.len(),
    ]
}

#[test]
fn sn_7_every_list_that_only_grows_is_sealed_and_read_back() {
    let mut hand = grown();
    assert!(lengths(hand.task()).iter().all(|length| *length > 128), "{:?}", lengths(hand.task()));
    let taken = hand.snapshot();
    let event = hand.log.envelopes().remove(taken.0 as usize - 1);
    let Payload::TaskSnapshot(of) = &event.payload else { panic!("{event:?}") };
    let bytes = &hand.log.blobs[&of.state_ref.sha256];
    let mut loaded = snapshot::load(&event, bytes).unwrap();
    assert_eq!(lengths(&loaded), lengths(hand.task()), "as long as they were, though not all is read");
    assert!(loaded.to_bytes().is_err(), "not all of it is read");
    let names: Vec<ListName> = snapshot::unread(&loaded).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [ListName::Messages, ListName::Turns, ListName::Thinking, ListName::Denials, ListName::Late],
        "each has a segment that was not read"
    );
    let longest = lengths(hand.task()).into_iter().max().unwrap();
    for _ in 0..longest / 128 {
        for (name, reference) in snapshot::unread(&loaded) {
            snapshot::supply(&mut loaded, name, &hand.log.blobs[&reference.sha256]).unwrap();
        }
    }
    assert_eq!(snapshot::unread(&loaded), [], "each segment was read once");
    assert_eq!(text_of(&loaded), text_of(&hand.states[taken.0 as usize - 2]));
    hand.say("and on");
    let from_snapshot = fold_with(&hand.log, |hash| hand.log.blobs.get(hash).cloned());
    assert_eq!(text_of(&from_snapshot), text_of(&fold(&hand.log)));
    assert_eq!(text_of(&from_snapshot), text_of(hand.task()));
}
