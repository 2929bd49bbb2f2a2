//! What `show` says of a task, and what refusals name: the truth, and commands that work (CL-8).

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::world::{World, bash, say, text};

/// An agent with these tools instead of the usual ones.
fn with_tools(world: &World, name: &str, replies: &[Value], tools: &str, lines: &str) -> PathBuf {
    let path = world.agent(name, replies, lines);
    let usual = std::fs::read_to_string(&path).expect("the agent");
    let line = usual.lines().find(|line| line.starts_with("tools = ")).expect("its tools");
    world.write(&format!("{name}.toml"), &usual.replace(line, &format!("tools = [\"{tools}\"]")))
}

/// A closed conversation takes no message, so the next command is the one that opens it.
#[test]
fn cl_8_what_is_said_of_a_closed_task_opens_it() {
    let world = World::new();
    let agent = world.agent("a", &[say("One."), say("Two.")], "interactive = true\n");
    let task = world.submit(&agent, "Go.");
    world.work();
    let closed = world.plica(&["close", &task]).exits(3).says(&["is closed", "`plica reopen "]);
    assert_eq!(closed.next_commands(), [["reopen", &task]]);
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains(&format!("is closed: `plica reopen {task}`")) && !shown.contains("plica send"), "{shown}");
    let refusal = world.plica(&["interrupt", &task]).exits(2);
    assert_eq!(refusal.next_commands(), [["reopen", &task]]);
    world.next_commands_work(&refusal);
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains(&format!("waits for a message: `plica send {task} TEXT`")), "{shown}");
}

/// The last error stands beside what the task waits for, until something begins that may go
/// better.
#[test]
fn cl_8_show_says_the_last_error() {
    let world = World::new();
    let agent = world.agent("a", &[say("One.")], "interactive = true\n");
    let task = world.submit(&agent, "Go.");
    world.work();
    let error = "last error: llm_error: ";
    assert!(!world.plica(&["show", &task]).exits(0).text().contains(error));
    world.plica(&["send", &task, "Go on."]).exits(3).says(&["the turn failed: llm_error: "]);
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains(error) && shown.contains("the script has 1 reply"), "{shown}");
    let second = world.agent("second", &[say("One."), say("Two.")], "");
    world.plica(&["agent", "set", &task, text(&second)]).exits(0);
    world.work();
    assert!(world.plica(&["show", &task]).exits(0).text().contains(error), "nothing has begun since");
    assert_eq!(world.plica(&["send", &task, "And now?"]).exits(0).text(), "Two.");
    assert!(!world.plica(&["show", &task]).exits(0).text().contains(error));
    let failed = world.submit(&world.agent("b", &[], ""), "Go.");
    world.work();
    let shown = world.plica(&["show", &failed]).exits(0).text();
    assert!(shown.contains("failed; ") && shown.contains(error), "{shown}");
}

/// A state of the past is spoken of as past: no command steers it, and no worker takes it.
#[test]
fn cl_8_sn_6_show_as_of_an_event_speaks_of_then() {
    let world = World::new();
    let asks = json!({ "calls": [{ "tool": "AskUser", "args": { "question": "Which?" } }] });
    let task = world.submit(&with_tools(&world, "a", &[asks, say("Done.")], "AskUser", ""), "Go.");
    world.work();
    let asked = world.events(&task).len();
    assert!(world.plica(&["show", &task, "--at", &asked.to_string()]).exits(0).text().contains("`plica answer "));
    world.plica(&["answer", &task, "This."]).exits(0);
    let last = world.events(&task).len();
    let at = |seq: usize| world.plica(&["show", &task, "--at", &seq.to_string()]).exits(0);
    assert!(at(asked).text().contains(&format!("as of event {asked} it waited for an answer to \"Which?\"; ")));
    assert!(at(1).text().contains("as of event 1 it was ready for a worker; "));
    assert!(at(last).text().contains("\ndone; "));
    for seq in 1..last {
        let shown = at(seq).text();
        assert_eq!(shown.matches("`plica ").count(), 1, "{shown}");
        assert!(shown.contains(&format!("`plica show {task}` says what it does now")), "{shown}");
    }
}

