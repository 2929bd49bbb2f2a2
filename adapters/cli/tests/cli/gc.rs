//! Collection of content from outside (CO-3).

use crate::world::{World, bash, say};

/// Makes all content two days old, and adds a body that nobody cites.
const OLD: &str = "INSERT INTO content (sha256, size, touched_at, bytes) \
    VALUES (zeroblob(32), 3000, 0, zeroblob(3000)); \
    UPDATE content SET touched_at = touched_at - 172800000000;";

/// CO-3: what nothing cites is removed and counted, everything else stays and works on.
#[test]
fn co_3_gc_frees_what_nothing_cites() {
    let world = World::new();
    let long = "word ".repeat(500);
    let agent = world.agent("chat", &[bash("seq 2000"), say(&long), say("2")], "interactive = true\n");
    let task = world.submit(&agent, &long);
    world.work();
    let fork = world.plica(&["fork", &task]).exits(0).text();
    world.sql(OLD);

    let looked = world.plica(&["gc", "--dry-run"]).exits(0).text();
    assert!(looked.contains("would remove 1 body, 2.9 KiB"), "{looked}");
    let freed = world.plica(&["gc", "--json"]).exits(0).json();
    assert_eq!((freed["dry_run"].as_bool(), freed["tasks"].as_u64()), (Some(false), Some(2)), "{freed}");
    assert_eq!((freed["bodies"].as_u64(), freed["bytes"].as_u64()), (Some(1), Some(3000)), "{freed}");
    assert!(freed["reached"].as_u64() > Some(2) && freed["events"].as_u64() > Some(4), "{freed}");
    let again = world.plica(&["gc"]).exits(0).text();
    assert!(again.contains("removed 0 bodies, 0 bytes"), "{again}");

    for task in [&task, &fork] {
        world.plica(&["send", task, "On."]).exits(3);
        world.is_sound(task);
    }
    assert!(world.plica(&["messages", &fork]).exits(0).text().contains(long.trim()));
}

/// CO-3: a grace within which a writer may cite what it put is refused; a definition that cannot be
/// read keeps whatever it may cite, and its task is named; a store that is not there is not made.
#[test]
fn co_3_gc_loses_nothing_that_may_be_cited() {
    let world = World::new();
    assert_eq!(world.plica(&["gc", "--json"]).exits(0).json()["bodies"], 0);
    assert!(!world.db().exists(), "a collection makes no store");

    let task = world.submit(&world.agent("a", &[say("Done.")], ""), "Go.");
    world.plica(&["gc", "--grace", "30m"]).exits(2).says(&["120 min"]);
    world.plica(&["gc", "--grace", "0s", "--dry-run"]).exits(0);
    world.plica(&["gc", "--grace", "soon"]).exits(2);

    world.sql(OLD);
    world.content(&world.payloads(&task, "TaskCreated")[0]["definition"], "DELETE FROM content");
    // Neither the definition nor what is not what it was can be read: nothing is certain of either.
    let collected = world.plica(&["gc"]).exits(0).text();
    assert!(collected.contains(&format!("a definition of task {task} cannot be read")), "{collected}");
    assert!(collected.contains("removed 0 bodies"), "{collected}");
    assert_eq!(world.plica(&["gc", "--json"]).exits(0).json()["damaged"][0], task.as_str());
}
