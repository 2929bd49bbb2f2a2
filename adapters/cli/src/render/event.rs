//! What one event says, in a few words.

use plica_kernel::body::Body;
use plica_kernel::event::{
    ApprovalResolved, ApprovalVerdict, CallEntry, CallResolution, CallStatus, DecisionKind, DecisionRecorded, Failure,
    LLMRequestFinished, LateKind, MessagesAppended, Payload, RequestStatus, Role, SealVerdict, SubtaskStatus,
    SuspendReason, TaskStatePatched, TaskSuspended,
};
use plica_kernel::wake::{Wake, Woken};

use super::counted;
use super::jobs::ended;
use super::text::cut;

/// Characters of a text in a summary.
const TEXT_CHARS: usize = 80;

/// What matters of an event, in one line.
pub fn summary(payload: &Payload) -> String {
    match payload {
        Payload::TaskCreated(created) => format!("{}: {}", cut(&created.agent, TEXT_CHARS), body(&created.goal)),
        Payload::TaskForked(forked) => format!("from {} at event {}", forked.source, forked.source_seq),
        Payload::MessagesAppended(messages) => appended(messages),
        Payload::ContextPlanComposed(plan) => format!("state as of event {}", plan.through),
        Payload::LLMRequestStarted(started) => {
            format!("{}{}", cut(&started.model, TEXT_CHARS), attempt(started.attempt))
        }
        Payload::LLMRequestFinished(finished) => request(finished),
        Payload::LLMRetryScheduled(retry) => format!("attempt {} at {}", retry.attempt, retry.due),
        Payload::AssistantThinkingRecorded(thinking) => size(&thinking.blocks),
        Payload::DecisionRecorded(decision) => decided(decision),
        Payload::TaskStatePatched(patched) => patch(patched),
        Payload::ToolCallStarted(call) => {
            format!("{} {} {}{}", call.call, cut(&call.tool, TEXT_CHARS), body(&call.args), attempt(call.attempt))
        }
        Payload::ToolCallFinished(call) => {
            format!("{} {} in {} ms: {}", call.call, call_status(call.status), call.elapsed_ms, body(&call.output))
        }
        Payload::ToolCallDenied(call) => {
            format!("{} {}: {}", call.call, cut(&call.tool, TEXT_CHARS), body(&call.reason))
        }
        Payload::ApprovalRequested(asked) => {
            format!("{} {} {}", asked.call, cut(&asked.tool, TEXT_CHARS), body(&asked.args))
        }
        Payload::ApprovalResolved(resolved) => approval(resolved),
        Payload::CallResolved(resolved) => {
            let became = match resolved.verdict {
                CallResolution::Landed => "landed",
                CallResolution::NotLanded => "did not land",
                CallResolution::Skip => "skipped",
            };
            let output = resolved.output.as_ref().map(|output| format!(": {}", body(output))).unwrap_or_default();
            format!("{} {became}{output}", resolved.call)
        }
        Payload::QuestionAsked(asked) => format!("{} {}", asked.call, body(&asked.question)),
        Payload::QuestionAnswered(answered) => format!("{} {}", answered.call, body(&answered.answer)),
        Payload::SubtaskSpawned(spawned) => {
            format!("{} {} {}: {}", spawned.call, spawned.child, cut(&spawned.agent, TEXT_CHARS), body(&spawned.goal))
        }
        Payload::SubtaskCompleted(ended) => {
            format!("{} {} {}: {}", ended.call, ended.child, child_status(ended.status), body(&ended.answer))
        }
        Payload::BackgroundJobStarted(job) => {
            format!("{} {}: {}", job.call, cut(&job.tool, TEXT_CHARS), cut(&job.what, TEXT_CHARS))
        }
        Payload::BackgroundJobEnded(job) => format!("{}: {}", ended(job.how, job.code), body(&job.output)),
        Payload::TaskSuspended(suspended) => suspension(suspended),
        Payload::TaskWoken(woken) => woken_by(&woken.item),
        Payload::TurnInterrupted(turn) => text(turn.reason.as_deref()),
        Payload::TaskSnapshot(snapshot) => format!("state as of event {}", snapshot.through),
        Payload::TaskRewound(rewound) => format!("to event {}", rewound.to_seq),
        Payload::FilesRestoring(restoring) => counted(restoring.files, "file"),
        Payload::FilesRestored(restored) => {
            let left = restored.left.as_ref().map(|left| format!(", left: {}", body(left))).unwrap_or_default();
            format!("{} as before{left}", counted(restored.restored, "file"))
        }
        Payload::StepAttemptResumed(resumed) => format!("event {} parked it", resumed.seal),
        Payload::StepAttemptAbandoned(abandoned) => {
            let verdict = match abandoned.verdict {
                SealVerdict::Redrive => "redrive",
                SealVerdict::Park => "park",
            };
            format!("{verdict}, from event {}", abandoned.from_seq)
        }
        Payload::LateResultRecorded(late) => {
            let kind = match late.kind {
                LateKind::Stale => "stale",
                LateKind::Late => "late",
            };
            format!("{kind} answer to event {}: {}", late.answers, body(&late.output))
        }
        Payload::PluginsPinned(pinned) => {
            let plugin = |pin: &plica_kernel::event::PluginPin| {
                format!("{} {}", cut(&pin.name, TEXT_CHARS), cut(&pin.version, TEXT_CHARS))
            };
            pinned.plugins.iter().map(plugin).collect::<Vec<_>>().join(", ")
        }
        Payload::AgentRevised(revised) => match &revised.refused {
            None => format!("to {} {}", cut(&revised.agent, TEXT_CHARS), revised.definition),
            Some(why) => format!("refused: {}", cut(why, TEXT_CHARS)),
        },
        Payload::ExtensionRecorded(record) => {
            format!("{} {}: {}", cut(&record.plugin, TEXT_CHARS), cut(&record.kind, TEXT_CHARS), body(&record.body))
        }
        Payload::ConversationClosed(closed) => text(closed.reason.as_deref()),
        Payload::ConversationReopened(reopened) => text(reopened.reason.as_deref()),
        Payload::TaskCompleted(completed) => body(&completed.answer),
        Payload::TaskFailed(failed) => failure(&Failure { detail: failed.detail.clone(), reason: failed.reason }),
        Payload::TaskCancelled(cancelled) => text(cancelled.reason.as_deref()),
    }
}

