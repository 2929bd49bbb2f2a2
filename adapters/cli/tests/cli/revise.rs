//! A task that moves to another agent.

use crate::world::{World, say, text};

#[test]
fn en_8_agent_set_moves_a_task_from_its_next_step_on() {
    let world = World::new();
    let first = world.agent("first", &[say("One.")], "interactive = true\n");
    // Replies are chosen by how many came before.
    let second = world.agent("second", &[say("One."), say("Two.")], "");
    let task = world.submit(&first, "Go.");
    world.work();
    world.plica(&["agent", "set", &task, text(&second)]).exits(0).says(&["moves to agent second"]);
    assert_eq!(world.plica(&["send", &task, "Go on."]).exits(0).text(), "Two.");
    let revised = world.payloads(&task, "AgentRevised");
    assert_eq!((revised.len(), revised[0]["agent"].as_str()), (1, Some("second")));
    assert_eq!(world.plica(&["show", &task, "--json"]).exits(0).json()["agent"], "second");
    world.is_sound(&task);
    world.plica(&["agent", "set", &task, text(&second)]).exits(2).says(&["plica show"]);
}

/// EN-8: the queue is where a task was put when it was submitted, and the move says so.
#[test]
fn en_8_a_task_that_moves_stays_in_its_queue() {
    let world = World::new();
    let first = world.agent("first", &[say("One.")], "interactive = true\n");
    let second = world.agent("second", &[say("One."), say("Two.")], "interactive = true\nqueue = \"other\"\n");
    let task = world.submit(&first, "Go.");
    world.work();
    let moved = world.plica(&["agent", "set", &task, text(&second)]).exits(0);
    moved.says(&["stays in queue main", "other is for tasks that are submitted"]);
    world.work();
    assert_eq!(world.row(&task)["queue"], "main");
    assert_eq!(world.plica(&["send", &task, "Go on."]).exits(3).text(), "Two.");
}

#[test]
fn en_8_agent_set_refuses_another_workspace_and_a_broken_file_and_delivers_nothing() {
    let world = World::new();
    let agent = world.agent("a", &[say("One.")], "interactive = true\n");
    let task = world.submit(&agent, "Go.");
    world.work();
    let moved = world.write("moved.toml", "name = \"moved\"\nmodel = \"script:a.json\"\nworkspace = \"elsewhere\"\n");
    std::fs::create_dir_all(world.path("elsewhere")).expect("a folder is made");
    world.plica(&["agent", "set", &task, text(&moved)]).exits(2).says(&["the workspace stays"]);
    let broken = world.write("broken.toml", "name = 1\n");
    world.plica(&["agent", "set", &task, text(&broken)]).exits(4);
    world.plica(&["agent", "set", "nobody", text(&agent)]).exits(2);
    world.work();
    assert!(world.payloads(&task, "AgentRevised").is_empty());
    assert_eq!(world.plica(&["send", &task, "Go on."]).code, 3, "it goes on as it was");
}
