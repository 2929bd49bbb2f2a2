//! The strictest store: tasks, inboxes and content in the memory of one process.
//!
//! It is the oracle for the other stores, so it refuses whatever any of them might refuse:
//! batches that contradict themselves, items taken twice, children whose id is taken, bodies
//! that are not what their reference says. It decides with the same pure functions as they do
//! ([`plica_ports::store::rules`]), under one lock, so a method is a transaction.
//!
//! It never writes to a disk and dies with its process; and since nobody outside that process
//! can hold a task, it never looks whether a holder's process is still there (ST-16): the
//! lease decides. Time and randomness are arguments of [`MemoryStore::with`], so that a test
//! or a simulation under a seed gives the same tokens, ids and decisions every time.
//!
//! First type to read: [`MemoryStore`].

mod append;
mod claims;
mod clock;
mod content;
mod draw;
mod inbox;
mod reads;
mod record;
mod store;
mod world;

pub use clock::{ManualClock, StoreClock, SystemClock};
pub use store::MemoryStore;
