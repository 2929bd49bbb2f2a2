//! What happens next, state by state, and the bounds of what is tried again.

use plica_kernel::decide::{
    Act, AfterCrash, Answer, CallPlan, Draft, Inputs, Move, Next, Orphan, Refusal, Stamp, advance, fail, next, refusal,
    reply, settle_orphans,
};
use plica_kernel::event::*;
use plica_kernel::id::{CallId, DedupKey, Epoch, Position, RunId, Seq};
use plica_kernel::ledger::{Admission, Identity, admit};
use plica_kernel::limits::{MODEL_TRIES_MAX, TOOL_STARTS_MAX};
use plica_kernel::message::Block;
use plica_kernel::row::Status;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item, Wake, WakeKey, Woken};

use crate::common::hand::{self, Hand, call, text, tool_use};
use crate::common::world::composer;
use crate::common::{Habits, World};

fn inputs(run: &str, items: Vec<Item>) -> Inputs {
    let deliver = |(index, item): (usize, Item)| InboxItem {
        at: Timestamp::from_micros(0),
        actor: "user:ada".into(),
        dedup: DedupKey::new(format!("k{index}")).unwrap(),
        item,
        position: Position(index as u64 + 1),
    };
    Inputs {
        now: Timestamp::from_micros(1_000),
        items: items.into_iter().enumerate().map(deliver).collect(),
        run: RunId::new(run).unwrap(),
        rewinds: Default::default(),
        pins: vec![],
        foreseen: Default::default(),
        spawns: Default::default(),
        stopping: false,
        unusable: None,
    }
}

fn mine(items: Vec<Item>) -> Inputs {
    inputs("run", items)
}

fn said() -> Item {
    Item::Message { text: "hello".into() }
}

fn cancel() -> Item {
    Item::Cancel { reason: None }
}

fn ready() -> Hand {
    let mut hand = Hand::begin(true);
    hand.say("go");
    hand
}

fn requested() -> (Hand, Seq) {
    let mut hand = ready();
    let plan = hand.compose();
    let request = hand.ask(plan, 1);
    (hand, request)
}

fn called() -> (Hand, Vec<(CallId, Seq)>) {
    let mut hand = ready();
    let decision = hand.reply(&[tool_use(), tool_use()]);
    let started = (0..2).map(|index| (call(decision, index), hand.start(call(decision, index), 1))).collect();
    (hand, started)
}

fn rested() -> Hand {
    let mut hand = ready();
    hand.reply(&[text("done")]);
    hand.rest();
    hand
}

#[track_caller]
fn check(hand: &Hand, inputs: &Inputs, expected: impl Into<Expected>) {
    let expected = match expected.into() {
        Expected::Record(moved) => Next::Record(moved),
        Expected::Act(act) => Next::Act(act),
    };
    assert_eq!(next(hand.task(), inputs), expected);
}

enum Expected {
    Record(Move),
    Act(Act),
}

impl From<Move> for Expected {
    fn from(moved: Move) -> Self {
        Self::Record(moved)
    }
}

impl From<Act> for Expected {
    fn from(act: Act) -> Self {
        Self::Act(act)
    }
}

fn failed(reason: FailureReason, detail: &str) -> Move {
    Move::Fail(Failure { detail: Some(detail.into()), reason })
}

#[test]
fn en_1_a_ready_task_composes_and_takes_messages_first() {
    let hand = ready();
    check(&hand, &mine(vec![]), Move::Compose);
    check(&hand, &mine(vec![said()]), Move::Join);
    check(&hand, &mine(vec![said(), cancel()]), Move::Cancel(Position(2)));
    check(&hand, &Inputs { stopping: true, ..mine(vec![said()]) }, Act::HandBack);
    let unusable = Failure { detail: None, reason: FailureReason::DefinitionError };
    check(&hand, &Inputs { unusable: Some(unusable.clone()), ..mine(vec![]) }, Move::Fail(unusable));
}

#[test]
fn en_1_a_request_in_progress_is_asked_or_closed() {
    let (hand, request) = requested();
    check(&hand, &mine(vec![said()]), Act::Ask(request));
    check(&hand, &inputs("other", vec![]), Move::CloseRequest(request));
    check(&hand, &inputs("other", vec![cancel()]), Move::Cancel(Position(1)));
}

