//! What cannot follow is refused, in the rule's own words, and changes nothing (FO-4).

use plica_kernel::canonical::Hash;
use plica_kernel::envelope::{Envelope, Links, Origin};
use plica_kernel::event::*;
use plica_kernel::id::{Epoch, LedgerId, Seq, TaskId};
use plica_kernel::state::Task;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{Alternative, Wake, WakeKey, Woken};

use crate::common::hand::*;
use crate::common::world::text_of;
use crate::common::{fold, log};

/// Checks that `event` is refused with `rule`, by the fold and by a verifier alike.
fn refuse_event(hand: &Hand, event: &Envelope, rule: &str) {
    let error = hand.clone().write(event).expect_err(rule);
    assert!(error.rule.contains(rule), "expected {rule:?}, found {:?}", error.rule);
    assert_eq!((&error.task, error.seq), (&event.task, event.seq));
    let mut forged = hand.log.clone();
    forged.appends.push(vec![event.seal().unwrap()]);
    let breaks = log::verify_log(&forged).breaks;
    assert!(!breaks.is_empty(), "a verifier finds nothing wrong: {rule}");
}

#[track_caller]
fn refuse(hand: &Hand, cause: impl Into<Option<Seq>>, payload: impl Into<Payload>, rule: &str) {
    refuse_event(hand, &hand.next(cause.into(), payload), rule);
}

/// A log that waits for the model's reply: its plan and its request.
fn requested() -> (Hand, Seq, Seq) {
    let mut hand = Hand::begin(true);
    hand.say("go");
    let plan = hand.compose();
    let request = hand.ask(plan, 1);
    (hand, plan, request)
}

/// A log whose last decision lists two calls.
fn decided() -> (Hand, Seq) {
    let mut hand = Hand::begin(true);
    hand.say("go");
    let decision = hand.reply(&[tool_use(), tool_use()]);
    (hand, decision)
}

fn rested() -> Hand {
    let mut hand = Hand::begin(true);
    hand.say("go");
    hand.reply(&[text("done")]);
    hand.rest();
    hand
}

fn over() -> Hand {
    let mut hand = rested();
    hand.push(TaskCancelled { reason: None });
    hand
}

fn cancelled() -> TaskCancelled {
    TaskCancelled { reason: None }
}

#[test]
fn fo_4_the_chain() {
    let mut hand = rested();
    hand.wake();
    let good = hand.next(None, cancelled());
    for (rule, edit) in [
        ("belongs to another task", (|event| event.task = TaskId::new("other").unwrap()) as fn(&mut Envelope)),
        ("seq gap: expected", |event| event.seq = event.seq.next()),
        ("seq gap: expected", |event| event.seq = Seq(event.seq.0 - 1)),
        ("prev is not the hash of the event before", |event| event.prev = Hash::from_bytes([9; 32])),
        ("recorded time runs back", |event| event.at = Timestamp::from_micros(-1)),
        ("epoch runs back", |event| event.epoch = Epoch(0)),
    ] {
        let mut event = good.clone();
        edit(&mut event);
        refuse_event(&hand, &event, rule);
    }
    hand.write(&good).unwrap();
}

#[test]
fn fo_4_the_beginning() {
    let ledger = LedgerId::new("ledger").unwrap();
    let begin = |event: &Envelope| Task::begin(event, event.seal().unwrap().hash, None);
    let good = first("hand", &ledger, created(false).into());
    assert!(begin(&good).is_ok());
    let mut moved = good.clone();
    moved.task = TaskId::new("elsewhere").unwrap();
    assert_eq!(begin(&moved).unwrap_err().rule, "prev is not the hash of the event before", "EV-4: another task");
    let other = first("hand", &LedgerId::new("another").unwrap(), created(false).into());
    assert_eq!(begin(&other).unwrap_err().rule, "prev is not the hash of the event before", "EV-4: another store");
    let mut late = good.clone();
    late.seq = Seq(2);
    assert_eq!(begin(&late).unwrap_err().rule, "seq gap: expected 1");
    let ends = first("hand", &ledger, cancelled().into());
    assert_eq!(begin(&ends).unwrap_err().rule, "a log begins with TaskCreated or TaskForked");
    let forked = TaskForked {
        ledger: ledger.clone(),
        source: TaskId::new("s").unwrap(),
        source_hash: good.prev,
        source_seq: Seq(1),
    };
    let fork = first("hand", &ledger, forked.into());
    assert_eq!(begin(&fork).unwrap_err().rule, "a fork needs the state of its source");
    refuse(&rested(), None, created(false), "a log has one beginning");
}

