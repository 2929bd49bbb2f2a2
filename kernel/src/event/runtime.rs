//! Conversation, model requests and tool calls.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::files::FileChange;
use crate::body::{Body, ContentRef};
use crate::id::{CallId, Seq};
use crate::time::Timestamp;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person or program that the agent works for.
    User,
    /// The model.
    Assistant,
    /// The engine, on the agent's behalf.
    System,
}

/// Where a message that is not the model's comes from; set by the engine's path for user
/// messages and nowhere else (FO-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageOrigin {
    /// A person, or a program in a person's place.
    Human,
    /// The engine.
    System,
    /// The agent's memory.
    Memory,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Canonical text of the message's blocks, an array of [`crate::message::Block`].
    pub blocks: Body,
    /// Where it comes from, unless the model said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<MessageOrigin>,
    /// Who speaks.
    pub role: Role,
}

/// Messages joined the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesAppended {
    /// The background jobs whose ends they tell of: the model is told of each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Seq>,
    /// In order.
    pub messages: Vec<Message>,
}

/// A model request began; cites its plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LLMRequestStarted {
    /// The n-th start from the same plan, from 1.
    pub attempt: u32,
    /// The model asked, as the definition names it.
    pub model: String,
}

/// How a model request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestStatus {
    /// The model answered.
    Ok,
    /// The provider or the way to it failed.
    Error,
    /// The worker was gone before an answer was on record.
    Interrupted,
    /// The task was cancelled or the turn interrupted by a person.
    Cancelled,
}

/// Tokens of one round-trip. All are counts that exclude each other, but `reasoning`, which
/// is a part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Output tokens, thinking included.
    #[serde(default)]
    pub output: u64,
    /// Of the output, tokens spent on thinking.
    #[serde(default)]
    pub reasoning: u64,
    /// Input tokens that no cache held.
    #[serde(default)]
    pub uncached: u64,
}

impl Usage {
    /// All input tokens: uncached, cache read and cache write.
    pub const fn input(&self) -> u64 {
        self.uncached.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Whether nothing was counted.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// What a provider said when it failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// `rate_limited`, `overloaded`, `context_overflow`, `invalid`, `auth`, `network`, `timeout`.
    pub kind: String,
    /// The provider's words, cut to what an event holds.
    pub message: String,
}

/// A model request ended; cites the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LLMRequestFinished {
    /// Price of the round-trip in nano-USD, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_nano_usd: Option<u64>,
    /// Milliseconds from start to end on the worker's monotonic clock.
    #[serde(default)]
    pub elapsed_ms: u64,
    /// What went wrong, with status `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ModelFailure>,
    /// What the reply held that this version does not understand, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Body>,
    /// The reply, when the assistant's message is not inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<ContentRef>,
    /// How it ended.
    pub status: RequestStatus,
    /// Why the model stopped: `end`, `calls`, `length`, `refusal`, or the provider's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Tokens used; all zero when the provider did not say.
    pub usage: Usage,
}

/// A failed model request is to be tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LLMRetryScheduled {
    /// The attempt that will follow.
    pub attempt: u32,
    /// Not before this time, by the store's clock.
    pub due: Timestamp,
}

/// A tool call began; cites the decision that allowed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallStarted {
    /// The arguments that run, as JSON text.
    pub args: Body,
    /// The n-th start of this call, from 1.
    pub attempt: u32,
    /// The call.
    pub call: CallId,
    /// Files that it will change and what they hold until then (TO-5), so that a rewind knows of them
    /// even if the call is cut off. What its end says of them counts, if it says anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// The tool.
    pub tool: String,
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallStatus {
    /// It did what it was asked.
    Ok,
    /// It ended and says that it failed.
    Error,
    /// It was stopped, or is started again.
    Interrupted,
    /// It may have happened wholly, partly or not at all.
    Unknown,
    /// A later worker found its result.
    Recovered,
    /// The task ended or was rewound while it ran.
    Cancelled,
}

/// A tool call ended; cites its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallFinished {
    /// Set when the call is started again by the next event, so this outcome is no result.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub again: bool,
    /// The call.
    pub call: CallId,
    /// Milliseconds from start to end on the worker's monotonic clock.
    #[serde(default)]
    pub elapsed_ms: u64,
    /// Files that it changed, as many as fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// Further files that it changed, which cannot be put back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_over: u32,
    /// What the model is told.
    pub output: Body,
    /// How it ended.
    pub status: CallStatus,
    /// The whole of an output that the model is told only a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<ContentRef>,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// A call was never started: refused, of an unknown tool, or with invalid arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallDenied {
    /// The call.
    pub call: CallId,
    /// What the model is told.
    pub reason: Body,
    /// The tool that was named.
    pub tool: String,
}