#[test]
fn mo_3_a_failed_request_waits_out_its_back_off() {
    let (mut hand, request) = requested();
    hand.answered(request, RequestStatus::Error);
    check(&hand, &mine(vec![]), failed(FailureReason::LlmError, "the provider said nothing"));
    let due = Timestamp::from_micros(2_000);
    hand.push(LLMRetryScheduled { attempt: 2, due });
    check(&hand, &mine(vec![]), Act::WaitUntil(due));
    check(&hand, &Inputs { now: due, ..mine(vec![]) }, Move::StartRequest);
    check(&hand, &Inputs { now: due, stopping: true, ..mine(vec![]) }, Act::HandBack);
}

#[test]
fn en_1_calls_are_run_by_their_holder_and_settled_by_the_next() {
    let (mut hand, started) = called();
    check(&hand, &mine(vec![said()]), Act::Run(started.clone()));
    check(&hand, &inputs("other", vec![]), Act::Settle(started.clone()));
    hand.finish(started[0].1, started[0].0, CallStatus::Ok, "out");
    check(&hand, &mine(vec![]), Act::Run(started[1..].to_vec()));
    hand.finish(started[1].1, started[1].0, CallStatus::Ok, "out");
    check(&hand, &mine(vec![]), Move::Compose);
}

#[test]
fn en_6_a_turn_does_not_end_while_a_message_lies_untaken() {
    let mut hand = ready();
    hand.reply(&[text("done")]);
    check(&hand, &mine(vec![]), Move::Finish);
    check(&hand, &mine(vec![said()]), Move::Join);
    hand.say("one more thing");
    check(&hand, &mine(vec![]), Move::Compose);
}

#[test]
fn wa_4_a_waiting_task_rests_until_something_it_waits_for_is_there() {
    let hand = rested();
    check(&hand, &mine(vec![]), Act::Rest);
    check(&hand, &mine(vec![Item::Event { data: None, event: "x".into() }]), Act::Rest);
    let key = Some(WakeKey::Message);
    let woken = Woken { data: None, due: None, key, kind: "message".into(), position: Some(Position(1)) };
    check(&hand, &mine(vec![said()]), Move::Wake(woken));
    check(&hand, &mine(vec![said(), cancel()]), Move::Cancel(Position(2)));
}

#[test]
fn wa_6_items_come_before_a_due_timer_and_a_timer_is_not_early() {
    let mut hand = ready();
    let at = Timestamp::from_micros(1_000);
    let wake = Wake { at: Some(at), ..Wake::on(WakeKey::Event("x".into())) };
    hand.push(TaskSuspended { wake, ..hand::suspended(None) });
    let event = || Item::Event { data: None, event: "x".into() };
    let timer = Woken { data: None, due: Some(at), key: None, kind: "timer".into(), position: None };
    check(&hand, &mine(vec![]), Move::Wake(timer));
    check(&hand, &Inputs { now: Timestamp::from_micros(999), ..mine(vec![]) }, Act::Rest);
    let key = Some(WakeKey::Event("x".into()));
    let carried = Woken { data: None, due: None, key, kind: "event".into(), position: Some(Position(2)) };
    check(&hand, &mine(vec![said(), event()]), Move::Wake(carried));
    let steered = Woken { data: None, due: None, key: None, kind: "message".into(), position: Some(Position(1)) };
    check(&hand, &mine(vec![said()]), Move::Wake(steered));
}

