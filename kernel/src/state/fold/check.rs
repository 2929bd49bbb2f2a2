//! What can follow what (FO-4).

use super::FoldError;
use crate::envelope::{Envelope, Origin};
use crate::event::{ApprovalRequested, Payload, PluginPin, Role, SealVerdict, StepAttemptAbandoned, ToolCallStarted};
use crate::id::{CallId, Seq};
use crate::ledger::{check_chain, check_links};
use crate::row::Status;
use crate::state::{ActionKind, Phase, RoundCall, Task, grants_of};

/// Checks that `event` can follow the log that folded to `task`.
pub(super) fn check(task: &Task, event: &Envelope) -> Result<(), FoldError> {
    let rule = |rule: &str| Err(FoldError::new(event, rule));
    if event.task != task.id {
        return rule("belongs to another task");
    }
    check_chain(Some(&task.head), event).map_err(|error| FoldError::new(event, error))?;
    if task.status.is_over() && !event.kind().may_follow_end() {
        return rule("the task is over");
    }
    check_links(&task.governance, event).map_err(|error| FoldError::new(event, error))?;
    check_place(task, event).map_err(|rule| FoldError::new(event, rule))
}

/// The place of an event in the step, by type.
fn check_place(task: &Task, event: &Envelope) -> Result<(), &'static str> {
    let runtime = &task.runtime;
    let working = matches!(task.status, Status::Ready | Status::Running);
    match &event.payload {
        Payload::TaskCreated(_) | Payload::TaskForked(_) => Err("a log has one beginning"),
        Payload::MessagesAppended(appended) => {
            let told = &appended.jobs;
            let untold = |(nth, job): (usize, &Seq)| {
                !told[..nth].contains(job) && task.governance.ended_job(*job).is_some_and(|job| !job.told)
            };
            if !told.iter().enumerate().all(untold) {
                return Err("the model is told of a background job once, after it has ended");
            }
            let forged = event.origin != Origin::System
                && appended.messages.iter().any(|message| message.role == Role::User || message.origin.is_some());
            if forged { Err("only the engine's own path for user messages sets a message's origin") } else { Ok(()) }
        }
        Payload::ContextPlanComposed(_) | Payload::ToolCallStarted(_) if task.governance.restoring.is_some() => {
            Err("files are being put back")
        }
        Payload::ContextPlanComposed(_) => {
            let idle = task.governance.model_action().is_none() && runtime.rerun.is_none();
            let free = working && idle && matches!(runtime.phase, Phase::Compose);
            free.then_some(()).ok_or("a request is composed while the last step is not done")
        }
        Payload::LLMRequestStarted(started) => match &runtime.phase {
            Phase::Request(request)
                if task.governance.model_action().is_none() && started.attempt == request.attempts + 1 =>
            {
                Ok(())
            }
            _ => Err("a request starts once for each attempt of the plan in force"),
        },
        Payload::LLMRequestFinished(_) => in_request(runtime.phase_is_request()),
        Payload::LLMRetryScheduled(retry) => match &runtime.phase {
            Phase::Request(request) if request.failed.is_some() && retry.attempt == request.attempts + 1 => Ok(()),
            _ => Err("a try is scheduled once, after the one before it failed"),
        },
        Payload::DecisionRecorded(_) => {
            // One a plan: a reply that was cut or empty stands last in the conversation for long.
            let first = task.governance.decision < task.governance.plan;
            let answered = working && first && runtime.is_answered();
            answered.then_some(()).ok_or("a decision follows the model's reply, once")
        }
        Payload::ToolCallStarted(started) if is_rerun(task, started.call) => rerun_starts(task, started),
        Payload::CallResolved(resolved) => {
            let unknown = runtime.unknown.iter().any(|unknown| unknown.call == resolved.call);
            let free = working && runtime.round.is_none() && runtime.rerun.is_none();
            match (unknown, free && task.governance.model_action().is_none()) {
                (false, _) => Err("no such call is of unknown outcome"),
                (true, false) => Err("a call is settled between two steps"),
                (true, true) => Ok(()),
            }
        }
        Payload::ToolCallStarted(started) => match open_call(task, started.call) {
            Some(call) if call.starts + 1 != started.attempt => Err("a call's attempts run from 1 without a gap"),
            Some(_) if task.governance.action_of(started.call).is_some() => Err("the call is open already"),
            Some(_) if task.governance.questions.contains_key(&started.call) => Err("the call asks a person"),
            Some(call) if call.tool != started.tool => Err("the call names another tool"),
            Some(_) => match task.governance.approvals.get(&started.call) {
                Some(approval) if approval.args != started.args => Err("what runs is not what was approved"),
                _ => Ok(()),
            },
            None => Err("no such call waits to be started"),
        },
        Payload::ToolCallDenied(denied) => not_begun(task, denied.call),
        Payload::ApprovalRequested(asked) if asked.subject.is_some() => budget_asked(task, event.seq, asked),
        Payload::ApprovalRequested(asked) => {
            not_begun(task, asked.call)?;
            if task.governance.approvals.contains_key(&asked.call) {
                Err("the call was asked about already")
            } else {
                Ok(())
            }
        }
        Payload::ApprovalResolved(ruling) => match task.governance.approvals.get(&ruling.call) {
            Some(approval) if approval.resolved.is_none() && approval.digest == ruling.digest => Ok(()),
            Some(_) => Err("the approval is settled, or bound to another call"),
            None => Err("no such approval is pending"),
        },
        Payload::QuestionAsked(asked) => not_begun(task, asked.call),
        Payload::QuestionAnswered(answered) => {
            let pending = task.governance.questions.contains_key(&answered.call);
            pending.then_some(()).ok_or("no such question is pending")
        }
        Payload::SubtaskSpawned(spawned) => not_begun(task, spawned.call),
        Payload::TaskStatePatched(patched) => match patched.call {
            Some(call) => not_begun(task, call),
            None => (task.governance.decision == Some(task.head.seq))
                .then_some(())
                .ok_or("a policy's patch directly follows the decision it belongs to"),
        },
        Payload::TaskSuspended(suspended) if !suspended.wake.fits() => Err("a wake has at most 8 alternatives"),
        Payload::TaskSuspended(_) => working.then_some(()).ok_or("only a ready or running task suspends"),
        Payload::TaskWoken(_) => (task.status == Status::Waiting).then_some(()).ok_or("only a waiting task wakes"),
        Payload::TaskSnapshot(snapshot) => (snapshot.through.next() == event.seq)
            .then_some(())
            .ok_or("a snapshot is of the state before its own event"),
        Payload::TaskRewound(rewound) if rewound.to_seq >= event.seq => Err("a rewind goes back"),
        Payload::TaskRewound(_) if task.governance.restoring.is_some() => Err("files are being put back"),
        Payload::TaskRewound(_) => closed_since(task, Seq(0)),
        Payload::StepAttemptAbandoned(sealed) if sealed.from_seq >= event.seq => {
            Err("an attempt begins before its seal")
        }
        Payload::StepAttemptAbandoned(StepAttemptAbandoned { verdict: SealVerdict::Park, .. }) => {
            working.then_some(()).ok_or("only a turn that is under way is parked")?;
            left_to_itself(task)
        }
        Payload::StepAttemptAbandoned(sealed) => closed_since(task, sealed.from_seq),
        Payload::StepAttemptResumed(resumed) => {
            (runtime.parked == Some(resumed.seal)).then_some(()).ok_or("no such attempt is parked")
        }
        Payload::FilesRestoring(_) => {
            let free = task.status == Status::Waiting && task.governance.restoring.is_none();
            free.then_some(()).ok_or("files are put back while a task that was rewound waits")
        }
        Payload::FilesRestored(restored) => {
            let seq = task.governance.restoring.as_ref().map(|restoring| restoring.seq);
            (seq == Some(restored.plan)).then_some(()).ok_or("no such files are being put back")
        }
        Payload::AgentRevised(_) => {
            task.is_between_steps().then_some(()).ok_or("the definition changes only between two steps")
        }
        // What observers saw of the end is on record after it.
        Payload::ExtensionRecorded(_) if task.status.is_over() => {
            (event.origin == Origin::Observer).then_some(()).ok_or("the task is over")
        }
        Payload::PluginsPinned(pinned) => {
            let named = |pin: &PluginPin| !pin.name.is_empty();
            pinned.plugins.iter().all(named).then_some(()).ok_or("a plugin is pinned by its name")
        }
        Payload::BackgroundJobStarted(started) => {
            let runs =
                task.governance.action_of(started.call).is_some_and(|open| open.what == ActionKind::Call(started.call));
            let first = task.governance.open_jobs().all(|(_, job)| job.call != started.call);
            (runs && first).then_some(()).ok_or("a call starts one background job, while it runs")
        }
        Payload::ToolCallFinished(_)
        | Payload::BackgroundJobEnded(_)
        | Payload::SubtaskCompleted(_)
        | Payload::AssistantThinkingRecorded(_)
        | Payload::TurnInterrupted(_)
        | Payload::LateResultRecorded(_)
        | Payload::ExtensionRecorded(_)
        | Payload::ConversationClosed(_)
        | Payload::ConversationReopened(_)
        | Payload::TaskCompleted(_)
        | Payload::TaskFailed(_)
        | Payload::TaskCancelled(_) => Ok(()),
    }
}

