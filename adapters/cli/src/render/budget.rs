//! A budget that is spent, in words, with the commands that grant more or refuse it (EN-4).

use plica_kernel::event::Budget;
use plica_kernel::id::{CallId, TaskId};
use plica_kernel::state::GovernanceState;

use super::ways::Way;
use super::{counted, span};

/// What is asked of a person whose task has spent its budget.
pub(super) fn more_budget(id: &TaskId, call: CallId, grants: Budget, governance: &GovernanceState) -> Way {
    let spent = governance.spent();
    let used = amounts(Budget::all(spent).zip(grants, |spent, grants| grants.and(spent)));
    let caps = amounts(governance.budget.zip(grants, |cap, grants| grants.and(cap)));
    let subtasks = governance.reserved();
    let reserved = amounts(Budget::all(subtasks).zip(grants, |held, grants| grants.and(held).filter(|held| *held > 0)));
    let held = if reserved.is_empty() { String::new() } else { format!(", {reserved} set aside for subtasks") };
    Way::by(
        format!("more budget ({used} spent of {caps}{held})"),
        format!(
            "`plica approve {id} --call {call}` grants {} more, `plica deny {id} --call {call}` fails the task",
            amounts(grants)
        ),
    )
}

/// Each cap with its unit.
fn amounts(budget: Budget) -> String {
    let amounts = [
        budget.steps.map(|steps| counted(steps, "step")),
        budget.tokens.map(|tokens| counted(tokens, "token")),
        budget.nano_usd.map(|nano_usd| format!("${}.{:09}", nano_usd / 1_000_000_000, nano_usd % 1_000_000_000)),
        budget.wall_ms.map(|wall_ms| format!("{} working", span(wall_ms))),
    ];
    amounts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}
