use crate::event::Budget;
use crate::state::GovernanceState;

/// What is left of each cap; `None` where there is no cap (EN-4).
pub fn remaining(state: &GovernanceState) -> Budget {
    let spent = state.spent();
    let left = |cap: Option<u64>, spent: u64| cap.map(|cap| cap.saturating_sub(spent));
    Budget {
        nano_usd: left(state.budget.nano_usd, spent.nano_usd),
        steps: left(state.budget.steps, spent.steps),
        tokens: left(state.budget.tokens, spent.tokens),
        wall_ms: left(state.budget.wall_ms, spent.wall_ms),
    }
}

/// The cap that forbids another model request, in words; `None` while there is room.
pub fn exhausted(state: &GovernanceState) -> Option<&'static str> {
    let left = remaining(state);
    [
        (left.steps, "the budget of steps is spent"),
        (left.tokens, "the budget of tokens is spent"),
        (left.nano_usd, "the budget of nano-USD is spent"),
        (left.wall_ms, "the budget of working time is spent"),
    ]
    .into_iter()
    .find_map(|(left, words)| (left == Some(0)).then_some(words))
}
