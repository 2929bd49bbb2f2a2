use alloc::string::String;

use super::draft::clip;
use super::*;
use crate::canonical::string_len;
use crate::event::{Budget, Spent, Usage};
use crate::state::GovernanceState;
use proptest::prelude::*;

fn spending(budget: Budget) -> GovernanceState {
    GovernanceState {
        budget,
        cost_nano_usd: 10,
        elapsed_ms: 20,
        steps: 3,
        subtask_spent: Spent { nano_usd: 1, steps: 2, tokens: 3, wall_ms: 4 },
        tokens: Usage { cache_read: 1, cache_write: 2, output: 30, reasoning: 9, uncached: 4 },
        ..GovernanceState::default()
    }
}

/// What a cap comes to: children's spending counts, reasoning is a part of the output.
#[test]
fn en_4_caps() {
    let none = Budget::default();
    assert_eq!(exhausted(&spending(none)), None);
    for (budget, left, words) in [
        (Budget { steps: Some(6), ..none }, Budget { steps: Some(1), ..none }, None),
        (Budget { steps: Some(5), ..none }, Budget { steps: Some(0), ..none }, Some("the budget of steps is spent")),
        (Budget { steps: Some(1), ..none }, Budget { steps: Some(0), ..none }, Some("the budget of steps is spent")),
        (Budget { tokens: Some(41), ..none }, Budget { tokens: Some(1), ..none }, None),
        (
            Budget { tokens: Some(40), ..none },
            Budget { tokens: Some(0), ..none },
            Some("the budget of tokens is spent"),
        ),
        (Budget { nano_usd: Some(12), ..none }, Budget { nano_usd: Some(1), ..none }, None),
        (
            Budget { nano_usd: Some(11), ..none },
            Budget { nano_usd: Some(0), ..none },
            Some("the budget of nano-USD is spent"),
        ),
        (Budget { wall_ms: Some(25), ..none }, Budget { wall_ms: Some(1), ..none }, None),
        (
            Budget { wall_ms: Some(24), ..none },
            Budget { wall_ms: Some(0), ..none },
            Some("the budget of working time is spent"),
        ),
        (Budget { steps: Some(0), ..none }, Budget { steps: Some(0), ..none }, Some("the budget of steps is spent")),
    ] {
        let state = spending(budget);
        assert_eq!((remaining(&state), exhausted(&state)), (left, words), "{budget:?}");
    }
}

proptest! {
    #[test]
    fn ev_7_a_cut_text_fits_and_begins_like_the_whole(text in any::<String>(), max in 5usize..60) {
        let cut = clip(&text, max);
        prop_assert!(string_len(&cut) <= max.max(string_len("…")), "{cut:?}");
        if cut != text {
            prop_assert!(text.starts_with(cut.strip_suffix('…').unwrap()));
            prop_assert!(string_len(&text) > max);
        }
    }
}
