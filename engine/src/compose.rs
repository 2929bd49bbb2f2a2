//! From a state to a request: the same state gives the same request on every worker (MO-2).

use std::sync::Arc;

use plica_kernel::body::{Body, ContentRef};
use plica_kernel::event::{Message, Role};
use plica_kernel::id::{CallId, Seq};
use plica_kernel::message::{Block, read_blocks};
use plica_kernel::state::{Entry, Results, Task};
use plica_ports::{ContentError, ContentStore, Definition, ModelRequest, RequestMessage, ToolSpec};

/// The composer and its version, as plans name it.
pub const COMPOSER: &str = "plain.v1";

/// What the model is told between two replies of its own, the first of which was cut.
const CONTINUE: &str = "Your reply was cut off by the output limit. Continue where it ended.";
/// What the model is told of calls beyond the 32 that are listed.
const TOO_MANY: &str = "not run: too many calls in one reply; make at most 32";

/// Why a request cannot be composed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ComposeError {
    /// Content is missing, damaged, or not what was written.
    #[error("{0}")]
    Content(String),
    /// The content store cannot be reached now.
    #[error("{0}")]
    Unavailable(String),
}

impl From<ContentError> for ComposeError {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::Unavailable(_) => Self::Unavailable(error.to_string()),
            ContentError::Missing(_) | ContentError::Corrupt(_) | ContentError::Refused { .. } => {
                Self::Content(error.to_string())
            }
        }
    }
}

/// Composes requests; keeps what it composed of a conversation that only grew since, so that
/// a step composes what is new.
#[derive(Debug, Default)]
pub(crate) struct Composition {
    entries: u64,
    generation: u32,
    messages: Vec<Arc<RequestMessage>>,
    /// The last assistant message, whose calls get their ids from the results that follow.
    pending: Option<Vec<Block>>,
}

impl Composition {
    /// The request that the state calls for.
    pub(crate) async fn request(
        &mut self,
        task: &Task,
        definition: &Definition,
        tools: Vec<ToolSpec>,
        attempt: u32,
        content: &dyn ContentStore,
    ) -> Result<ModelRequest, ComposeError> {
        let generation = task.governance().generation;
        if generation != self.generation {
            *self = Self { generation, ..Self::default() };
        }
        for entry in task.runtime().messages.after(self.entries) {
            self.take(entry, content).await?;
            self.entries += 1;
        }
        let mut messages = self.messages.clone();
        if let Some(blocks) = &self.pending {
            messages.push(Arc::new(RequestMessage::Assistant { blocks: blocks.clone(), calls: Vec::new() }));
            messages.push(Arc::new(RequestMessage::Text { role: Role::User, text: CONTINUE.into() }));
        }
        Ok(ModelRequest {
            task: task.id().clone(),
            model: definition.model.name.clone(),
            instructions: definition.instructions.clone(),
            messages,
            tools,
            attempt,
            assistant_messages: task.runtime().assistant_messages,
        })
    }

    async fn take(&mut self, entry: &Entry, content: &dyn ContentStore) -> Result<(), ComposeError> {
        match entry {
            Entry::Message(message) => self.take_message(message, content).await,
            Entry::Results(results) => self.take_results(results, content).await,
        }
    }

    async fn take_message(&mut self, message: &Message, content: &dyn ContentStore) -> Result<(), ComposeError> {
        let cut = self.flush();
        let blocks = blocks_of(&message.blocks, content).await?;
        if message.role == Role::Assistant {
            if cut {
                self.messages.push(Arc::new(RequestMessage::Text { role: Role::User, text: CONTINUE.into() }));
            }
            // A reply that held nothing is no part of what providers accept.
            self.pending = (!blocks.is_empty()).then_some(blocks);
            return Ok(());
        }
        let text = blocks.into_iter().filter_map(|block| match block {
            Block::Text { text } => Some(text),
            Block::ToolUse { .. } | Block::Thinking { .. } => None,
        });
        self.messages.push(Arc::new(RequestMessage::Text { role: message.role, text: text.collect() }));
        Ok(())
    }

    /// Ends an assistant message that made no calls; says whether there was one.
    fn flush(&mut self) -> bool {
        let Some(blocks) = self.pending.take() else { return false };
        self.messages.push(Arc::new(RequestMessage::Assistant { blocks, calls: Vec::new() }));
        true
    }

    /// Every call that the model made gets exactly one result, in the calls' order (TO-4).
    async fn take_results(&mut self, results: &Results, content: &dyn ContentStore) -> Result<(), ComposeError> {
        let blocks = self.pending.take().unwrap_or_default();
        let mut told = Vec::new();
        for (index, (id, tool)) in calls_of(&blocks).enumerate() {
            let (error, output) = match results.results.get(index) {
                Some(result) => (result.status.is_error(), text_of(&result.output, content).await?),
                None => (true, TOO_MANY.to_owned()),
            };
            let call = call_id(results.decision, index);
            told.push(Arc::new(RequestMessage::ToolResult { call, id, tool, error, output }));
        }
        let calls = (0..told.len()).map(|index| call_id(results.decision, index)).collect();
        self.messages.push(Arc::new(RequestMessage::Assistant { blocks, calls }));
        self.messages.extend(told);
        Ok(())
    }
}

fn call_id(decision: Seq, index: usize) -> CallId {
    CallId { decision, index: u32::try_from(index).unwrap_or(u32::MAX) }
}

/// The provider's id and the tool of each call, in order.
fn calls_of(blocks: &[Block]) -> impl Iterator<Item = (Option<String>, String)> {
    blocks.iter().filter_map(|block| match block {
        Block::ToolUse { id, tool, .. } => Some((id.clone(), tool.clone())),
        Block::Text { .. } | Block::Thinking { .. } => None,
    })
}

/// The whole text of a body.
pub(crate) async fn text_of(body: &Body, content: &dyn ContentStore) -> Result<String, ComposeError> {
    match body {
        Body::Inline(text) => Ok(text.clone()),
        Body::Ref(reference) => text_at(reference, content).await,
    }
}

async fn text_at(reference: &ContentRef, content: &dyn ContentStore) -> Result<String, ComposeError> {
    let bytes = content.get(reference).await?;
    String::from_utf8(bytes).map_err(|_| ComposeError::Content(format!("content {reference} is not text")))
}

/// The blocks of a message's body.
pub(crate) async fn blocks_of(body: &Body, content: &dyn ContentStore) -> Result<Vec<Block>, ComposeError> {
    let text = text_of(body, content).await?;
    read_blocks(&text).map_err(|error| ComposeError::Content(format!("a message's blocks: {error}")))
}
