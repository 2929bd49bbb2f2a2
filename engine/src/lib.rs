//! Drives the kernel's decisions through the ports.
//!
//! A [`Host`] is built from ports in a few lines. A [`Worker`] on it claims tasks and takes
//! their steps: fold, ask the kernel what is next, do it, append. A [`Client`] does
//! everything a person or program does to tasks from outside. Nothing here names a vendor,
//! speaks SQL or opens a socket, and nothing is kept between steps but the log.
//!
//! # A host
//!
//! `cargo run -p plica-engine --example host` runs this; put a store on disk in the place of the
//! memory store, and tasks outlive the process.
//!
//! ```
#![doc = include_str!("../examples/host.rs")]
//! ```
//!
//! # A tool of your own
//!
//! ```
#![doc = include_str!("../examples/tool.rs")]
//! ```
//!
//! A tool that changes the world says so ([`plica_ports::Effect`]); one whose effect can be looked
//! up after a crash implements [`plica_ports::Tool::recover`].
//!
//! # A policy and a guard of your own
//!
//! ```
#![doc = include_str!("../examples/policy.rs")]
//! ```

mod act;
mod aside;
mod client;
mod commit;
mod compose;
mod definitions;
mod error;
mod follow;
mod gc;
pub mod govern;
mod heartbeat;
mod host;
mod jobs;
mod load;
mod outage;
mod plan;
mod plugins;
mod revise;
mod rewind;
mod setup;
mod steering;
mod step;
mod time;
mod verify;
mod worker;

pub use client::{Client, NotBefore, Said, Submission};
pub use compose::COMPOSER;
pub use error::{ClientError, LoadError, WorkerError};
pub use gc::{Collected, GcOptions};
pub use host::{Audience, Host, HostBuilder, ModelSource, ModelSourceError, OneModel};
pub use load::{LoadOptions, load};
pub use steering::STEERING_TOOLS;
pub use time::TokioClock;
pub use verify::{Break, Level, Verdict};
pub use worker::{Stop, Worker, WorkerOptions};

/// The README's example is a test of this crate (LI-1).
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