/// A store's clock that is set back stands still while a holder carries its time on: the next
/// holder's time may be earlier than the log's, and its deadlines count from the log's.
#[test]
fn wa_6_a_deadline_counts_from_when_its_decision_is_recorded() {
    let mut world = still(false);
    let Act::Ask(action) = go_on(&mut world) else { panic!("nothing else to do") };
    let earlier = Timestamp::from_micros(world.task.head().at.micros() - 1_500_000);
    let stamp = Stamp { now: earlier, ..world.draft().stamp().clone() };
    let mut draft = Draft::new(world.task.clone(), stamp);
    let calls = vec![CallPlan::Wait { event: None, seconds: Some(10) }];
    let block = Block::ToolUse { args: r#"{"seconds":10}"#.into(), id: None, tool: "Wait".into() };
    let answer = Answer { blocks: vec![block], calls, truncated: false, ..world.answer() };
    reply(&mut draft, action, answer).unwrap();
    let decided = draft.finish().unwrap().envelopes.into_iter().find_map(|event| match event.payload {
        Payload::DecisionRecorded(decision) => Some((event.at, decision.calls[0].wait.clone().unwrap().due)),
        _ => None,
    });
    let (at, due) = decided.unwrap();
    assert_eq!((at, due), (world.task.head().at, Some(at.plus_millis(10_000))));
}

#[test]
fn en_1_a_task_that_is_over_is_handed_back() {
    let mut hand = rested();
    hand.push(TaskCancelled { reason: None });
    check(&hand, &mine(vec![said(), cancel()]), Act::Over);
}

/// Replies that are cut or empty, one decision each.
fn odd(kinds: &[DecisionKind]) -> Hand {
    let mut hand = ready();
    for kind in kinds {
        let plan = hand.compose();
        let request = hand.ask(plan, 1);
        hand.answered(request, RequestStatus::Ok);
        hand.push(MessagesAppended { jobs: vec![], messages: vec![hand::message(Role::Assistant, None, &[])] });
        hand.push(DecisionRecorded { answer: None, calls: vec![], kind: *kind, over: 0 });
    }
    hand
}

#[test]
fn rc_7_truncated_replies_are_counted_in_a_row_and_apart() {
    use DecisionKind::{Empty, Truncated};
    let words = "three replies in a row were cut by the output limit";
    check(&odd(&[Truncated; 2]), &mine(vec![]), Move::Compose);
    check(&odd(&[Truncated; 3]), &mine(vec![]), failed(FailureReason::LlmTruncated, words));
    check(&odd(&[Truncated, Truncated, Empty, Truncated]), &mine(vec![]), Move::Compose);
    check(&odd(&[Empty, Truncated, Truncated, Truncated]), &mine(vec![]), failed(FailureReason::LlmTruncated, words));
}

/// A world in which nothing happens by itself.
fn still(interactive: bool) -> World {
    let quiet = Habits { crash: 0, message: 0, cancel: 0, refusal: 0, calls: 0, long: 0, odd: 0, ..Habits::rounds() };
    World::born(1, Habits { interactive, compare: 1, ..quiet })
}

/// Records what needs no outside world, commits, and returns what does.
fn go_on(world: &mut World) -> Act {
    let mut draft = world.draft();
    let act = advance(&mut draft, &mut world.inputs(), &composer()).unwrap();
    world.commit(draft);
    act
}

fn failure_of(world: &World) -> Option<(FailureReason, String)> {
    let last = world.log.envelopes().pop().unwrap().payload;
    match last {
        Payload::TaskFailed(failed) => Some((failed.reason, failed.detail.unwrap_or_default())),
        Payload::TaskSuspended(TaskSuspended { failure: Some(failure), .. }) => {
            Some((failure.reason, failure.detail.unwrap_or_default()))
        }
        _ => None,
    }
}

#[test]
fn rc_1_three_interruptions_in_a_row_fail_the_turn() {
    for interactive in [false, true] {
        let mut world = still(interactive);
        for attempt in 1..=3 {
            let Act::Ask(action) = go_on(&mut world) else { panic!("attempt {attempt}") };
            let open = world.task.governance().action(action).unwrap();
            assert_eq!(open.identity.attempt, attempt);
            world.crash();
        }
        let act = go_on(&mut world);
        assert_eq!(act, if interactive { Act::Rest } else { Act::Over });
        let words = "the request was cut off three times in a row before an answer was on record";
        assert_eq!(failure_of(&world), Some((FailureReason::LlmError, words.into())));
        // The next turn counts anew.
        if interactive {
            world.say();
            assert!(matches!(go_on(&mut world), Act::Ask(_)));
            assert_eq!(world.task.runtime().interruptions, 0);
        }
    }
}

#[test]
fn rc_1_an_answer_ends_the_row_of_interruptions() {
    let mut world = still(true);
    for _ in 0..3 {
        for _ in 0..2 {
            assert!(matches!(go_on(&mut world), Act::Ask(_)));
            world.crash();
        }
        let Act::Ask(action) = go_on(&mut world) else { panic!("still within bounds") };
        let mut draft = world.draft();
        let mut answer = world.answer();
        (answer.truncated, answer.blocks) = (true, vec![text("cut")]);
        reply(&mut draft, action, answer).unwrap();
        world.commit(draft);
        if world.task.runtime().truncated_replies == 2 {
            break;
        }
    }
    assert_eq!(failure_of(&world), None);
}

#[test]
fn mo_3_nine_tries_and_no_more() {
    let mut world = still(false);
    let mut tries = 0;
    loop {
        match go_on(&mut world) {
            Act::Ask(action) => {
                tries += 1;
                let mut draft = world.draft();
                let retry_at = Some(world.now.plus_millis(500));
                let said =
                    Refusal { elapsed_ms: 1, kind: "overloaded".into(), message: format!("busy {tries}"), retry_at };
                refusal(&mut draft, action, said).unwrap();
                world.commit(draft);
            }
            Act::WaitUntil(due) => {
                // Crashes meanwhile do not lengthen the row of tries.
                world.crash();
                world.now = due;
            }
            Act::Over => break,
            act => panic!("{act:?}"),
        }
    }
    assert_eq!(tries, MODEL_TRIES_MAX);
    assert_eq!(failure_of(&world), Some((FailureReason::LlmError, "overloaded: busy 9".into())));
}

#[test]
fn mo_3_an_error_not_to_be_retried_fails_the_turn_at_once() {
    let mut world = still(false);
    let Act::Ask(action) = go_on(&mut world) else { panic!("a request") };
    let mut draft = world.draft();
    let said = Refusal { elapsed_ms: 1, kind: "auth".into(), message: "no key".into(), retry_at: None };
    refusal(&mut draft, action, said).unwrap();
    world.commit(draft);
    assert_eq!(go_on(&mut world), Act::Over);
    assert_eq!(failure_of(&world), Some((FailureReason::LlmError, "auth: no key".into())));
}

#[test]
fn rc_2_three_starts_of_a_retry_safe_call_and_then_unknown() {
    let mut world = still(false);
    let Act::Ask(action) = go_on(&mut world) else { panic!("a request") };
    let mut draft = world.draft();
    let mut answer = world.answer();
    answer.blocks = vec![tool_use()];
    let start = plica_kernel::decide::CallPlan::Start {
        args: "{}".into(),
        foreseen: Default::default(),
        rule: None,
        tool: "Tool".into(),
    };
    answer.calls = vec![start];
    reply(&mut draft, action, answer).unwrap();
    world.commit(draft);
    for start in 1..=TOOL_STARTS_MAX {
        let Act::Run(running) = go_on(&mut world) else { panic!("start {start}") };
        assert_eq!(world.task.governance().action(running[0].1).unwrap().identity.attempt, start);
        world.crash();
        let Act::Settle(orphans) = go_on(&mut world) else { panic!("an orphan") };
        assert_eq!(orphans, running);
        let mut draft = world.draft();
        settle_orphans(&mut draft, &[(orphans[0].1, Orphan::RetrySafe)], &AfterCrash::Resolve).unwrap();
        world.commit(draft);
    }
    assert_eq!(world.task.governance().tool_calls, 1, "a call is counted once, however often it starts");
    let outcomes: Vec<(CallStatus, bool)> = world
        .log
        .envelopes()
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::ToolCallFinished(finished) => Some((finished.status, finished.again)),
            _ => None,
        })
        .collect();
    let again = (CallStatus::Interrupted, true);
    assert_eq!(outcomes, [again, again, (CallStatus::Unknown, false)]);
    assert!(matches!(go_on(&mut world), Act::Ask(_)), "the model is told");
}

