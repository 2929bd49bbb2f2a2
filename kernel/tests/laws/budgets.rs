//! Budgets: what is charged, set aside for children, asked for and granted (EN-4).

use plica_kernel::decode::decode;
use plica_kernel::event::*;
use plica_kernel::id::Seq;
use plica_kernel::row::Status;
use plica_kernel::state::Task;
use plica_kernel::state::fold::{Folder, landing_of};
use plica_kernel::wake::{Item, WakeKey};
use proptest::prelude::*;

use crate::common::{Habits, Log, World, fold};

fn budget() -> impl Strategy<Value = Budget> {
    let cap = |most: u64| prop::option::weighted(0.6, 1..most);
    (cap(12), cap(120), cap(90), cap(400)).prop_map(|(steps, tokens, nano_usd, wall_ms)| Budget {
        nano_usd,
        steps,
        tokens,
        wall_ms,
    })
}

/// The log once more, event by event, with the state after each.
fn replay(log: &Log, mut each: impl FnMut(&Payload, &Task)) {
    let landings: Vec<Seq> = log.envelopes().iter().filter_map(landing_of).collect();
    let mut folder = Folder::new(None, landings);
    for event in log.events() {
        let envelope = decode(&event.body, &event.hash).unwrap();
        folder.push(&envelope, event.hash, None).unwrap();
        each(&envelope.payload, folder.task().unwrap());
    }
}

/// What an event charges by itself; a child's slice is charged when it is set aside.
fn charge(payload: &Payload) -> Spent {
    match payload {
        Payload::LLMRequestStarted(_) => Spent { steps: 1, ..Spent::default() },
        Payload::LLMRequestFinished(finished) => Spent {
            nano_usd: finished.cost_nano_usd.unwrap_or(0),
            steps: 0,
            tokens: finished.usage.input() + finished.usage.output,
            wall_ms: finished.elapsed_ms,
        },
        Payload::ToolCallFinished(finished) => Spent { wall_ms: finished.elapsed_ms, ..Spent::default() },
        _ => Spent::default(),
    }
}

/// Whether what is charged is beyond no cap by more than `beyond`.
fn within(caps: Budget, charged: Spent, beyond: Spent) -> bool {
    let over = Budget::all(charged).zip(caps, |charged, cap| charged?.checked_sub(cap?));
    over == over.zip(Budget::all(beyond), |over, beyond| Some(over?.min(beyond?)))
}

/// No request starts without room, and what is charged and set aside altogether is never more
/// than the cap, what was granted on top, and what one request and its calls cost.
fn check_charges(log: &Log, caps: Budget) -> Result<(), TestCaseError> {
    let (mut granted, mut step, mut asked) = (Budget::default(), Spent::default(), None);
    let mut room = true;
    let mut verdict = Ok(());
    replay(log, |payload, task| {
        let governance = task.governance();
        match payload {
            Payload::LLMRequestStarted(_) => {
                if !room {
                    verdict = Err(TestCaseError::fail(format!("event {} starts at the cap", task.head().seq)));
                }
                step = charge(payload);
            }
            Payload::ApprovalRequested(request) if request.subject.is_some() => {
                asked = governance.budget_approval().and_then(|(_, approval)| approval.grants());
            }
            Payload::ApprovalResolved(ruling) if ruling.verdict == ApprovalVerdict::Approve => {
                let grants = asked.take().expect("something was asked for");
                granted = granted.zip(grants, |sum, one| Some(sum.unwrap_or(0) + one.unwrap_or(0)));
            }
            payload => step = step.plus(charge(payload)),
        }
        let now = caps.raised_by(granted);
        let charged = governance.spent().plus(governance.reserved());
        // A step is charged before it is made, so it never goes beyond.
        let beyond = Spent { steps: 0, ..step };
        if governance.budget != now || !within(now, charged, beyond) {
            let seq = task.head().seq;
            verdict = Err(TestCaseError::fail(format!("event {seq}: {charged:?} of {now:?}, beyond {beyond:?}")));
        }
        room = plica_kernel::decide::exhausted(governance).is_none();
    });
    verdict
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn en_4_no_more_is_charged_than_cap_grants_and_one_reservation(
        seed in any::<u64>(), steps in 1..80usize, interactive in any::<bool>(), budget in budget()
    ) {
        let mut world = World::walk(seed, steps, Habits::families(interactive, budget));
        check_charges(&world.log, budget)?;
        world.finish();
        check_charges(&world.log, budget)?;
    }

    #[test]
    fn en_4_no_resume_refills_a_budget(
        seed in any::<u64>(), steps in 1..30usize, interactive in any::<bool>(), budget in budget()
    ) {
        let world = World::walk(seed, steps, Habits::families(interactive, budget));
        for appends in (1..=world.log.appends.len()).step_by(3) {
            let mut other = world.prefix(appends);
            other.finish();
            check_charges(&other.log, budget)?;
        }
    }
}

fn last(world: &World, kind: EventType) -> Option<Payload> {
    world.log.envelopes().into_iter().rev().find(|event| event.kind() == kind).map(|event| event.payload)
}

