//! Stores that were damaged, and tasks that are blocked: what is said, what is not written,
//! and how it goes on.

use crate::world::{Ran, World, bash, say, text};

/// Lets statements change events, which the store itself refuses.
const UNGUARDED: &str = "DROP TRIGGER events_never_change; ";

/// A task that waits for a message after some events.
fn waiting_task(world: &World) -> String {
    let agent = world.agent("chat", &[bash("echo hi"), say("First."), say("Second.")], "interactive = true\n");
    let task = world.submit(&agent, "Hi.");
    world.work();
    assert_eq!(world.status(&task), "waiting");
    task
}

fn flip(world: &World, from: &str, to: &str) {
    let (from, to) = (format!("'\"{from}\"'"), format!("'\"{to}\"'"));
    world.sql(&format!(
        "{UNGUARDED} UPDATE events SET body = CAST(replace(CAST(body AS TEXT), {from}, {to}) AS BLOB) WHERE seq = 4;
         CREATE TRIGGER events_never_change BEFORE UPDATE ON events
         BEGIN SELECT RAISE(ABORT, 'a recorded event is never changed'); END;"
    ));
}

fn is_broken_at_4(verified: &Ran, task: &str) {
    let verdict = verified.json();
    assert_eq!((verdict["ok"].as_bool(), verdict["integrity"].as_str()), (Some(false), Some("broken")));
    let breaks = verdict["breaks"].as_array().expect("breaks");
    assert_eq!((breaks[0]["task"].as_str(), breaks[0]["seq"].as_u64()), (Some(task), Some(4)), "{breaks:?}");
    assert!(breaks[0]["rule"].is_string());
}

/// RC-9: verification names the event; nothing is appended; with the byte back in its place
/// and the block lifted the task goes on, and the message that came meanwhile is taken.
#[test]
fn rc_9_a_flipped_byte_blocks_the_task_until_it_is_mended() {
    let world = World::new();
    let task = waiting_task(&world);
    let events = world.events(&task).len();
    flip(&world, "origin", "origim");

    is_broken_at_4(&world.plica(&["verify", &task, "--json"]).exits(5), &task);
    is_broken_at_4(&world.plica(&["verify", "--all", "--json"]).exits(5), &task);
    let words = world.plica(&["verify", &task]).exits(5).says(&["verification failed"]);
    assert!(words.text().contains(&format!("task {task} event 4")), "{}", words.text());

    let refusal = world.plica(&["send", &task, "Go on."]).exits(4).says(&["blocked", "event 4"]);
    assert_eq!(world.events(&task).len(), events, "nothing was appended");
    assert!(world.row(&task)["blocked"].as_str().is_some_and(|why| why.contains("event 4")));
    let shown = world.plica(&["show", &task]).exits(4).says(&["event 4"]);
    assert!(shown.text().contains("blocked: unreadable log: event 4"), "{}", shown.text());
    assert!(world.plica(&["list"]).exits(0).text().contains("blocked"));
    assert!(world.plica(&["doctor"]).exits(0).text().contains(&format!("`plica doctor --unblock {task}`")));
    assert_eq!(world.plica(&["doctor", "--json"]).exits(0).json()["blocked"][0]["task"], task.as_str());
    world.work();
    assert_eq!(world.events(&task).len(), events, "a worker leaves it alone");

    // What the refusal says to type is understood; unblocked but not mended it blocks again.
    world.next_commands_work(&refusal);
    world.work();
    assert!(world.row(&task)["blocked"].is_string());

    flip(&world, "origim", "origin");
    assert_eq!(world.plica(&["doctor", "--unblock", &task, "--json"]).exits(0).json()["unblocked"], true);
    world.work();
    assert_eq!(world.row(&task).get("blocked"), None);
    assert_eq!(world.payloads(&task, "TaskSuspended").last().expect("a suspend")["answer"], "Second.");
    world.is_sound(&task);
}

