//! Rewinds and redriven attempts against a reference that knows nothing of states: walk back
//! from the end, keep what is alive, and read it forward (SN-1).

use std::collections::BTreeMap;

use plica_kernel::envelope::Envelope;
use plica_kernel::event::*;
use plica_kernel::id::{CallId, Seq};
use plica_kernel::state::{Entry, Task};
use proptest::prelude::*;

use crate::common::hand::{self, Hand, message, text, tool_use};
use crate::common::world::text_of;
use crate::common::{Choices, fold, fold_with, log};

/// What is alive of a log, and what it says.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    pub conversation: Vec<String>,
    notes: Vec<String>,
    thinking: usize,
    turns: Vec<u64>,
}

/// Whether an event carries a person's words.
fn is_persons(event: &Envelope) -> bool {
    matches!(&event.payload, Payload::MessagesAppended(said)
        if said.messages.iter().any(|message| message.origin == Some(MessageOrigin::Human)))
}

/// The events that are alive, by the rule as the design states it.
pub fn alive(events: &[Envelope]) -> Vec<&Envelope> {
    let mut alive = Vec::new();
    let mut at = events.len();
    while at > 0 {
        let event = &events[at - 1];
        match &event.payload {
            Payload::TaskRewound(rewound) => at = rewound.to_seq.0 as usize,
            Payload::StepAttemptAbandoned(StepAttemptAbandoned { from_seq, verdict: SealVerdict::Redrive }) => {
                let from = from_seq.0 as usize;
                alive.extend(events[from - 1..at - 1].iter().rev().filter(|event| is_persons(event)));
                at = from - 1;
            }
            _ => {
                alive.push(event);
                at -= 1;
            }
        }
    }
    alive.reverse();
    alive
}

/// Reads events that are alive.
pub fn read(events: &[&Envelope]) -> Told {
    let mut told = Told::default();
    let mut round: Option<(Seq, Vec<Option<String>>)> = None;
    let mut held = Vec::new();
    let mut usage = 0;
    for event in events {
        let mut settle = |call: CallId, output: &str| {
            let (decision, results) = round.as_mut().expect("a round");
            assert_eq!(*decision, call.decision);
            results[call.index as usize] = Some(output.to_string());
        };
        match &event.payload {
            Payload::MessagesAppended(said) => {
                let words =
                    said.messages.iter().map(|said| format!("{:?} {}", said.role, said.blocks.inline().unwrap()));
                if round.is_some() { held.extend(words) } else { told.conversation.extend(words) }
            }
            Payload::DecisionRecorded(decision) if !decision.calls.is_empty() => {
                round = Some((event.seq, vec![None; decision.calls.len()]));
            }
            Payload::ToolCallFinished(finished) => settle(finished.call, finished.output.inline().unwrap()),
            Payload::QuestionAnswered(answered) => settle(answered.call, answered.answer.inline().unwrap()),
            Payload::TaskStatePatched(patched) => told.notes.extend(patched.patch.add_notes.iter().cloned()),
            Payload::AssistantThinkingRecorded(_) => told.thinking += 1,
            Payload::LLMRequestFinished(finished) => usage += finished.usage.output,
            Payload::TaskSuspended(_) => told.turns.push(core::mem::take(&mut usage)),
            _ => {}
        }
        if let Some((decision, results)) = round.take_if(|(_, results)| results.iter().all(Option::is_some)) {
            told.conversation
                .push(format!("results {decision} {:?}", results.into_iter().flatten().collect::<Vec<_>>()));
            told.conversation.append(&mut held);
        }
    }
    told.conversation.append(&mut held);
    told
}

/// What a state says.
pub fn said(task: &Task) -> Told {
    let words = |said: &Message| format!("{:?} {}", said.role, said.blocks.inline().unwrap());
    let entry = |entry: &Entry| match entry {
        Entry::Message(said) => words(said),
        Entry::Results(results) => {
            let outputs: Vec<&str> = results.results.iter().map(|result| result.output.inline().unwrap()).collect();
            format!("results {} {outputs:?}", results.decision)
        }
    };
    let runtime = task.runtime();
    Told {
        conversation: runtime.messages.iter().map(entry).chain(runtime.held.iter().map(words)).collect(),
        notes: task.state().notes.clone(),
        thinking: task.context().thinking.len() as usize,
        turns: runtime.turns.iter().map(|usage| usage.output).collect(),
    }
}

/// A story with crashes and second thoughts.
pub struct Story {
    pub hand: Hand,
    pub choices: Choices,
    /// Where a rewind may land, dead or alive.
    pub boundaries: Vec<Seq>,
    words: usize,
}

impl Story {
    fn tell(seed: u64, turns: usize) -> Hand {
        let mut story = Self::begin(seed);
        story.go_on(turns);
        story.hand
    }

    pub fn begin(seed: u64) -> Self {
        Self { hand: Hand::begin(true), choices: Choices::new(seed), boundaries: vec![], words: 0 }
    }

    pub fn go_on(&mut self, turns: usize) {
        for _ in 0..turns {
            self.turn();
        }
    }

