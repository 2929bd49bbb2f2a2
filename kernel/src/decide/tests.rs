use alloc::string::String;

use super::budget::{grants, slice};
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

/// As many times what the task was given at first as leave room, of each cap that is used up.
#[test]
fn en_4_grants() {
    let none = Budget::default();
    for (cap, allotted, granted) in [
        // Five steps are spent: a cap of six is not used up, one of five is to the last step.
        (6, 6, None),
        (5, 5, Some(5)),
        (3, 3, Some(3)),
        (2, 2, Some(4)),
        (1, 1, Some(5)),
        // What was granted before is no part of what the task was given at first.
        (4, 2, Some(2)),
        (3, 2, Some(4)),
        // A task that was given nothing is given something.
        (0, 0, Some(6)),
    ] {
        let budget = Budget { steps: Some(cap), ..none };
        let state = GovernanceState { allotted: Budget { steps: Some(allotted), ..none }, ..spending(budget) };
        assert_eq!(grants(&state), Budget { steps: granted, ..none }, "{cap} of {allotted}");
    }
    let budget = Budget { nano_usd: Some(20), steps: Some(1), tokens: Some(10), wall_ms: Some(24) };
    let state = GovernanceState { allotted: budget, ..spending(budget) };
    assert_eq!(grants(&state), Budget { nano_usd: None, steps: Some(5), tokens: Some(40), wall_ms: Some(24) });
}

/// An equal share of what is left for each child that is still to be spawned and the parent.
#[test]
fn en_4_slices() {
    let none = Budget::default();
    let left_six = spending(Budget { steps: Some(11), ..none });
    for (own, sharers, share) in [
        (None, 1, 3),
        (None, 2, 2),
        (None, 5, 1),
        // There are not as many left as there are children: each gets one while there are any.
        (None, 9, 1),
        (None, u64::MAX, 1),
        (Some(4), 2, 4),
        (Some(10), 2, 6),
    ] {
        let given = slice(&left_six, Budget { steps: own, ..none }, sharers);
        assert_eq!(given, Ok(Budget { steps: Some(share), ..none }), "{own:?} of {sharers}");
    }
    let own = Budget { tokens: Some(9), ..none };
    assert_eq!(slice(&left_six, own, 1), Ok(Budget { steps: Some(3), tokens: Some(9), ..none }));
    assert_eq!(slice(&spending(Budget { steps: Some(5), ..none }), none, 1), Err("the budget of steps is spent"));
}

/// What fits is left as it is, to the last byte of its canonical form; what does not is cut at a
/// character, with an ellipsis for the rest.
#[test]
fn ev_7_cuts() {
    for (text, max, cut) in [
        ("", 2, ""),
        ("abcdef", 8, "abcdef"),
        ("abcdef", 7, "ab…"),
        ("abcdef", 6, "a…"),
        ("abcdef", 5, "…"),
        // Quotes, line ends and control characters are written longer than they are.
        ("a\"b\n", 8, "a\"b\n"),
        ("a\"b\n", 7, "a…"),
        ("\u{1}abcdef", 10, "…"),
        ("\u{1}abcdef", 11, "\u{1}…"),
        // A character of several bytes is kept whole or not at all.
        ("éèêë", 10, "éèêë"),
        ("éèêë", 9, "éè…"),
        ("éèêë", 8, "é…"),
    ] {
        assert_eq!(clip(text, max), cut, "{text:?} in {max}");
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
