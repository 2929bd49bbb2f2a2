//! Everything that the oracle knows of one task.

use std::collections::BTreeMap;

use super::event::Event;
use super::hold::Holds;
use super::inbox::Inbox;
use super::log::{Log, Surroundings};
use super::watch::Watch;

/// Everything that is known of one task.
#[derive(Debug, Default)]
pub struct Book {
    pub log: Log,
    pub holds: Holds,
    pub inbox: Inbox,
    pub watch: Watch,
    pub blocked: bool,
    /// The longest conversation that the model was shown.
    pub shown: Vec<String>,
    /// What was known where no turn was under way: where a rewind may land, a fork branch off.
    pub landings: BTreeMap<u64, Landing>,
}

/// What was known of a task at some event.
#[derive(Debug, Clone)]
pub struct Landing {
    pub log: Log,
    /// The longest conversation that the model had been shown. What was left behind since may have
    /// gone on otherwise than what is shown now.
    pub shown: Vec<String>,
}

impl Book {
    /// Takes the next event of the task's log.
    pub fn push(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        self.log.push(event, &mut self.inbox, around)?;
        self.watch.push(event)?;
        if event.kind == "TaskRewound" {
            let to = event.number("to_seq");
            let landing =
                self.landings.get(&to).ok_or_else(|| format!("rewound to event {to}, where a turn was under way"))?;
            self.shown.clone_from(&landing.shown);
            self.log.jobs.went_back(&landing.log.jobs);
        }
        if self.log.rests_between_turns {
            self.landings.insert(event.seq, Landing { log: self.log.clone(), shown: self.shown.clone() });
        }
        Ok(())
    }
}
