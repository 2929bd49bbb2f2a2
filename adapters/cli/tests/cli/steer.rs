//! Submitting and steering: keys, messages, cancels, with and without a worker alive.

use std::fs;

use crate::world::{World, bash, say, say_late, text};

const INTERACTIVE: &str = "interactive = true\n";

#[test]
fn cl_6_an_interactive_agent_goes_on_over_several_turns() {
    let world = World::new();
    let replies = [say("Hello."), bash("echo noted > note.txt"), say("Noted."), say("Bye.")];
    let agent = world.agent("chat", &replies, INTERACTIVE);
    let first =
        world.plica(&["run", "--agent", text(&agent), "Hi."]).exits(3).says(&["waits for a message", "`plica send"]);
    assert_eq!(first.out, b"Hello.\n");
    let task = world.plica(&["list", "--json"]).lines()[0]["task"].as_str().expect("an id").to_owned();
    let second = world.plica(&["send", "@last", "Take a note."]).exits(3);
    assert_eq!(second.out, b"Noted.\n");
    assert_eq!(fs::read_to_string(world.path("work/note.txt")).expect("the note"), "noted\n");
    assert_eq!(world.plica_given(&["send", &task, "-"], b"Good\0bye.\n").exits(3).out, b"Bye.\n");
    let asked: Vec<String> = world
        .plica(&["messages", &task, "--json"])
        .lines()
        .iter()
        .filter(|said| said["origin"] == "human")
        .map(|said| said["text"].as_str().expect("a text").to_owned())
        .collect();
    assert_eq!(asked, ["Hi.", "Take a note.", "Good\0bye.\n"]);
    world.is_sound(&task);
    world.plica(&["cancel", &task]).exits(1);
    assert_eq!(world.status(&task), "cancelled");
}

#[test]
fn cl_6_send_and_cancel_drive_here_without_a_worker() {
    let world = World::new();
    let task = world.submit(&world.agent("chat", &[say("One.")], INTERACTIVE), "Hi.");
    assert_eq!(world.plica(&["send", &task, "And this."]).exits(3).out, b"One.\n");
    assert_eq!(world.payloads(&task, "MessagesAppended").len(), 3, "goal, message, answer");
    let other = world.submit(&world.agent("other", &[say("Never asked.")], ""), "Hi.");
    world.plica(&["cancel", &other, "--reason", "not needed"]).exits(1).says(&["was cancelled"]);
    assert_eq!(world.payloads(&other, "TaskCancelled")[0]["reason"], "not needed");
    assert_eq!(world.payloads(&other, "LLMRequestStarted").len(), 0);
}

#[test]
fn cl_6_detached_they_only_deliver() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say("Heard.")], ""), "Hi.");
    world.plica(&["send", &task, "And this.", "--detach"]).exits(0).says(&["no worker is alive"]);
    assert_eq!(world.status(&task), "ready");
    world.work();
    assert_eq!(world.status(&task), "completed");
    assert_eq!(world.payloads(&task, "MessagesAppended").len(), 3);
}

/// What was delivered is durable when the task is driven: killed while it drives, `send` has
/// lost nothing, and the message is taken once.
#[test]
fn cl_6_a_message_is_safe_before_anything_is_driven() {
    let world = World::new();
    let replies = [say("First."), say_late("Second.", 2_000)];
    let task = world.submit(&world.agent("chat", &replies, INTERACTIVE), "Hi.");
    world.work();
    let sender = world.spawn(&["send", &task, "Go on."]);
    world.wait_for(&task, "LLMRequestStarted", 2);
    sender.kill();
    world.work();
    let said: Vec<String> = world
        .plica(&["messages", &task, "--json"])
        .lines()
        .iter()
        .map(|said| said["text"].as_str().expect("a text").to_owned())
        .collect();
    assert_eq!(said, ["Hi.", "First.", "Go on.", "Second."]);
    world.is_sound(&task);
}

