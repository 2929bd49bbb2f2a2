//! Turns: how they suspend, finish, fail, are interrupted or cancelled.

use alloc::vec::Vec;

use super::calls::{ended, finish_call};
use super::items::{complete_child, join, say};
use super::jobs::{end_job, stop_job};
use super::request::close_request;
use crate::body::Body;
use crate::decide::draft::{Draft, RecordError, Sent, clip};
use crate::envelope::Origin;
use crate::event::{
    CallStatus, Failure, FailureReason, MessageOrigin, RequestStatus, Role, SealVerdict, StepAttemptAbandoned,
    SubtaskCompleted, SubtaskStatus, SuspendReason, TaskCancelled, TaskCompleted, TaskFailed, TaskSuspended,
    TurnInterrupted,
};
use crate::id::{DedupKey, Position, Seq};
use crate::limits::{DETAIL_BYTES_MAX, INTERNAL_ERRORS_MAX, SNAPSHOT_EVENTS_MIN};
use crate::state::{ActionKind, OpenChild, Phase, Task};
use crate::wake::{Alternative, InboxItem, Item, Wake, WakeKey};

/// Whose end closes open actions, and what each is told.
pub(super) struct Closing {
    request: RequestStatus,
    call: CallStatus,
    told: &'static str,
    /// Whether children and jobs that go on by themselves are stopped too.
    background: bool,
}

impl Closing {
    /// The task ends: everything does.
    pub(super) fn end(told: &'static str) -> Self {
        Self { request: RequestStatus::Cancelled, call: CallStatus::Cancelled, told, background: true }
    }
}

/// Gives every open action its outcome, so that nothing outlives the turn or the task (CA-4,
/// EN-6). Children and jobs that have ended in time keep their outcome; the others are told to
/// stop: jobs by whoever holds the task, once this is on record.
pub(super) fn close_open(draft: &mut Draft, closing: &Closing, items: &[InboxItem]) -> Result<(), RecordError> {
    for open in draft.task().governance().actions.clone() {
        match open.what {
            ActionKind::Model => close_request(draft, open.seq, closing.request)?,
            ActionKind::Call(_) => finish_call(draft, open.seq, ended(closing.call, closing.told), false)?,
            ActionKind::Child(child) if child.background && !closing.background => {}
            ActionKind::Job(_) if !closing.background => {}
            ActionKind::Job(_) => match job_ended_among(items, open.seq) {
                Some(item) => end_job(draft, item)?,
                None => stop_job(draft, open.seq)?,
            },
            ActionKind::Child(child) => match ended_among(items, &child) {
                Some(item) => {
                    complete_child(draft, item)?;
                    draft.consume(item.position);
                }
                None => stop_child(draft, open.seq, &child)?,
            },
        }
    }
    Ok(())
}

/// The item that says how a job ended.
fn job_ended_among(items: &[InboxItem], job: Seq) -> Option<&InboxItem> {
    items.iter().find(|item| matches!(item.item, Item::Job { job: ended, .. } if ended == job))
}

/// The item that says how a child ended.
fn ended_among<'a>(items: &'a [InboxItem], child: &OpenChild) -> Option<&'a InboxItem> {
    items.iter().find(|item| matches!(&item.item, Item::Child { child: ended, .. } if *ended == child.child))
}

/// Takes what asks for the end of the turn or of the task, which has come: none of it is to
/// strike what a person begins later.
pub(super) fn take_orders(draft: &mut Draft, items: &[InboxItem]) {
    let orders = items.iter().filter(|item| matches!(item.item, Item::Interrupt { .. } | Item::Cancel { .. }));
    orders.for_each(|item| draft.consume(item.position));
}

