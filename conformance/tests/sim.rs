//! The simulator in the gate: worlds that hold, worlds that replay, bugs that are caught
//! (section 19 of the design).

use std::sync::atomic::{AtomicU64, Ordering};

use plica_conformance::sim::{Failure, Options, PlantedBug, run};

/// Worlds in the gate.
const SEEDS: u64 = 500;
/// Worlds within which each planted bug has to be caught.
const SEEDS_TO_CATCH: u64 = 2_000;

/// Runs the worlds of these seeds on every core; the first failure of each core.
fn sweep(seeds: u64, options: Options) -> Vec<Failure> {
    let next = AtomicU64::new(0);
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return None;
            }
            if let Err(failure) = run(seed, options) {
                next.store(seeds, Ordering::Relaxed);
                return Some(failure);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().filter_map(|worker| worker.join().expect("no world panics")).collect()
    })
}

#[test]
fn section_19_whatever_befalls_them_tasks_end_and_nothing_happens_twice() {
    let failures = sweep(SEEDS, Options::default());
    if let Some(failure) = failures.first() {
        panic!("{failure}");
    }
}

#[test]
fn section_19_a_seed_replays_exactly() {
    for seed in 0..12 {
        let (first, second) = (run(seed, Options::default()), run(seed, Options::default()));
        assert_eq!(first, second, "seed {seed}");
        let traced = run(seed, Options { trace: true, ..Options::default() });
        assert_eq!(first, traced, "seed {seed}: looking changes nothing");
    }
}

#[test]
fn section_19_a_world_that_fails_fails_again_in_the_same_way() {
    let options = Options { trace: true, planted: Some(PlantedBug::NeverConsumed) };
    let fails = |seed| run(seed, options).err();
    let first = (0..SEEDS_TO_CATCH).find_map(fails).expect("the bug is caught");
    let again = fails(first.seed).expect("it fails again");
    assert_eq!(first, again);
    assert!(first.to_string().contains(&format!("--seed {}", first.seed)), "it says how to replay it");
}

#[test]
fn section_19_every_planted_bug_is_caught() {
    assert!(PlantedBug::ALL.len() >= 30);
    let missed = |bug: &&PlantedBug| sweep(SEEDS_TO_CATCH, Options { planted: Some(**bug), trace: false }).is_empty();
    let missed: Vec<_> = PlantedBug::ALL.iter().filter(missed).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