    /// Goes on in a log that branches off where a turn had ended; says where.
    pub fn branch(&mut self, id: &str) -> Option<Seq> {
        if self.boundaries.is_empty() {
            return None;
        }
        let at = *self.choices.pick(&self.boundaries);
        self.hand = self.hand.fork(id, at);
        self.boundaries = vec![Seq(1)];
        Some(at)
    }

    fn word(&mut self, what: &str) -> String {
        self.words += 1;
        format!("{what} {}", self.words)
    }

    /// People speak, and snapshots are taken, wherever they like.
    fn meanwhile(&mut self) {
        if self.choices.chance(15) {
            let said = self.word("said");
            self.hand.say(&said);
        }
        if self.choices.chance(10) {
            self.hand.snapshot();
        }
    }

    fn turn(&mut self) {
        if self.hand.task().status() == plica_kernel::row::Status::Waiting {
            let woken = self.hand.wake();
            self.boundaries.push(woken);
            if self.choices.chance(10) {
                return self.rewind();
            }
        }
        let said = self.word("said");
        let opened = self.hand.say(&said);
        let mut first = None;
        for _ in 0..self.choices.below(4) {
            self.meanwhile();
            let plan = Seq(self.hand.head().0 + 1);
            let calls = 1 + self.choices.below(3);
            let left = self.attempt(calls);
            if left.is_empty() && self.hand.task().runtime().round.is_none() {
                first = None;
                continue;
            }
            self.stop(&left);
            if !self.boundaries.is_empty() && self.choices.chance(30) {
                return self.rewind();
            }
            // A second seal may begin where the first did.
            let from = if self.choices.chance(50) { *first.get_or_insert(plan) } else { plan };
            assert!(from > opened);
            self.hand.push(StepAttemptAbandoned { from_seq: from, verdict: SealVerdict::Redrive });
        }
        self.hand.reply(&[text("done")]);
        let ended = self.hand.rest();
        self.boundaries.push(ended);
        if self.choices.chance(20) {
            self.hand.snapshot();
        }
        if self.choices.chance(30) {
            self.rewind();
        }
    }

    /// One request and its calls; broken off at some point, it leaves open calls behind.
    fn attempt(&mut self, count: usize) -> Vec<(CallId, Seq)> {
        let plan = self.hand.compose();
        let request = self.hand.ask(plan, 1);
        self.meanwhile();
        self.hand.answered(request, RequestStatus::Ok);
        let thought = self.word("thought");
        if self.choices.chance(30) {
            let blocks = plica_kernel::body::Body::Inline(thought);
            self.hand.push(AssistantThinkingRecorded { blocks, call: None });
        }
        let said = self.word("reply");
        let blocks: Vec<_> = [text(&said)].into_iter().chain((0..count).map(|_| tool_use())).collect();
        self.hand.push(MessagesAppended { jobs: vec![], messages: vec![message(Role::Assistant, None, &blocks)] });
        let decision = self.hand.push(hand::decision(count));
        if self.choices.chance(30) {
            let patch = TaskStatePatch { add_notes: vec![self.word("note")], ..TaskStatePatch::default() };
            self.hand.push(TaskStatePatched { call: None, patch });
        }
        let mut open = Vec::new();
        for index in 0..count {
            let call = hand::call(decision, index as u32);
            match self.choices.below(8) {
                0 => drop(self.hand.push(hand::question(call))),
                1 => drop(self.hand.push(hand::asked(call))),
                _ => open.push((call, self.hand.start(call, 1))),
            }
        }
        while !open.is_empty() && !self.choices.chance(20) {
            self.meanwhile();
            let (call, action) = open.remove(self.choices.below(open.len()));
            let output = self.word("output");
            self.hand.finish(action, call, CallStatus::Ok, &output);
        }
        open
    }

    /// Gives what is open its outcome.
    fn stop(&mut self, open: &[(CallId, Seq)]) {
        for (call, action) in open {
            self.hand.finish(*action, *call, CallStatus::Interrupted, "stopped");
        }
    }

    fn rewind(&mut self) {
        let to_seq = *self.choices.pick(&self.boundaries);
        let rewound = self.hand.push(TaskRewound { to_seq });
        if self.choices.chance(50) {
            self.boundaries.push(rewound);
        }
    }
}

fn count(events: &[Envelope], kind: EventType) -> u64 {
    events.iter().filter(|event| event.kind() == kind).count() as u64
}