#[test]
fn cl_6_with_a_worker_alive_they_leave_the_work_to_it() {
    let world = World::new();
    let agent = world.agent("chat", &[say("First."), say("Second.")], INTERACTIVE);
    let task = world.submit(&agent, "Hi.");
    let worker = world.spawn(&["worker"]);
    world.wait_for(&task, "TaskSuspended", 1);
    let sent = world.plica(&["send", &task, "Go on.", "--json"]).exits(0).says(&["a worker is alive"]);
    assert_eq!(sent.json()["driven"], false);
    world.wait_for(&task, "TaskSuspended", 2);
    world.plica(&["cancel", &task]).exits(0);
    world.wait_for(&task, "TaskCancelled", 1);
    worker.signal("TERM");
    worker.end().exits(0);
    // A worker of another queue is none for this task.
    let other = world.submit(&agent, "Hi.");
    let elsewhere = world.spawn(&["worker", "--queues", "elsewhere"]);
    let sign = world.plica(&["submit", "--agent", text(&agent), "--queue", "elsewhere", "Hi."]).exits(0).text();
    world.wait_for(&sign, "TaskSuspended", 1);
    assert_eq!(world.plica(&["send", &other, "x", "--json"]).exits(3).json()["driven"], true);
    drop(elsewhere);
}

/// CL-6, ST-19: another `plica run` works on its own task alone, so nobody is told to count
/// on it; but a message to the very task that it drives is left to it.
#[test]
fn cl_6_a_run_of_another_task_is_no_worker_to_wait_for() {
    let world = World::new();
    let go = world.pipe("go");
    let slow = world.agent("slow", &[bash("cat go"), say("Slow."), say("Heard.")], "");
    let runner = world.spawn(&["run", "--json", "--agent", text(&slow), "Take your time."]);
    let first: serde_json::Value = serde_json::from_str(&runner.line()).expect("an event");
    let busy = first["event"]["task"].as_str().expect("an id").to_owned();
    world.wait_for(&busy, "ToolCallStarted", 1);
    let quick = world.submit(&world.agent("quick", &[say("Quick.")], ""), "Hi.");
    assert_eq!(world.plica(&["send", &quick, "x"]).exits(0).out, b"Quick.\n");
    world.plica(&["send", &busy, "Hear this."]).exits(0).says(&["a worker is alive"]);
    go.open();
    runner.end().exits(0);
    assert_eq!(
        world.payloads(&busy, "MessagesAppended").iter().filter(|one| one.to_string().contains("Hear this")).count(),
        1
    );
    world.is_sound(&busy);
}

#[test]
fn cl_6_a_task_that_is_over_takes_nothing() {
    let world = World::new();
    let done = world.agent("done", &[say("Done.")], "");
    world.plica(&["run", "--agent", text(&done), "Go."]).exits(0);
    let failed = world.agent("failed", &[], "");
    world.plica(&["run", "--agent", text(&failed), "Go."]).exits(1);
    let cancelled = world.submit(&done, "Go.");
    world.plica(&["cancel", &cancelled]).exits(1);
    for row in world.plica(&["list", "--json"]).lines() {
        let task = row["task"].as_str().expect("an id");
        let before = world.plica(&["events", task, "--json"]).exits(0).out;
        for verb in [&["send", task, "More."][..], &["cancel", task], &["send", task, "More.", "--detach"]] {
            let refusal =
                world.plica(verb).exits(2).says(&[task, "is over", row["status"].as_str().expect("a status")]);
            assert_eq!(refusal.text(), "");
            world.next_commands_work(&refusal);
        }
        assert_eq!(world.plica(&["events", task, "--json"]).exits(0).out, before);
        assert_eq!(world.row(task), row);
    }
    let file = rusqlite::Connection::open(world.db()).expect("the store");
    let items: i64 = file.query_row("SELECT count(*) FROM inbox", [], |row| row.get(0)).expect("a count");
    assert_eq!(items, 1, "the one cancel");
}

