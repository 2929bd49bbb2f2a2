//! Writes [`TaskState`]; only typed patches do.

use crate::envelope::Envelope;
use crate::event::Payload;
use crate::state::TaskState;

/// Notes that are kept.
const NOTES_MAX: usize = 32;

pub(super) fn apply(state: &mut TaskState, event: &Envelope) {
    let Payload::TaskStatePatched(patched) = &event.payload else { return };
    let patch = &patched.patch;
    if let Some(goal) = &patch.goal {
        state.goal = goal.clone();
    }
    if patch.phase.is_some() {
        state.phase.clone_from(&patch.phase);
    }
    if patch.next_action.is_some() {
        state.next_action.clone_from(&patch.next_action);
    }
    if patch.todos.is_some() {
        state.todos.clone_from(&patch.todos);
    }
    state.notes.extend(patch.add_notes.iter().cloned());
    let over = state.notes.len().saturating_sub(NOTES_MAX);
    state.notes.drain(..over);
}
