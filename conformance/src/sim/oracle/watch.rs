//! What an observer was shown of a log, and what is on record of that (EN-5).

use std::collections::BTreeMap;

use serde_json::Value;

use super::event::Event;
use crate::sim::observer::{AUDIT, TALLY};

/// What is known of the observer of one log.
#[derive(Debug, Default)]
pub struct Watch {
    /// The place on record.
    place: u64,
    /// The last event that a place has to be recorded for.
    owed: u64,
    /// A count on record whose place is not there yet.
    tally: Option<u64>,
    /// Hashes of all events.
    hashes: Vec<String>,
    /// The last event that was shown in each process.
    shown: BTreeMap<String, u64>,
}

impl Watch {
    /// Takes the next event of the log. The count beside a place is that of the events up to it:
    /// none was counted twice, and none left out.
    pub fn push(&mut self, event: &Event) -> Result<(), String> {
        self.hashes.push(event.hash.clone());
        if event.kind != "ExtensionRecorded" || event.payload["plugin"] != AUDIT {
            self.owed = event.seq;
            return Ok(());
        }
        let body = event.payload["body"].as_str().unwrap_or_default();
        if event.payload["kind"] == TALLY {
            self.tally = body.parse().ok();
            return Ok(());
        }
        let place: Value = serde_json::from_str(body).unwrap_or_default();
        let place = place["seq"].as_u64().ok_or("an observer's place is no number")?;
        if place < self.place || place >= event.seq {
            return Err(format!("an observer is at event {place} after event {}", self.place));
        }
        match self.tally.take() {
            Some(tally) if tally == place => self.place = place,
            tally => return Err(format!("an observer counts {tally:?} events up to event {place}")),
        }
        Ok(())
    }

    /// A process takes the observer up after `place`.
    pub fn follows(&mut self, instance: &str, place: u64) {
        self.shown.insert(instance.to_owned(), place);
    }

    /// The observer in a process is shown an event: the next one, as it is on record.
    pub fn shown(&mut self, instance: &str, seq: u64, hash: &str) -> Result<(), String> {
        let before = self.shown.insert(instance.to_owned(), seq);
        if before.map(|before| before + 1) != Some(seq) {
            return Err(format!("{instance} is shown event {seq} after {before:?}"));
        }
        let recorded = usize::try_from(seq).ok().and_then(|seq| self.hashes.get(seq.checked_sub(1)?));
        if recorded.map(String::as_str) == Some(hash) {
            return Ok(());
        }
        Err(format!("{instance} is shown event {seq} with the hash {hash}, on record is {recorded:?}"))
    }

    /// How far behind the observer is, in words.
    pub fn behind(&self) -> String {
        format!("its place is {} of {}, shown were {:?}", self.place, self.owed, self.shown)
    }

    /// Whether something was not shown, or is not on record as shown.
    pub fn is_behind(&self) -> bool {
        self.place < self.owed
    }
}
