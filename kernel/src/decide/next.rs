use alloc::{collections::BTreeMap, string::String, vec::Vec};

use super::budget::exhausted;
use super::record::{Foreseen, Prepared, Spawn};
use crate::event::{Failure, FailureReason, PluginPin};
use crate::id::{CallId, Position, RunId, Seq};
use crate::limits::{MODEL_INTERRUPTIONS_MAX, SNAPSHOT_ROUNDS, TRUNCATED_REPLIES_MAX};
use crate::row::Status;
use crate::state::{ActionKind, Approval, OpenAction, Phase, RequestPhase, Task};
use crate::time::Timestamp;
use crate::wake::{Alternative, InboxItem, Item, WakeKey, Woken};

/// What a worker sees besides the state.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The store's time.
    pub now: Timestamp,
    /// Untaken inbox items, in order.
    pub items: Vec<InboxItem>,
    /// The claim that asks: open actions of another are orphans.
    pub run: RunId,
    /// The plugins that this worker has of those the task's definition names, and the host's own
    /// (RC-8).
    pub pins: Vec<PluginPin>,
    /// What calls come to that people approved and that spawn a child; the error is told to the
    /// model.
    pub spawns: BTreeMap<CallId, Result<Spawn, String>>,
    /// What calls will change that people approved or said to run now (TO-5).
    pub foreseen: BTreeMap<CallId, Foreseen>,
    /// What rewinds come to that were asked for, by the item that asks; the error says why one
    /// is refused.
    pub rewinds: BTreeMap<Position, Result<Prepared, String>>,
    /// Whether the worker is to stop: nothing new is begun.
    pub stopping: bool,
    /// Why the definition cannot be used: whatever would need it fails the turn.
    pub unusable: Option<Failure>,
}

/// What happens next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Something to record that needs no outside world.
    Record(Move),
    /// Something that the outside world has to do or bring.
    Act(Act),
}

/// Something to record that needs no outside world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// End the task: a cancel item came.
    Cancel(Position),
    /// Stop the turn: an interrupt item came.
    Interrupt(Position),
    /// Go back: a rewind item came and was prepared.
    Rewind(Position),
    /// A person's message carries the attempt on that this seal parked.
    Resume(Seq),
    /// Take a person's word on a call whose outcome is unknown.
    Resolve(Position),
    /// Wait again: what woke the task opens no turn.
    Rest,
    /// Wake up.
    Wake(Woken),
    /// Take an item that answers something that is pending.
    Take(Position),
    /// An approval was not granted in time.
    Expire(CallId),
    /// The request that a former holder began has no answer.
    CloseRequest(Seq),
    /// Record as lost the background jobs of former holders.
    LoseJobs,
    /// Tell the model of background jobs that have ended.
    TellJobs,
    /// Take the untaken messages into the conversation.
    Join,
    /// Take a snapshot.
    Snapshot,
    /// Compose a request and start it.
    Compose,
    /// Start the composed request (again).
    StartRequest,
    /// Wait for what open calls wait for.
    Suspend,
    /// Ask for more of a budget that is spent, and wait for the ruling.
    AskForBudget,
    /// Go on waiting for that ruling.
    SuspendForBudget,
    /// End the turn as failed.
    Fail(Failure),
    /// End the turn, or the task, with the answer that was decided.
    Finish,
}

/// Something that the outside world has to do or bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Ask the model: the request began at this seq and waits for its reply.
    Ask(Seq),
    /// Run, or go on running, these calls, each with the seq of its start.
    Run(Vec<(CallId, Seq)>),
    /// Settle these calls of a former holder, each with the seq of its start.
    Settle(Vec<(CallId, Seq)>),
    /// Find out what this rewind lands on and which files it puts back.
    Prepare(Position),
    /// Put the files back of the plan that this event cites.
    Restore(Seq),
    /// Read the definition that this item names, and record whether the task moves to it.
    Revise(Position),
    /// Nothing before this time: a model back-off.
    WaitUntil(Timestamp),
    /// The task waits and nothing that it waits for is there: hand it back.
    Rest,
    /// The task is over: hand it back.
    Over,
    /// The next thing is for another holder: this worker is to stop.
    HandBack,
}