fn stop_child(draft: &mut Draft, action: Seq, child: &OpenChild) -> Result<(), RecordError> {
    let done = SubtaskCompleted {
        answer: Body::Inline("cancelled: the task that spawned it ended its turn".into()),
        call: child.call,
        child: child.child.clone(),
        failure: None,
        spent: Default::default(),
        status: SubtaskStatus::Cancelled,
        // Its slice stays set aside, and nothing is charged, until it says what it spent.
        unsettled: true,
    };
    draft.push("engine", Origin::Engine, Some(action), done)?;
    let actor = alloc::format!("task:{}", draft.task().id());
    let dedup = dedup(&alloc::format!("parent-cancel:{action}"), draft)?;
    let reason = Some("the task that spawned it ended its turn".into());
    draft.send(Sent { task: child.child.clone(), actor, item: Item::Cancel { reason }, dedup });
    Ok(())
}

fn dedup(text: &str, draft: &Draft) -> Result<DedupKey, RecordError> {
    DedupKey::new(text).map_err(|_| draft.misplaced("a key that is no key"))
}

/// A suspend and an end take a snapshot when 16 or more events came since the last (SN-3).
pub(super) fn snapshot_if_due(draft: &mut Draft) -> Result<(), RecordError> {
    let last = draft.task().governance().snapshot.unwrap_or_default();
    if draft.task().head().seq.0.saturating_sub(last.0) >= SNAPSHOT_EVENTS_MIN { draft.snapshot() } else { Ok(()) }
}

/// What calls that are open wait for (section 11 of the design).
fn wake_of_calls(task: &Task) -> Wake {
    let mut wake = Wake::default();
    let Some(round) = &task.runtime().round else { return wake };
    let governance = task.governance();
    let open = || round.calls().filter(|(_, call)| call.result.is_none());
    let children: Vec<&OpenChild> =
        governance.children().map(|(_, child)| child).filter(|child| !child.background).collect();
    let answers =
        governance.approvals.values().any(|approval| approval.resolved.is_none()) || !governance.questions.is_empty();
    let waits = open().any(|(_, call)| call.wait.is_some());
    if !children.is_empty() {
        // Children alone are waited for all together, unless the first is enough.
        let together = !answers && !waits && !children.iter().any(|child| child.any);
        let need = if together { u32::try_from(children.len()).unwrap_or(u32::MAX) } else { 1 };
        wake.any.push(Alternative { key: WakeKey::Group(round.decision), need });
    }
    if answers {
        wake.any.push(Alternative { key: WakeKey::Answer(round.decision), need: 1 });
    }
    for wait in open().filter_map(|(_, call)| call.wait.as_ref()) {
        if let Some(kind) = &wait.event {
            let key = WakeKey::Event(kind.clone());
            if !wake.any.iter().any(|alternative| alternative.key == key) {
                wake.any.push(Alternative { key, need: 1 });
            }
        }
    }
    let due = open().filter_map(|(_, call)| call.wait.as_ref().and_then(|wait| wait.due));
    let expiry = governance
        .approvals
        .values()
        .filter(|approval| approval.resolved.is_none())
        .filter_map(|approval| approval.expires);
    wake.at = due.chain(expiry).min();
    wake
}

/// The wait of a turn that has ended: the next message, or the end of a child or a job that goes
/// on by itself. Neither carries a turn on that was broken off: what they bring lies in the inbox
/// until a person does (EN-6, RC-3, RC-11).
fn wake_of_rest(task: &Task, reason: SuspendReason) -> Wake {
    let mut wake = match reason {
        SuspendReason::Failed | SuspendReason::Interrupted | SuspendReason::Parked => Wake::default(),
        SuspendReason::Message | SuspendReason::Calls | SuspendReason::Budget | SuspendReason::Rewound => {
            wake_of_background(task)
        }
    };
    wake.any.insert(0, Alternative { key: WakeKey::Message, need: 1 });
    wake
}

