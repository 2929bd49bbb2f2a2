//! The simulator: many workers of the real engine on a faulty store, under virtual time, all
//! of it a function of one seed.
//!
//! A world has a memory store, workers that crash, stall and are told to stop, people whose
//! messages and answers come twice, late, too early or wrong and who move tasks to other
//! definitions, trees of tasks that are told to stop at any moment, tools of several versions that
//! some workers lack and that write down what they did, jobs that calls leave running, observers
//! that keep their place, someone who collects content meanwhile, and a clock that someone sets. First everything goes wrong that
//! can (the safety phase), then nothing does (the liveness phase), and every task has to come to
//! its end. An oracle checks after every append what must hold whatever happens. A seed that fails
//! prints itself and replays exactly.
//!
//! First function to read: [`run`]; [`sweep`] runs many.

mod agents;
mod collector;
mod definitions;
mod desk;
mod equipment;
mod faults;
mod gate;
mod model;
mod observer;
mod oracle;
mod outside;
mod people;
mod planted;
mod prng;
mod processes;
mod time;
mod tools;
mod witness;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

pub use oracle::Violation;
pub use planted::PlantedBug;
use plica_ports::store::StoredEvent;
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
    /// Types of events on record, and how many of each.
    pub kinds: BTreeMap<String, usize>,
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

/// What came of many worlds in which everything held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events on record, by type.
    pub kinds: BTreeMap<String, usize>,
    /// Starts of worker processes.
    pub starts: u64,
    /// How long they took by their own time, in milliseconds.
    pub virtual_ms: u128,
}

impl Totals {
    /// Events on record.
    pub fn events(&self) -> usize {
        self.kinds.values().sum()
    }

    fn add(&mut self, kinds: &BTreeMap<String, usize>, starts: u64, virtual_ms: u128) {
        for (kind, count) in kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
        self.starts += starts;
        self.virtual_ms += virtual_ms;
    }
}

/// Runs the worlds of these seeds on every core.
///
/// # Errors
/// The failure of the lowest seed of those that failed before the others stopped.
///
/// # Panics
/// When a world panics.
pub fn sweep(seeds: Range<u64>, options: Options) -> Result<Totals, Box<Failure>> {
    let next = AtomicU64::new(seeds.start);
    let worker = || {
        let mut totals = Totals::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return Ok(totals);
            }
            match run(seed, options) {
                Ok(report) => totals.add(&report.kinds, report.starts, report.virtual_ms),
                Err(failure) => {
                    next.store(seeds.end, Ordering::Relaxed);
                    return Err(Box::new(failure));
                }
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let ended: Vec<Result<Totals, Box<Failure>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no world panics")).collect()
    });
    if let Some(failure) = ended.iter().filter_map(|ended| ended.as_ref().err()).min_by_key(|failure| failure.seed) {
        return Err(failure.clone());
    }
    let mut all = Totals::default();
    ended.iter().flatten().for_each(|one| all.add(&one.kinds, one.starts, one.virtual_ms));
    Ok(all)
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first thing that did not hold.
///
/// # Panics
/// When no runtime can be made.
pub fn run(seed: u64, options: Options) -> Result<Report, Failure> {
    by_its_own_time(async { World::begin(seed, options).await.live().await })
}

/// The logs that the world of a seed leaves behind, for whoever needs logs of any kind.
///
/// # Errors
/// The first thing that did not hold.
///
/// # Panics
/// When no runtime can be made.
pub fn logs(seed: u64) -> Result<Vec<Vec<StoredEvent>>, Failure> {
    by_its_own_time(async {
        let world = World::begin(seed, Options::default()).await;
        world.clone().live().await?;
        Ok(world.logs().await)
    })
}

fn by_its_own_time<T>(world: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without input and output needs nothing of the system");
    runtime.block_on(world)
}