/// Steps until the task waits.
fn until_it_waits(world: &mut World) {
    for _ in 0..50 {
        if world.task.status() == Status::Waiting {
            return;
        }
        world.step();
    }
    panic!("it never waits: {world:?}");
}

/// Only rounds of calls, with this budget.
fn spender(budget: Budget) -> World {
    let quiet = Habits { crash: 0, message: 0, long: 0, ..Habits::rounds() };
    World::born(3, Habits { budget, ..quiet })
}

fn steps(steps: u64) -> Budget {
    Budget { steps: Some(steps), ..Budget::default() }
}

#[test]
fn en_4_a_task_asks_at_the_cap_and_an_approval_grants_the_same_again() {
    let mut world = spender(steps(2));
    for round in 1..=3 {
        until_it_waits(&mut world);
        let governance = world.task.governance();
        assert_eq!((governance.steps, governance.budget), (2 * round, steps(2 * round)));
        let (call, approval) = governance.budget_approval().unwrap();
        assert_eq!(approval.grants(), Some(steps(2)));
        let Some(Payload::TaskSuspended(suspended)) = last(&world, EventType::TaskSuspended) else { panic!() };
        assert_eq!(suspended.reason, SuspendReason::Budget);
        assert_eq!(suspended.wake.any[0].key, WakeKey::Answer(call.decision));
        world.deliver(Item::Verdict { call, reason: None, verdict: ApprovalVerdict::Approve });
        while world.task.status() == Status::Waiting {
            world.step();
        }
        assert_eq!(world.task.governance().budget, steps(2 * round + 2));
        assert_eq!(world.task.governance().allotted, steps(2));
    }
}

#[test]
fn en_4_a_refusal_fails_the_task_with_budget_also_an_interactive_one() {
    for interactive in [false, true] {
        let mut world = spender(steps(1));
        if interactive {
            let quiet = Habits { crash: 0, message: 0, long: 0, ..Habits::rounds() };
            world = World::born(3, Habits { budget: steps(1), interactive, ..quiet });
        }
        until_it_waits(&mut world);
        let (call, _) = world.task.governance().budget_approval().unwrap();
        world.deliver(Item::Verdict { call, reason: Some("enough".into()), verdict: ApprovalVerdict::Deny });
        world.step();
        assert_eq!(world.task.status(), Status::Failed);
        let Some(Payload::TaskFailed(failed)) = last(&world, EventType::TaskFailed) else { panic!() };
        assert_eq!(failed.reason, FailureReason::Budget);
        assert_eq!(world.task.governance().budget, steps(1));
    }
}

/// A message neither ends the wait nor refills anything, and neither does another claim.
#[test]
fn en_4_a_message_joins_and_the_same_approval_is_waited_for() {
    let mut world = spender(steps(1));
    until_it_waits(&mut world);
    let (call, _) = world.task.governance().budget_approval().unwrap();
    let said = world.task.runtime().messages.iter().count();
    let sent = world.untaken().len();
    world.crash();
    assert_eq!(world.advance(), plica_kernel::decide::Act::Rest);
    assert_eq!(world.task.status(), Status::Waiting);
    assert_eq!(world.task.runtime().messages.iter().count(), said + sent);
    assert_eq!((sent, world.untaken().len()), (1, 0));
    assert_eq!(world.task.governance().budget_approval().unwrap().0, call);
    assert_eq!(world.task.governance().steps, 1);
}

/// More was spent beyond the cap than it holds: what is asked for leaves room.
#[test]
fn en_4_a_grant_is_as_many_times_the_cap_as_leave_room() {
    let mut world = spender(Budget { tokens: Some(5), ..Budget::default() });
    until_it_waits(&mut world);
    // One request costs 11 tokens.
    let (_, approval) = world.task.governance().budget_approval().unwrap();
    assert_eq!(approval.grants(), Some(Budget { tokens: Some(10), ..Budget::default() }));
}

/// The children of one reply share what is left with each other and their parent.
#[test]
fn en_4_children_get_slices_of_what_is_left() {
    let mut world =
        World::born(1, Habits { budget: steps(9), crash: 0, message: 0, ..Habits::families(false, steps(9)) });
    world.delegate(&[None, Some(20), None, None]);
    let governance = world.task.governance();
    let slices: Vec<Option<u64>> = governance.children().map(|(_, child)| child.budget.steps).collect();
    // Eight are left after the request: 8 / 5, then its own cap as far as it goes, and nothing
    // for those after it.
    assert_eq!(slices, [Some(1), Some(7)]);
    assert_eq!(governance.denials.len(), 2);
    assert_eq!(governance.reserved().steps, 8);
    assert_eq!(plica_kernel::decide::remaining(governance).steps, Some(0));
}