/// ST-18: the tenth claim in a row that came to nothing blocks the task.
#[test]
fn st_18_a_poisoned_task_is_blocked_and_can_be_let_go_on() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say("Done.")], ""), "Go.");
    world.sql("UPDATE tasks SET idle_claims = 9");
    world.work();
    assert_eq!(world.row(&task)["blocked"], "poison: ten claims in a row ended without an append");
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains(&format!("`plica doctor --unblock {task}`")), "{shown}");
    world.plica(&["doctor", "--unblock", &task]).exits(0).says(&["`plica worker --until-idle`"]);
    world.work();
    assert_eq!(world.status(&task), "completed");
    world.plica(&["doctor", "--unblock", &task]).exits(2).says(&["is not blocked"]);
}

/// RC-9: a log that verifies but whose content is gone fails by an ordinary end; what is there
/// can still be read.
#[test]
fn rc_9_content_that_is_damaged_fails_the_task() {
    let world = World::new();
    let agent = world.agent("a", &[say("Done.")], "");
    let task = world.submit(&agent, "Go.");
    world.sql("UPDATE content SET bytes = zeroblob(size)");
    let ran = world.plica(&["worker", "--until-idle"]).exits(0);
    assert_eq!(world.status(&task), "failed", "{}", ran.err);
    assert_eq!(world.payloads(&task, "TaskFailed")[0]["reason"], "content_error");
    let verdict = world.plica(&["verify", &task, "--json"]).exits(5).json();
    assert_eq!(verdict["breaks"][0]["seq"], 1, "the event that cites it: {verdict}");
    world.plica(&["show", &task]).exits(0);
    world.plica(&["messages", &task]).exits(0);
}

/// SN-1, SN-2: with every snapshot damaged the state is the same and the task goes on.
#[test]
fn sn_2_damaged_snapshots_cost_nothing_but_time() {
    let world = World::new();
    let replies: Vec<_> =
        (0..12).map(|round| bash(&format!("echo {round}"))).chain([say("First."), say("Second.")]).collect();
    let agent = world.agent("chat", &replies, "interactive = true\n");
    world.plica(&["run", "--agent", text(&agent), "Go."]).exits(3);
    let state = world.plica(&["show", "@last", "--json"]).exits(0).out;
    let snapshots = world.payloads("@last", "TaskSnapshot");
    assert!(!snapshots.is_empty());
    for snapshot in snapshots {
        world.content(&snapshot["state_ref"], "UPDATE content SET bytes = zeroblob(size)");
    }
    assert_eq!(world.plica(&["show", "@last", "--json"]).exits(0).out, state);
    assert_eq!(world.plica(&["send", "@last", "Go on."]).exits(3).out, b"Second.\n");
}

/// PR-1: an event that was taken out, and a head that was cut off.
#[test]
fn pr_1_removed_events_are_named() {
    let world = World::new();
    let task = waiting_task(&world);
    world.sql("DROP TRIGGER events_never_go; DELETE FROM events WHERE seq = 6;");
    let verdict = world.plica(&["verify", &task, "--json"]).exits(5).json();
    assert_eq!(verdict["breaks"][0]["seq"], 6, "{verdict}");
    world.plica(&["send", &task, "Go on."]).exits(4).says(&["blocked"]);

    let other = World::new();
    let task = waiting_task(&other);
    let last = other.events(&task).len();
    other.sql(&format!("DROP TRIGGER events_never_go; DELETE FROM events WHERE seq = {last};"));
    let verdict = other.plica(&["verify", &task, "--json"]).exits(5).json();
    assert_eq!(verdict["breaks"][0]["seq"].as_u64(), Some(last as u64), "{verdict}");
    other.plica(&["send", &task, "Go on."]).exits(4).says(&["blocked"]);
}

/// PR-1: a row that was put back to an earlier event does not pass for one that a worker has just
/// moved on.
#[test]
fn pr_1_a_row_behind_its_log_is_named() {
    let world = World::new();
    let task = waiting_task(&world);
    world.sql("UPDATE tasks SET seq = 6, hash = (SELECT hash FROM events WHERE events.task = tasks.key AND seq = 6)");
    let verdict = world.plica(&["verify", &task, "--json"]).exits(5).json();
    assert_eq!(verdict["breaks"][0]["seq"], 6, "{verdict}");
}
