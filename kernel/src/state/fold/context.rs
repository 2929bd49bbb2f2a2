//! Writes [`ContextState`].

use crate::envelope::Envelope;
use crate::event::Payload;
use crate::state::{ContextState, Thinking};

pub(super) fn apply(state: &mut ContextState, event: &Envelope) {
    match &event.payload {
        Payload::ContextPlanComposed(_) => state.plan = Some(event.seq),
        Payload::AssistantThinkingRecorded(thinking) => {
            state.thinking.push(Thinking { blocks: thinking.blocks.clone(), call: thinking.call });
        }
        _ => {}
    }
}
