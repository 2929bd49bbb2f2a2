//! Hostile input: what a damaged disk, a forger or a bug may hand to the kernel and the stores.
//!
//! Each target is a plain function that takes any bytes and panics when a promise is broken,
//! so the same code runs under a fuzzer (`fuzz_targets/`, built apart from this workspace) and
//! over the committed corpus on stable Rust (`tests/replay.rs`). Nothing here reads a clock,
//! a file or a random number. First type to read: [`TARGETS`].

mod canonical;
mod event;
mod fold;
mod operations;
mod snapshot;
mod stream;

pub use canonical::canonical;
pub use event::event;
pub use fold::fold;
pub use operations::operations;
pub use snapshot::snapshot;
pub use stream::stream;

/// A target: takes any bytes, panics when a promise is broken.
pub type Target = fn(&[u8]);

/// Every target by the name of its wrapper and of its folder in `corpus/`.
pub const TARGETS: [(&str, Target); 6] = [
    ("canonical", canonical),
    ("event", event),
    ("fold", fold),
    ("operations", operations),
    ("snapshot", snapshot),
    ("stream", stream),
];