/// The ends of children and jobs that go on by themselves; leaves room for one alternative more.
pub(super) fn wake_of_background(task: &Task) -> Wake {
    let mut wake = Wake::default();
    let governance = task.governance();
    let jobs = governance.open_jobs().next().map(|_| WakeKey::Background);
    // A child that was left to itself later still reports under its group.
    let key = |child: &OpenChild| if child.any { WakeKey::Group(child.call.decision) } else { WakeKey::Background };
    let children = governance.children().filter(|(_, child)| child.background).map(|(_, child)| key(child));
    for key in jobs.into_iter().chain(children) {
        if wake.any.iter().all(|alternative| alternative.key != key)
            && wake.any.len() + 1 < crate::limits::WAKE_ALTERNATIVES_MAX
        {
            wake.any.push(Alternative { key, need: 1 });
        }
    }
    wake
}

/// Suspends until something comes that open calls wait for.
pub(in crate::decide) fn suspend_for_calls(draft: &mut Draft) -> Result<(), RecordError> {
    snapshot_if_due(draft)?;
    let wake = wake_of_calls(draft.task());
    let suspended = TaskSuspended { answer: None, failure: None, reason: SuspendReason::Calls, wake };
    draft.push("engine", Origin::Engine, None, suspended).map(|_| ())
}

fn rest(
    draft: &mut Draft,
    reason: SuspendReason,
    answer: Option<Body>,
    failure: Option<Failure>,
) -> Result<(), RecordError> {
    snapshot_if_due(draft)?;
    let wake = wake_of_rest(draft.task(), reason);
    draft.push("engine", Origin::Engine, None, TaskSuspended { answer, failure, reason, wake }).map(|_| ())
}

/// Tells the parent of a child how it ended; nothing for a root.
fn report(draft: &mut Draft, status: SubtaskStatus, answer: Body, failure: Option<Failure>) -> Result<(), RecordError> {
    let task = draft.task();
    let Some(parent) = task.parent().cloned() else { return Ok(()) };
    let Some(call) = parent.call else { return Ok(()) };
    let item = Item::Child {
        answer,
        background: parent.background,
        call,
        child: task.id().clone(),
        failure,
        // What it set aside for children that have not said what they spent is taken as spent.
        spent: task.governance().spent().plus(task.governance().reserved()),
        status,
    };
    let actor = alloc::format!("task:{}", task.id());
    let dedup = dedup(&alloc::format!("child:{call}"), draft)?;
    draft.send(Sent { task: parent.task, actor, item, dedup });
    Ok(())
}

/// Ends the turn with the answer that was decided: an interactive task waits for its next
/// message, any other is done.
pub(in crate::decide) fn finish(draft: &mut Draft, items: &[InboxItem]) -> Result<(), RecordError> {
    let Phase::Finish(answer) = &draft.task().runtime().phase else {
        return Err(draft.misplaced("no answer was decided"));
    };
    let answer = answer.clone();
    if draft.task().is_interactive() {
        return rest(draft, SuspendReason::Message, Some(answer), None);
    }
    let told = "cancelled: the task was done while it ran";
    close_open(draft, &Closing::end(told), items)?;
    snapshot_if_due(draft)?;
    report(draft, SubtaskStatus::Completed, answer.clone(), None)?;
    draft.push("engine", Origin::Engine, None, TaskCompleted { answer }).map(|_| ())
}

/// Whether a failure ends even an interactive task: it would only come again.
fn fails_the_task(draft: &Draft, reason: FailureReason) -> bool {
    let runtime = draft.task().runtime();
    !draft.task().is_interactive()
        || match reason {
            FailureReason::Budget
            | FailureReason::ContentError
            | FailureReason::DefinitionError
            | FailureReason::PluginMissing => true,
            FailureReason::InternalError => runtime.internal_errors + 1 >= INTERNAL_ERRORS_MAX,
            FailureReason::LlmError | FailureReason::LlmTruncated => false,
        }
}

