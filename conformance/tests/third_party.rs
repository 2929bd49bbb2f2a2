//! The whole of `tests/conformance.rs` in the crate of a store: here the memory store's.

use std::sync::Arc;

use plica_conformance::{Capability, ContentSubject, Subject};
use plica_memory::MemoryStore as YourStore;

async fn subject() -> Subject {
    let store = Arc::new(YourStore::new()); // fresh and empty at every call
    Subject::new(store).lacking(Capability::Time).lacking(Capability::SecondHandle)
}

async fn content() -> ContentSubject {
    ContentSubject::new(Arc::new(YourStore::new())).lacking(Capability::Time).lacking(Capability::Damage)
}

plica_conformance::store_suite!(subject);
plica_conformance::content_suite!(content);
