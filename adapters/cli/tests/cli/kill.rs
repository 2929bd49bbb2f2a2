//! SIGKILL: nothing is lost, nothing finished is done again, and nobody waits for the lease of
//! a process that is gone.

use std::fs;
use std::time::{Duration, Instant};

use crate::world::{World, bash, say, say_late, text};

/// Well under the lease of 30 s that the killed process had.
const AT_ONCE: Duration = Duration::from_secs(15);

fn statuses(world: &World, task: &str, kind: &str) -> Vec<String> {
    world.payloads(task, kind).iter().map(|one| one["status"].as_str().expect("a status").to_owned()).collect()
}

/// ST-16, RC-2.
#[test]
fn rc_2_a_killed_command_is_unknown_and_taken_over_at_once() {
    let world = World::new();
    let begun = world.pipe("begun");
    let replies = [bash("echo \"$PLICA_IDEMPOTENCY_KEY\" >> effects; echo > begun; sleep 600"), say("Checked.")];
    let task = world.submit(&world.agent("a", &replies, ""), "Do it once.");
    let worker = world.spawn(&["worker"]);
    begun.wait();
    worker.kill();
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("whose process is gone"), "{shown}");
    let began = Instant::now();
    world.work();
    assert!(began.elapsed() < AT_ONCE, "taken over after {:?}", began.elapsed());
    let call = world.payloads(&task, "ToolCallStarted")[0]["call"].as_str().expect("a call").to_owned();
    assert_eq!(
        fs::read_to_string(world.path("work/effects")).expect("it ran"),
        format!("{task}:{call}\n"),
        "once, under its key"
    );
    assert_eq!(statuses(&world, &task, "ToolCallFinished"), ["unknown"]);
    assert_eq!(world.status(&task), "completed");
    world.is_sound(&task);
}

#[test]
fn rc_1_a_request_that_is_cut_off_is_asked_again() {
    let world = World::new();
    let agent = world.agent("a", &[say_late("Late.", 2_000)], "");
    let runner = world.spawn(&["run", "--json", "--agent", text(&agent), "Think."]);
    let task = loop {
        let event: serde_json::Value = serde_json::from_str(&runner.line()).expect("an event");
        if event["event"]["type"] == "LLMRequestStarted" {
            break event["event"]["task"].as_str().expect("an id").to_owned();
        }
    };
    runner.kill();
    world.work();
    assert_eq!(statuses(&world, &task, "LLMRequestFinished"), ["interrupted", "ok"]);
    let attempts: Vec<_> =
        world.payloads(&task, "LLMRequestStarted").iter().map(|one| one["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(world.payloads(&task, "TaskCompleted")[0]["answer"], "Late.");
    world.is_sound(&task);
}

#[test]
fn rc_1_three_cut_off_in_a_row_fail_the_turn() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say_late("Late.", 600_000)], ""), "Think.");
    for attempt in 1..=3 {
        let worker = world.spawn(&["worker"]);
        world.wait_for(&task, "LLMRequestStarted", attempt);
        worker.kill();
    }
    world.work();
    assert_eq!(statuses(&world, &task, "LLMRequestFinished"), ["interrupted"; 3]);
    assert_eq!(world.payloads(&task, "TaskFailed")[0]["reason"], "llm_error");
    world.is_sound(&task);
}

#[test]
fn rc_2_finished_calls_are_not_run_again() {
    let world = World::new();
    let mut replies: Vec<_> = (1..=3).map(|number| bash(&format!("echo {number} >> effects"))).collect();
    replies[2]["delay_ms"] = 2_000.into();
    replies.push(say("Done."));
    let task = world.submit(&world.agent("a", &replies, ""), "Three effects.");
    let worker = world.spawn(&["worker"]);
    world.wait_for(&task, "LLMRequestStarted", 3);
    worker.kill();
    world.work();
    assert_eq!(fs::read_to_string(world.path("work/effects")).expect("they ran"), "1\n2\n3\n");
    assert_eq!(statuses(&world, &task, "ToolCallFinished"), ["ok"; 3]);
    world.is_sound(&task);
}

/// ST-19: a message is not left to a worker that was killed a moment ago.
#[test]
fn st_19_a_killed_worker_does_not_count_as_alive() {
    let world = World::new();
    let agent = world.agent("chat", &[say("First."), say("Second.")], "interactive = true\n");
    let task = world.submit(&agent, "Hi.");
    let worker = world.spawn(&["worker"]);
    world.wait_for(&task, "TaskSuspended", 1);
    assert_eq!(world.plica(&["doctor", "--json"]).exits(0).json()["workers"].as_array().map(Vec::len), Some(1));
    worker.kill();
    assert_eq!(world.plica(&["doctor", "--json"]).exits(0).json()["workers"].as_array().map(Vec::len), Some(0));
    assert_eq!(world.plica(&["send", &task, "Go on."]).exits(3).out, b"Second.\n");
}