/// What has come is not asked for again: the task is claimable, and no command that would be
/// refused is named.
#[test]
fn cl_8_show_says_that_what_came_is_to_be_taken() {
    let world = World::new();
    let asks = |question: &str| json!({ "tool": "AskUser", "args": { "question": question } });
    let replies = [json!({ "calls": [asks("First?"), asks("Second?")] }), say("Done.")];
    let task = world.submit(&with_tools(&world, "a", &replies, "AskUser", ""), "Go.");
    world.work();
    let call = world.payloads(&task, "QuestionAsked")[0]["call"].as_str().expect("a call").to_owned();
    world.plica(&["answer", &task, "--question", &call, "Yes.", "--detach"]).exits(0);
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("something was delivered to it, so it is claimable"), "{shown}");
    assert!(shown.contains("`plica worker --until-idle`"), "{shown}");
    assert!(shown.contains("and waits for an answer to \"Second?\"") && !shown.contains("First?"), "{shown}");
    world.work();
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("waits for an answer to \"Second?\"") && !shown.contains("claimable"), "{shown}");
    world.plica(&["answer", &task, "No.", "--detach"]).exits(0);
    assert!(!world.plica(&["show", &task]).exits(0).text().contains("plica answer"));
    world.work();
    assert!(world.plica(&["show", &task]).exits(0).text().contains("\ndone; "));
    world.plica(&["reopen", &task, "--detach"]).exits(0);
    assert!(world.plica(&["show", &task]).exits(0).text().contains("so it is claimable"));
    world.work();
    assert!(world.plica(&["show", &task]).exits(0).text().contains("waits for a message"));
}

/// Only those subtasks are said to be waited for that are: one in the background goes on beside.
#[test]
fn cl_8_what_goes_on_in_the_background_is_not_said_to_be_waited_for() {
    let world = World::new();
    let asks = |question: &str| json!({ "calls": [{ "tool": "AskUser", "args": { "question": question } }] });
    with_tools(&world, "beside", &[asks("Beside?"), say("Beside.")], "AskUser", "");
    with_tools(&world, "first", &[asks("First?"), say("First.")], "AskUser", "");
    let delegates = json!({ "calls": [
        { "tool": "Task", "args": { "agent": "beside", "goal": "Go.", "background": true } },
        { "tool": "Task", "args": { "agent": "first", "goal": "Go." } },
    ] });
    let below = "interactive = true\nsubagents = [\"beside.toml\", \"first.toml\"]\n";
    let replies = [delegates, say("Had the first.")];
    let task = world.submit(&with_tools(&world, "top", &replies, "Task", below), "Go.");
    world.work();
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("1 of 1 subtask:") && shown.contains("First?") && !shown.contains("Beside?"), "{shown}");
    let first = world.payloads(&task, "SubtaskSpawned")[1]["child"].as_str().expect("an id").to_owned();
    world.plica(&["answer", &first, "Yes.", "--detach"]).exits(0);
    world.work();
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("1 of 1 subtask:") && shown.contains("Beside?"), "{shown}");
    world.is_sound(&task);
}

/// What a subtask that has reported names is the nearest task above it that can be steered.
#[test]
fn cl_8_refusals_name_commands_that_work_as_printed() {
    let world = World::new();
    world.agent("low", &[say("Low.")], "");
    let delegates = |agent: &str| json!({ "calls": [{ "tool": "Task", "args": { "agent": agent, "goal": "Go." } }] });
    with_tools(&world, "middle", &[delegates("low"), say("Middle.")], "Task", "subagents = [\"low.toml\"]\n");
    let below = "interactive = true\nsubagents = [\"middle.toml\"]\n";
    let top = with_tools(&world, "top", &[delegates("middle"), say("Top.")], "Task", below);
    let task = world.submit(&top, "Go.");
    world.work();
    let child_of = |task: &str| world.payloads(task, "SubtaskSpawned")[0]["child"].as_str().expect("an id").to_owned();
    let low = &child_of(&child_of(&task));
    for refusal in [&["reopen", low][..], &["rewind", low, "--to", "3"], &["gc", "--grace", "1m"]] {
        world.next_commands_work(&world.plica(refusal).exits(2));
    }
    world.plica(&["reopen", low]).exits(2).says(&[&format!("`plica show {task}`")]);

    let asks = world.agent("asks", &[bash("true"), say("Done.")], "ask = [\"Bash\"]\n");
    let task = world.submit(&asks, "Go.");
    world.work();
    let bare = with_tools(&world, "bare", &[say("Done.")], "Read", "");
    let refusal = world.plica(&["agent", "set", &task, text(&bare)]).exits(2).says(&["needs the tool Bash"]);
    world.next_commands_work(&refusal);
    world.plica(&["signal", &task, "--kind", "a", "--key", "k", "--detach"]).exits(0);
    let refusal = world.plica(&["signal", &task, "--kind", "b", "--key", "k", "--detach"]).exits(2);
    world.next_commands_work(&refusal);
}