/// What happens next, from the state and the inputs alone (EN-1).
///
/// The order: background jobs of former holders are lost; late evidence, closing and reopening come
/// first, even for a task that is over, and so do answers that came too late; a cancel ends the task
/// and an interrupt the turn, whatever it does; a worker that lacks a plugin goes no further; a waiting
/// task wakes or rests; what a former holder left open is settled before anything new; then the step
/// goes on where its phase says.
///
/// Every item that can wake a task is taken by some move, so no item wakes one for ever (ST-7).
pub fn next(task: &Task, inputs: &Inputs) -> Next {
    if lost_jobs(task, inputs).next().is_some() {
        return Next::Record(Move::LoseJobs);
    }
    if let Some(position) = taken_at_any_time(task, inputs) {
        return Next::Record(Move::Take(position));
    }
    if let Some(restoring) = &task.governance().restoring {
        return Next::Act(Act::Restore(restoring.seq));
    }
    match first_order(task, inputs) {
        Some((position, Item::Rewind { .. })) => return rewind(task, position, inputs),
        Some((position, _)) => return Next::Record(Move::Cancel(position)),
        None => {}
    }
    if task.status().is_over() {
        return Next::Act(Act::Over);
    }
    if let Some(position) = revision_among(task, inputs) {
        return Next::Act(Act::Revise(position));
    }
    let lacks = inputs.unusable.is_none() && lacks_plugins(task, inputs);
    if task.status() == Status::Waiting {
        return match waiting(task, inputs) {
            Next::Record(_) if lacks => Next::Act(Act::HandBack),
            next => next,
        };
    }
    if lacks {
        return Next::Act(Act::HandBack);
    }
    if let Some(item) = inputs.items.iter().find(|item| matches!(item.item, Item::Interrupt { .. })) {
        return Next::Record(Move::Interrupt(item.position));
    }
    if let Some(open) = task.governance().model_action() {
        return request_in_progress(open, inputs);
    }
    if let Some(rerun) = &task.runtime().rerun {
        return running_again(task, rerun.call, inputs);
    }
    match &task.runtime().phase {
        Phase::Calls => calls(task, inputs),
        Phase::Request(request) => request_to_start(task, request, inputs),
        Phase::Finish(_) if has_messages(inputs) => Next::Record(Move::Join),
        // What a child or job that went on by itself brought joins as a message, like any other.
        Phase::Finish(_) => resolution_among(task, inputs)
            .or_else(|| answer_among(task, inputs))
            .or_else(|| jobs_to_tell(task))
            .unwrap_or(Next::Record(Move::Finish)),
        Phase::Woken | Phase::Rest => opened(task, inputs),
        Phase::Compose => to_compose(task, inputs),
    }
}

/// What a former holder left open is looked at before a rewind closes it, so that the files that
/// it changed are known; then the rewind is prepared, and recorded.
fn rewind(task: &Task, position: Position, inputs: &Inputs) -> Next {
    let orphans = open_calls(task, inputs, false);
    if !orphans.is_empty() {
        Next::Act(Act::Settle(orphans))
    } else if inputs.rewinds.contains_key(&position) {
        Next::Record(Move::Rewind(position))
    } else {
        Next::Act(Act::Prepare(position))
    }
}

/// Calls that were begun and have no outcome, with the seq of their start: those of this holder,
/// or those of former ones.
fn open_calls(task: &Task, inputs: &Inputs, mine: bool) -> Vec<(CallId, Seq)> {
    let actions = task.governance().actions.iter().filter(|action| (action.identity.run == inputs.run) == mine);
    actions
        .filter_map(|action| match action.what {
            ActionKind::Call(call) => Some((call, action.seq)),
            ActionKind::Model | ActionKind::Child(_) | ActionKind::Job(_) => None,
        })
        .collect()
}

/// The first rewind or cancel: in the order in which people asked for them. One that is over
/// takes rewinds alone.
fn first_order<'a>(task: &Task, inputs: &'a Inputs) -> Option<(Position, &'a Item)> {
    let over = task.status().is_over();
    let order = inputs.items.iter().find(|item| match item.item {
        Item::Rewind { .. } => true,
        Item::Cancel { .. } => !over,
        _ => false,
    });
    order.map(|item| (item.position, &item.item))
}

/// An item that is taken whatever the task does: evidence (unless this holder still runs the
/// call, or a request is composed, whose answer would know nothing of it), closing and reopening
/// (also where they change nothing), the end of a background job (unless it is what the task waits
/// for), and what answers something that is no longer pending.
fn taken_at_any_time(task: &Task, inputs: &Inputs) -> Option<Position> {
    let taken = inputs.items.iter().find(|item| match &item.item {
        Item::Evidence { action, .. } => {
            !matches!(task.runtime().phase, Phase::Request(_))
                && task.governance().action(*action).is_none_or(|open| open.identity.run != inputs.run)
        }
        Item::Close { .. } | Item::Reopen { .. } => true,
        Item::Verdict { call, .. } if rules_on_budget(task, *call) => comes_before_an_order(inputs, item.position),
        Item::Job { job, .. } => task.governance().action(*job).is_none() || !waits_for_jobs(task),
        item => came_too_late(task, item),
    });
    taken.map(|item| item.position)
}

