//! Inbox items that come early, late, twice or for nothing: each is taken once, and none wakes a
//! task for ever.

use plica_kernel::body::Body;
use plica_kernel::decide::{Act, Draft, Inputs, Move, Next, Stamp, advance, next};
use plica_kernel::event::*;
use plica_kernel::id::{CallId, DedupKey, Epoch, Position, RunId, Seq, TaskId};
use plica_kernel::ledger::Identity;
use plica_kernel::row::Status;
use plica_kernel::state::Task;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item, Wake, WakeKey};

use crate::common::hand::{self, Hand, call, text, tool_use};
use crate::common::world::composer;

const AT: Timestamp = Timestamp::from_micros(1_000);

fn delivered(items: Vec<Item>) -> Vec<InboxItem> {
    let deliver = |(index, item): (usize, Item)| InboxItem {
        at: AT,
        actor: "user:ada".into(),
        dedup: DedupKey::new(format!("k{index}")).unwrap(),
        item,
        position: Position(index as u64 + 1),
    };
    items.into_iter().enumerate().map(deliver).collect()
}

fn inputs(items: Vec<InboxItem>) -> Inputs {
    let run = RunId::new("run").unwrap();
    Inputs {
        now: AT,
        items,
        run,
        pins: vec![],
        foreseen: Default::default(),
        spawns: Default::default(),
        rewinds: Default::default(),
        stopping: false,
        unusable: None,
    }
}

/// What a holder makes of these items: the draft, what is left, and what it does next.
fn taken_in(task: &Task, items: Vec<Item>) -> (Draft, Inputs, Act) {
    let stamp = Stamp { epoch: Epoch(9), now: task.head().at, run: RunId::new("run").unwrap() };
    let mut draft = Draft::new(task.clone(), stamp);
    let mut inputs = inputs(delivered(items));
    let act = advance(&mut draft, &mut inputs, &composer()).unwrap();
    (draft, inputs, act)
}

fn ready() -> Hand {
    let mut hand = Hand::begin(true);
    hand.say("go");
    hand
}

fn requested() -> Hand {
    let mut hand = ready();
    let plan = hand.compose();
    hand.ask(plan, 1);
    hand
}

fn running() -> Hand {
    let mut hand = ready();
    let decision = hand.reply(&[tool_use()]);
    hand.start(call(decision, 0), 1);
    hand
}

/// Waits for two rulings; one was given.
fn asking() -> (Hand, Seq) {
    let mut hand = ready();
    let decision = hand.reply(&[tool_use(), tool_use()]);
    (0..2).for_each(|index| {
        hand.push(hand::asked(call(decision, index)));
    });
    hand.push(hand::ruled(call(decision, 0), ApprovalVerdict::Deny));
    let reason = Body::Inline("no".into());
    hand.push(ToolCallDenied { call: call(decision, 0), reason, tool: "Tool".into() });
    let wake = Wake::on(WakeKey::Answer(decision));
    hand.push(TaskSuspended { reason: SuspendReason::Calls, wake, ..hand::suspended(None) });
    (hand, decision)
}

/// Waits for one of two children; the other has ended.
fn delegating() -> (Hand, Seq) {
    let mut hand = ready();
    let decision = hand.reply(&[tool_use(), tool_use()]);
    let spawns: Vec<Seq> = (0..2).map(|index| hand.caused(decision, hand::spawned(call(decision, index), 1))).collect();
    hand.caused(spawns[0], hand::child_done(call(decision, 0), 1));
    let wake = Wake::on(WakeKey::Group(decision));
    hand.push(TaskSuspended { reason: SuspendReason::Calls, wake, ..hand::suspended(None) });
    (hand, decision)
}

fn rested() -> Hand {
    let mut hand = ready();
    hand.reply(&[text("done")]);
    hand.rest();
    hand
}

fn closed() -> Hand {
    let mut hand = rested();
    hand.push(ConversationClosed { reason: None });
    hand
}

fn over() -> Hand {
    let mut hand = rested();
    hand.push(TaskCancelled { reason: None });
    hand
}

fn verdict(call: CallId) -> Item {
    Item::Verdict { call, reason: Some("because".into()), verdict: ApprovalVerdict::Approve }
}

