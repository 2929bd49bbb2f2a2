//! The demo, as far as it goes in a few seconds.

use crate::world::World;

/// RC-1, RC-2, ST-16: workers killed with SIGKILL lose nothing and do nothing twice.
#[test]
fn rc_2_the_demo_kills_workers_and_every_number_is_as_promised() {
    let world = World::new();
    let ran = world.plica(&["demo", "--kills", "4", "--json"]).exits(0);
    let numbers = ran.json();
    assert_eq!(numbers["ok"], true, "{numbers}");
    assert_eq!((&numbers["kills"], &numbers["tasks"]), (&4.into(), &6.into()));
    assert_eq!((&numbers["completed"], &numbers["rounds"]), (&6.into(), &78.into()));
    assert_eq!((&numbers["effects_twice"], &numbers["effects_lost"]), (&0.into(), &0.into()));
    let cut_off = |name: &str| numbers[name].as_u64().expect("a number");
    assert!(cut_off("requests_asked_again") + cut_off("calls_unknown") > 0, "kills hit something: {numbers}");
    assert_eq!(ran.err.matches("plica: kill ").count(), 4, "{}", ran.err);
    assert!(!world.db().exists(), "nothing is left in anybody's store");
}
