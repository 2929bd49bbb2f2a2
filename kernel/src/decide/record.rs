//! How each outcome is recorded: state and outcome in, events out.

use alloc::{string::String, vec, vec::Vec};

use super::draft::{Draft, RecordError, clip};
use crate::body::{Blob, Body, ContentRef};
use crate::envelope::Origin;
use crate::event::{
    AssistantThinkingRecorded, CallEntry, CallStatus, ContextPlanComposed, DecisionKind, DecisionRecorded,
    ExtensionRecorded, Failure, FailureReason, LLMRequestFinished, LLMRequestStarted, LLMRetryScheduled, Message,
    MessageOrigin, MessagesAppended, ModelFailure, RequestStatus, Role, SuspendReason, TaskCancelled, TaskCompleted,
    TaskFailed, TaskStatePatch, TaskStatePatched, TaskSuspended, TaskWoken, ToolCallDenied, ToolCallFinished,
    ToolCallStarted, Usage,
};
use crate::id::{CallId, Position, Seq};
use crate::ledger::call_allowed_by;
use crate::limits::{
    CALLS_MAX, DETAIL_BYTES_MAX, EMPTY_REPLIES_MAX, INTERNAL_ERRORS_MAX, MODEL_TRIES_MAX, SNAPSHOT_EVENTS_MIN,
};
use crate::message::{Block, blocks_body};
use crate::state::{ActionKind, OpenAction, Phase};
use crate::time::Timestamp;
use crate::wake::{InboxItem, Item, Wake, WakeKey, Woken};

/// Bytes of a tool's name in a decision: 32 entries have to fit a payload.
const TOOL_BYTES_MAX: usize = 66;
/// Bytes of a rule in a decision.
const RULE_BYTES_MAX: usize = 34;
/// Bytes of short words that others choose, such as a provider's stop reason.
const WORD_BYTES_MAX: usize = 66;

/// What composes requests, as the plan names it.
#[derive(Debug, Clone)]
pub struct Composer {
    /// The composer and its version.
    pub version: String,
    /// The model, as the definition names it.
    pub model: String,
}

/// A reply and what was ruled on it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Text, thinking and calls, in order.
    pub blocks: Vec<Block>,
    /// What each call is to come to, in order; those beyond the 32nd are left out.
    pub calls: Vec<CallPlan>,
    /// Price in nano-USD, if known.
    pub cost_nano_usd: Option<u64>,
    /// Milliseconds that the request took.
    pub elapsed_ms: u64,
    /// What the adapter does not understand of the reply, as text.
    pub extra: Option<String>,
    /// What a policy changes of the task's own state, and its name.
    pub patch: Option<(String, TaskStatePatch)>,
    /// Why the model stopped, as recorded.
    pub stop: String,
    /// Whether it stopped at its output limit.
    pub truncated: bool,
    /// Tokens used.
    pub usage: Usage,
}

/// What a call that the model asks for comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPlan {
    /// It runs at once.
    Start {
        /// The arguments that run, as JSON text.
        args: String,
        /// The rule that lets it run.
        rule: Option<String>,
        /// The tool.
        tool: String,
    },
    /// It does not run; the model is told why.
    Deny {
        /// What the model is told.
        reason: String,
        /// The tool that was named.
        tool: String,
    },
}

impl CallPlan {
    fn entry(&self) -> CallEntry {
        match self {
            Self::Start { rule, tool, .. } => CallEntry {
                rule: rule.as_ref().map(|rule| clip(rule, RULE_BYTES_MAX)),
                tool: clip(tool, TOOL_BYTES_MAX),
            },
            Self::Deny { tool, .. } => CallEntry { rule: None, tool: clip(tool, TOOL_BYTES_MAX) },
        }
    }
}

/// A request that failed.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Milliseconds that the request took.
    pub elapsed_ms: u64,
    /// The kind of failure, as recorded.
    pub kind: String,
    /// The provider's words.
    pub message: String,
    /// When to try again; `None` when trying again cannot help.
    pub retry_at: Option<Timestamp>,
}

/// How a started call ended.
#[derive(Debug, Clone)]
pub struct CallOutcome {
    /// Bodies that belong to it.
    pub blobs: Vec<Blob>,
    /// Milliseconds that it took.
    pub elapsed_ms: u64,
    /// What the model is told.
    pub output: String,
    /// Records of plugins: plugin, kind, body (EN-9).
    pub records: Vec<(String, String, String)>,
    /// How it ended.
    pub status: CallStatus,
    /// The whole output, when the model is told only a part; its bytes are among the blobs.
    pub whole: Option<ContentRef>,
}

