//! The store suite on the memory store, by a clock that the tests move.

use std::sync::Arc;

use plica_conformance::{Capability, Subject};
use plica_kernel::time::Timestamp;
use plica_memory::{ManualClock, MemoryStore};

/// Any moment will do; this one is in the future of none.
const START: Timestamp = Timestamp::from_micros(1_796_031_682_123_456);

async fn subject() -> Subject {
    let clock = Arc::new(ManualClock::new(START));
    let store = Arc::new(MemoryStore::with(clock.clone(), 1));
    // No other process can open what lives in the memory of this one.
    Subject::new(store).with_time(move |by| clock.advance(by)).lacking(Capability::SecondHandle)
}

plica_conformance::store_suite!(subject);
