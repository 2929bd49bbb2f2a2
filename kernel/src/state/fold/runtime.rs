//! Writes [`RuntimeState`].

use alloc::{collections::BTreeSet, string::ToString, vec::Vec};

use crate::body::Body;
use crate::envelope::Envelope;
use crate::event::{
    CallEntry, CallResolution, CallResolved, CallStatus, DecisionKind, FailureReason, LLMRequestFinished, Message,
    MessageOrigin, Payload, RequestStatus, Role, SubtaskCompleted, SubtaskSpawned, SubtaskStatus, SuspendReason, Usage,
};
use crate::id::CallId;
use crate::limits::UNKNOWN_CALLS_MAX;
use crate::state::{
    CallResult, ChildCall, Entry, Phase, RequestPhase, ResultStatus, Results, Round, RoundCall, RuntimeState,
    UnknownCall,
};
use crate::wake::{WakeKey, Woken};

impl RuntimeState {
    pub(super) fn phase_is_request(&self) -> bool {
        matches!(self.phase, Phase::Request(_))
    }

    /// Whether a reply was appended that no decision has been recorded on.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.phase, Phase::Compose)
            && matches!(self.messages.last(), Some(Entry::Message(message)) if message.role == Role::Assistant)
    }
}

pub(super) fn apply(state: &mut RuntimeState, event: &Envelope) {
    match &event.payload {
        Payload::MessagesAppended(appended) => appended.messages.iter().for_each(|message| say(state, message)),
        Payload::ContextPlanComposed(_) => {
            if !core::mem::take(&mut state.sealed) {
                state.seals = 0;
            }
            state.phase =
                Phase::Request(RequestPhase { attempts: 0, errors: 0, due: None, failed: None, plan: event.seq });
        }
        Payload::LLMRequestStarted(started) => {
            if let Phase::Request(request) = &mut state.phase {
                request.attempts = started.attempt;
                request.due = None;
                request.failed = None;
            }
        }
        Payload::LLMRequestFinished(finished) => finish_request(state, finished),
        Payload::LLMRetryScheduled(retry) => {
            if let Phase::Request(request) = &mut state.phase {
                request.errors += 1;
                request.due = Some(retry.due);
                request.failed = None;
            }
        }
        Payload::DecisionRecorded(decision) => {
            state.empty_replies = if decision.kind == DecisionKind::Empty { state.empty_replies + 1 } else { 0 };
            state.truncated_replies =
                if decision.kind == DecisionKind::Truncated { state.truncated_replies + 1 } else { 0 };
            match decision.kind {
                DecisionKind::Calls => {
                    let call = |entry: &CallEntry| RoundCall {
                        args: None,
                        child: None,
                        result: None,
                        starts: 0,
                        tool: entry.tool.clone(),
                        wait: entry.wait.clone(),
                    };
                    let calls = decision.calls.iter().map(call).collect();
                    state.round = Some(Round { calls, decision: event.seq, over: decision.over });
                    state.phase = Phase::Calls;
                    settle_round(state);
                }
                DecisionKind::Finish => state.phase = Phase::Finish(decision.answer.clone().unwrap_or_default()),
                DecisionKind::Truncated | DecisionKind::Empty => state.phase = Phase::Compose,
            }
        }
        Payload::ToolCallStarted(started) if is_rerun(state, started.call) => {
            if let Some(rerun) = &mut state.rerun {
                rerun.starts = started.attempt;
            }
        }
        Payload::ToolCallFinished(finished) if is_rerun(state, finished.call) => {
            if !finished.again
                && let Some(rerun) = state.rerun.take()
                && finished.status == CallStatus::Unknown
            {
                note_unknown(state, rerun);
            }
        }
        Payload::CallResolved(resolved) => resolve(state, resolved),
        Payload::ToolCallStarted(started) => {
            if let Some(call) = call_mut(state, started.call) {
                call.starts = started.attempt;
                call.args = Some(started.args.clone());
            }
        }
        Payload::ToolCallFinished(finished) if !finished.again => {
            if finished.status == CallStatus::Unknown
                && let Some(call) = call_mut(state, finished.call)
            {
                let (args, starts) = (call.args.clone().unwrap_or_default(), call.starts);
                let unknown = UnknownCall { args, call: finished.call, starts, tool: call.tool.clone() };
                note_unknown(state, unknown);
            }
            settle(state, finished.call, finished.status.into(), &finished.output);
        }
        Payload::ToolCallDenied(denied) => settle(state, denied.call, ResultStatus::Denied, &denied.reason),
        Payload::QuestionAnswered(answered) => settle(state, answered.call, ResultStatus::Ok, &answered.answer),
        Payload::SubtaskSpawned(spawned) => spawn(state, spawned),
        Payload::SubtaskCompleted(done) => complete_subtask(state, done),
        Payload::TaskStatePatched(patched) => {
            if let Some(call) = patched.call {
                settle(state, call, ResultStatus::Ok, &Body::Inline("done".to_string()));
            }
        }
        Payload::TaskSuspended(suspended)
            if suspended.failure.is_some()
                || suspended.answer.is_some()
                || (state.round.is_none() && suspended.reason != SuspendReason::Budget) =>
        {
            let internal =
                suspended.failure.as_ref().is_some_and(|failure| failure.reason == FailureReason::InternalError);
            state.internal_errors = if internal { state.internal_errors + 1 } else { 0 };
            end_turn(state);
        }
        // What is asked once there is room again is composed anew: people may speak meanwhile.
        Payload::TaskSuspended(_) if state.round.is_none() => state.phase = Phase::Compose,
        Payload::TurnInterrupted(_)
        | Payload::TaskCompleted(_)
        | Payload::TaskFailed(_)
        | Payload::TaskCancelled(_) => end_turn(state),
        Payload::TaskWoken(woken) if state.round.is_some() => settle_waits(state, &woken.item),
        Payload::TaskWoken(_) if state.phase == Phase::Rest => state.phase = Phase::Woken,
        Payload::StepAttemptAbandoned(_) => {
            end_turn(state);
            seal(state, state.seals);
            state.parked = Some(event.seq);
        }
        Payload::StepAttemptResumed(_) => state.parked = None,
        Payload::TaskSnapshot(_) => state.rounds = 0,
        _ => {}
    }
}