fn child(call: CallId) -> Item {
    Item::Child {
        answer: Body::Inline("late".into()),
        background: false,
        call,
        child: TaskId::new("hand").unwrap().child(call, 1),
        failure: None,
        spent: Spent::default(),
        status: SubtaskStatus::Completed,
    }
}

/// One item of each kind that this version takes. Rewinds come with the verb that sends them.
fn every_item(decision: Seq) -> Vec<Item> {
    let first = call(decision, 0);
    let identity = Identity { attempt: 1, fence: Epoch(1), generation: 0, resume: 0, run: RunId::new("gone").unwrap() };
    vec![
        Item::Message { text: "hello".into() },
        Item::Cancel { reason: None },
        Item::Interrupt { reason: None },
        Item::Close { reason: None },
        Item::Reopen { reason: None },
        Item::Answer { call: first, text: "red".into() },
        verdict(first),
        Item::Event { data: None, event: "x".into() },
        child(first),
        Item::Evidence { action: Seq(1), call: first, identity, output: "o".into(), status: CallStatus::Ok },
        Item::Job { code: None, how: JobEnd::Exited, job: Seq(3), output: "o".into() },
    ]
}

fn still_wakes(task: &Task, left: &[InboxItem]) -> bool {
    match task.status() {
        Status::Ready | Status::Running => false,
        Status::Waiting => task.wake().is_woken_by(left),
        Status::Completed | Status::Failed | Status::Cancelled => left.iter().any(|left| left.item.outlives_the_task()),
    }
}

/// Whatever state a task is in and whichever two items lie in its inbox, in whichever order: once
/// a holder has looked at them the task is on its way, or what is left of them wakes nobody.
#[test]
fn st_7_no_item_wakes_a_task_for_ever() {
    let (asking, asked) = asking();
    let (delegating, delegated) = delegating();
    let hands =
        [ready(), requested(), running(), asking, delegating, rested(), closed(), over()].map(|hand| (hand, asked));
    for (hand, decision) in hands {
        let decision = if hand.task().governance().children().next().is_some() { delegated } else { decision };
        for first in every_item(decision) {
            for second in every_item(decision) {
                let told = format!("{} then {} for {hand:?}", first.kind(), second.kind());
                let (draft, left, act) = taken_in(hand.task(), vec![first.clone(), second]);
                let rests = matches!(act, Act::Rest | Act::Over);
                assert!(!rests || !still_wakes(draft.task(), &left.items), "wakes for ever: {told}");
                let mut taken = draft.consumed().to_vec();
                taken.sort();
                taken.dedup();
                assert_eq!(taken.len(), draft.consumed().len(), "taken twice: {told}");
                draft.finish().unwrap();
            }
        }
    }
}

/// ID-2: what came too late is kept with who said it, and changes nothing.
#[test]
fn id_2_an_answer_to_what_is_no_longer_pending_is_kept() {
    let (hand, decision) = asking();
    let (draft, left, act) = taken_in(hand.task(), vec![verdict(call(decision, 0))]);
    assert_eq!((left.items.len(), act), (0, Act::Rest));
    assert_eq!(draft.task().wake(), hand.task().wake());
    let events = draft.finish().unwrap().envelopes;
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let Payload::LateResultRecorded(late) = &event.payload else { panic!("{event:?}") };
    assert_eq!((event.actor.as_str(), late.call, late.kind), ("user:ada", Some(call(decision, 0)), LateKind::Late));
    assert_eq!(late.output, Body::Inline("approve: because".into()));
}

/// A call of a decision that is still to come may yet be asked about.
#[test]
fn st_7_an_answer_that_comes_early_is_left_alone() {
    let hand = rested();
    let early = verdict(call(Seq(hand.head().0 + 5), 0));
    let (draft, left, act) = taken_in(hand.task(), vec![early]);
    assert!(draft.is_empty());
    assert_eq!((left.items.len(), act), (1, Act::Rest));
}