fn in_request(holds: bool) -> Result<(), &'static str> {
    holds.then_some(()).ok_or("no request is in progress")
}

/// More budget is asked for once at a time, between a turn's requests, and says how much.
fn budget_asked(task: &Task, seq: Seq, asked: &ApprovalRequested) -> Result<(), &'static str> {
    let between = matches!(task.runtime.phase, Phase::Compose | Phase::Request(_));
    if asked.call != (CallId { decision: seq, index: 0 }) {
        return Err("an approval of more budget goes by its own seq");
    }
    if task.governance.model_action().is_some() || !between || task.governance.budget_approval().is_some() {
        return Err("more budget is asked for once, when a request is to start");
    }
    grants_of(&asked.args)
        .filter(|grants| !grants.is_unlimited())
        .map(|_| ())
        .ok_or("the budget asked for is no budget")
}

/// What becomes dead or is sealed leaves no action without an outcome behind (CA-4): its
/// events would no longer say what it was part of.
fn closed_since(task: &Task, from: Seq) -> Result<(), &'static str> {
    let open = task.governance.actions.iter().any(|action| action.seq >= from);
    if open { Err("an action in what it leaves has no outcome") } else { Ok(()) }
}

/// A parked attempt leaves nothing open but what goes on by itself.
fn left_to_itself(task: &Task) -> Result<(), &'static str> {
    let by_itself = |what: &ActionKind| match what {
        ActionKind::Child(child) => child.background,
        ActionKind::Job(_) => true,
        ActionKind::Model | ActionKind::Call(_) => false,
    };
    let open = task.governance.actions.iter().any(|action| !by_itself(&action.what));
    if open { Err("an action in what it leaves has no outcome") } else { Ok(()) }
}

