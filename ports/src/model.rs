use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::event::{Role, Usage};
use plica_kernel::id::{CallId, TaskId};

/// One tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON Schema of its arguments, as text.
    pub schema: String,
}

/// One message of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestMessage {
    /// Text from a person or from the engine.
    Text {
        /// User or system.
        role: Role,
        /// What it says.
        text: String,
    },
    /// What the model said before.
    Assistant {
        /// Its blocks, in order. The n-th `ToolUse` among them is call n of `decision`.
        blocks: Vec<plica_kernel::message::Block>,
        /// Our ids of its calls, one for each `ToolUse`.
        calls: Vec<CallId>,
    },
    /// The result of one call; every call of the assistant message before has exactly one, in
    /// the calls' order (TO-4).
    ToolResult {
        /// The call.
        call: CallId,
        /// The provider's own id of the call, if it gave one.
        id: Option<String>,
        /// The tool.
        tool: String,
        /// Whether it failed.
        error: bool,
        /// What the tool said.
        output: String,
    },
}

/// A request in neutral form. The same log yields the same request on every worker (MO-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    /// The task, for the provider's logs and for models that are told nothing else.
    pub task: TaskId,
    /// The model, as the definition names it, without its provider.
    pub model: String,
    /// The agent's instructions.
    pub instructions: String,
    /// The conversation; entries are shared between the requests of one task.
    pub messages: Vec<std::sync::Arc<RequestMessage>>,
    /// The tools it may call.
    pub tools: Vec<ToolSpec>,
    /// The n-th start from the same plan, from 1.
    pub attempt: u32,
    /// Assistant messages on the conversation's live path so far; compaction does not lower it.
    pub assistant_messages: u64,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// It was done.
    End,
    /// It wants calls made.
    Calls,
    /// It reached its output limit.
    Length,
    /// The provider's own word for anything else.
    Other(String),
}

impl StopReason {
    /// The word as recorded.
    pub fn name(&self) -> &str {
        match self {
            Self::End => "end",
            Self::Calls => "calls",
            Self::Length => "length",
            Self::Other(word) => word,
        }
    }
}

/// A complete reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Text, thinking and calls, in order.
    pub blocks: Vec<plica_kernel::message::Block>,
    /// Tokens used.
    pub usage: Usage,
    /// Its price in nano-USD, if known.
    pub cost_nano_usd: Option<u64>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What the adapter does not understand of it, as text, kept for the record (MO-4).
    pub extra: Option<String>,
}

/// A piece of a reply as it comes; shown to people and never recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Thinking.
    Thinking(String),
}

/// Where deltas go.
pub trait DeltaSink: Send + Sync {
    /// Takes one; must not block.
    fn delta(&self, delta: Delta);
}

/// What kind of failure it was, and so whether trying again may help (MO-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// Too many requests.
    RateLimited,
    /// The provider is overloaded or failed inside.
    Overloaded,
    /// The conversation no longer fits the model's window.
    ContextOverflow,
    /// The request is wrong.
    Invalid,
    /// The key is missing or refused.
    Auth,
    /// The connection failed or broke off.
    Network,
    /// No answer in time.
    Timeout,
}

impl ModelErrorKind {
    /// Whether the same request may succeed later.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::RateLimited | Self::Overloaded | Self::Network | Self::Timeout => true,
            Self::ContextOverflow | Self::Invalid | Self::Auth => false,
        }
    }

    /// The word as recorded.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::ContextOverflow => "context_overflow",
            Self::Invalid => "invalid",
            Self::Auth => "auth",
            Self::Network => "network",
            Self::Timeout => "timeout",
        }
    }
}

/// A request that failed. The message holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", kind.name())]
pub struct ModelError {
    /// What kind of failure it was.
    pub kind: ModelErrorKind,
    /// The provider's words.
    pub message: String,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
}

/// Something that answers requests.
///
/// * **MO-1** Neutral request in, deltas and then one neutral reply out.
/// * **MO-2** The bytes sent follow from the request alone.
/// * **MO-3** Errors are typed; the adapter does not try again by itself: tries are the
///   engine's, and recorded.
/// * Dropping the future cancels the request.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks and waits for the whole reply.
    async fn ask(&self, request: &ModelRequest, deltas: &dyn DeltaSink) -> Result<Reply, ModelError>;
}
