//! The simulator: many workers of the real engine on a faulty store, under virtual time, all
//! of it a function of one seed.
//!
//! A world has a memory store, workers that crash, stall and are told to stop, people whose
//! messages and answers come twice, late, too early or wrong, trees of tasks that are told to
//! stop at any moment, a clock that someone sets, and tools that write down what they did. First everything goes wrong that can (the safety phase), then nothing does (the
//! liveness phase), and every task has to come to its end. An oracle checks
//! after every append what must hold whatever happens. A seed that fails prints itself and
//! replays exactly.
//!
//! First function to read: [`run`].

mod agents;
mod desk;
mod faults;
mod gate;
mod model;
mod oracle;
mod outside;
mod people;
mod planted;
mod prng;
mod time;
mod tools;
mod witness;
mod world;

use std::fmt;

pub use oracle::Violation;
pub use planted::PlantedBug;
pub use prng::Prng;
use world::World;

/// How to run a world.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Keep a line of everything that the oracle hears.
    pub trace: bool,
    /// A bug on purpose.
    pub planted: Option<PlantedBug>,
}

/// What came of a world in which everything held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Hash of all logs, all effects, and the time it took: the same for the same seed.
    pub digest: String,
    /// Tasks.
    pub tasks: usize,
    /// Events on record.
    pub events: usize,
    /// Starts of worker processes.
    pub starts: u64,
    /// How long it took by its own time, in milliseconds.
    pub virtual_ms: u128,
}

/// A world in which something did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What did not hold.
    pub violation: Violation,
    /// Everything that the oracle heard, if it was to keep that.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {}: {}", self.seed, self.violation)?;
        write!(
            f,
            "replay: cargo run --release -p plica-conformance --bin sim -- --seeds 1 --seed {} --trace",
            self.seed
        )
    }
}

impl std::error::Error for Failure {}

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first thing that did not hold.
///
/// # Panics
/// When no runtime can be made.
pub fn run(seed: u64, options: Options) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without input and output needs nothing of the system");
    runtime.block_on(async { World::begin(seed, options).await.live().await })
}
