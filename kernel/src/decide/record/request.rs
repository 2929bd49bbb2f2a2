//! Requests: composed, started, answered, refused, cut off.

use alloc::{string::String, vec, vec::Vec};

use super::plugins::{Aside, pin, put_aside};
use super::{CallPlan, Composer, WORD_BYTES_MAX, begin_calls};
use crate::body::{Body, MEDIA_JSON};
use crate::canonical::to_vec;
use crate::decide::draft::{Draft, RecordError, clip};
use crate::envelope::Origin;
use crate::event::{
    AssistantThinkingRecorded, CallEntry, ContextPlanComposed, DecisionKind, DecisionRecorded, LLMRequestFinished,
    LLMRequestStarted, LLMRetryScheduled, Message, MessagesAppended, ModelFailure, PluginPin, RequestStatus, Role,
    TaskStatePatch, TaskStatePatched, Usage,
};
use crate::id::{CallId, Seq};
use crate::limits::{CALLS_MAX, DETAIL_BYTES_MAX, EMPTY_REPLIES_MAX, MODEL_TRIES_MAX, PAYLOAD_BYTES_MAX};
use crate::message::{Block, blocks_body};
use crate::state::Phase;
use crate::time::Timestamp;

/// A reply and what was ruled on it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What guards returned beside their rulings on the calls.
    pub aside: Aside,
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

/// Composes a request and starts it.
pub(in crate::decide) fn compose(
    draft: &mut Draft,
    composer: &Composer,
    pins: &[PluginPin],
) -> Result<(), RecordError> {
    pin(draft, pins)?;
    let plan = ContextPlanComposed {
        composer: clip(&composer.version, WORD_BYTES_MAX),
        definition: draft.task().definition().clone(),
        refs: Vec::new(),
        through: draft.task().head().seq,
    };
    draft.push("engine", Origin::Engine, None, plan)?;
    start_request(draft, composer, pins)
}

/// Starts the composed request, or starts it again.
pub(in crate::decide) fn start_request(
    draft: &mut Draft,
    composer: &Composer,
    pins: &[PluginPin],
) -> Result<(), RecordError> {
    pin(draft, pins)?;
    let Phase::Request(request) = &draft.task().runtime().phase else {
        return Err(draft.misplaced("no request is composed"));
    };
    let (plan, attempt) = (request.plan, request.attempts + 1);
    let started = LLMRequestStarted { attempt, model: clip(&composer.model, 256) };
    draft.push("llm", Origin::Llm, Some(plan), started).map(|_| ())
}

fn finished(status: RequestStatus, elapsed_ms: u64) -> LLMRequestFinished {
    LLMRequestFinished {
        cost_nano_usd: None,
        elapsed_ms,
        error: None,
        extra: None,
        reply: None,
        status,
        stop: None,
        usage: Usage::default(),
    }
}

/// Records that the request begun at `action` ended without an answer.
///
/// # Errors
/// When the request is not open.
pub fn close_request(draft: &mut Draft, action: Seq, status: RequestStatus) -> Result<(), RecordError> {
    draft.push("engine", Origin::Llm, Some(action), finished(status, 0)).map(|_| ())
}

/// Records that the request begun at `action` failed, and when it is to be tried again.
///
/// # Errors
/// When the request is not open, or something does not fit.
pub fn refusal(draft: &mut Draft, action: Seq, refusal: Refusal) -> Result<(), RecordError> {
    let error =
        ModelFailure { kind: clip(&refusal.kind, WORD_BYTES_MAX), message: clip(&refusal.message, DETAIL_BYTES_MAX) };
    let finished = LLMRequestFinished { error: Some(error), ..finished(RequestStatus::Error, refusal.elapsed_ms) };
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

/// Records a reply: the request's end, the assistant's message, the decision on it, and what
/// each call comes to.
///
/// # Errors
/// When the request at `action` is not open, or something does not fit.
pub fn reply(draft: &mut Draft, action: Seq, answer: Answer) -> Result<(), RecordError> {
    let blocks = blocks_body(&answer.blocks, draft.blobs())?;
    let extra = answer.extra.as_deref().map(|text| Body::of(text, MEDIA_JSON, draft.blobs()));
    let finished = LLMRequestFinished {
        cost_nano_usd: answer.cost_nano_usd,
        extra,
        reply: blocks.reference().cloned(),
        stop: Some(clip(&answer.stop, WORD_BYTES_MAX)),
        usage: answer.usage,
        ..finished(RequestStatus::Ok, answer.elapsed_ms)
    };
    draft.push("llm", Origin::Llm, Some(action), finished)?;
    record_thinking(draft, &answer.blocks)?;
    let messages = vec![Message { blocks, origin: None, role: Role::Assistant }];
    draft.push("llm", Origin::Llm, None, MessagesAppended { jobs: Vec::new(), messages })?;
    let decision = decide(draft, &answer)?;
    if let Some((policy, patch)) = answer.patch {
        let actor = alloc::format!("policy:{policy}");
        draft.push(&actor, Origin::Engine, None, TaskStatePatched { call: None, patch })?;
    }
    begin_calls(draft, decision, answer.calls)?;
    put_aside(draft, Origin::Engine, answer.aside)
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
    let now = draft.stamp().now;
    let mut decision = DecisionRecorded {
        answer: body,
        calls: answer.calls.iter().map(|call| call.entry(now)).collect::<Vec<CallEntry>>(),
        kind,
        over: u32::try_from(asked - answer.calls.len()).unwrap_or(u32::MAX),
    };
    if to_vec(&decision)?.len() > PAYLOAD_BYTES_MAX {
        // Thirty-two long names with long rules and waits do not fit; the names have to.
        decision.calls.iter_mut().for_each(|call| call.rule = None);
    }
    draft.push("policy:react", Origin::Engine, None, decision)
}
