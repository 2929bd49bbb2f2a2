//! What people and signals do at awkward moments.

use serde_json::{Value, json};

use crate::world::{World, bash, say, say_late, text};

/// A reply that makes these calls.
fn calls(calls: &[(&str, Value)]) -> Value {
    let calls: Vec<Value> = calls.iter().map(|(tool, args)| json!({ "tool": tool, "args": args })).collect();
    json!({ "calls": calls })
}

/// An agent with this further tool, below whatever it delegates to.
fn agent(world: &World, name: &str, replies: &[Value], tools: &str, lines: &str) -> std::path::PathBuf {
    let path = world.agent(name, replies, lines);
    let file = std::fs::read_to_string(&path).expect("it was written");
    world.write(&format!("{name}.toml"), &file.replace("\"Bash\"]", &format!("\"Bash\", {tools}]")))
}

fn root(world: &World) -> String {
    let rows = world.plica(&["list", "--json"]).exits(0).lines();
    let root = rows.iter().find(|row| row.get("parent").is_none()).expect("a root");
    root["task"].as_str().expect("an id").to_owned()
}

/// A child waits for a person: `run` ends with 3 and says how to answer, what it says works as
/// printed, and the answer carries the whole on.
#[test]
fn cl_8_a_subtask_that_waits_for_a_person_shows_in_the_task() {
    let world = World::new();
    let asks = calls(&[("AskUser", json!({ "question": "Which colour?" }))]);
    agent(&world, "asker", &[asks, say("It is red.")], "\"AskUser\"", "");
    let delegates = calls(&[("Task", json!({ "agent": "asker", "goal": "Ask." }))]);
    let middle = "subagents = [\"asker.toml\"]\n";
    agent(&world, "middle", &[delegates, say("Asked: red.")], "\"Task\"", middle);
    let delegates = calls(&[("Task", json!({ "agent": "middle", "goal": "Have it asked." }))]);
    let top = agent(&world, "top", &[delegates, say("Red.")], "\"Task\"", "subagents = [\"middle.toml\"]\n");
    let ran = world.plica(&["run", "--agent", text(&top), "Find out."]).exits(3);
    let ran = ran.says(&["1 of 1 subtask", "Which colour?", "`plica answer "]);
    let task = root(&world);
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("Which colour?"), "{shown}");
    let tree = world.plica(&["list", "--tree"]).exits(0).text();
    let ids: Vec<&str> = tree.lines().skip(1).filter_map(|line| line.split("  01").next()).collect();
    assert_eq!(ids.iter().map(|indent| indent.len()).collect::<Vec<_>>()[1..], [0, 2], "{tree}");
    // The newest is the newest that someone created.
    assert_eq!(world.plica(&["show", "@last"]).exits(0).text().lines().next(), shown.lines().next());
    let printed = ran.next_commands().into_iter().find(|words| words[0] == "answer").expect("a command to type");
    assert_eq!(world.plica(&printed).exits(0).out, b"Red.\n");
    assert_eq!(world.status(&task), "completed");
    world.is_sound(&task);
}

/// CL-7: Ctrl-C stops the turn and what it delegated; the printed line carries on.
#[test]
fn cl_7_an_interrupt_stops_subtasks_too() {
    let world = World::new();
    let begun = world.pipe("begun");
    world.agent("child", &[bash("echo > begun; sleep 1000"), say("never")], "");
    let delegates = calls(&[("Task", json!({ "agent": "child", "goal": "Sleep." }))]);
    let top = agent(&world, "top", &[delegates, say("Carried on.")], "\"Task\"", "subagents = [\"child.toml\"]\n");
    let run = world.spawn(&["run", "--agent", text(&top), "Delegate."]);
    begun.wait();
    run.signal("INT");
    let ended = run.end().exits(130).says(&["`plica send "]);
    let task = root(&world);
    let child = world.payloads(&task, "SubtaskSpawned")[0]["child"].as_str().expect("an id").to_owned();
    assert_eq!((world.status(&task).as_str(), world.status(&child).as_str()), ("waiting", "cancelled"));
    let printed = ended.next_commands().into_iter().find(|words| words[0] == "send").expect("a command to type");
    assert_eq!(world.plica(&printed).exits(0).out, b"Carried on.\n");
    world.is_sound(&task);
    world.is_sound(&child);
}