/// Appends a message.
pub(super) fn say(
    draft: &mut Draft,
    actor: &str,
    role: Role,
    origin: Option<MessageOrigin>,
    text: &str,
) -> Result<(), RecordError> {
    let blocks = blocks_body(&[Block::Text { text: text.into() }], draft.blobs())?;
    let messages = vec![Message { blocks, origin, role }];
    draft.push(actor, Origin::System, None, MessagesAppended { messages }).map(|_| ())
}

/// Takes the untaken messages into the conversation, each an event of its own, so that its
/// sender is the event's actor.
pub(super) fn join(draft: &mut Draft, items: &[InboxItem]) -> Result<(), RecordError> {
    for item in items {
        if let Item::Message { text } = &item.item {
            say(draft, &item.actor, Role::User, Some(MessageOrigin::Human), text)?;
            draft.consume(item.position);
        }
    }
    Ok(())
}

/// Composes a request and starts it.
pub(super) fn compose(draft: &mut Draft, composer: &Composer) -> Result<(), RecordError> {
    let plan = ContextPlanComposed {
        composer: clip(&composer.version, WORD_BYTES_MAX),
        definition: draft.task().definition().clone(),
        refs: Vec::new(),
        through: draft.task().head().seq,
    };
    draft.push("engine", Origin::Engine, None, plan)?;
    start_request(draft, composer)
}

/// Starts the composed request, or starts it again.
pub(super) fn start_request(draft: &mut Draft, composer: &Composer) -> Result<(), RecordError> {
    let Phase::Request(request) = &draft.task().runtime().phase else {
        return Err(draft.misplaced("no request is composed"));
    };
    let (plan, attempt) = (request.plan, request.attempts + 1);
    let started = LLMRequestStarted { attempt, model: clip(&composer.model, 256) };
    draft.push("llm", Origin::Llm, Some(plan), started).map(|_| ())
}

/// Records that the request begun at `action` ended without an answer.
///
/// # Errors
/// When the request is not open.
pub fn close_request(draft: &mut Draft, action: Seq, status: RequestStatus) -> Result<(), RecordError> {
    let finished = LLMRequestFinished {
        cost_nano_usd: None,
        elapsed_ms: 0,
        error: None,
        extra: None,
        reply: None,
        status,
        stop: None,
        usage: Usage::default(),
    };
    draft.push("engine", Origin::Llm, Some(action), finished).map(|_| ())
}

/// Records a reply: the request's end, the assistant's message, the decision on it, and the
/// start or refusal of each call.
///
/// # Errors
/// When the request at `action` is not open, or something does not fit.
pub fn reply(draft: &mut Draft, action: Seq, answer: Answer) -> Result<(), RecordError> {
    let blocks = blocks_body(&answer.blocks, draft.blobs())?;
    let extra = answer.extra.as_deref().map(|text| Body::of(text, crate::body::MEDIA_JSON, draft.blobs()));
    let finished = LLMRequestFinished {
        cost_nano_usd: answer.cost_nano_usd,
        elapsed_ms: answer.elapsed_ms,
        error: None,
        extra,
        reply: blocks.reference().cloned(),
        status: RequestStatus::Ok,
        stop: Some(clip(&answer.stop, WORD_BYTES_MAX)),
        usage: answer.usage,
    };
    draft.push("llm", Origin::Llm, Some(action), finished)?;
    record_thinking(draft, &answer.blocks)?;
    let messages = vec![Message { blocks, origin: None, role: Role::Assistant }];
    draft.push("llm", Origin::Llm, None, MessagesAppended { messages })?;
    let decision = decide(draft, &answer)?;
    if let Some((policy, patch)) = answer.patch {
        let actor = alloc::format!("policy:{policy}");
        draft.push(&actor, Origin::Engine, None, TaskStatePatched { call: None, patch })?;
    }
    for (index, plan) in answer.calls.iter().take(CALLS_MAX).enumerate() {
        begin_call(draft, CallId { decision, index: index as u32 }, plan)?;
    }
    Ok(())
}

fn record_thinking(draft: &mut Draft, blocks: &[Block]) -> Result<(), RecordError> {
    let thinking: Vec<Block> = blocks.iter().filter(|block| matches!(block, Block::Thinking { .. })).cloned().collect();
    if thinking.is_empty() {
        return Ok(());
    }
    // The decision that lists the calls follows the message, which follows this event.
    let decision = Seq(draft.task().head().seq.0 + 3);
    let calls = blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
    let call = calls.then_some(CallId { decision, index: 0 });
    let blocks = blocks_body(&thinking, draft.blobs())?;
    draft.push("llm", Origin::Llm, None, AssistantThinkingRecorded { blocks, call }).map(|_| ())
}

