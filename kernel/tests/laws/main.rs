//! The laws of the kernel, tried on logs that the machine itself walked into and on logs made
//! by hand. A test's name carries the clauses that it covers.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its own log fails")]

#[path = "../common/mod.rs"]
mod common;

mod budgets;
mod bytes;
mod cites;
mod forks;
mod golden;
mod house;
mod items;
mod jobs;
mod landings;
mod live_path;
mod places;
mod plugins;
mod refusals;
mod replies;
mod scenes;
mod segments;
mod snapshots;
mod steps;
mod verdicts;
mod waits;
mod walks;