/// Whether a ruling on this call is one on a budget.
fn rules_on_budget(task: &Task, call: CallId) -> bool {
    task.governance().budget_approval().is_some_and(|(asked, _)| asked == call)
}

/// Whether a rewind that is to be carried out, or an interrupt, comes after the item: either lets
/// approvals lapse, and a budget that was raised before is of the task and not of its turn (EN-4).
fn comes_before_an_order(inputs: &Inputs, position: Position) -> bool {
    let stops = |item: &InboxItem| match item.item {
        Item::Rewind { .. } => matches!(inputs.rewinds.get(&item.position), Some(Ok(_))),
        Item::Interrupt { .. } => true,
        _ => false,
    };
    inputs.items.iter().rev().take_while(|item| item.position != position).any(stops)
}

/// Whether an item answers what is no longer pending and never will be: a call that was
/// answered, lapsed or never asked, a child that has its outcome. Calls of decisions to come
/// may still be asked about.
pub(super) fn came_too_late(task: &Task, item: &Item) -> bool {
    match item {
        Item::Answer { call, .. } | Item::Verdict { call, .. } => {
            call.decision <= task.head().seq && !is_answer(task, item)
        }
        Item::Child { .. } => !is_answer(task, item),
        Item::Job { job, .. } => task.governance().action(*job).is_none(),
        Item::Resolve { call, .. } => call.decision <= task.head().seq && !is_unknown(task, *call),
        _ => false,
    }
}

/// Whether a plugin is in force in the task that this worker has not. An order that needs none, and
/// turned out to change nothing, does not entitle it to go on (RC-8).
fn lacks_plugins(task: &Task, inputs: &Inputs) -> bool {
    let has = |pin: &PluginPin| inputs.pins.iter().any(|mine| mine.is_same_plugin(pin));
    !task.governance().pins.iter().all(has)
}

/// Background jobs of former holders that none of them has said the end of: they are gone with the
/// process that held them (ST-13).
pub(super) fn lost_jobs(task: &Task, inputs: &Inputs) -> impl Iterator<Item = Seq> {
    let heard = |seq: Seq| inputs.items.iter().any(|item| matches!(item.item, Item::Job { job, .. } if job == seq));
    let open = task.governance().open_jobs().filter(|(action, _)| action.identity.run != inputs.run);
    open.map(|(action, _)| action.seq).filter(move |seq| !heard(*seq))
}

/// Whether the task waits for what goes on in the background; a closed conversation is opened by
/// none of it.
fn waits_for_jobs(task: &Task) -> bool {
    let background = |alternative: &Alternative| alternative.key == WakeKey::Background;
    task.status() == Status::Waiting && !task.is_closed() && task.wake().any.iter().any(background)
}

/// The move that tells the model of background jobs that have ended.
fn jobs_to_tell(task: &Task) -> Option<Next> {
    task.governance().untold_jobs().next().map(|_| Next::Record(Move::TellJobs))
}

/// Whether a person may still say what became of a call.
fn is_unknown(task: &Task, call: CallId) -> bool {
    task.runtime().unknown.iter().any(|unknown| unknown.call == call)
}

/// The first word on a call whose outcome is unknown.
fn resolution_among(task: &Task, inputs: &Inputs) -> Option<Next> {
    let settles = |item: &&InboxItem| matches!(item.item, Item::Resolve { call, .. } if is_unknown(task, call));
    inputs.items.iter().find(settles).map(|item| Next::Record(Move::Resolve(item.position)))
}

/// An order to move to another definition, where one can be taken: between two steps.
fn revision_among(task: &Task, inputs: &Inputs) -> Option<Position> {
    let revises = |item: &&InboxItem| matches!(item.item, Item::Revise { .. });
    inputs.items.iter().find(revises).filter(|_| task.is_between_steps()).map(|item| item.position)
}

fn has_messages(inputs: &Inputs) -> bool {
    inputs.items.iter().any(|item| matches!(item.item, Item::Message { .. }))
}

