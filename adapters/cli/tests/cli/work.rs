//! Workers: what they take, when, and how they end.

use crate::world::{World, bash, say, say_late, text};

/// The time of the first event of a type, as text; times sort as texts.
fn at(world: &World, task: &str, kind: &str) -> String {
    let events = world.events(task);
    let event = events.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    event["at"].as_str().expect("a time").to_owned()
}

#[test]
fn cl_4_run_prints_the_answer_and_one_line_feed() {
    let world = World::new();
    for answer in ["Done.", "two\nlines\n", "nul \0 and \u{1F389}"] {
        let agent = world.agent("a", &[say(answer)], "");
        let ran = world.plica(&["run", "--agent", text(&agent), "Go."]).exits(0).says(&["plica: task "]);
        assert_eq!(ran.out, format!("{answer}\n").as_bytes());
    }
}

#[test]
fn cl_4_until_idle_waits_for_what_comes_by_itself_and_takes_nothing_early() {
    let world = World::new();
    let agent = world.agent("a", &[say("Done.")], "");
    let agent = text(&agent);
    let later = world.plica(&["submit", "--agent", agent, "--in", "1s", "Later."]).exits(0).text();
    let past = world.plica(&["submit", "--agent", agent, "--at", "2020-01-01T00:00:00Z", "Long ago."]).exits(0).text();
    let created = &world.payloads(&later, "TaskCreated")[0];
    let due = created["not_before"].as_str().expect("it is on record").to_owned();
    let shown = world.plica(&["show", &later]).exits(0).text();
    assert!(shown.contains(&due), "{shown}");
    world.work();
    assert_eq!((world.status(&later), world.status(&past)), ("completed".into(), "completed".into()));
    let begun = at(&world, &later, "LLMRequestStarted");
    assert!(begun >= due, "begun {begun}, due {due}");
}

#[test]
fn cl_4_until_idle_ends_where_only_people_can_go_on() {
    let world = World::new();
    let chat = world.submit(&world.agent("chat", &[say("Yes?")], "interactive = true\n"), "Hi.");
    world.work();
    world.work();
    assert_eq!(world.status(&chat), "waiting");
}

#[test]
fn cl_4_queues_keep_to_themselves() {
    let world = World::new();
    let agent = world.agent("a", &[say("Done.")], "queue = \"own\"\n");
    let agent = text(&agent);
    let own = world.plica(&["submit", "--agent", agent, "Go."]).exits(0).text();
    let named = world.plica(&["submit", "--agent", agent, "--queue", "reports", "Go."]).exits(0).text();
    world.plica(&["worker", "--until-idle", "--queues", "main"]).exits(0);
    assert_eq!((world.status(&own), world.status(&named)), ("ready".into(), "ready".into()));
    world.plica(&["worker", "--until-idle", "--queues", "main,reports"]).exits(0);
    assert_eq!((world.status(&own), world.status(&named)), ("ready".into(), "completed".into()));
    world.work();
    assert_eq!(world.status(&own), "completed");
    assert_eq!(
        (world.row(&own)["queue"].as_str(), world.row(&named)["queue"].as_str()),
        (Some("own"), Some("reports"))
    );
}

#[test]
fn st_1_the_lowest_priority_number_goes_first() {
    let world = World::new();
    let agent = world.agent("a", &[say("Done.")], "");
    let submit = |priority: &str| {
        world.plica(&["submit", "--agent", text(&agent), "--priority", priority, "Go."]).exits(0).text()
    };
    let tasks = ["3", "1", "2", "0"].map(submit);
    world.plica(&["worker", "--until-idle", "--concurrency", "1"]).exits(0);
    let mut order: Vec<(String, usize)> =
        tasks.iter().map(|task| at(&world, task, "TaskCompleted")).zip([3, 1, 2, 0]).collect();
    order.sort();
    assert_eq!(order.iter().map(|(_, priority)| *priority).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn cl_4_a_worker_exits_with_0_whatever_its_tasks_came_to() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[], ""), "Go.");
    world.work();
    assert_eq!(world.status(&task), "failed");
}

#[test]
fn cl_7_sigterm_hands_claims_back() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say_late("Late.", 600_000)], ""), "Go.");
    let worker = world.spawn(&["worker", "--json"]);
    world.wait_for(&task, "LLMRequestStarted", 1);
    assert!(world.row(&task)["worker"].is_string(), "it is held");
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("held by worker") && shown.contains("asking the model"), "{shown}");
    worker.signal("TERM");
    let last = worker.end().exits(0).lines().pop().expect("how it ended");
    assert_eq!(last["ended"], "stopped");
    let row = world.row(&task);
    assert_eq!((row.get("worker"), row.get("lease_until")), (None, None), "{row}");
    // Nobody waits for the lease of the first.
    let next = world.spawn(&["worker"]);
    world.wait_for(&task, "LLMRequestStarted", 2);
    next.signal("INT");
    next.end().exits(0);
    assert_eq!(world.payloads(&task, "LLMRequestFinished")[0]["status"], "cancelled");
    world.is_sound(&task);
}

/// A command that ends by itself within the moment that is left keeps its outcome.
#[test]
fn cl_7_sigterm_lets_a_short_command_end() {
    let world = World::new();
    let (begun, go) = (world.pipe("begun"), world.pipe("go"));
    let task = world.submit(&world.agent("a", &[bash("echo > begun; cat go; echo whole"), say("Done.")], ""), "Go.");
    let worker = world.spawn(&["worker"]);
    begun.wait();
    worker.signal("TERM");
    go.open();
    worker.end().exits(0);
    let outcomes = world.payloads(&task, "ToolCallFinished");
    assert_eq!((outcomes[0]["status"].as_str(), outcomes[0]["output"].as_str()), (Some("ok"), Some("\nwhole\n")));
    world.work();
    assert_eq!(world.status(&task), "completed");
    assert_eq!(world.payloads(&task, "ToolCallStarted").len(), 1);
}

#[test]
fn cl_7_ctrl_c_in_run_says_how_to_go_on() {
    let world = World::new();
    let agent = world.agent("a", &[say_late("Late.", 600_000)], "");
    let runner = world.spawn(&["run", "--json", "--agent", text(&agent), "Go."]);
    let task = loop {
        let event: serde_json::Value = serde_json::from_str(&runner.line()).expect("an event");
        if event["event"]["type"] == "LLMRequestStarted" {
            break event["event"]["task"].as_str().expect("an id").to_owned();
        }
    };
    runner.signal("INT");
    let ended = runner.end().exits(130).says(&[&task]);
    assert!(!ended.next_commands().is_empty(), "{}", ended.err);
    assert_eq!(world.row(&task).get("worker"), None);
    world.plica(&["cancel", &task]).exits(1);
    world.is_sound(&task);
}
