//! What a walk may meet, and how often.

use plica_kernel::event::Budget;

/// How a walk goes: percentages, and what the task may spend.
#[derive(Debug, Clone)]
pub struct Habits {
    pub interactive: bool,
    pub budget: Budget,
    pub crash: usize,
    pub message: usize,
    pub cancel: usize,
    /// People who want to go back.
    pub rewind: usize,
    /// Broken attempts that are redriven or parked.
    pub seal: usize,
    /// Requests that fail.
    pub refusal: usize,
    /// Replies that ask for calls.
    pub calls: usize,
    /// Texts that do not fit inline.
    pub long: usize,
    /// Replies that are truncated or empty.
    pub odd: usize,
    /// Orders to move to another definition.
    pub revise: usize,
    /// Calls that spawn a child.
    pub spawn: usize,
    /// Calls that leave a background job running.
    pub job: usize,
    /// Waits for more budget that someone rules on.
    pub rule: usize,
    /// Appends after which live and folded state are compared: one test affords all of them.
    pub compare: usize,
}

impl Habits {
    /// Everything happens.
    pub fn wild(interactive: bool, budget: Budget) -> Self {
        Self {
            interactive,
            budget,
            crash: 12,
            message: 10,
            cancel: 1,
            rewind: 4,
            seal: 40,
            refusal: 15,
            calls: 60,
            long: 10,
            odd: 10,
            revise: 4,
            spawn: 0,
            job: 10,
            rule: 90,
            compare: 10,
        }
    }

    /// Everything happens, and children are spawned who spend what they were given.
    pub fn families(interactive: bool, budget: Budget) -> Self {
        Self { spawn: 40, ..Self::wild(interactive, budget) }
    }

    /// Only tool rounds, as many as there is time for.
    pub fn rounds() -> Self {
        Self {
            interactive: false,
            budget: Budget::default(),
            crash: 4,
            message: 4,
            cancel: 0,
            rewind: 0,
            seal: 0,
            refusal: 0,
            calls: 100,
            long: 2,
            odd: 0,
            revise: 0,
            spawn: 0,
            job: 0,
            rule: 0,
            compare: 40,
        }
    }
}
