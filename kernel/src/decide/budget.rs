//! Budgets (EN-4): what is left, what is set aside for children, what a grant comes to.
//!
//! Everything follows from folded counters, so no crash, resume, rewind or fork refills them.
//! A step is charged when its request starts; tokens, money and working time are known only
//! afterwards, so a request starts while anything is left of them. What is charged altogether
//! is therefore never more than the cap, what people granted on top, and what one request and
//! its calls cost. A child spends from a slice that is set aside at its spawn, and asks by
//! itself at the end of it; what people grant to a child comes on top in the same way.

use crate::event::{Budget, Spent};
use crate::state::GovernanceState;

/// What is left of each cap; `None` where there is no cap. What is set aside for children that
/// have not said what they spent counts as spent.
pub fn remaining(state: &GovernanceState) -> Budget {
    state.budget.less(used(state))
}

fn used(state: &GovernanceState) -> Spent {
    state.spent().plus(state.reserved())
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

/// What a person is asked to grant: of each cap that is used up, what the task was given at
/// first, as many times as it takes to leave some room. Once is enough unless the last request
/// cost more than that.
pub(super) fn grants(state: &GovernanceState) -> Budget {
    let over = state.budget.zip(Budget::all(used(state)), |cap, used| used?.checked_sub(cap?));
    over.zip(state.allotted, |over, allotted| {
        let once = allotted?.max(1);
        Some((over? / once + 1).saturating_mul(once))
    })
}

/// The slice of a child that is the first of `sharers` children of a reply still to be spawned:
/// of each cap of the parent, an equal share of what is left for each of them and for the
/// parent itself, at least 1; or the child's own cap, as far as that much is left. A cap that
/// the parent has not is the child's own.
///
/// # Errors
/// In words, which cap has nothing left to be shared.
pub(super) fn slice(state: &GovernanceState, own: Budget, sharers: u64) -> Result<Budget, &'static str> {
    if let Some(words) = exhausted(state) {
        return Err(words);
    }
    Ok(remaining(state).zip(own, |left, own| match (left, own) {
        (Some(left), Some(own)) => Some(own.min(left)),
        (Some(left), None) => Some((left / sharers.saturating_add(1)).max(1)),
        (None, own) => own,
    }))
}
