//! The world outside: what the tools of all workers together did to it, and what they left running.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::processes::Process;

/// What was done under one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    /// The tool.
    pub tool: String,
    /// How often its body was entered.
    pub begun: u32,
    /// How often the outside changed by it.
    pub landed: u32,
    /// Landings that the target refused because it knew the key.
    pub repeated: u32,
    /// How often it was told that the call is done.
    pub done: u32,
}

/// Every effect, and every process that was started, by idempotency key.
#[derive(Debug, Default)]
pub struct Outside {
    effects: Mutex<BTreeMap<String, Effect>>,
    processes: Mutex<BTreeMap<String, Arc<Process>>>,
}

impl Outside {
    fn change(&self, key: &str, change: impl FnOnce(&mut Effect)) {
        change(self.effects.lock().unwrap_or_else(PoisonError::into_inner).entry(key.to_owned()).or_default());
    }

    fn started(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Process>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call leaves a process running.
    pub fn start(&self, key: &str, process: Arc<Process>) {
        self.started().insert(key.to_owned(), process);
    }

    /// The process that was started under a key.
    pub fn process(&self, key: &str) -> Option<Arc<Process>> {
        self.started().get(key).cloned()
    }

    /// Every process.
    pub fn processes(&self) -> Vec<Arc<Process>> {
        self.started().values().cloned().collect()
    }

    /// A tool's body is entered.
    pub fn begin(&self, key: &str, tool: &str) {
        self.change(key, |effect| {
            tool.clone_into(&mut effect.tool);
            effect.begun += 1;
        });
    }

    /// The outside changes.
    pub fn land(&self, key: &str) {
        self.change(key, |effect| effect.landed += 1);
    }

    /// The outside changes, unless it did so under this key before.
    pub fn land_once(&self, key: &str) {
        self.change(key, |effect| if effect.landed == 0 { effect.landed = 1 } else { effect.repeated += 1 });
    }

    /// A tool says that its call is done.
    pub fn done(&self, key: &str) {
        self.change(key, |effect| effect.done += 1);
    }

    /// What was done under a key.
    pub fn effect(&self, key: &str) -> Effect {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned().unwrap_or_default()
    }

    /// Everything, by key.
    pub fn all(&self) -> BTreeMap<String, Effect> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