/// The beginning of a text, or its size when it is kept elsewhere.
fn body(body: &Body) -> String {
    match body {
        Body::Inline(text) => cut(text, TEXT_CHARS),
        Body::Ref(_) => size(body),
    }
}

fn size(body: &Body) -> String {
    format!("({} bytes)", body.len())
}

fn text(text: Option<&str>) -> String {
    cut(text.unwrap_or_default(), TEXT_CHARS)
}

/// Named only when it is not the first.
fn attempt(attempt: u32) -> String {
    if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() }
}

fn appended(messages: &MessagesAppended) -> String {
    let message = |message: &plica_kernel::event::Message| {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        };
        // The texts alone, when the blocks are at hand.
        let blocks = message.blocks.inline().and_then(|text| plica_kernel::message::read_blocks(text).ok());
        match blocks {
            Some(blocks) => format!("{role}: {}", cut(&shown(&blocks), TEXT_CHARS)),
            None => format!("{role}: {}", size(&message.blocks)),
        }
    };
    messages.messages.iter().map(message).collect::<Vec<_>>().join("; ")
}

fn shown(blocks: &[plica_kernel::message::Block]) -> String {
    use plica_kernel::message::Block;
    let block = |block: &Block| match block {
        Block::Text { text } => text.clone(),
        Block::ToolUse { tool, .. } => format!("-> {tool}"),
        Block::Thinking { .. } => "(thinking)".to_owned(),
    };
    blocks.iter().map(block).collect::<Vec<_>>().join(" ")
}

fn request(finished: &LLMRequestFinished) -> String {
    let status = match finished.status {
        RequestStatus::Ok => "ok",
        RequestStatus::Error => "error",
        RequestStatus::Interrupted => "interrupted",
        RequestStatus::Cancelled => "cancelled",
    };
    match &finished.error {
        Some(error) => format!("{status}, {}: {}", cut(&error.kind, TEXT_CHARS), cut(&error.message, TEXT_CHARS)),
        None => format!(
            "{status} in {} ms, {} tokens in, {} out",
            finished.elapsed_ms,
            finished.usage.input(),
            finished.usage.output
        ),
    }
}

