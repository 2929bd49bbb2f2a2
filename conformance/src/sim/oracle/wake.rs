//! What a task has to wait for, by what its log says of its calls (section 11 of the design).

use std::collections::BTreeMap;

use super::waits::{Calls, Child, Waits, round_of};

/// What wakes a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wake {
    /// Keys, and how many items of each it takes.
    pub keys: BTreeMap<String, u64>,
    pub at: Option<String>,
}

impl Waits {
    /// What a turn waits for whose calls are these: keys with how many items each needs, and a
    /// time (section 11 of the design).
    pub fn wake_of_calls(&self, calls: &Calls) -> Wake {
        let open: Vec<&Child> = self.children.values().filter(|child| !child.ended && !child.background).collect();
        let pending = || self.approvals.values().filter(|approval| approval.ruled.is_none());
        let asking = pending().map(|_| ()).chain(self.questions.values().filter(|answered| !**answered).map(|_| ()));
        let asks = asking.count() > 0;
        let waits = || calls.values().filter(|call| call.answer.is_none()).filter_map(|call| call.wait.as_ref());
        let round = calls.iter().rev().find(|(_, call)| call.answer.is_none()).and_then(|(id, _)| round_of(id));
        let round = round.unwrap_or_default();
        let mut wake = Wake::default();
        if !open.is_empty() {
            let together = !asks && waits().count() == 0 && open.iter().all(|child| !child.any);
            wake.keys.insert(format!("group:{round}"), if together { open.len() as u64 } else { 1 });
        }
        if asks {
            wake.keys.insert(format!("answer:{round}"), 1);
        }
        let kinds = waits().filter_map(|wait| wait["event"].as_str());
        wake.keys.extend(kinds.map(|kind| (format!("event:{kind}"), 1)));
        let dues = waits().filter_map(|wait| wait["due"].as_str().map(str::to_owned));
        // All times are written alike, so the earliest is the first by its letters.
        wake.at = dues.chain(pending().filter_map(|approval| approval.expires.clone())).min();
        wake
    }

    /// What a task waits for that asked for more of its budget.
    pub fn wake_of_budget(&self) -> Wake {
        let mut wake = self.wake_of_background();
        for (call, _) in self.budgets.iter().filter(|(_, (_, ruled))| !ruled) {
            wake.keys.insert(format!("answer:{}", round_of(call).unwrap_or_default()), 1);
        }
        wake
    }

    /// What a task waits for whose turn is over: what goes on in the background too, if it may open
    /// the next.
    pub fn wake_of_rest(&self, background: bool) -> Wake {
        let mut wake = if background { self.wake_of_background() } else { Wake::default() };
        wake.keys.insert("message".into(), 1);
        wake
    }

    fn wake_of_background(&self) -> Wake {
        let mut wake = Wake::default();
        for child in self.children.values().filter(|child| !child.ended && child.background) {
            let round = round_of(&child.call).unwrap_or_default();
            wake.keys.insert(if child.any { format!("group:{round}") } else { "background".into() }, 1);
        }
        wake
    }
}
