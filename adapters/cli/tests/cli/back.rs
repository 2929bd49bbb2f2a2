//! Going back, aside, and on again: `rewind`, `fork`, `resolve`.

use std::fs;

use serde_json::{Value, json};

use crate::world::{World, bash, say};

fn write(path: &str, content: &str) -> Value {
    json!({"tool": "Write", "args": {"file_path": path, "content": content}})
}

/// An interactive task with two turns that wrote files, and where each ended.
fn two_turns(world: &World) -> (String, u64, u64) {
    let replies = [
        json!({"calls": [write("a.txt", "one")]}),
        say("First."),
        json!({"calls": [write("a.txt", "two"), write("new.txt", "two"), write("mine.txt", "two")]}),
        say("Second."),
        say("Third."),
    ];
    let task = world.submit(&world.agent("writer", &replies, "interactive = true\n"), "Turn one.");
    world.work();
    let head = || world.plica(&["show", &task, "--json"]).json()["head"]["seq"].as_u64().expect("a seq");
    let first = head();
    world.plica(&["send", &task, "Turn two."]).exits(3);
    (task.clone(), first, head())
}

#[test]
fn sn_5_a_rewind_puts_files_back_and_names_what_it_leaves() {
    let world = World::new();
    let (task, first, second) = two_turns(&world);
    fs::write(world.path("work/mine.txt"), "someone else's").expect("a file");
    let to = first.to_string();
    let listed = world.plica(&["rewind", &task, "--to", &to, "--dry-run"]).exits(0).text();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines, ["restore a.txt", "leave   mine.txt: it was changed by someone else since", "remove  new.txt"]);
    assert_eq!(world.payloads(&task, "TaskRewound").len(), 0, "nothing was changed");
    let file = |name: &str| fs::read_to_string(world.path(&format!("work/{name}"))).ok();
    assert_eq!(file("a.txt").as_deref(), Some("two"));

    // With no worker alive it is carried out here.
    world.plica(&["rewind", &task, "--to", &to]).exits(3);
    assert_eq!(file("a.txt").as_deref(), Some("one"));
    assert_eq!(file("mine.txt").as_deref(), Some("someone else's"));
    assert_eq!(file("new.txt"), None);
    let left = world.payloads(&task, "FilesRestored")[0]["left"].as_str().expect("what was left").to_owned();
    assert!(left.contains("mine.txt"), "{left}");
    assert!(!world.plica(&["messages", &task]).exits(0).text().contains("Turn two."));
    world.is_sound(&task);

    // Undone by going to before it.
    world.plica(&["rewind", &task, "--to", &second.to_string()]).exits(3);
    assert_eq!((file("a.txt").as_deref(), file("new.txt").as_deref()), (Some("two"), Some("two")));
    assert!(world.plica(&["messages", &task]).exits(0).text().contains("Turn two."));
    world.is_sound(&task);
}

#[test]
fn sn_5_cl_8_a_place_that_is_no_boundary_is_refused_with_the_next_command() {
    let world = World::new();
    let (task, first, _) = two_turns(&world);
    let before = world.events(&task).len();
    for to in ["1", "3", "9999", &(first + 3).to_string()] {
        let refused = world.plica(&["rewind", &task, "--to", to]).exits(2);
        world.next_commands_work(&refused);
        world.plica(&["fork", &task, "--at", to]).exits(2);
    }
    assert_eq!(world.events(&task).len(), before, "nothing was written");
}

#[test]
fn sn_4_a_fork_goes_its_own_way_and_stands_below_its_source() {
    let world = World::new();
    let (task, first, _) = two_turns(&world);
    let before = world.events(&task);
    let fork = world.plica(&["fork", &task, "--at", &first.to_string()]).exits(0).text();
    world.plica(&["send", &fork, "Other way."]).exits(3);
    let said = world.plica(&["messages", &fork]).exits(0).text();
    assert!(said.contains("Turn one.") && said.contains("Other way.") && !said.contains("Turn two."), "{said}");
    let tree = world.plica(&["list", "--tree"]).exits(0).text();
    let place = |id: &str| tree.lines().position(|line| line.contains(id)).expect("a line");
    assert_eq!(place(&fork), place(&task) + 1, "{tree}");
    assert!(tree.contains(&format!("  {fork}")), "{tree}");
    assert_eq!(world.events(&task), before, "the source is never written to");
    world.is_sound(&fork);
    world.is_sound(&task);
}

/// A call whose outcome is unknown is named whatever the task waits for, and a word on it counts.
#[test]
fn cl_8_a_call_of_unknown_outcome_is_named_while_the_task_waits_for_an_answer() {
    let world = World::new();
    let begun = world.pipe("begun");
    let asks = json!({"calls": [{"tool": "AskUser", "args": {"question": "And now?"}}]});
    let replies = [bash("echo > begun; sleep 600"), asks, say("I see."), say("Noted.")];
    let agent = world.agent("a", &replies, "");
    let text = fs::read_to_string(&agent).expect("an agent");
    fs::write(&agent, text.replace("\"Bash\"", "\"Bash\", \"AskUser\"")).expect("a file");
    let task = world.submit(&agent, "Do it once.");
    let worker = world.spawn(&["worker"]);
    begun.wait();
    worker.kill();
    world.work();
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("waits for an answer to \"And now?\""), "{shown}");
    assert!(shown.contains("and takes beside that a word on call "), "{shown}");
    assert!(shown.contains(&format!("`plica resolve {task} --call ")), "{shown}");
}

#[test]
fn to_3_a_person_says_what_became_of_a_call_and_a_parked_task_goes_on() {
    for (word, effects, told) in [
        (&["--landed", "it is there"][..], 1, "it is there"),
        (&["--not-landed"], 2, "was to run now"),
        (&["--skip"], 1, "go on without it"),
    ] {
        let world = World::new();
        let begun = world.pipe("begun");
        let replies = [bash("echo x >> effects; test -e again || { echo > begun; sleep 600; }"), say("Went on.")];
        let task = world.submit(&world.agent("a", &replies, "on_crash = \"park\"\n"), "Do it once.");
        let worker = world.spawn(&["worker"]);
        begun.wait();
        worker.kill();
        world.work();
        assert_eq!(world.status(&task), "waiting");
        let shown = world.plica(&["show", &task]).exits(0).text();
        assert!(shown.contains(&format!("`plica resolve {task} --call ")), "{shown}");
        fs::write(world.path("work/again"), "").expect("a file");
        let resolve: Vec<&str> = ["resolve", &task].into_iter().chain(word.iter().copied()).collect();
        assert_eq!(world.plica(&resolve).exits(0).text(), "Went on.");
        assert_eq!(fs::read_to_string(world.path("work/effects")).expect("effects").lines().count(), effects);
        let said = world.plica(&["messages", &task]).exits(0).text();
        assert!(said.contains(told), "{said}");
        world.plica(&resolve).exits(2);
        world.is_sound(&task);
    }
}
