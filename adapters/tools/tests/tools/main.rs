//! What the tools promise, called as the engine calls them.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up or read has failed")]

mod alive;
mod bash;
mod bash_ends;
mod change;
mod confinement;
mod declaration;
mod harness;
mod jobs;
mod read;
mod search;
