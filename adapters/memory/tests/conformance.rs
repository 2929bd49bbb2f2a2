//! The suites on the memory store, by a clock that the tests move.

use std::sync::Arc;

use plica_conformance::{Capability, ContentSubject, Subject};
use plica_kernel::time::Timestamp;
use plica_memory::{ManualClock, MemoryStore};

/// Any moment will do.
const START: Timestamp = Timestamp::from_micros(1_796_031_682_123_456);

async fn subject() -> Subject {
    let clock = Arc::new(ManualClock::new(START));
    let store = Arc::new(MemoryStore::with(clock.clone(), 1));
    // No other process can open what lives in the memory of this one.
    Subject::new(store).with_time(move |by| clock.advance(by)).lacking(Capability::SecondHandle)
}

async fn contents() -> ContentSubject {
    let clock = Arc::new(ManualClock::new(START));
    let store = Arc::new(MemoryStore::with(clock.clone(), 1));
    let damaged = store.clone();
    ContentSubject::new(store).with_time(move |by| clock.advance(by)).with_damage(move |reference| {
        assert_eq!(damaged.damage(reference), Ok(true), "there is a body to damage");
    })
}

plica_conformance::store_suite!(subject);
plica_conformance::content_suite!(contents);

/// The same suite by the machine's clock, which no test can move.
mod by_the_machines_clock {
    use super::*;

    async fn subject() -> Subject {
        Subject::new(Arc::new(MemoryStore::new())).lacking(Capability::SecondHandle).lacking(Capability::Time)
    }

    plica_conformance::store_suite!(subject);
}
