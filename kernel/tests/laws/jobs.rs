//! Background jobs: how they start, end, are lost, and are told of.

use plica_kernel::body::Body;
use plica_kernel::decide::{Act, Draft, Inputs, Stamp, advance, forked};
use plica_kernel::envelope::Envelope;
use plica_kernel::event::*;
use plica_kernel::id::{DedupKey, Epoch, LedgerId, Position, RunId, Seq, TaskId};
use plica_kernel::limits::JOBS_KEPT_MAX;
use plica_kernel::row::Status;
use plica_kernel::state::Task;
use plica_kernel::wake::{InboxItem, Item, Wake, WakeKey};

use crate::common::hand::{self, Hand, call, text, tool_use};
use crate::common::world::composer;

/// A task that has started a job in a call that ended well, and is about to ask the model.
fn started() -> (Hand, Seq) {
    let mut hand = Hand::begin(true);
    hand.say("go");
    let job = start(&mut hand);
    (hand, job)
}

fn start(hand: &mut Hand) -> Seq {
    let decision = hand.reply(&[tool_use()]);
    let first = call(decision, 0);
    let action = hand.start(first, 1);
    let job = hand.caused(decision, BackgroundJobStarted { call: first, tool: "Tool".into(), what: "make".into() });
    hand.finish(action, first, CallStatus::Ok, "started");
    job
}

/// The same, once the turn has ended.
fn resting() -> (Hand, Seq) {
    let (mut hand, job) = started();
    hand.reply(&[text("done")]);
    let mut wake = Wake::on(WakeKey::Message);
    wake.any.extend(Wake::on(WakeKey::Background).any);
    hand.push(TaskSuspended { wake, ..hand::suspended(Some("answer")) });
    (hand, job)
}

/// The same, where the turn waits for a person's answer.
fn asking() -> (Hand, Seq) {
    let (mut hand, job) = started();
    let decision = hand.reply(&[tool_use()]);
    hand.push(hand::question(call(decision, 0)));
    let wake = Wake::on(WakeKey::Answer(decision));
    hand.push(TaskSuspended { reason: SuspendReason::Calls, wake, ..hand::suspended(None) });
    (hand, job)
}

fn ended(code: i32) -> BackgroundJobEnded {
    BackgroundJobEnded { code: Some(code), how: JobEnd::Exited, output: Body::Inline("built".into()) }
}

fn exit(job: Seq) -> Item {
    Item::Job { code: Some(2), how: JobEnd::Exited, job, output: "built".into() }
}

/// What a holder of this run makes of these items.
fn taken_in(task: &Task, run: &str, items: Vec<Item>) -> (Task, Vec<Envelope>, Act) {
    let run = RunId::new(run).unwrap();
    let mut draft = Draft::new(task.clone(), Stamp { epoch: Epoch(9), now: task.head().at, run: run.clone() });
    let deliver = |(index, item): (usize, Item)| InboxItem {
        at: task.head().at,
        actor: "tool:Tool".into(),
        dedup: DedupKey::new(format!("k{index}")).unwrap(),
        item,
        position: Position(index as u64 + 1),
    };
    let mut inputs = Inputs {
        now: task.head().at,
        items: items.into_iter().enumerate().map(deliver).collect(),
        run,
        foreseen: Default::default(),
        pins: vec![],
        spawns: Default::default(),
        rewinds: Default::default(),
        stopping: false,
        unusable: None,
    };
    let act = advance(&mut draft, &mut inputs, &composer()).unwrap();
    let drafted = draft.finish().unwrap();
    (drafted.task, drafted.envelopes, act)
}

fn kinds(events: &[Envelope]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind().name()).collect()
}

fn outcome(events: &[Envelope]) -> Option<(JobEnd, Option<i32>)> {
    events.iter().find_map(|event| match &event.payload {
        Payload::BackgroundJobEnded(ended) => Some((ended.how, ended.code)),
        _ => None,
    })
}

const TURN: [&str; 3] = ["MessagesAppended", "ContextPlanComposed", "LLMRequestStarted"];

/// CA-2, CA-3, CA-6: a job begins under the decision that allowed its call and while that runs,
/// and ends once.
#[test]
fn ca_6_a_job_is_an_action_of_the_decision_that_allowed_its_call() {
    let (mut hand, job) = started();
    let decision = hand.task().governance().decision.unwrap();
    let again = BackgroundJobStarted { call: call(decision, 0), tool: "Tool".into(), what: "make".into() };
    assert!(hand.try_push(Some(decision), again.clone()).is_err(), "its call has ended");
    let second = hand.reply(&[tool_use()]);
    hand.start(call(second, 0), 1);
    let other = BackgroundJobStarted { call: call(second, 0), ..again };
    assert!(hand.try_push(Some(decision), other.clone()).is_err(), "another decision allowed the call");
    let other_job = hand.caused(second, other.clone());
    assert!(hand.try_push(Some(second), other).is_err(), "a call starts one job");
    hand.caused(job, ended(0));
    assert!(hand.try_push(Some(job), ended(0)).is_err(), "it has its outcome");
    let open: Vec<Seq> = hand.task().governance().open_jobs().map(|(action, _)| action.seq).collect();
    assert_eq!(open, [other_job]);
    assert!(hand.try_push(None, TaskCompleted { answer: Body::default() }).is_err(), "CA-4: it has none");
}