/// ST-7: a task that is not due for days is cancelled now, and its cancel returns.
#[test]
fn st_7_a_task_that_is_not_due_is_cancelled_now() {
    let world = World::new();
    let agent = world.agent("a", &[say("Never asked.")], "");
    let task = world.plica(&["submit", "--agent", text(&agent), "--in", "3d", "Later."]).exits(0).text();
    world.plica(&["cancel", &task]).exits(1);
    assert_eq!(world.payloads(&task, "LLMRequestStarted").len(), 0);
    world.is_sound(&task);
}

/// ST-7: orders that come twice leave the task at rest, and nothing is sent to a closed one.
#[test]
fn st_7_closing_and_reopening_twice_is_no_trouble() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say("One."), say("Two.")], ""), "Go.");
    world.work();
    for verb in ["reopen", "reopen", "close", "close"] {
        world.plica(&[verb, &task, "--detach"]);
        if verb == "close" {
            world.work();
        }
    }
    assert_eq!(world.row(&task)["status"], "waiting");
    assert_eq!(world.row(&task).get("claimable_at"), None);
    world.plica(&["send", &task, "Hello?"]).exits(2).says(&["is closed", "`plica reopen "]);
    world.plica(&["reopen", &task]).exits(3);
    assert_eq!(world.plica(&["send", &task, "Hello?"]).exits(0).out, b"Two.\n");
    world.is_sound(&task);
}

/// EN-6: with a worker alive, reopening returns once the next message can be sent.
#[test]
fn en_6_what_is_sent_after_a_reopening_arrives() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say("One."), say("Two.")], ""), "Go.");
    world.work();
    let _worker = world.spawn(&["worker"]);
    let seen = || world.plica(&["doctor", "--json"]).json()["workers"].as_array().map_or(0, Vec::len) > 0;
    while !seen() {
        std::thread::yield_now();
    }
    world.plica(&["reopen", &task]).exits(0);
    world.plica(&["send", &task, "And now?"]).exits(0);
    world.wait_for(&task, "TaskCompleted", 2);
    world.is_sound(&task);
}

/// EN-6: an interrupt does not wait for a reply that nobody will read.
#[test]
fn en_6_an_interrupt_breaks_a_request_off() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say_late("Never.", 600_000), say("Again.")], ""), "Go.");
    let _worker = world.spawn(&["worker"]);
    world.wait_for(&task, "LLMRequestStarted", 1);
    world.plica(&["interrupt", &task, "--reason", "enough"]).exits(0);
    world.wait_for(&task, "TaskSuspended", 1);
    assert_eq!(world.payloads(&task, "LLMRequestFinished")[0]["status"], "cancelled");
    assert_eq!(world.payloads(&task, "TurnInterrupted")[0]["reason"], "enough");
    world.is_sound(&task);
}

/// CL-8: the command that signals an event is one that a shell takes as it stands.
#[test]
fn cl_8_an_event_of_any_kind_can_be_signalled_as_printed() {
    let world = World::new();
    let kind = "it's $(here) 🦀";
    let waits = calls(&[("Wait", json!({ "event": kind }))]);
    let task = world.submit(&agent(&world, "a", &[waits, say("It came.")], "\"Wait\"", ""), "Wait.");
    world.work();
    let shown = world.plica(&["show", &task]).exits(0).text();
    let printed = shown.split('`').find(|span| span.starts_with("plica signal ")).expect("a command to type");
    let program = format!("set -- {}; shift; for word do printf '%s\\n' \"$word\"; done", printed);
    let words = std::process::Command::new("sh").args(["-c", &program]).output().expect("sh runs").stdout;
    let words: Vec<&str> = std::str::from_utf8(&words).expect("text").lines().collect();
    assert_eq!(world.plica(&words).exits(0).out, b"It came.\n");
}