#[test]
fn sn_4_a_fork_inherits_the_conversation_and_no_place_of_the_source() {
    let mut source = rested();
    source.snapshot();
    let ledger = LedgerId::new("ledger").unwrap();
    let head = *source.task().head();
    let forked = |source_hash| TaskForked {
        ledger: ledger.clone(),
        source: TaskId::new("hand").unwrap(),
        source_hash,
        source_seq: head.seq,
    };
    let begin = |hash| {
        let event = first("fork", &ledger, forked(hash).into());
        Task::begin(&event, event.seal().unwrap().hash, Some(source.task()))
    };
    let error = begin(Hash::from_bytes([8; 32])).unwrap_err();
    assert_eq!(error.rule, "the fork's source is not the state it was given");
    let fork = begin(head.hash).unwrap();
    assert_eq!(fork.status(), plica_kernel::row::Status::Waiting);
    assert_eq!(fork.wake(), &Wake::on(WakeKey::Message));
    assert_eq!(fork.runtime().messages, source.task().runtime().messages);
    let (of_fork, of_source) = (fork.governance(), source.task().governance());
    assert_eq!((of_fork.steps, of_fork.spent()), (of_source.steps, of_source.spent()));
    assert_eq!((of_fork.generation, of_source.generation), (1, 0));
    assert_eq!((of_fork.plan, of_fork.decision, of_fork.snapshot, fork.context().plan), (None, None, None, None));
}

#[test]
fn fo_4_an_illegal_change_of_status() {
    let waiting = rested();
    refuse(&waiting, None, suspended(None), "only a ready or running task suspends");
    let plan = ContextPlanComposed {
        composer: "c".into(),
        definition: waiting.task().definition().clone(),
        refs: vec![],
        through: waiting.head(),
    };
    refuse(&waiting, None, plan.clone(), "a request is composed while the last step is not done");
    let (running, ..) = requested();
    refuse(&running, None, plan, "a request is composed while the last step is not done");
    let item = Woken { data: None, due: None, key: None, kind: "message".into(), position: None };
    refuse(&running, None, TaskWoken { item }, "only a waiting task wakes");
}

#[test]
fn fo_4_after_the_end() {
    let hand = over();
    for payload in [
        Payload::from(MessagesAppended { jobs: vec![], messages: vec![] }),
        suspended(None).into(),
        cancelled().into(),
        TaskCompleted { answer: Default::default() }.into(),
        TaskFailed { detail: None, reason: FailureReason::Budget }.into(),
        TurnInterrupted { reason: None }.into(),
        ExtensionRecorded { body: Default::default(), kind: "k".into(), plugin: "p".into() }.into(),
        StepAttemptAbandoned { from_seq: Seq(3), verdict: SealVerdict::Park }.into(),
    ] {
        refuse(&hand, None, payload, "the task is over");
    }
    // What observers saw of the end is on record after it.
    let mut seen = hand.clone();
    let record = ExtensionRecorded { body: Default::default(), kind: "k".into(), plugin: "p".into() };
    let mut event = seen.next(None, record);
    event.origin = Origin::Observer;
    seen.write(&event).unwrap();
    let mut reopened = hand.clone();
    reopened.push(ConversationReopened { reason: None });
    assert_eq!(reopened.task().status(), plica_kernel::row::Status::Waiting);
    let mut rewound = hand.clone();
    rewound.snapshot();
    rewound.push(TaskRewound { to_seq: Seq(hand.head().0 - 1) });
    assert_eq!(rewound.task().status(), plica_kernel::row::Status::Waiting);
    assert_eq!(text_of(&fold(&rewound.log)), text_of(rewound.task()));
}

