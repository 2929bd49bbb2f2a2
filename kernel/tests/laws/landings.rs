//! Where a rewind, a redriven attempt or a fork lands: what it brings back, and what it never does
//! (SN-1, SN-4, SN-5).

use plica_kernel::event::*;
use plica_kernel::id::{CallId, Seq};
use plica_kernel::state::Task;

use super::live_path::said;
use crate::common::hand::{self, Hand, text, tool_use};

/// A turn has ended in which a call's outcome stayed unknown.
fn with_an_unknown_call() -> (Hand, CallId) {
    let mut hand = Hand::begin(true);
    hand.say("one");
    let decision = hand.reply(&[tool_use()]);
    let unknown = hand::call(decision, 0);
    let action = hand.start(unknown, 1);
    hand.finish(action, unknown, CallStatus::Unknown, "cut off");
    hand.reply(&[text("perhaps")]);
    hand.rest();
    (hand, unknown)
}

fn unknown(task: &Task) -> Vec<CallId> {
    task.runtime().unknown.iter().map(|unknown| unknown.call).collect()
}

/// TO-3: what a person has settled stays settled, wherever the conversation goes on; what nobody has
/// settled can still be.
#[test]
fn sn_1_a_rewind_brings_back_no_call_that_is_settled() {
    let (mut hand, call) = with_an_unknown_call();
    let landing = hand.head();
    hand.wake();
    hand.say("two");
    let mut other = hand.clone();
    hand.push(CallResolved { call, output: None, verdict: CallResolution::Skip });
    for (hand, left) in [(&mut hand, vec![]), (&mut other, vec![call])] {
        assert_eq!(unknown(hand.task()), left);
        hand.push(TaskRewound { to_seq: landing });
        assert_eq!(unknown(hand.task()), left);
    }
}

/// SN-4: what became of the source's calls is the source's to say.
#[test]
fn sn_4_a_fork_has_no_call_to_settle() {
    let (hand, call) = with_an_unknown_call();
    assert_eq!(unknown(hand.task()), [call]);
    assert_eq!(unknown(hand.fork("fork", hand.head()).task()), []);
}

/// SN-5: where a rewind lands the task waits for a message, whatever waited there before.
#[test]
fn sn_5_a_rewind_leaves_nothing_parked() {
    let mut hand = Hand::begin(true);
    hand.say("one");
    let plan = hand.compose();
    let request = hand.ask(plan, 1);
    hand.answered(request, RequestStatus::Interrupted);
    hand.push(StepAttemptAbandoned { from_seq: plan, verdict: SealVerdict::Park });
    hand.push(hand::suspended(None));
    let (landing, parked) = (hand.head(), hand.task().runtime().clone());
    assert_eq!((parked.parked, parked.seals, parked.sealed), (Some(Seq(landing.0 - 1)), 1, true));
    hand.push(TaskRewound { to_seq: landing });
    let runtime = hand.task().runtime();
    assert_eq!((runtime.parked, runtime.seals, runtime.sealed), (None, 0, false));
    let fork = hand.fork("fork", landing);
    assert_eq!((fork.task().runtime().parked, fork.task().runtime().seals), (None, 0));
}

/// A step that is run again hears what people said while it ran, and nothing else of what it was.
#[test]
fn sn_1_a_redriven_step_keeps_what_people_said_meanwhile() {
    let mut hand = Hand::begin(true);
    hand.say("one");
    let before = said(hand.task()).conversation;
    let from_seq = hand.head().next();
    let decision = hand.reply(&[tool_use()]);
    let call = hand::call(decision, 0);
    let action = hand.start(call, 1);
    hand.say("held while the call runs");
    hand.finish(action, call, CallStatus::Interrupted, "stopped");
    hand.say("after it");
    hand.push(StepAttemptAbandoned { from_seq, verdict: SealVerdict::Redrive });
    let after = said(hand.task()).conversation;
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 2, "{after:?}");
    assert!(after[before.len()].contains("held while the call runs") && after[before.len() + 1].contains("after it"));
    assert_eq!(hand.task().runtime().seals, 1);
}
