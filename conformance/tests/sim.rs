//! The simulator in the gate: worlds that hold, worlds that replay, bugs that are caught
//! (section 19 of the design).

use plica_conformance::sim::{Options, PlantedBug, run, sweep};
use plica_kernel::event::EventType;

/// Worlds in the gate.
const SEEDS: u64 = 500;
/// Types of events that no world of the gate has to get to: nobody in a world settles a call, and few
/// worlds put a file back. The boundary gate cuts both.
const NOT_IN_WORLDS: [EventType; 3] = [EventType::CallResolved, EventType::FilesRestoring, EventType::FilesRestored];
/// Worlds within which each planted bug has to be caught.
const SEEDS_TO_CATCH: u64 = 2_000;

#[test]
fn section_19_whatever_befalls_them_tasks_end_and_nothing_happens_twice() {
    let totals = sweep(0..SEEDS, Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
    let readable = EventType::ALL.iter().filter(|kind| kind.is_readable() && !NOT_IN_WORLDS.contains(kind));
    let missing: Vec<_> = readable.filter(|kind| !totals.kinds.contains_key(kind.name())).collect();
    assert!(missing.is_empty(), "no world gets as far as {missing:?}");
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
    let missed = |bug: &&PlantedBug| sweep(0..SEEDS_TO_CATCH, Options { planted: Some(**bug), trace: false }).is_ok();
    let missed: Vec<_> = PlantedBug::ALL.iter().filter(missed).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