fn is_rerun(task: &Task, call: CallId) -> bool {
    task.runtime.rerun.as_ref().is_some_and(|rerun| rerun.call == call)
}

/// A call that a person said did not happen runs as it was recorded.
fn rerun_starts(task: &Task, started: &ToolCallStarted) -> Result<(), &'static str> {
    let Some(rerun) = &task.runtime.rerun else { return Err("no such call waits to be started") };
    if task.governance.action_of(started.call).is_some() {
        Err("the call is open already")
    } else if (rerun.starts + 1, &rerun.tool, &rerun.args) == (started.attempt, &started.tool, &started.args) {
        Ok(())
    } else {
        Err("what runs again is not what ran before")
    }
}

/// The call of the round in progress that still lacks a result.
fn open_call(task: &Task, call: CallId) -> Option<&RoundCall> {
    let round = task.runtime.round.as_ref().filter(|round| round.decision == call.decision)?;
    round.calls.get(call.index as usize).filter(|call| call.result.is_none())
}

/// The call waits for its first event after the decision, or for what its approval allows.
fn not_begun(task: &Task, call: CallId) -> Result<(), &'static str> {
    let begun = open_call(task, call).is_none_or(|call| call.starts > 0)
        || task.governance.action_of(call).is_some()
        || task.governance.questions.contains_key(&call);
    if begun { Err("no such call waits") } else { Ok(()) }
}
