//! The kernel of Plica: what events mean.
//!
//! It says what an event's bytes are ([`canonical`], [`envelope`], [`event`], [`decode`]),
//! what a log folds to ([`state`]), that a log is sound ([`ledger`]), what happens next and
//! how each outcome is recorded ([`decide`]), and what wakes a task ([`wake`]).
//!
//! It never does IO, reads a clock, draws a random number, spawns or awaits: time, ids and
//! limits arrive as arguments or stand in events, so the same log gives the same state, byte
//! for byte, on any machine. First type to read: [`envelope::Envelope`], then
//! [`state::Task`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod body;
pub mod canonical;
pub mod cited;
pub mod decide;
pub mod decode;
pub mod envelope;
pub mod event;
pub mod id;
pub mod ledger;
pub mod limits;
pub mod message;
pub mod row;
pub mod snapshot;
pub mod state;
pub mod time;
pub mod wake;