/// A child that is told to stop keeps its slice until it says what it spent; a fork has nothing
/// to do with it.
#[test]
fn en_4_a_stopped_child_is_charged_what_it_says_it_spent() {
    let mut world = World::born(1, Habits { crash: 0, message: 0, ..Habits::families(true, steps(9)) });
    world.delegate(&[Some(5)]);
    world.deliver(Item::Interrupt { reason: None });
    world.advance();
    let governance = world.task.governance();
    assert_eq!((governance.spent().steps, governance.reserved().steps), (1, 5));
    let call = *governance.stopped.keys().next().unwrap();
    let child = world.task.id().child(call, 1);
    let spent = Spent { steps: 3, ..Spent::default() };
    let status = SubtaskStatus::Cancelled;
    world.deliver(Item::Child {
        answer: Default::default(),
        background: false,
        call,
        child,
        failure: None,
        spent,
        status,
    });
    world.advance();
    let governance = world.task.governance();
    assert_eq!((governance.spent().steps, governance.reserved().steps), (4, 0));
    assert_eq!(fold(&world.log).governance().spent().steps, 4);
}

/// A fork and a rewind leave what was spent and granted as it was; what was asked lapses.
#[test]
fn en_4_neither_a_fork_nor_a_rewind_refills_a_budget() {
    let mut world = World::born(1, Habits { crash: 0, message: 0, ..Habits::families(true, steps(2)) });
    world.finish_turn();
    world.advance();
    let (boundary, appends) = (world.task.head().seq, world.log.appends.len());
    assert_eq!(world.task.status(), Status::Waiting);
    world.say();
    world.finish_turn();
    world.advance();
    world.say();
    world.advance();
    let (call, _) = world.task.governance().budget_approval().unwrap();
    world.deliver(Item::Verdict { call, reason: None, verdict: ApprovalVerdict::Approve });
    world.finish_turn();
    world.advance();
    let before = world.task.clone();
    assert_eq!((before.governance().spent().steps, before.governance().budget), (3, steps(4)));

    let forked = TaskForked {
        ledger: crate::common::world::ledger(),
        source: before.id().clone(),
        source_hash: before.head().hash,
        source_seq: before.head().seq,
    };
    let event = crate::common::hand::first("fork", &forked.ledger.clone(), forked.into());
    let fork = Task::begin(&event, event.seal().unwrap().hash, Some(&before)).unwrap();
    assert_eq!((fork.governance().spent().steps, fork.governance().budget), (3, steps(4)));

    let landing = fold(&world.log.prefix(appends));
    let mut rewound = before.clone();
    let event = crate::common::hand::follow(&before, None, TaskRewound { to_seq: boundary }.into());
    rewound.apply_landing(&event, event.seal().unwrap().hash, &landing).unwrap();
    assert_eq!((rewound.governance().spent().steps, rewound.governance().budget), (3, steps(4)));
    assert!(rewound.governance().budget_approval().is_none());
}

fn refused(hand: &crate::common::hand::Hand, asked: ApprovalRequested) -> String {
    hand.clone().try_push(None, asked).unwrap_err().rule
}

#[test]
fn en_4_a_budget_is_asked_for_in_its_place_alone() {
    use crate::common::hand::{self, Hand};
    let ask = |seq: Seq, grants: &str| ApprovalRequested {
        args: plica_kernel::body::Body::Inline(grants.into()),
        subject: Some(ApprovalSubject::Budget),
        ..hand::asked(hand::call(seq, 0))
    };
    let mut hand = Hand::begin(true);
    hand.say("go");
    let seq = hand.head().next();
    for (asked, rule) in [
        (ask(seq.next(), "{\"steps\":1}"), "an approval of more budget goes by its own seq"),
        (ask(seq, "{}"), "the budget asked for is no budget"),
        (ask(seq, "steps"), "the budget asked for is no budget"),
    ] {
        assert_eq!(refused(&hand, asked), rule);
    }
    hand.push(ask(seq, "{\"steps\":1}"));
    let again = ask(seq.next(), "{\"steps\":1}");
    assert_eq!(refused(&hand, again), "more budget is asked for once, when a request is to start");
    hand.push(hand::ruled(hand::call(seq, 0), ApprovalVerdict::Approve));
    let plan = hand.compose();
    hand.ask(plan, 1);
    let busy = ask(hand.head().next(), "{\"steps\":1}");
    assert_eq!(refused(&hand, busy), "more budget is asked for once, when a request is to start");
}

/// Whatever suspends a turn for good, what it had asked for is asked for no longer: nothing wakes
/// the task for a budget that no request of its waits for.
#[test]
fn en_4_nothing_is_asked_for_by_a_turn_that_was_suspended_for_good() {
    use crate::common::hand::{self, Hand};
    use plica_kernel::state::Phase;
    for reason in [SuspendReason::Message, SuspendReason::Calls, SuspendReason::Parked] {
        let mut hand = Hand::begin(true);
        hand.say("go");
        let seq = hand.head().next();
        hand.push(ApprovalRequested {
            args: plica_kernel::body::Body::Inline("{\"steps\":1}".into()),
            subject: Some(ApprovalSubject::Budget),
            ..hand::asked(hand::call(seq, 0))
        });
        assert!(hand.task().governance().budget_approval().is_some());
        hand.push(TaskSuspended { reason, ..hand::suspended(None) });
        assert_eq!(hand.task().runtime().phase, Phase::Rest, "{reason:?}");
        assert_eq!(hand.task().governance().budget_approval(), None, "{reason:?}");
    }
}