/// EN-6: a cancel reaches the holder within a second or so and stops what runs.
#[test]
fn en_6_a_cancel_stops_a_running_command() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[bash("sleep 600; echo late > late")], ""), "Go.");
    let worker = world.spawn(&["worker", "--until-idle"]);
    world.wait_for(&task, "ToolCallStarted", 1);
    world.plica(&["cancel", &task, "--reason", "enough"]).exits(0);
    worker.end().exits(0);
    assert_eq!(world.status(&task), "cancelled");
    let outcomes = world.payloads(&task, "ToolCallFinished");
    assert_eq!(outcomes.len(), 1);
    assert!(!world.path("work/late").exists());
    world.is_sound(&task);
}

/// EN-8: what a task was submitted with is what it runs with.
#[test]
fn en_8_changing_the_files_changes_no_task() {
    let world = World::new();
    let agent = world.agent("a", &[say("As submitted.")], "");
    let task = world.submit(&agent, "Go.");
    fs::remove_file(&agent).expect("the agent file goes");
    world.write("a.json", r#"{"replies":[{"text":"As changed."}]}"#);
    world.work();
    assert_eq!(world.payloads(&task, "TaskCompleted")[0]["answer"], "As submitted.");
    world.is_sound(&task);
}

#[test]
fn st_16_a_key_submits_once() {
    let world = World::new();
    let agent = world.agent("a", &[say("Done.")], "");
    let submit = |more: &[&str]| world.plica(&[&["submit", "--agent", text(&agent), "--key", "k"], more].concat());
    let first = submit(&["Go."]).exits(0).text();
    assert_eq!(submit(&["Go."]).exits(0).text(), first);
    let again = submit(&["Go.", "--json"]).exits(0).json();
    assert_eq!((again["task"].as_str(), again["new"].as_bool()), (Some(first.as_str()), Some(false)));
    let refusal = submit(&["Something else."]).exits(2).says(&[&first, "another key"]);
    world.next_commands_work(&refusal);
    submit(&["Go.", "--queue", "other"]).exits(2);
    submit(&["Go.", "--in", "1h"]).exits(2);
    world.work();
    assert_eq!(submit(&["Go."]).exits(0).text(), first, "also when it is over");
    assert_eq!(world.plica(&["list", "--json"]).lines().len(), 1);
    // A delay counts from each call, and is the same delay all the same.
    let delayed = ["submit", "--agent", text(&agent), "--key", "later", "--in", "1h", "Go."];
    let later = world.plica(&delayed).exits(0).text();
    assert_eq!(world.plica(&delayed).exits(0).text(), later);
}

#[test]
fn cl_4_a_goal_from_standard_input_is_taken_as_it_is() {
    let world = World::new();
    let agent = world.agent("a", &[say("Done.")], "");
    for (given, taken) in [
        (&b" \n goal\r\n\n"[..], " \n goal\r\n\n"),
        (b"nul \0 in it", "nul \0 in it"),
        (b"", ""),
        (b"broken \xff\xfe utf-8 \xc3", "broken \u{fffd}\u{fffd} utf-8 \u{fffd}"),
    ] {
        let submitted = world.plica_given(&["submit", "--agent", text(&agent), "-"], given).exits(0);
        assert_eq!(submitted.err.contains("U+FFFD"), taken.contains('\u{fffd}'), "it is said: {}", submitted.err);
        let task = submitted.text();
        assert_eq!(world.payloads(&task, "TaskCreated")[0]["goal"], taken);
        world.work();
        assert_eq!(world.status(&task), "completed");
        world.is_sound(&task);
    }
}

#[test]
fn cl_4_submit_prints_the_id_alone() {
    let world = World::new();
    let agent = world.agent("a", &[say("Done.")], "");
    let submitted = world.plica(&["submit", "--agent", text(&agent), "Go."]).exits(0);
    assert_eq!(submitted.err, "");
    let id = submitted.text();
    assert_eq!(submitted.out, format!("{id}\n").as_bytes());
    assert_eq!(world.row(&id)["status"], "ready");
}