fn story() -> impl Strategy<Value = Hand> {
    (any::<u64>(), 1..8usize).prop_map(|(seed, turns)| Story::tell(seed, turns))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn sn_1_the_conversation_is_what_is_alive(hand in story()) {
        let events = hand.log.envelopes();
        for state in &hand.states {
            let events = &events[..state.head().seq.0 as usize];
            prop_assert_eq!(said(state), read(&alive(events)));
        }
    }

    #[test]
    fn sn_1_what_was_spent_stays_spent(hand in story()) {
        let events = hand.log.envelopes();
        let governance = hand.task().governance();
        prop_assert_eq!(governance.steps, count(&events, EventType::LLMRequestStarted));
        prop_assert_eq!(governance.tool_calls, count(&events, EventType::ToolCallStarted));
        prop_assert_eq!(u64::from(governance.generation), count(&events, EventType::TaskRewound));
        let replies = count(&events, EventType::LLMRequestFinished);
        let ended = replies + count(&events, EventType::ToolCallFinished);
        prop_assert_eq!((governance.tokens.output, governance.cost_nano_usd), (replies, replies));
        prop_assert_eq!(governance.elapsed_ms, ended);
    }

    #[test]
    fn sn_1_nothing_pending_outlives_what_became_dead(hand in story()) {
        for (event, state) in hand.log.envelopes().iter().zip(&hand.states) {
            if matches!(event.kind(), EventType::TaskRewound | EventType::StepAttemptAbandoned) {
                prop_assert_eq!(&state.governance().questions, &BTreeMap::new());
                prop_assert_eq!(&state.governance().approvals, &BTreeMap::new());
                prop_assert!(state.runtime().round.is_none());
            }
        }
    }

    #[test]
    fn sn_1_sn_2_snapshots_inside_what_became_dead_change_nothing(hand in story(), seed in any::<u64>()) {
        let whole = text_of(hand.task());
        prop_assert_eq!(&text_of(&fold(&hand.log)), &whole);
        prop_assert_eq!(&text_of(&fold_with(&hand.log, |hash| hand.log.blobs.get(hash).cloned())), &whole);
        let mut choices = Choices::new(seed);
        let lost: Vec<_> = hand.log.blobs.keys().filter(|_| choices.chance(50)).copied().collect();
        let content = |hash: &_| hand.log.blobs.get(hash).filter(|_| !lost.contains(hash)).cloned();
        prop_assert_eq!(&text_of(&fold_with(&hand.log, content)), &whole);
        prop_assert_eq!(log::verify_log(&hand.log).breaks, vec![]);
    }
}

#[test]
fn sn_1_stories_hold_rewinds_after_rewinds_and_seals_after_seals() {
    let mut rewinds = 0;
    let mut seals = 0;
    let mut kept = 0;
    for seed in 0..30 {
        let hand = Story::tell(seed, 6);
        let events = hand.log.envelopes();
        rewinds += usize::from(count(&events, EventType::TaskRewound) > 1);
        seals += usize::from(count(&events, EventType::StepAttemptAbandoned) > 1);
        for (index, event) in events.iter().enumerate() {
            if let Payload::StepAttemptAbandoned(sealed) = &event.payload {
                kept += events[sealed.from_seq.0 as usize - 1..index].iter().filter(|event| is_persons(event)).count();
            }
        }
    }
    assert!(rewinds > 10 && seals > 10 && kept > 10, "{rewinds} {seals} {kept}");
}

#[test]
fn sn_1_a_rewind_to_what_is_dead_brings_it_back() {
    let mut hand = Hand::begin(true);
    hand.say("one");
    hand.reply(&[text("first")]);
    let first = hand.rest();
    hand.wake();
    hand.say("two");
    hand.reply(&[text("second")]);
    let second = hand.rest();
    let whole = said(hand.task());
    hand.push(TaskRewound { to_seq: first });
    assert_eq!(said(hand.task()).conversation.len(), 2);
    hand.push(TaskRewound { to_seq: second });
    assert_eq!(said(hand.task()), whole);
    assert_eq!(hand.task().status(), plica_kernel::row::Status::Waiting);
    assert_eq!(text_of(&fold(&hand.log)), text_of(hand.task()));
}

#[test]
fn fo_2_a_landing_that_is_not_the_one_named_is_refused() {
    let mut hand = Hand::begin(true);
    hand.say("one");
    hand.reply(&[text("first")]);
    let end = hand.rest();
    let event = hand.next(None, TaskRewound { to_seq: end });
    let sealed = event.seal().unwrap();
    let mut task = hand.task().clone();
    let error = task.apply_landing(&event, sealed.hash, &hand.states[2]).unwrap_err();
    assert_eq!(error.rule, "the landing is not the state this event names");
    let error = task.apply(&event, sealed.hash).unwrap_err();
    assert_eq!(error.rule, "needs the state of its landing");
    assert_eq!(&task, hand.task());
}

/// A snapshot may stand anywhere, between a reply and the decision on it too, and at the very
/// place where a segment of the conversation is full.
#[test]
fn sn_1_sn_7_a_snapshot_where_a_segment_is_full_knows_the_last_entry() {
    let mut hand = Hand::begin(true);
    for index in 0..127 {
        hand.say(&format!("said {index}"));
    }
    let plan = hand.compose();
    let request = hand.ask(plan, 1);
    hand.answered(request, RequestStatus::Ok);
    hand.push(MessagesAppended { jobs: vec![], messages: vec![message(Role::Assistant, None, &[text("done")])] });
    assert_eq!(hand.task().runtime().messages.len(), 128);
    hand.snapshot();
    hand.push(hand::decision(0));
    hand.rest();
    hand.wake();
    hand.say("next");
    let used = fold_with(&hand.log, |hash| hand.log.blobs.get(hash).cloned());
    assert_eq!(text_of(&used), text_of(hand.task()));
}