/// Section 19: what tells of a job is refused before the job has ended, and a second time.
#[test]
fn st_13_the_model_is_told_of_a_job_once() {
    let (mut hand, job) = started();
    let tells = |jobs: &[Seq]| MessagesAppended { jobs: jobs.to_vec(), messages: vec![] };
    assert!(hand.try_push(None, tells(&[job])).is_err());
    hand.caused(job, ended(0));
    assert!(hand.try_push(None, tells(&[job, job])).is_err());
    hand.push(tells(&[job]));
    assert!(hand.try_push(None, tells(&[job])).is_err());
    assert!(hand.try_push(None, tells(&[Seq(2)])).is_err());
}

#[test]
fn st_13_a_job_that_ends_wakes_the_task_that_waits_for_it() {
    let (hand, job) = resting();
    let (task, events, act) = taken_in(hand.task(), "run", vec![exit(job)]);
    assert_eq!(kinds(&events), [&["TaskWoken", "BackgroundJobEnded"], &TURN[..]].concat());
    assert!(matches!(act, Act::Ask(_)));
    let Payload::TaskWoken(woken) = &events[0].payload else { panic!("{events:?}") };
    assert_eq!((&woken.item.key, woken.item.position), (&Some(WakeKey::Background), Some(Position(1))));
    assert_eq!(outcome(&events), Some((JobEnd::Exited, Some(2))));
    assert_eq!(task.governance().untold_jobs().count(), 0);
    assert_eq!(task.governance().ended_job(job).unwrap().output, Body::Inline("built".into()));
}

/// A task that waits for something else is left waiting: what the job came to is on record, and
/// is told with the next wake.
#[test]
fn st_13_a_job_that_ends_leaves_a_task_that_waits_for_something_else_waiting() {
    let (hand, job) = asking();
    let (task, events, act) = taken_in(hand.task(), "run", vec![exit(job)]);
    assert_eq!((kinds(&events), act), (vec!["BackgroundJobEnded"], Act::Rest));
    assert_eq!((task.status(), task.wake()), (Status::Waiting, hand.task().wake()));
    let decision = task.governance().decision.unwrap();
    let answer = Item::Answer { call: call(decision, 0), text: "red".into() };
    let (_, events, _) = taken_in(&task, "run", vec![answer]);
    assert_eq!(kinds(&events), [&["TaskWoken", "QuestionAnswered"], &TURN[..]].concat());
}

/// The next holder records what a former one ran as lost, before anything else.
#[test]
fn st_13_the_next_holder_records_jobs_as_lost() {
    let (hand, _) = asking();
    let (task, events, act) = taken_in(hand.task(), "next", vec![]);
    assert_eq!((kinds(&events), act), (vec!["BackgroundJobEnded"], Act::Rest));
    assert_eq!(outcome(&events), Some((JobEnd::Lost, None)));
    assert_eq!(task.wake(), hand.task().wake(), "it waits on, without waking");
    let (_, events, _) = taken_in(&task, "third", vec![]);
    assert_eq!(kinds(&events), Vec::<&str>::new(), "once");

    // One that waits for it goes on.
    let (hand, _) = resting();
    let (_, events, _) = taken_in(hand.task(), "next", vec![]);
    assert_eq!(kinds(&events), [&["BackgroundJobEnded", "TaskWoken"], &TURN[..]].concat());

    // One in the middle of a turn is told before the model is asked.
    let (hand, _) = started();
    let (_, events, _) = taken_in(hand.task(), "next", vec![]);
    assert_eq!(kinds(&events), [&["BackgroundJobEnded"], &TURN[..]].concat());
}

/// What a holder said before it was lost stands.
#[test]
fn st_13_a_job_whose_end_was_delivered_is_not_lost() {
    for (hand, job) in [asking(), resting(), started()] {
        let (_, events, _) = taken_in(hand.task(), "next", vec![exit(job)]);
        assert_eq!(outcome(&events), Some((JobEnd::Exited, Some(2))), "{hand:?}");
    }
}

/// A waiting task with a live job is due whenever nobody holds it.
#[test]
fn st_13_the_row_of_a_task_with_live_jobs_is_due() {
    let (mut hand, job) = asking();
    assert_eq!(hand.task().projection().wake.at, Some(hand.task().head().at));
    assert_eq!(hand.task().wake().at, None);
    hand.caused(job, ended(0));
    assert_eq!(hand.task().projection().wake, *hand.task().wake());
    let (hand, _) = started();
    assert_eq!(hand.task().projection().wake, Wake::default());
}

