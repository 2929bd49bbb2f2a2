//! The engine on the memory store, with a scripted model and a tool of its own.

#![expect(clippy::unwrap_used, reason = "tests")]

mod back;
mod clauses;
mod collect;
mod common;
mod content;
mod crash;
mod inbox;
mod jobs;
mod meanwhile;
mod observers;
mod order;
mod outage;
mod plugins;
mod resolve;
mod steps;
mod waits;