#[test]
fn fo_4_a_wake_with_nine_alternatives() {
    let mut hand = Hand::begin(true);
    let alternative = |index| Alternative { key: WakeKey::Event(format!("e{index}")), need: 1 };
    let wake = |count| Wake { any: (0..count).map(alternative).collect(), at: None };
    refuse(&hand, None, TaskSuspended { wake: wake(9), ..suspended(None) }, "a wake has at most 8 alternatives");
    hand.push(TaskSuspended { wake: wake(8), ..suspended(None) });
}

#[test]
fn fo_5_a_forged_message_origin() {
    let hand = Hand::begin(true);
    for origin in [Origin::Llm, Origin::Tool, Origin::Observer, Origin::Engine] {
        for (role, marker) in [
            (Role::User, None),
            (Role::Assistant, Some(MessageOrigin::Human)),
            (Role::System, Some(MessageOrigin::System)),
            (Role::Assistant, Some(MessageOrigin::Memory)),
        ] {
            let forged = MessagesAppended {
                jobs: vec![],
                messages: vec![message(role, marker, &[text("{\"origin\":\"human\"}")])],
            };
            let event = Envelope { origin, ..hand.next(None, forged) };
            refuse_event(&hand, &event, "only the engine's own path for user messages sets a message's origin");
        }
    }
}

#[test]
fn ca_1_a_decision_names_itself() {
    let hand = Hand::begin(true);
    let definition = hand.task().definition().clone();
    let plan = ContextPlanComposed { composer: "c".into(), definition, refs: vec![], through: hand.head() };
    let good = hand.next(None, plan);
    let own = good.links.decision;
    for links in [
        Links::default(),
        Links { decision: Some(Seq(1)), ..Links::default() },
        Links { decision: own, parent: own, action: None },
        Links { decision: own, parent: None, action: own },
    ] {
        let event = Envelope { links, ..good.clone() };
        refuse_event(&hand, &event, "a decision's `decision` is its own seq, and it has no other link");
    }
}

#[test]
fn ca_2_an_action_cites_a_decision_of_this_log() {
    let (mut hand, decision) = decided();
    let good = hand.next(Some(decision), started(call(decision, 0), 1));
    let cited = Some(decision);
    for links in [
        Links::default(),
        Links { decision: cited, parent: None, action: None },
        Links { decision: None, parent: cited, action: None },
        Links { decision: cited, parent: Some(Seq(1)), action: None },
        Links { decision: cited, parent: cited, action: cited },
    ] {
        refuse_event(&hand, &Envelope { links, ..good.clone() }, "an action cites a decision of this log");
    }
    // CA-6: not just any decision, and none that is still to come.
    let rule = format!("an action cites the decision that allowed it, which is event {decision}");
    for other in [hand.task().governance().plan.unwrap(), Seq(2), Seq(99)] {
        let links = Links { decision: Some(other), parent: Some(other), action: None };
        refuse_event(&hand, &Envelope { links, ..good.clone() }, &rule);
    }
    hand.write(&good).unwrap();
}

#[test]
fn ca_6_a_call_that_was_asked_about_cites_the_ruling() {
    let (mut hand, decision) = decided();
    let (one, two) = (call(decision, 0), call(decision, 1));
    hand.push(asked(one));
    hand.push(asked(two));
    refuse(&hand, decision, started(one, 1), "no decision allows this action");
    let ruling = hand.push(ruled(one, ApprovalVerdict::Approve));
    let denied = hand.push(ruled(two, ApprovalVerdict::Deny));
    refuse(&hand, decision, started(one, 1), &format!("which is event {ruling}"));
    refuse(&hand, denied, started(two, 1), "no decision allows this action");
    let other = ToolCallStarted { args: plica_kernel::body::Body::Inline("{\"rm\":1}".into()), ..started(one, 1) };
    refuse(&hand, ruling, other, "what runs is not what was approved");
    hand.caused(ruling, started(one, 1));
    refuse(&hand, None, ruled(one, ApprovalVerdict::Deny), "the approval is settled, or bound to another call");
}

