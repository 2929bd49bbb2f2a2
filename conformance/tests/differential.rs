//! The memory store and the SQLite store side by side.

use std::path::Path;
use std::sync::Arc;

use plica_conformance::differ::{Pair, compare};
use plica_conformance::faults::{Call, Fault, Faulty};
use plica_kernel::time::Timestamp;
use plica_memory::{ManualClock, MemoryStore, StoreClock};
use plica_sqlite::{OpenOptions, SqliteStore};

const START: Timestamp = Timestamp::from_micros(1_796_031_682_123_456);
/// Sequences in the gate, and how many operations each has.
const SEEDS: u64 = 300;
const LENGTH: usize = 60;

/// Both stores, empty, by one clock.
async fn pair() -> Pair {
    let clock = Arc::new(ManualClock::new(START));
    let memory = Arc::new(MemoryStore::with(clock.clone(), 1));
    // Nothing here has to survive anything, so a file in memory will do where there is one.
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    let folder = folder.expect("a temporary folder");
    let shown = clock.clone();
    let path = folder.path().join("plica.db");
    let sqlite = SqliteStore::open_with_clock(path, OpenOptions::default(), move || shown.now());
    let sqlite = Arc::new(sqlite.expect("a path is a path"));
    Pair::new(memory, sqlite, move |by| clock.advance(by), folder)
}

async fn are_alike(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        if let Err(difference) = compare(pair, seed, LENGTH).await {
            panic!("{difference}");
        }
    }
}

/// ST-1, ST-2, ST-3, ST-4, ST-7, ST-8, ST-9, ST-16, ST-18, ST-19: whatever is asked of them, in
/// whatever order, both stores answer alike. One half of the seeds, on one core.
#[tokio::test]
async fn st_3_memory_and_sqlite_answer_alike() {
    are_alike(0..SEEDS / 2).await;
}

/// The other half.
#[tokio::test]
async fn st_3_memory_and_sqlite_answer_alike_again() {
    are_alike(SEEDS / 2..SEEDS).await;
}

/// A store that differs in one answer is found out, by a sequence that is short enough to read.
#[tokio::test]
async fn a_difference_is_found_and_cut_short() {
    let make = async || {
        let clock = Arc::new(ManualClock::new(START));
        let store = || Arc::new(MemoryStore::with(clock.clone(), 1));
        let faults = |call| (call == Call::Release).then_some(Fault::Unavailable);
        let other = Arc::new(Faulty::new(store(), Arc::new(faults)));
        Pair::new(
            store(),
            other,
            {
                let clock = clock.clone();
                move |by| clock.advance(by)
            },
            (),
        )
    };
    let difference = compare(make, 7, 200).await.expect_err("they differ");
    assert_eq!((difference.seed, difference.asked.as_str()), (7, "release"));
    assert!(difference.operations.len() <= 3, "{difference}");
    assert!(difference.operations.last().is_some_and(|last| last.starts_with("Release")), "{difference}");
    assert!(difference.right.contains("Unavailable"), "{difference}");
}