/// A waiting task: items come before a due timer.
fn waiting(task: &Task, inputs: &Inputs) -> Next {
    let wake = task.wake();
    let carried = |item: &InboxItem, key| {
        let kind = item.item.kind().into();
        Next::Record(Move::Wake(Woken { data: None, due: None, key, kind, position: Some(item.position) }))
    };
    let steering = |item: &&InboxItem| matches!(item.item, Item::Interrupt { .. });
    if let Some(item) = inputs.items.iter().find(steering) {
        return carried(item, None);
    }
    for alternative in &wake.any {
        let mut met = inputs.items.iter().filter(|item| item.item.key().as_ref() == Some(&alternative.key));
        if let Some(last) = met.nth(alternative.items() - 1) {
            return carried(last, last.item.key());
        }
    }
    if let Some(item) = inputs.items.iter().find(|item| matches!(item.item, Item::Message { .. })) {
        return carried(item, None);
    }
    if waits_for_jobs(task) && task.runtime().parked.is_none() && jobs_to_tell(task).is_some() {
        // Those that were lost came in no item.
        let (kind, key) = ("job".into(), Some(WakeKey::Background));
        return Next::Record(Move::Wake(Woken { data: None, due: None, key, kind, position: None }));
    }
    if has_budget_again(task) {
        let kind = "budget".into();
        return Next::Record(Move::Wake(Woken { data: None, due: None, key: None, kind, position: None }));
    }
    match wake.at {
        Some(due) if due <= inputs.now => {
            let woken = Woken { data: None, due: Some(due), key: None, kind: "timer".into(), position: None };
            Next::Record(Move::Wake(woken))
        }
        _ => Next::Act(Act::Rest),
    }
}

/// Whether a task waits for more budget that has some again, as when it moved to another
/// definition: nobody is to be asked any more.
fn has_budget_again(task: &Task) -> bool {
    let asked = task.governance().budget_approval().filter(|(_, approval)| approval.resolved.is_none());
    let waited_for = |(call, _): (CallId, &Approval)| {
        let answer = WakeKey::Answer(call.decision);
        task.wake().any.iter().any(|alternative| alternative.key == answer)
    };
    asked.is_some_and(waited_for) && exhausted(task.governance()).is_none()
}

fn request_in_progress(open: &OpenAction, inputs: &Inputs) -> Next {
    if open.identity.run == inputs.run {
        Next::Act(Act::Ask(open.seq))
    } else {
        Next::Record(Move::CloseRequest(open.seq))
    }
}

/// A call that a person said did not happen runs before anything else.
fn running_again(task: &Task, call: CallId, inputs: &Inputs) -> Next {
    match task.governance().action_of(call) {
        Some(open) if open.identity.run == inputs.run => Next::Act(Act::Run([(call, open.seq)].into())),
        Some(open) => Next::Act(Act::Settle([(call, open.seq)].into())),
        None => fail(FailureReason::InternalError, "a call is to run again and was not started"),
    }
}

/// A composed request that is not open: it failed, was interrupted, or waits out a back-off.
fn request_to_start(task: &Task, request: &RequestPhase, inputs: &Inputs) -> Next {
    if let Some(failed) = &request.failed {
        return fail(FailureReason::LlmError, failed);
    }
    if task.runtime().interruptions >= MODEL_INTERRUPTIONS_MAX {
        return fail(
            FailureReason::LlmError,
            "the request was cut off three times in a row before an answer was on record",
        );
    }
    if let Some(failure) = &inputs.unusable {
        return Next::Record(Move::Fail(failure.clone()));
    }
    match request.due {
        Some(due) if due > inputs.now => Next::Act(Act::WaitUntil(due)),
        _ => match without_budget(task) {
            Some(next) => next,
            None if inputs.stopping => Next::Act(Act::HandBack),
            None => Next::Record(Move::StartRequest),
        },
    }
}

/// Calls of the last decision that lack a result: orphans are settled first, then what
/// answers pending ones is taken, then all that this holder started are run; what is left
/// waits for people, children, events or the time.
fn calls(task: &Task, inputs: &Inputs) -> Next {
    let orphans = open_calls(task, inputs, false);
    if !orphans.is_empty() {
        return Next::Act(Act::Settle(orphans));
    }
    if let Some(call) = expired(task, inputs) {
        return Next::Record(Move::Expire(call));
    }
    let mine = open_calls(task, inputs, true);
    match answer_among(task, inputs) {
        // A ruling may begin a call, which one that is to stop leaves to the next holder.
        Some(_) if inputs.stopping && mine.is_empty() => return Next::Act(Act::HandBack),
        Some(take) if !inputs.stopping => return take,
        _ => {}
    }
    if !mine.is_empty() {
        return Next::Act(Act::Run(mine));
    }
    if has_messages(inputs) {
        return Next::Record(Move::Join);
    }
    if waits_for_something(task) {
        return Next::Record(Move::Suspend);
    }
    fail(FailureReason::InternalError, "a call was decided on but neither started nor answered")
}