#[test]
fn rc_7_rc_11_the_second_internal_error_in_a_row_fails_an_interactive_task() {
    let bug = || Failure { detail: Some("a bug".into()), reason: FailureReason::InternalError };
    let mut world = still(true);
    assert!(matches!(go_on(&mut world), Act::Ask(_)));
    for expected in [Status::Waiting, Status::Failed] {
        let mut draft = world.draft();
        fail(&mut draft, bug(), &world.untaken()).unwrap();
        world.commit(draft);
        assert_eq!(world.task.status(), expected);
        assert_eq!(failure_of(&world), Some((FailureReason::InternalError, "a bug".into())));
        if expected == Status::Waiting {
            world.say();
            assert!(matches!(go_on(&mut world), Act::Ask(_)));
        }
    }
}

#[test]
fn en_6_a_cancel_gives_every_open_action_its_outcome() {
    let (hand, started) = called();
    let stamp = Stamp { now: Timestamp::from_micros(5), epoch: Epoch(2), run: RunId::new("run").unwrap() };
    let mut draft = Draft::new(hand.task().clone(), stamp);
    let mut inputs = mine(vec![said(), cancel()]);
    assert_eq!(advance(&mut draft, &mut inputs, &composer()), Ok(Act::Over));
    let drafted = draft.finish().unwrap();
    let outcomes = drafted.envelopes.iter().filter_map(|event| match &event.payload {
        Payload::ToolCallFinished(finished) => Some((finished.call, event.links.action.unwrap(), finished.status)),
        _ => None,
    });
    let expected: Vec<_> = started.iter().map(|(call, action)| (*call, *action, CallStatus::Cancelled)).collect();
    assert_eq!(outcomes.collect::<Vec<_>>(), expected);
    assert_eq!(drafted.consumed, [Position(1), Position(2)], "what was said is on record too");
    assert_eq!(drafted.task.status(), Status::Cancelled);
}

