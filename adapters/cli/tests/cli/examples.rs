//! The examples do what they say, with a script in the place of their model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::{World, text};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The example in the world's folder, its model replaced by the script of its name.
fn scripted(world: &World, name: &str) -> PathBuf {
    let agent = fs::read_to_string(examples().join(format!("{name}.toml"))).expect("the example is there");
    let model = "model = \"ollama:qwen3:8b\"";
    assert!(agent.contains(model), "{name}");
    let script = fs::read_to_string(examples().join(format!("scripted/{name}.json"))).expect("its script is there");
    world.write(&format!("{name}.json"), &script);
    world.write(&format!("{name}.toml"), &agent.replace(model, &format!("model = \"script:{name}.json\"")))
}

fn git(world: &World, words: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
    let mut command = Command::new("git");
    command.args(identity).args(words).current_dir(world.path("work")).env("GIT_CONFIG_NOSYSTEM", "1");
    let ran = command.output().expect("git runs");
    assert!(ran.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn every_agent_file_of_the_examples_is_sound() {
    let world = World::new();
    let files = fs::read_dir(examples()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let agents: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    assert!(agents.len() >= 5);
    let words: Vec<&str> = ["agent", "check"].into_iter().chain(agents.iter().map(|path| text(path))).collect();
    world.plica(&words).exits(0);
}

/// EN-3: the reviewer looks, and what would change something is denied without asking.
#[test]
fn en_3_the_code_review_looks_and_changes_nothing() {
    let world = World::new();
    fs::write(world.path("work/sum.py"), "def total(n):\n    return sum(range(1, n + 1))\n").expect("a file");
    git(&world, &["init", "-q"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "-qm", "sums"]);
    fs::write(world.path("work/sum.py"), "def total(n):\n    return sum(range(1, n))\n").expect("a file");
    let ran = world.plica(&["run", "--agent", text(&scripted(&world, "code-review")), "Review."]).exits(0);
    assert!(ran.text().starts_with("sum.py:2: "));
    assert!(ran.err.contains("denied: "), "{}", ran.err);
    let outcomes = world.payloads("@last", "ToolCallFinished");
    assert_eq!(outcomes.iter().filter(|outcome| outcome["status"] == "ok").count(), 4, "{outcomes:?}");
    let outputs: Vec<&str> = outcomes.iter().filter_map(|outcome| outcome["output"].as_str()).collect();
    assert!(outputs.iter().any(|output| output.contains("+    return sum(range(1, n))")), "{outputs:?}");
    world.is_sound("@last");
}

/// CL-6: a question in the middle, an answer, then a message: one conversation over three commands.
#[test]
fn cl_6_the_research_notes_ask_and_go_on() {
    let world = World::new();
    let agent = scripted(&world, "research-notes");
    let ran = world.plica(&["run", "--agent", text(&agent), "Notes on how caches fail."]).exits(3);
    assert!(ran.err.contains("Caches of processors, or of web servers?"), "{}", ran.err);
    world.plica(&["answer", "@last", "Web servers."]).exits(3);
    let ran = world.plica(&["send", "@last", "They take a lock for each key."]).exits(3);
    assert_eq!(ran.text(), "The open question is answered.");
    let notes = fs::read_to_string(world.path("work/notes.md")).expect("the notes are there");
    assert!(notes.contains("Damped by a lock for each key."), "{notes}");
    world.is_sound("@last");
}

/// CL-4: submitted for later, twice under one key, it runs once, and not before.
#[test]
fn cl_4_the_chore_is_done_later_and_once() {
    let world = World::new();
    let agent = scripted(&world, "chore");
    let submit = ["submit", "--agent", text(&agent), "--in", "1s", "--key", "monday", "Where did the space go?"];
    let task = world.plica(&submit).exits(0).text();
    assert_eq!(world.plica(&submit).exits(0).text(), task);
    assert!(!world.path("work/report.md").exists());
    world.plica(&["worker", "--queues", "chores", "--until-idle"]).exits(0);
    assert_eq!(world.status(&task), "completed");
    assert!(world.path("work/report.md").exists());
    world.is_sound(&task);
}