#[test]
fn ca_3_ca_4_an_outcome_cites_an_open_action_of_its_kind() {
    let (mut hand, decision) = decided();
    let (one, two) = (call(decision, 0), call(decision, 1));
    let first = hand.start(one, 1);
    let second = hand.start(two, 1);
    let rule = "an outcome cites an action without an outcome as `parent` and `action`";
    let good = hand.next(Some(first), finished(one, CallStatus::Ok, "out"));
    let cited = Some(first);
    for links in [
        Links::default(),
        Links { action: cited, parent: None, decision: None },
        Links { action: cited, parent: cited, decision: cited },
        Links { action: cited, parent: Some(second), decision: None },
        Links { action: Some(decision), parent: Some(decision), decision: None },
        Links { action: Some(second), parent: Some(second), decision: None },
    ] {
        refuse_event(&hand, &Envelope { links, ..good.clone() }, rule);
    }
    refuse(&hand, first, answered(RequestStatus::Ok), rule);
    refuse(&hand, first, child_done(one, 1), rule);
    hand.write(&good).unwrap();
    refuse(&hand, first, finished(one, CallStatus::Ok, "again"), rule);
    let rule = format!("event {second} is an action without an outcome, so the task cannot end");
    refuse(&hand, None, cancelled(), &rule);
    refuse(&hand, None, TaskFailed { detail: None, reason: FailureReason::Budget }, &rule);
    refuse(&hand, None, TaskCompleted { answer: Default::default() }, &rule);
}

#[test]
fn ca_4_nothing_open_is_left_behind_by_a_rewind_or_a_seal() {
    let mut hand = rested();
    let end = hand.head();
    hand.wake();
    hand.say("more");
    let from_seq = hand.head().next();
    let decision = hand.reply(&[tool_use()]);
    let action = hand.start(call(decision, 0), 1);
    let rule = "an action in what it leaves has no outcome";
    refuse(&hand, None, TaskRewound { to_seq: end }, rule);
    for verdict in [SealVerdict::Redrive, SealVerdict::Park] {
        refuse(&hand, None, StepAttemptAbandoned { from_seq, verdict }, rule);
    }
    hand.finish(action, call(decision, 0), CallStatus::Interrupted, "stopped");
    hand.clone().push(TaskRewound { to_seq: end });
    hand.push(StepAttemptAbandoned { from_seq, verdict: SealVerdict::Redrive });
    refuse(&hand, None, TaskRewound { to_seq: hand.head().next() }, "a rewind goes back");
    let ahead = StepAttemptAbandoned { from_seq: hand.head().next(), verdict: SealVerdict::Park };
    refuse(&hand, None, ahead, "an attempt begins before its seal");
}

#[test]
fn ca_5_an_observation_or_checkpoint_never_poses() {
    let (hand, decision) = decided();
    for payload in [
        Payload::from(cancelled()),
        question(call(decision, 0)).into(),
        StepAttemptAbandoned { from_seq: Seq(3), verdict: SealVerdict::Park }.into(),
    ] {
        let good = hand.next(None, payload);
        for links in [
            Links { parent: Some(decision), ..Links::default() },
            Links { decision: Some(decision), ..Links::default() },
            Links { action: Some(decision), ..Links::default() },
        ] {
            refuse_event(&hand, &Envelope { links, ..good.clone() }, "no part of a chain");
        }
    }
}

#[test]
fn fo_4_the_place_of_a_request() {
    let (mut hand, plan, request) = requested();
    let start = |attempt| LLMRequestStarted { attempt, model: "m".into() };
    let rule = "a request starts once for each attempt of the plan in force";
    refuse(&hand, plan, start(2), rule);
    let retry = |attempt| LLMRetryScheduled { attempt, due: Timestamp::from_micros(9) };
    let unscheduled = "a try is scheduled once, after the one before it failed";
    refuse(&hand, None, retry(2), unscheduled);
    refuse(&hand, None, decision(0), "a decision follows the model's reply, once");
    hand.answered(request, RequestStatus::Error);
    refuse(&hand, plan, start(1), rule);
    refuse(&hand, plan, start(3), rule);
    refuse(&hand, None, retry(3), unscheduled);
    hand.push(retry(2));
    refuse(&hand, None, retry(2), unscheduled);
    let again = hand.caused(plan, start(2));
    hand.answered(again, RequestStatus::Ok);
    refuse(&hand, plan, start(3), rule);
    refuse(&hand, None, decision(0), "a decision follows the model's reply, once");
    hand.push(MessagesAppended { jobs: vec![], messages: vec![message(Role::Assistant, None, &[])] });
    hand.push(DecisionRecorded { kind: DecisionKind::Truncated, answer: None, ..decision(0) });
    refuse(&hand, None, decision(0), "a decision follows the model's reply, once");
}