fn decided(decision: &DecisionRecorded) -> String {
    match decision.kind {
        DecisionKind::Calls => {
            // With the rule that decided on it, which is what people look for here.
            let name = |call: &CallEntry| match &call.rule {
                Some(rule) => format!("{} ({})", cut(&call.tool, TEXT_CHARS), cut(rule, TEXT_CHARS)),
                None => cut(&call.tool, TEXT_CHARS),
            };
            let mut names: Vec<String> = decision.calls.iter().map(name).collect();
            if decision.over > 0 {
                names.push(format!("{} too many", decision.over));
            }
            format!("calls {}", names.join(", "))
        }
        DecisionKind::Finish => "finish".to_owned(),
        DecisionKind::Truncated => "truncated".to_owned(),
        DecisionKind::Empty => "empty".to_owned(),
    }
}

fn patch(patched: &TaskStatePatched) -> String {
    let patch = &patched.patch;
    let members = [
        (!patch.add_notes.is_empty(), "notes"),
        (patch.goal.is_some(), "goal"),
        (patch.next_action.is_some(), "next action"),
        (patch.phase.is_some(), "phase"),
        (patch.todos.is_some(), "todos"),
    ];
    members.into_iter().filter_map(|(set, name)| set.then_some(name)).collect::<Vec<_>>().join(", ")
}

fn call_status(status: CallStatus) -> &'static str {
    match status {
        CallStatus::Ok => "ok",
        CallStatus::Error => "error",
        CallStatus::Interrupted => "interrupted",
        CallStatus::Unknown => "unknown",
        CallStatus::Recovered => "recovered",
        CallStatus::Cancelled => "cancelled",
    }
}

fn child_status(status: SubtaskStatus) -> &'static str {
    match status {
        SubtaskStatus::Completed => "completed",
        SubtaskStatus::Failed => "failed",
        SubtaskStatus::Cancelled => "cancelled",
    }
}

fn approval(resolved: &ApprovalResolved) -> String {
    let verdict = match resolved.verdict {
        ApprovalVerdict::Approve => "approved",
        ApprovalVerdict::Deny => "denied",
        ApprovalVerdict::Expire => "expired",
    };
    match &resolved.reason {
        Some(reason) => format!("{} {verdict}: {}", resolved.call, body(reason)),
        None => format!("{} {verdict}", resolved.call),
    }
}

fn suspension(suspended: &TaskSuspended) -> String {
    let reason = match suspended.reason {
        SuspendReason::Message => "waits for a message",
        SuspendReason::Calls => "waits for its calls",
        SuspendReason::Budget => "the budget is spent, waits for a ruling",
        SuspendReason::Failed => "turn failed, waits for a message",
        SuspendReason::Interrupted => "interrupted, waits for a message",
        SuspendReason::Rewound => "rewound, waits for a message",
        SuspendReason::Parked => "parked, waits for a person",
    };
    let wake = match suspended.reason {
        SuspendReason::Calls | SuspendReason::Budget => waits_for(&suspended.wake),
        _ => String::new(),
    };
    match &suspended.failure {
        Some(why) => format!("{reason}{wake}: {}", failure(why)),
        None => format!("{reason}{wake}"),
    }
}

fn waits_for(wake: &Wake) -> String {
    let mut parts: Vec<String> = wake
        .any
        .iter()
        .map(|alternative| match alternative.need {
            1 => cut(&alternative.key.to_string(), TEXT_CHARS),
            need => format!("{need} x {}", cut(&alternative.key.to_string(), TEXT_CHARS)),
        })
        .collect();
    parts.extend(wake.at.map(|at| at.to_string()));
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(" or ")) }
}

fn woken_by(item: &Woken) -> String {
    let kind = cut(&item.kind, TEXT_CHARS);
    match (&item.key, item.due) {
        (Some(key), _) if key.to_string() != item.kind => format!("{kind} ({})", cut(&key.to_string(), TEXT_CHARS)),
        (_, Some(due)) => format!("{kind} ({due})"),
        _ => kind,
    }
}

fn failure(failure: &Failure) -> String {
    match &failure.detail {
        Some(detail) => format!("{}: {}", failure.reason, cut(detail, TEXT_CHARS)),
        None => failure.reason.to_string(),
    }
}