/// Appends a message where it stands in the conversation: at the end, or after the results of
/// the calls that are still open (EN-6).
fn say(state: &mut RuntimeState, message: &Message) {
    if state.round.is_some() {
        state.held.push(message.clone());
        return;
    }
    state.assistant_messages += u64::from(message.role == Role::Assistant);
    if matches!(state.phase, Phase::Finish(_) | Phase::Woken) {
        // Someone spoke before the turn was over, or opens the next: the model is asked.
        state.phase = Phase::Compose;
    }
    state.messages.push(Entry::Message(message.clone()));
}

fn finish_request(state: &mut RuntimeState, finished: &LLMRequestFinished) {
    let usage = &finished.usage;
    add(&mut state.turn_usage, usage);
    match finished.status {
        RequestStatus::Ok => {
            state.last_input_tokens = usage.input();
            state.interruptions = 0;
            state.phase = Phase::Compose;
        }
        RequestStatus::Error => {
            if let Phase::Request(request) = &mut state.phase {
                let said = finished.error.as_ref().map(|error| alloc::format!("{}: {}", error.kind, error.message));
                request.failed = Some(said.unwrap_or_else(|| "the provider said nothing".to_string()));
            }
        }
        RequestStatus::Interrupted => state.interruptions += 1,
        RequestStatus::Cancelled => state.phase = Phase::Compose,
    }
}

pub(super) fn add(sum: &mut Usage, usage: &Usage) {
    sum.cache_read = sum.cache_read.saturating_add(usage.cache_read);
    sum.cache_write = sum.cache_write.saturating_add(usage.cache_write);
    sum.output = sum.output.saturating_add(usage.output);
    sum.reasoning = sum.reasoning.saturating_add(usage.reasoning);
    sum.uncached = sum.uncached.saturating_add(usage.uncached);
}

fn call_mut(state: &mut RuntimeState, call: CallId) -> Option<&mut RoundCall> {
    let round = state.round.as_mut().filter(|round| round.decision == call.decision)?;
    round.calls.get_mut(call.index as usize)
}

fn is_rerun(state: &RuntimeState, call: CallId) -> bool {
    state.rerun.as_ref().is_some_and(|rerun| rerun.call == call)
}

fn note_unknown(state: &mut RuntimeState, call: UnknownCall) {
    state.unknown.push(call);
    let over = state.unknown.len().saturating_sub(UNKNOWN_CALLS_MAX);
    state.unknown.drain(..over);
}

/// A person's word settles a call; one that did not happen is to run.
fn resolve(state: &mut RuntimeState, resolved: &CallResolved) {
    let Some(at) = state.unknown.iter().position(|unknown| unknown.call == resolved.call) else { return };
    let settled = state.unknown.remove(at);
    if resolved.verdict == CallResolution::NotLanded {
        state.rerun = Some(settled);
    }
}

fn settle(state: &mut RuntimeState, call: CallId, status: ResultStatus, output: &Body) {
    if let Some(call) = call_mut(state, call) {
        call.result.get_or_insert_with(|| CallResult { output: output.clone(), status });
        settle_round(state);
    }
}

/// A child that goes on by itself answers its call at once.
fn spawn(state: &mut RuntimeState, spawned: &SubtaskSpawned) {
    if let Some(call) = call_mut(state, spawned.call) {
        call.child = Some(ChildCall { any: spawned.any, child: spawned.child.clone() });
    }
    if spawned.background {
        let told = Body::Inline(alloc::format!("started in the background as {}", spawned.child));
        settle(state, spawned.call, ResultStatus::Ok, &told);
    }
}