/// EN-6: a job goes on through an interrupt and is closed by the end of its task.
#[test]
fn en_6_a_job_ends_with_its_task_and_not_with_a_turn() {
    let (hand, job) = asking();
    let (task, events, _) = taken_in(hand.task(), "run", vec![Item::Interrupt { reason: None }]);
    assert_eq!(outcome(&events), None);
    let waits_for: Vec<_> = task.wake().any.iter().map(|alternative| &alternative.key).collect();
    assert_eq!(waits_for, [&WakeKey::Message], "a person carries on what a person stopped");
    let (task, events, _) = taken_in(hand.task(), "run", vec![Item::Cancel { reason: None }]);
    assert_eq!((outcome(&events), task.status()), (Some((JobEnd::Killed, None)), Status::Cancelled));
    // One that has ended in time keeps its outcome.
    let (_, events, _) = taken_in(hand.task(), "run", vec![Item::Cancel { reason: None }, exit(job)]);
    assert_eq!(outcome(&events), Some((JobEnd::Exited, Some(2))));
}

/// ID-2: what is said of a job that has its outcome is kept and changes nothing.
#[test]
fn id_2_a_second_end_of_a_job_is_kept_as_late() {
    let (mut hand, job) = asking();
    hand.caused(job, ended(0));
    let (task, events, _) = taken_in(hand.task(), "run", vec![exit(job)]);
    assert_eq!(kinds(&events), ["LateResultRecorded"]);
    assert_eq!(task.governance().late.iter().map(|late| late.answers).collect::<Vec<_>>(), [job]);
    assert_eq!(task.governance().ended_job(job).unwrap().code, Some(0));
}

/// SN-1: a rewind closes jobs; afterwards the model is told of those that it knows to run, and of
/// no other.
#[test]
fn sn_1_after_a_rewind_the_model_is_told_of_the_jobs_that_it_knows() {
    let (mut hand, first) = resting();
    let boundary = hand.head();
    hand.wake();
    hand.say("more");
    let second = start(&mut hand);
    assert!(hand.try_push(None, TaskRewound { to_seq: boundary }).is_err(), "CA-4: they are open");
    for job in [first, second] {
        hand.caused(job, BackgroundJobEnded { code: None, how: JobEnd::Killed, output: Body::default() });
    }
    hand.push(MessagesAppended { jobs: vec![first, second], messages: vec![] });
    hand.push(TaskRewound { to_seq: boundary });
    let untold: Vec<Seq> = hand.task().governance().untold_jobs().map(|ended| ended.job).collect();
    assert_eq!(untold, [first]);
    let (_, events, _) = taken_in(hand.task(), "run", vec![Item::Message { text: "again".into() }]);
    let told = events.iter().find_map(|event| match &event.payload {
        Payload::MessagesAppended(said) if !said.jobs.is_empty() => Some(said.jobs.clone()),
        _ => None,
    });
    assert_eq!(told, Some(vec![first]));
}

/// What the model was told of before the landing it knows; what had ended there untold, it is told.
#[test]
fn sn_1_a_rewind_takes_back_what_the_model_was_told_since() {
    let (mut hand, job) = resting();
    hand.caused(job, ended(0));
    let untold = hand.head();
    hand.wake();
    hand.push(MessagesAppended { jobs: vec![job], messages: vec![] });
    hand.say("more");
    hand.reply(&[text("done")]);
    let told = hand.rest();
    for (landing, again) in [(untold, vec![job]), (told, vec![])] {
        let mut hand = hand.clone();
        hand.push(TaskRewound { to_seq: landing });
        let jobs: Vec<Seq> = hand.task().governance().untold_jobs().map(|ended| ended.job).collect();
        assert_eq!(jobs, again, "to {landing}");
    }
}

/// SN-2: what has ended and was told does not grow without bound.
#[test]
fn sn_2_the_last_jobs_are_kept() {
    let mut hand = Hand::begin(true);
    hand.say("go");
    for _ in 0..JOBS_KEPT_MAX + 3 {
        let job = start(&mut hand);
        hand.caused(job, ended(0));
        hand.push(MessagesAppended { jobs: vec![job], messages: vec![] });
    }
    assert_eq!(hand.task().governance().jobs.len(), JOBS_KEPT_MAX);
    let events = hand.log.envelopes();
    let last = events.iter().rev().find(|event| event.kind() == EventType::BackgroundJobStarted).map(|event| event.seq);
    assert_eq!(hand.task().governance().jobs.last().map(|ended| ended.job), last);
}

/// SN-4: a fork has no job of its source's, and its model is told so.
#[test]
fn sn_4_a_fork_inherits_no_job() {
    let (hand, job) = resting();
    let stamp = Stamp { epoch: Epoch(0), now: hand.task().head().at, run: RunId::new("fork").unwrap() };
    let ledger = LedgerId::new("ledger").unwrap();
    let fork = forked(hand.task(), TaskId::new("fork").unwrap(), "user:ada", ledger, stamp).unwrap();
    let governance = fork.task.governance();
    assert_eq!((governance.open_jobs().count(), governance.jobs.len()), (0, 0));
    assert_eq!(fork.task.projection().wake, Wake::on(WakeKey::Message));
    let said = fork.envelopes.iter().find_map(|event| match &event.payload {
        Payload::MessagesAppended(said) => said.messages[0].blocks.inline().map(str::to_owned),
        _ => None,
    });
    let said = said.unwrap();
    assert!(said.contains(&format!("Its background job {job} went on there; none runs here.")), "{said}");
}