/// EN-3: a ruling that was delivered in time counts, however late the task is looked at; one that
/// was delivered too late does not, however early.
#[test]
fn en_3_a_ruling_counts_by_when_it_was_delivered() {
    let mut hand = ready();
    let decision = hand.reply(&[tool_use()]);
    let asked = call(decision, 0);
    let expires = Some(Timestamp::from_micros(2_000));
    hand.push(ApprovalRequested { expires, ..hand::asked(asked) });
    let look = |now: i64, delivered_at: Option<i64>| {
        let mut items = delivered(vec![verdict(asked)]);
        items.retain_mut(|item| {
            item.at = Timestamp::from_micros(delivered_at.unwrap_or_default());
            delivered_at.is_some()
        });
        next(hand.task(), &Inputs { now: Timestamp::from_micros(now), ..inputs(items) })
    };
    let take = Next::Record(Move::Take(Position(1)));
    let expire = Next::Record(Move::Expire(asked));
    assert_eq!(look(1_999, None), Next::Record(Move::Suspend));
    assert_eq!(look(2_000, None), expire);
    assert_eq!(look(9_000, Some(2_000)), take);
    assert_eq!(look(9_000, Some(2_001)), expire);
}

/// EN-1: one that is to stop begins no call that a ruling allows, and settles nothing anew.
#[test]
fn en_1_a_ruling_is_left_by_one_that_is_to_stop() {
    let mut hand = ready();
    let decision = hand.reply(&[tool_use()]);
    hand.push(hand::asked(call(decision, 0)));
    let stopping = Inputs { stopping: true, ..inputs(delivered(vec![verdict(call(decision, 0))])) };
    assert_eq!(next(hand.task(), &stopping), Next::Act(Act::HandBack));
    assert_eq!(next(hand.task(), &Inputs { stopping: true, ..inputs(vec![]) }), Next::Record(Move::Suspend));
}

/// EN-6: reopening lifts the flag; a turn that goes on or waits goes on or waits as before.
#[test]
fn en_6_reopening_ends_no_turn() {
    for mut hand in [requested(), running(), asking().0, delegating().0] {
        hand.push(ConversationClosed { reason: None });
        let before = (hand.task().status(), hand.task().wake().clone());
        hand.push(ConversationReopened { reason: None });
        assert_eq!((hand.task().status(), hand.task().wake().clone()), before);
        assert!(!hand.task().is_closed());
    }
    let mut hand = over();
    hand.push(ConversationReopened { reason: None });
    assert_eq!((hand.task().status(), hand.task().wake()), (Status::Waiting, &Wake::on(WakeKey::Message)));
}

/// WA-5: a child that ended in time keeps its outcome when the turn is stopped.
#[test]
fn wa_5_a_child_that_has_ended_is_not_cancelled() {
    let (hand, decision) = delegating();
    for order in [Item::Interrupt { reason: None }, Item::Cancel { reason: None }] {
        let (draft, left, _) = taken_in(hand.task(), vec![order, child(call(decision, 1))]);
        assert_eq!(left.items.len(), 0);
        let drafted = draft.finish().unwrap();
        assert_eq!(drafted.sent.len(), 0, "nobody is told to stop");
        let done = drafted.envelopes.iter().find_map(|event| match &event.payload {
            Payload::SubtaskCompleted(done) => Some(done.status),
            _ => None,
        });
        assert_eq!(done, Some(SubtaskStatus::Completed));
    }
}

/// Section 11: of children of one reply some may be waited for one by one and others together.
#[test]
fn wa_5_only_children_that_are_waited_for_one_by_one_are_left_to_themselves() {
    let begun = |any: [bool; 2]| {
        let mut hand = ready();
        let decision = hand.reply(&[tool_use(), tool_use()]);
        let mut spawn = |index: u32| {
            let spawned = SubtaskSpawned { any: any[index as usize], ..hand::spawned(call(decision, index), 1) };
            hand.caused(decision, spawned)
        };
        let first = spawn(0);
        spawn(1);
        hand.caused(first, hand::child_done(call(decision, 0), 1));
        hand
    };
    for (any, left_to_itself) in [([true, true], true), ([false, true], false), ([true, false], false)] {
        let hand = begun(any);
        let open: Vec<bool> = hand.task().governance().children().map(|(_, child)| child.background).collect();
        assert_eq!(open, [left_to_itself], "{any:?}");
        assert_eq!(hand.task().runtime().round.is_none(), left_to_itself, "{any:?}");
    }
}
