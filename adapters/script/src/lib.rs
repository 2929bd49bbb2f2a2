//! A scripted model: its replies come from a JSON file and are chosen by the conversation
//! alone.
//!
//! It makes an agent's run repeatable to the byte, on any worker and after any crash, which
//! is what tests, demonstrations and simulations need. It never keeps anything between two
//! requests: a task that another worker carries on gets the reply that comes next. First type
//! to read: [`ScriptModel`].

mod parse;

use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::event::Usage;
use plica_kernel::message::Block;
use plica_ports::{Delta, DeltaSink, Model, ModelError, ModelErrorKind, ModelRequest, Reply, StopReason};

pub use parse::ScriptError;

/// What a reply's record says when text of it was no Unicode and had to be replaced (EV-6).
const REPLACED_NOTE: &str = "text that is not valid Unicode was replaced with U+FFFD";

/// A model that answers from a script.
///
/// The reply is chosen by how many assistant messages the conversation's live path holds,
/// so whoever asks for the same conversation gets the same reply.
#[derive(Debug, Clone)]
pub struct ScriptModel {
    replies: Vec<Scripted>,
}

/// One reply of the script.
#[derive(Debug, Clone)]
struct Scripted {
    blocks: Vec<Block>,
    usage: Usage,
    stop: StopReason,
    delay: Duration,
    error: Option<ScriptedError>,
    /// Whether text of it was no Unicode (EV-6).
    replaced: bool,
}

/// A failure that the first try of a reply meets.
#[derive(Debug, Clone, Copy)]
struct ScriptedError {
    status: u16,
    kind: ModelErrorKind,
    retry_after: Option<Duration>,
}

impl ScriptModel {
    /// Reads a script: `{"replies":[{"text", "calls":[{"tool", "args", "id"}], "usage",
    /// "stop", "delay_ms", "error":{"status", "retry_after_ms"}}]}`, every member of a reply
    /// optional.
    ///
    /// * **EV-5** `args` is kept as the very text that stands in the file.
    /// * **EV-6** A lone surrogate or a broken UTF-8 sequence in a text becomes U+FFFD, and
    ///   the reply's record says so.
    ///
    /// # Errors
    /// [`ScriptError`]: what is wrong and in which reply. An unknown key is an error.
    pub fn parse(bytes: &[u8]) -> Result<Self, ScriptError> {
        Ok(Self { replies: parse::replies(bytes)? })
    }
}

#[async_trait]
impl Model for ScriptModel {
    /// * **MO-1** The text goes out as deltas, then the whole reply is returned.
    /// * **MO-2** The reply depends on `assistant_messages` and `attempt` and nothing else.
    /// * **MO-3** A scripted error is given on attempt 1 only, so the engine's next try gets
    ///   the reply. Asking past the last reply is `Invalid`: trying again cannot help.
    async fn ask(&self, request: &ModelRequest, deltas: &dyn DeltaSink) -> Result<Reply, ModelError> {
        let reply = usize::try_from(request.assistant_messages)
            .ok()
            .and_then(|index| self.replies.get(index))
            .ok_or_else(|| self.ran_out(request.assistant_messages))?;
        // Dropping the future drops the wait with it, which is how a request is cancelled.
        tokio::time::sleep(reply.delay).await;
        if let Some(error) = reply.error.filter(|_| request.attempt <= 1) {
            return Err(ModelError {
                kind: error.kind,
                message: format!("the script answers request {} with status {}", ordinal(request), error.status),
                retry_after: error.retry_after,
            });
        }
        for block in &reply.blocks {
            if let Block::Text { text } = block {
                // A word at a time, as a provider would, so a terminal shows progress.
                text.split_inclusive(' ').for_each(|word| deltas.delta(Delta::Text(word.to_owned())));
            }
        }
        Ok(Reply {
            blocks: reply.blocks.clone(),
            usage: reply.usage,
            cost_nano_usd: None,
            stop: reply.stop.clone(),
            extra: reply.replaced.then(|| REPLACED_NOTE.to_owned()),
        })
    }
}

impl ScriptModel {
    fn ran_out(&self, asked: u64) -> ModelError {
        let count = self.replies.len();
        let replies = if count == 1 { "reply" } else { "replies" };
        ModelError {
            kind: ModelErrorKind::Invalid,
            message: format!(
                "the script has {count} {replies} and reply {} is asked for; add the missing replies to the script \
                 and submit again",
                asked.saturating_add(1)
            ),
            retry_after: None,
        }
    }
}

/// Which request of the conversation it is, from 1.
fn ordinal(request: &ModelRequest) -> u64 {
    request.assistant_messages.saturating_add(1)
}

#[cfg(test)]
mod tests;
