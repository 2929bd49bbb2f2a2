//! A task at the end of its budget: what people are shown and what their rulings do.

use crate::world::{World, bash, say, text};

#[test]
fn en_4_a_spent_budget_is_asked_about_in_words_and_a_ruling_needs_no_call() {
    let world = World::new();
    let settings = "[budget]\nsteps = 1\n";
    let agent = world.agent("a", &[bash("true"), say("Done.")], settings);
    let ran = world.plica(&["run", "--agent", text(&agent), "Go."]).exits(3);
    let ran = ran.says(&["more budget (1 step spent of 1 step)", "grants 1 step more", "fails the task"]);
    let id = world.plica(&["list", "--json"]).exits(0).lines()[0]["task"].as_str().expect("an id").to_owned();
    let shown = world.plica(&["show", &id]).exits(0).text();
    assert!(shown.contains("waits for more budget"), "{shown}");
    // The commands work as printed.
    let commands = ran.next_commands();
    let approve = commands.iter().find(|words| words[0] == "approve").expect("it is printed").clone();
    assert!(commands.iter().any(|words| words[0] == "deny"));
    let words: Vec<&str> = approve.iter().map(String::as_str).collect();
    assert_eq!(world.plica(&words).exits(0).text(), "Done.");
    assert_eq!(world.status(&id), "completed");

    let second = world.submit(&agent, "Go.");
    world.work();
    world.plica(&["deny", &second, "--reason", "too dear"]).exits(1).says(&["failed: budget"]);
    assert_eq!(world.status(&second), "failed");
    world.plica(&["verify", "--all"]).exits(0);
}
