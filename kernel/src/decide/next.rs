use alloc::vec::Vec;

use super::budget::exhausted;
use crate::event::{Failure, FailureReason};
use crate::id::{CallId, Position, RunId, Seq};
use crate::limits::{MODEL_INTERRUPTIONS_MAX, SNAPSHOT_ROUNDS, TRUNCATED_REPLIES_MAX};
use crate::row::Status;
use crate::state::{ActionKind, OpenAction, Phase, RequestPhase, Task};
use crate::time::Timestamp;
use crate::wake::{InboxItem, Item, Woken};

/// What a worker sees besides the state.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The store's time.
    pub now: Timestamp,
    /// Untaken inbox items, in order.
    pub items: Vec<InboxItem>,
    /// The claim that asks: open actions of another are orphans.
    pub run: RunId,
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
    /// Wake up.
    Wake(Woken),
    /// The request that a former holder began has no answer.
    CloseRequest(Seq),
    /// Take the untaken messages into the conversation.
    Join,
    /// Take a snapshot.
    Snapshot,
    /// Compose a request and start it.
    Compose,
    /// Start the composed request (again).
    StartRequest,
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
/// The order: a cancel ends the task whatever it does; a waiting task wakes or rests; what a
/// former holder left open is settled before anything new; then the step goes on where its
/// phase says.
pub fn next(task: &Task, inputs: &Inputs) -> Next {
    if task.status().is_over() {
        return Next::Act(Act::Over);
    }
    if let Some(item) = inputs.items.iter().find(|item| matches!(item.item, Item::Cancel { .. })) {
        return Next::Record(Move::Cancel(item.position));
    }
    if task.status() == Status::Waiting {
        return waiting(task, inputs);
    }
    if let Some(open) = task.governance().model_action() {
        return request_in_progress(open, inputs);
    }
    match &task.runtime().phase {
        Phase::Calls => calls(task, inputs),
        Phase::Request(request) => request_to_start(task, request, inputs),
        Phase::Finish(_) if has_messages(inputs) => Next::Record(Move::Join),
        Phase::Finish(_) => Next::Record(Move::Finish),
        Phase::Compose | Phase::Rest => to_compose(task, inputs),
    }
}

fn has_messages(inputs: &Inputs) -> bool {
    inputs.items.iter().any(|item| matches!(item.item, Item::Message { .. }))
}

/// A waiting task: items come before a due timer.
fn waiting(task: &Task, inputs: &Inputs) -> Next {
    let wake = task.wake();
    let carried =
        |position: Position, kind: &str, key| Woken { due: None, key, kind: kind.into(), position: Some(position) };
    for alternative in &wake.any {
        let mut met = inputs.items.iter().filter(|item| item.item.key().as_ref() == Some(&alternative.key));
        if let Some(last) = met.nth(alternative.items() - 1) {
            return Next::Record(Move::Wake(carried(last.position, last.item.kind(), last.item.key())));
        }
    }
    if let Some(item) = inputs.items.iter().find(|item| matches!(item.item, Item::Message { .. })) {
        return Next::Record(Move::Wake(carried(item.position, item.item.kind(), None)));
    }
    match wake.at {
        Some(due) if due <= inputs.now => {
            Next::Record(Move::Wake(Woken { due: Some(due), key: None, kind: "timer".into(), position: None }))
        }
        _ => Next::Act(Act::Rest),
    }
}

fn request_in_progress(open: &OpenAction, inputs: &Inputs) -> Next {
    if open.identity.run == inputs.run {
        Next::Act(Act::Ask(open.seq))
    } else {
        Next::Record(Move::CloseRequest(open.seq))
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
        _ => match exhausted(task.governance()) {
            Some(cap) => fail(FailureReason::Budget, cap),
            None if inputs.stopping => Next::Act(Act::HandBack),
            None => Next::Record(Move::StartRequest),
        },
    }
}

/// Calls of the last decision that lack a result: orphans are settled first, then all that
/// this holder started are run.
fn calls(task: &Task, inputs: &Inputs) -> Next {
    let open = |mine: bool| -> Vec<(CallId, Seq)> {
        let actions = task.governance().actions.iter().filter(|action| (action.identity.run == inputs.run) == mine);
        actions
            .filter_map(|action| match action.what {
                ActionKind::Call(call) => Some((call, action.seq)),
                ActionKind::Model | ActionKind::Child(_) => None,
            })
            .collect()
    };
    let orphans = open(false);
    if !orphans.is_empty() {
        return Next::Act(Act::Settle(orphans));
    }
    let mine = open(true);
    if mine.is_empty() {
        return fail(FailureReason::InternalError, "a call was decided on but neither started nor answered");
    }
    Next::Act(Act::Run(mine))
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
    if let Some(failure) = &inputs.unusable {
        return Next::Record(Move::Fail(failure.clone()));
    }
    if let Some(cap) = exhausted(task.governance()) {
        return fail(FailureReason::Budget, cap);
    }
    if runtime.rounds >= SNAPSHOT_ROUNDS {
        return Next::Record(Move::Snapshot);
    }
    Next::Record(Move::Compose)
}

fn fail(reason: FailureReason, detail: &str) -> Next {
    Next::Record(Move::Fail(Failure { detail: Some(detail.into()), reason }))
}