/// What the reply asks for: calls, the end of the turn, or to be asked again.
fn decide(draft: &mut Draft, answer: &Answer) -> Result<Seq, RecordError> {
    let mut text = String::new();
    for block in &answer.blocks {
        if let Block::Text { text: part } = block {
            text.push_str(part);
        }
    }
    let asked = answer.blocks.iter().filter(|block| matches!(block, Block::ToolUse { .. })).count();
    if answer.calls.len() != asked.min(CALLS_MAX) {
        return Err(draft.misplaced("every call up to the 32nd is ruled on"));
    }
    let kind = if asked > 0 {
        DecisionKind::Calls
    } else if answer.truncated {
        DecisionKind::Truncated
    } else if text.is_empty() && draft.task().runtime().empty_replies + 1 < EMPTY_REPLIES_MAX {
        DecisionKind::Empty
    } else {
        DecisionKind::Finish
    };
    let body = (kind == DecisionKind::Finish).then(|| Body::text(&text, draft.blobs()));
    let decision = DecisionRecorded {
        answer: body,
        calls: answer.calls.iter().map(CallPlan::entry).collect(),
        kind,
        over: (asked - answer.calls.len()) as u32,
    };
    draft.push("policy:react", Origin::Engine, None, decision)
}

fn begin_call(draft: &mut Draft, call: CallId, plan: &CallPlan) -> Result<(), RecordError> {
    match plan {
        CallPlan::Start { args, tool, .. } => start_call(draft, call, &clip(tool, TOOL_BYTES_MAX), 1, args),
        CallPlan::Deny { reason, tool } => {
            let reason = Body::text(reason, draft.blobs());
            let tool = clip(tool, TOOL_BYTES_MAX);
            draft.push("guard", Origin::Engine, None, ToolCallDenied { call, reason, tool }).map(|_| ())
        }
    }
}

fn start_call(draft: &mut Draft, call: CallId, tool: &str, attempt: u32, args: &str) -> Result<(), RecordError> {
    let args = Body::of(args, crate::body::MEDIA_JSON, draft.blobs());
    start_call_with(draft, call, tool, attempt, args)
}

/// Starts a call whose arguments are on record already.
pub(super) fn start_call_with(
    draft: &mut Draft,
    call: CallId,
    tool: &str,
    attempt: u32,
    args: Body,
) -> Result<(), RecordError> {
    let allowed =
        call_allowed_by(draft.task().governance(), call).ok_or_else(|| draft.misplaced("nothing allows the call"))?;
    let actor = alloc::format!("tool:{tool}");
    let started = ToolCallStarted { args, attempt, call, tool: tool.into() };
    draft.push(&actor, Origin::Tool, Some(allowed), started).map(|_| ())
}