/// An approval that nobody ruled on in time. A ruling that was delivered in time counts,
/// whenever it is taken; one that came later does not, however early the task is looked at.
fn expired(task: &Task, inputs: &Inputs) -> Option<CallId> {
    let ruled_on = |call: CallId| {
        inputs.items.iter().find(|item| matches!(&item.item, Item::Verdict { call: ruled, .. } if *ruled == call))
    };
    let approvals = task.governance().approvals.iter().filter(|(_, approval)| approval.resolved.is_none());
    let mut expiring = approvals.filter_map(|(call, approval)| Some((*call, approval.expires?)));
    let late = expiring.find(|(call, expires)| match ruled_on(*call) {
        Some(ruling) => ruling.at > *expires,
        None => *expires <= inputs.now,
    });
    late.map(|(call, _)| call)
}

/// The move that takes the first item that answers something pending.
fn answer_among(task: &Task, inputs: &Inputs) -> Option<Next> {
    let item = inputs.items.iter().find(|item| is_answer(task, &item.item))?;
    Some(Next::Record(Move::Take(item.position)))
}

/// Whether an item answers something that is pending.
fn is_answer(task: &Task, item: &Item) -> bool {
    let governance = task.governance();
    match item {
        Item::Answer { call, .. } => governance.questions.contains_key(call),
        Item::Verdict { call, .. } => {
            governance.approvals.get(call).is_some_and(|approval| approval.resolved.is_none())
        }
        Item::Child { child, .. } => governance.children().any(|(_, open)| open.child == *child),
        _ => false,
    }
}

/// Whether every call that lacks a result waits for something that can come.
fn waits_for_something(task: &Task) -> bool {
    let governance = task.governance();
    let Some(round) = &task.runtime().round else { return false };
    round.calls().filter(|(_, call)| call.result.is_none()).all(|(id, call)| {
        call.wait.is_some()
            || governance.questions.contains_key(&id)
            || governance.approvals.get(&id).is_some_and(|approval| approval.resolved.is_none())
            || governance.action_of(id).is_some()
    })
}

/// A task that woke between turns: what woke it opens the next one. Only children that go on by
/// themselves are open here.
fn opened(task: &Task, inputs: &Inputs) -> Next {
    if inputs.stopping {
        return Next::Act(Act::HandBack);
    }
    if has_messages(inputs) {
        return Next::Record(task.runtime().parked.map_or(Move::Join, Move::Resume));
    }
    match (resolution_among(task, inputs), task.runtime().parked) {
        (Some(_), Some(seal)) => Next::Record(Move::Resume(seal)),
        (Some(resolve), None) => resolve,
        (None, parked) => answer_among(task, inputs)
            .or_else(|| jobs_to_tell(task).filter(|_| parked.is_none()))
            .unwrap_or(Next::Record(Move::Rest)),
    }
}

fn to_compose(task: &Task, inputs: &Inputs) -> Next {
    let runtime = task.runtime();
    if runtime.truncated_replies >= TRUNCATED_REPLIES_MAX {
        return fail(FailureReason::LlmTruncated, "three replies in a row were cut by the output limit");
    }
    if inputs.stopping {
        return Next::Act(Act::HandBack);
    }
    if has_messages(inputs) {
        return Next::Record(Move::Join);
    }
    if let Some(resolve) = resolution_among(task, inputs) {
        return resolve;
    }
    // Only children that go on by themselves are open between rounds.
    if let Some(take) = answer_among(task, inputs).or_else(|| jobs_to_tell(task)) {
        return take;
    }
    if let Some(failure) = &inputs.unusable {
        return Next::Record(Move::Fail(failure.clone()));
    }
    if let Some(next) = without_budget(task) {
        return next;
    }
    if runtime.rounds >= SNAPSHOT_ROUNDS {
        return Next::Record(Move::Snapshot);
    }
    Next::Record(Move::Compose)
}

/// What happens in the place of a request for which no budget is left; `None` while there is
/// some. A person is asked, and the task fails if the answer is no (EN-4).
fn without_budget(task: &Task) -> Option<Next> {
    let asked = task.governance().budget_approval().map(|(_, approval)| approval.resolved);
    let cap = exhausted(task.governance());
    match (asked, cap) {
        (_, None) => None,
        (Some(Some(_)), Some(cap)) => {
            Some(fail(FailureReason::Budget, &alloc::format!("{cap}, and no more was granted")))
        }
        (None, Some(_)) => Some(Next::Record(Move::AskForBudget)),
        (Some(None), Some(_)) => Some(Next::Record(Move::SuspendForBudget)),
    }
}

fn fail(reason: FailureReason, detail: &str) -> Next {
    Next::Record(Move::Fail(Failure { detail: Some(detail.into()), reason }))
}