#[test]
fn fo_4_the_place_of_a_call() {
    let (mut hand, decided) = decided();
    let (one, two, three) = (call(decided, 0), call(decided, 1), call(decided, 2));
    let denied = |call| ToolCallDenied { call, reason: Default::default(), tool: "Tool".into() };
    refuse(&hand, decided, started(three, 1), "no such call waits to be started");
    refuse(&hand, None, denied(three), "no such call waits");
    refuse(&hand, decided, started(one, 2), "a call's attempts run from 1 without a gap");
    refuse(&hand, decided, ToolCallStarted { tool: "Other".into(), ..started(one, 1) }, "the call names another tool");
    refuse(&hand, None, decision(1), "a decision follows the model's reply, once");
    let first = hand.start(one, 1);
    refuse(&hand, decided, started(one, 2), "the call is open already");
    for payload in [Payload::from(denied(one)), asked(one).into(), question(one).into()] {
        refuse(&hand, None, payload, "no such call waits");
    }
    refuse(&hand, decided, spawned(one, 1), "no such call waits");
    hand.push(asked(two));
    refuse(&hand, None, asked(two), "the call was asked about already");
    let other = ApprovalResolved { digest: Hash::from_bytes([4; 32]), ..ruled(two, ApprovalVerdict::Approve) };
    refuse(&hand, None, other, "the approval is settled, or bound to another call");
    refuse(&hand, None, ruled(three, ApprovalVerdict::Approve), "no such approval is pending");
    hand.push(ruled(two, ApprovalVerdict::Deny));
    hand.push(denied(two));
    refuse(&hand, None, denied(two), "no such call waits");
    hand.finish(first, one, CallStatus::Ok, "out");
    refuse(&hand, decided, started(one, 2), "no such call waits to be started");
}

#[test]
fn fo_4_the_place_of_questions_and_children() {
    let (mut hand, decided) = decided();
    let (one, two) = (call(decided, 0), call(decided, 1));
    let answer = |call| QuestionAnswered { answer: Default::default(), call };
    refuse(&hand, None, answer(one), "no such question is pending");
    hand.push(question(one));
    refuse(&hand, None, question(one), "no such call waits");
    hand.push(answer(one));
    refuse(&hand, None, answer(one), "no such question is pending");
    let child = hand.caused(decided, spawned(two, 1));
    refuse(&hand, decided, spawned(two, 2), "no such call waits");
    refuse(&hand, child, child_done(two, 2), "an outcome cites an action without an outcome");
    hand.caused(child, child_done(two, 1));
    assert!(hand.task().runtime().round.is_none());
    assert_eq!(hand.task().governance().spent(), Spent { nano_usd: 2, steps: 3, tokens: 5, wall_ms: 5 });
}

#[test]
fn fo_4_the_place_of_a_patch_and_of_a_snapshot() {
    let (mut hand, decided) = decided();
    let patch =
        |call| TaskStatePatched { call, patch: TaskStatePatch { phase: Some("p".into()), ..Default::default() } };
    hand.push(patch(None));
    let rule = "a policy's patch directly follows the decision it belongs to";
    refuse(&hand, None, patch(None), rule);
    refuse(&rested(), None, patch(None), rule);
    hand.push(patch(Some(call(decided, 0))));
    refuse(&hand, None, patch(Some(call(decided, 0))), "no such call waits");
    let mut task = hand.task().clone();
    let taken = plica_kernel::snapshot::take(&mut task, &mut vec![]).unwrap();
    let older = TaskSnapshot { through: Seq(taken.through.0 - 1), ..taken };
    refuse(&hand, None, older, "a snapshot is of the state before its own event");
}