/// Ends the turn as failed: an interactive task waits for its next message, any other fails
/// (RC-11). What a person said meanwhile is on record either way.
///
/// # Errors
/// When something cannot be recorded.
pub fn fail(draft: &mut Draft, failure: Failure, items: &[InboxItem]) -> Result<(), RecordError> {
    let over = fails_the_task(draft, failure.reason);
    let told = "cancelled: the turn failed while the call ran";
    close_open(draft, &Closing { background: over, ..Closing::end(told) }, items)?;
    let detail = failure.detail.map(|detail| clip(&detail, DETAIL_BYTES_MAX));
    let failure = Failure { detail, reason: failure.reason };
    if !over {
        return rest(draft, SuspendReason::Failed, None, Some(failure));
    }
    join(draft, items)?;
    take_orders(draft, items);
    snapshot_if_due(draft)?;
    report(draft, SubtaskStatus::Failed, Body::default(), Some(failure.clone()))?;
    draft
        .push("engine", Origin::Engine, None, TaskFailed { detail: failure.detail, reason: failure.reason })
        .map(|_| ())
}

/// Ends the task: a cancel came. What a person said before is on record all the same, since
/// no later append will take it.
pub(in crate::decide) fn cancel(draft: &mut Draft, position: Position, items: &[InboxItem]) -> Result<(), RecordError> {
    let item = items.iter().find(|item| item.position == position).ok_or_else(|| draft.misplaced("no such item"))?;
    let Item::Cancel { reason } = &item.item else { return Err(draft.misplaced("the item is no cancel")) };
    let told = "cancelled: the task was cancelled while the call ran";
    close_open(draft, &Closing::end(told), items)?;
    join(draft, items)?;
    take_orders(draft, items);
    snapshot_if_due(draft)?;
    report(draft, SubtaskStatus::Cancelled, Body::default(), None)?;
    let reason = reason.as_ref().map(|reason| clip(reason, DETAIL_BYTES_MAX));
    draft.push(&item.actor, Origin::System, None, TaskCancelled { reason }).map(|_| ())
}

/// Stops the turn: open calls end as interrupted, questions and approvals lapse, and the task,
/// interactive or not, waits for its next message (EN-6).
pub(in crate::decide) fn interrupt(
    draft: &mut Draft,
    position: Position,
    items: &[InboxItem],
) -> Result<(), RecordError> {
    let item = items.iter().find(|item| item.position == position).ok_or_else(|| draft.misplaced("no such item"))?;
    let Item::Interrupt { reason } = &item.item else { return Err(draft.misplaced("the item is no interrupt")) };
    let told = "interrupted by a person while the call ran";
    let closing = Closing { request: RequestStatus::Cancelled, call: CallStatus::Interrupted, told, background: false };
    close_open(draft, &closing, items)?;
    let reason = reason.as_ref().map(|reason| clip(reason, DETAIL_BYTES_MAX));
    draft.push(&item.actor, Origin::System, None, TurnInterrupted { reason })?;
    take_orders(draft, items);
    rest(draft, SuspendReason::Interrupted, None, None)
}

/// Parks an attempt that a crash broke: its calls have their outcomes, nothing of it is run
/// again, and the agent's next request waits for a person's message, which `told` says to the
/// model in the system's voice (RC-3). Children that are waited for are told to stop.
pub(in crate::decide) fn park(draft: &mut Draft, from_seq: Seq, told: &str) -> Result<(), RecordError> {
    let stopped = "interrupted: the attempt was parked after a crash";
    let closing = Closing {
        request: RequestStatus::Interrupted,
        call: CallStatus::Interrupted,
        told: stopped,
        background: false,
    };
    close_open(draft, &closing, &[])?;
    let sealed = StepAttemptAbandoned { from_seq, verdict: SealVerdict::Park };
    draft.push("engine", Origin::Engine, None, sealed)?;
    say(draft, "engine", Role::User, Some(MessageOrigin::System), told)?;
    rest(draft, SuspendReason::Parked, None, None)
}

/// Something woke the task and brought nothing that opens a turn: it waits again.
pub(in crate::decide) fn rest_again(draft: &mut Draft) -> Result<(), RecordError> {
    let parked = draft.task().runtime().parked.is_some();
    rest(draft, if parked { SuspendReason::Parked } else { SuspendReason::Message }, None, None)
}