/// Every way in which a result's identity can be older than its action's.
#[test]
fn id_1_id_2_which_result_counts() {
    let action = Identity { attempt: 3, fence: Epoch(5), generation: 2, resume: 4, run: RunId::new("holder").unwrap() };
    for older in 0..32u32 {
        let is_older = |bit: u32| older >> bit & 1 == 1;
        let result = Identity {
            attempt: action.attempt - u32::from(is_older(0)),
            fence: Epoch(action.fence.0 - u64::from(is_older(1))),
            generation: action.generation - u32::from(is_older(2)),
            resume: action.resume - u32::from(is_older(3)),
            run: if is_older(4) { RunId::new("former").unwrap() } else { action.run.clone() },
        };
        for open in [true, false] {
            for rewound in [true, false] {
                let expected = match (older > 0 || rewound, open) {
                    (true, _) => Admission::Stale,
                    (false, false) => Admission::Late,
                    (false, true) => Admission::Current,
                };
                assert_eq!(admit(&action, &result, open, rewound), expected, "{older:05b} {open} {rewound}");
            }
        }
    }
}

/// RC-8: one that lacks a plugin in force begins nothing and wakes nothing, but for what needs none.
#[test]
fn rc_8_one_that_lacks_a_plugin_goes_no_further() {
    let pin = PluginPin {
        kind: PluginKind::Tool,
        name: "Tool".into(),
        parameters: None,
        source: "host".into(),
        version: "1".into(),
    };
    let pinned = |mut hand: Hand| {
        hand.push(PluginsPinned { plugins: vec![pin.clone()] });
        hand
    };
    let other = PluginPin { name: "Other".into(), ..pin.clone() };
    let newer = PluginPin { version: "2".into(), ..pin.clone() };
    let lacking = |items| Inputs { pins: vec![other.clone()], ..mine(items) };
    let having = |items| Inputs { pins: vec![other.clone(), newer.clone()], ..mine(items) };
    let (running, waiting) = (pinned(ready()), pinned(rested()));
    check(&running, &lacking(vec![]), Act::HandBack);
    check(&running, &lacking(vec![said()]), Act::HandBack);
    check(&running, &having(vec![said()]), Move::Join);
    check(&running, &lacking(vec![cancel()]), Move::Cancel(Position(1)));
    check(&waiting, &lacking(vec![]), Act::Rest);
    check(&waiting, &lacking(vec![said()]), Act::HandBack);
    check(&waiting, &lacking(vec![Item::Close { reason: None }]), Move::Take(Position(1)));
    let key = Some(WakeKey::Message);
    let woken = Woken { data: None, due: None, key, kind: "message".into(), position: Some(Position(1)) };
    check(&waiting, &having(vec![said()]), Move::Wake(woken.clone()));
    // One that cannot use the definition fails the turn all the same.
    let unusable = Some(Failure { detail: None, reason: FailureReason::DefinitionError });
    check(&waiting, &Inputs { unusable, ..lacking(vec![said()]) }, Move::Wake(woken));
}

/// RC-7: a state that no decision leads to fails the turn, and does not wait for ever.
#[test]
fn rc_7_calls_that_wait_for_nothing_are_an_internal_error() {
    let mut hand = ready();
    let decision = hand.reply(&[tool_use(), tool_use()]);
    hand.push(hand::question(call(decision, 0)));
    let words = "a call was decided on but neither started nor answered";
    check(&hand, &mine(vec![]), failed(FailureReason::InternalError, words));
    hand.push(hand::question(call(decision, 1)));
    check(&hand, &mine(vec![]), Move::Suspend);
}