/// A child's end answers its call; where the first result of a group is enough, the other
/// calls of the group are answered too, and their children go on by themselves.
fn complete_subtask(state: &mut RuntimeState, done: &SubtaskCompleted) {
    let status = match done.status {
        SubtaskStatus::Completed => ResultStatus::Ok,
        SubtaskStatus::Failed => ResultStatus::Error,
        SubtaskStatus::Cancelled => ResultStatus::Cancelled,
    };
    let any = call_mut(state, done.call).and_then(|call| call.child.clone()).is_some_and(|child| child.any);
    if any && let Some(round) = &mut state.round {
        for call in &mut round.calls {
            let Some(child) = call.child.as_ref().filter(|child| child.any && child.child != done.child) else {
                continue;
            };
            let told = alloc::format!("still running: goes on in the background as {}", child.child);
            call.result.get_or_insert(CallResult { output: Body::Inline(told), status: ResultStatus::Ok });
        }
    }
    settle(state, done.call, status, &done.answer);
}

/// What woke the task answers the calls to `Wait` that waited for it.
fn settle_waits(state: &mut RuntimeState, woken: &Woken) {
    let Some(round) = &mut state.round else { return };
    for call in &mut round.calls {
        let Some(wait) = &call.wait else { continue };
        let output = match (&woken.key, woken.due) {
            (Some(WakeKey::Event(kind)), _) if wait.event.as_ref() == Some(kind) => {
                woken.data.clone().unwrap_or_else(|| Body::Inline(alloc::format!("the event {kind} came")))
            }
            (_, Some(due)) if wait.due.is_some_and(|mine| mine <= due) => Body::Inline(match &wait.event {
                None => "the time has come".to_string(),
                Some(kind) => alloc::format!("the time has come; the event {kind} did not come"),
            }),
            _ => continue,
        };
        call.result.get_or_insert(CallResult { output, status: ResultStatus::Ok });
    }
    settle_round(state);
}

/// Once every call has its result, the results join the conversation in the calls' order, and
/// the messages that came meanwhile follow them.
fn settle_round(state: &mut RuntimeState) {
    if !state.round.as_ref().is_some_and(Round::is_settled) {
        return;
    }
    if let Some(round) = state.round.take() {
        let results = round.calls.into_iter().filter_map(|call| call.result).collect();
        state.messages.push(Entry::Results(Results { decision: round.decision, over: round.over, results }));
        state.rounds += 1;
        state.phase = Phase::Compose;
        for message in core::mem::take(&mut state.held) {
            say(state, &message);
        }
    }
}

/// Ends a turn: calls that still lack a result get one, so that every call the model asked
/// for is answered (TO-4).
fn end_turn(state: &mut RuntimeState) {
    if let Some(round) = &mut state.round {
        for call in &mut round.calls {
            call.result.get_or_insert_with(|| CallResult {
                output: Body::Inline("not run: the turn ended first".to_string()),
                status: CallStatus::Interrupted.into(),
            });
        }
    }
    settle_round(state);
    state.phase = Phase::Rest;
    state.interruptions = 0;
    state.empty_replies = 0;
    state.truncated_replies = 0;
    if !state.turn_usage.is_zero() {
        let usage = core::mem::take(&mut state.turn_usage);
        state.turns.push(usage);
    }
}

/// What a rewind or fork leaves of the landing: a turn that has ended.
pub(super) fn land(state: &mut RuntimeState) {
    end_turn(state);
    state.parked = None;
    state.rerun = None;
    state.seals = 0;
    state.sealed = false;
}

/// Calls of a fork's ancestor are the ancestor's to settle.
pub(super) fn forget_places(state: &mut RuntimeState) {
    state.unknown.clear();
}

/// What people have settled stays settled, wherever the conversation goes on.
pub(super) fn forget_settled(state: &mut RuntimeState, settled: &BTreeSet<CallId>) {
    state.unknown.retain(|unknown| !settled.contains(&unknown.call));
}

/// One more attempt in a row was sealed, after so many.
pub(super) fn seal(state: &mut RuntimeState, before: u32) {
    state.seals = before + 1;
    state.sealed = true;
}

/// The messages that people sent since `landing`.
pub(super) fn people_since(state: &RuntimeState, landing: &RuntimeState) -> Vec<Message> {
    let human = |message: &&Message| message.origin == Some(MessageOrigin::Human);
    let new = state.messages.after(landing.messages.iter().count() as u64);
    let said = new.filter_map(|entry| match entry {
        Entry::Message(message) => Some(message),
        Entry::Results(_) => None,
    });
    said.chain(&state.held).filter(human).cloned().collect()
}

/// Appends messages to a landing that is to be redriven.
pub(super) fn keep(state: &mut RuntimeState, messages: Vec<Message>) {
    messages.iter().for_each(|message| say(state, message));
}
