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

/// A fork's log has seqs of its own: places in the ancestor's log mean nothing in it.
pub(super) fn forget_places(state: &mut ContextState) {
    state.plan = None;
}
