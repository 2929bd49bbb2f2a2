//! The `plica` binary.

#![cfg_attr(not(test), expect(dead_code, reason = "the verbs are carried out by the engine's client"))]

mod agent;
mod args;
mod render;

fn main() {}