/// Records that the request begun at `action` failed, and when it is to be tried again.
///
/// # Errors
/// When the request is not open, or something does not fit.
pub fn refusal(draft: &mut Draft, action: Seq, refusal: Refusal) -> Result<(), RecordError> {
    let finished = LLMRequestFinished {
        cost_nano_usd: None,
        elapsed_ms: refusal.elapsed_ms,
        error: Some(ModelFailure {
            kind: clip(&refusal.kind, WORD_BYTES_MAX),
            message: clip(&refusal.message, DETAIL_BYTES_MAX),
        }),
        extra: None,
        reply: None,
        status: RequestStatus::Error,
        stop: None,
        usage: Usage::default(),
    };
    draft.push("llm", Origin::Llm, Some(action), finished)?;
    let Phase::Request(request) = &draft.task().runtime().phase else {
        return Err(draft.misplaced("no request is composed"));
    };
    let attempt = request.attempts + 1;
    match refusal.retry_at {
        Some(due) if request.errors + 1 < MODEL_TRIES_MAX => {
            draft.push("engine", Origin::Engine, None, LLMRetryScheduled { attempt, due }).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// Records how the call begun at `action` ended, with the records that its tool returned.
///
/// # Errors
/// When the call is not open, or something does not fit.
pub fn call_outcome(draft: &mut Draft, action: Seq, outcome: CallOutcome) -> Result<(), RecordError> {
    finish_call(draft, action, outcome, false)
}

pub(super) fn finish_call(
    draft: &mut Draft,
    action: Seq,
    outcome: CallOutcome,
    again: bool,
) -> Result<(), RecordError> {
    let Some(OpenAction { what: ActionKind::Call(call), .. }) = draft.task().governance().action(action) else {
        return Err(draft.misplaced("no such call is open"));
    };
    let call = *call;
    draft.keep(outcome.blobs);
    let output = Body::text(&outcome.output, draft.blobs());
    let round = draft.task().runtime().round.as_ref();
    let tool = round.and_then(|round| round.calls.get(call.index as usize)).map_or("", |call| call.tool.as_str());
    let actor = alloc::format!("tool:{tool}");
    let finished = ToolCallFinished {
        again,
        call,
        elapsed_ms: outcome.elapsed_ms,
        output,
        status: outcome.status,
        whole: outcome.whole,
    };
    draft.push(&actor, Origin::Tool, Some(action), finished)?;
    for (plugin, kind, body) in outcome.records {
        let body = Body::text(&body, draft.blobs());
        let record =
            ExtensionRecorded { body, kind: clip(&kind, WORD_BYTES_MAX), plugin: clip(&plugin, WORD_BYTES_MAX) };
        let actor = alloc::format!("plugin:{}", record.plugin);
        draft.push(&actor, Origin::Tool, None, record)?;
    }
    Ok(())
}

/// Wakes a waiting task; what woke it is recorded by the moves that follow in the same append.
pub(super) fn wake(draft: &mut Draft, woken: Woken) -> Result<(), RecordError> {
    draft.push("engine", Origin::Engine, None, TaskWoken { item: woken }).map(|_| ())
}

/// Gives every open action its outcome, so that nothing outlives the turn (CA-4, EN-6).
pub(super) fn close_open(
    draft: &mut Draft,
    request: RequestStatus,
    call: CallStatus,
    told: &str,
) -> Result<(), RecordError> {
    for open in draft.task().governance().actions.clone() {
        match open.what {
            ActionKind::Model => close_request(draft, open.seq, request)?,
            ActionKind::Call(_) => finish_call(draft, open.seq, ended(call, told), false)?,
            ActionKind::Child(_) => return Err(draft.misplaced("a child is open")),
        }
    }
    Ok(())
}

/// An outcome that is nothing but a status and a sentence.
pub(super) fn ended(status: CallStatus, told: &str) -> CallOutcome {
    CallOutcome { blobs: Vec::new(), elapsed_ms: 0, output: told.into(), records: Vec::new(), status, whole: None }
}

/// Ends the task: a cancel came. What a person said before is on record all the same, since
/// no later append will take it.
pub(super) fn cancel(draft: &mut Draft, position: Position, items: &[InboxItem]) -> Result<(), RecordError> {
    let item = items.iter().find(|item| item.position == position).ok_or_else(|| draft.misplaced("no such item"))?;
    let Item::Cancel { reason } = &item.item else { return Err(draft.misplaced("the item is no cancel")) };
    close_open(
        draft,
        RequestStatus::Cancelled,
        CallStatus::Cancelled,
        "cancelled: the task was cancelled while the call ran",
    )?;
    join(draft, items)?;
    snapshot_if_due(draft)?;
    let reason = reason.as_ref().map(|reason| clip(reason, DETAIL_BYTES_MAX));
    draft.push(&item.actor, Origin::System, None, TaskCancelled { reason })?;
    draft.consume(position);
    Ok(())
}

/// Ends the turn with the answer that was decided: an interactive task waits for its next
/// message, any other is done.
pub(super) fn finish(draft: &mut Draft) -> Result<(), RecordError> {
    let Phase::Finish(answer) = &draft.task().runtime().phase else {
        return Err(draft.misplaced("no answer was decided"));
    };
    let answer = answer.clone();
    snapshot_if_due(draft)?;
    if draft.task().is_interactive() {
        let suspended = TaskSuspended {
            answer: Some(answer),
            failure: None,
            reason: SuspendReason::Message,
            wake: Wake::on(WakeKey::Message),
        };
        return draft.push("engine", Origin::Engine, None, suspended).map(|_| ());
    }
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
    close_open(
        draft,
        RequestStatus::Cancelled,
        CallStatus::Cancelled,
        "cancelled: the turn failed while the call ran",
    )?;
    let failure =
        Failure { detail: failure.detail.map(|detail| clip(&detail, DETAIL_BYTES_MAX)), reason: failure.reason };
    if fails_the_task(draft, failure.reason) {
        join(draft, items)?;
        snapshot_if_due(draft)?;
        let failed = TaskFailed { detail: failure.detail, reason: failure.reason };
        return draft.push("engine", Origin::Engine, None, failed).map(|_| ());
    }
    snapshot_if_due(draft)?;
    let suspended = TaskSuspended {
        answer: None,
        failure: Some(failure),
        reason: SuspendReason::Failed,
        wake: Wake::on(WakeKey::Message),
    };
    draft.push("engine", Origin::Engine, None, suspended).map(|_| ())
}

/// A suspend and an end take a snapshot when 16 or more events came since the last (SN-3).
fn snapshot_if_due(draft: &mut Draft) -> Result<(), RecordError> {
    let last = draft.task().governance().snapshot.unwrap_or_default();
    if draft.task().head().seq.0.saturating_sub(last.0) >= SNAPSHOT_EVENTS_MIN { draft.snapshot() } else { Ok(()) }
}
