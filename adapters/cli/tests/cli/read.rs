//! Verbs that read: what they print for programs and people, and that they leave no trace.

use std::fs;

use serde_json::Value;

use crate::world::{World, bash, say, text};

/// A task of many rounds, so that snapshots lie in its log.
fn long_task(world: &World) -> String {
    let mut replies: Vec<Value> = (0..22).map(|round| bash(&format!("echo {round}"))).collect();
    replies.push(say("counted"));
    let task = world.submit(&world.agent("long", &replies, ""), "Count.");
    world.work();
    task
}

#[test]
fn st_16_reading_creates_nothing() {
    let world = World::new();
    let before: Vec<_> =
        fs::read_dir(world.path("")).expect("the folder").map(|entry| entry.expect("one").path()).collect();
    let verbs = ["list", "list --json", "verify --all", "doctor", "doctor --json", "gc", "gc --dry-run --json"];
    for verb in verbs.map(|verb| verb.split(' ').collect::<Vec<_>>()) {
        let verb = &verb;
        world.plica(verb).exits(0);
    }
    for verb in ["show", "events", "messages", "verify"] {
        world.plica(&[verb, "x"]).exits(2);
        world.plica(&[verb, "@last"]).exits(2);
    }
    let after: Vec<_> =
        fs::read_dir(world.path("")).expect("the folder").map(|entry| entry.expect("one").path()).collect();
    assert_eq!(before, after);
}

/// Reading changes no byte of the store's own tables either: no row is written.
#[test]
fn st_16_reading_writes_no_row() {
    let world = World::new();
    let task = long_task(&world);
    let look = || {
        let file = rusqlite::Connection::open(world.db()).expect("the store");
        let count = |table: &str| -> i64 {
            file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a count")
        };
        ["tasks", "events", "inbox", "content", "workers"].map(count)
    };
    let before = look();
    for verb in ["show", "events", "messages", "verify"] {
        world.plica(&[verb, &task]).exits(0);
    }
    world.plica(&["list"]).exits(0);
    world.plica(&["doctor"]).exits(0);
    assert_eq!(look(), before);
}

#[test]
fn cl_5_events_are_the_stored_lines_and_run_prints_the_same() {
    let world = World::new();
    let agent = world.agent("a", &[bash("echo hi"), say("done")], "");
    let run = world.plica(&["run", "--json", "--agent", text(&agent), "Go."]).exits(0);
    let lines = world.plica(&["events", "@last", "--json"]).exits(0);
    assert_eq!(run.out, lines.out);
    for (seq, line) in (1..).zip(lines.text().lines()) {
        assert!(line.starts_with(r#"{"event":{"#) && line.ends_with(r#""}"#), "{line}");
        let value: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(value["event"]["seq"], seq);
        assert_eq!(value["hash"].as_str().map(str::len), Some(64));
    }
}

#[test]
fn cl_5_show_as_json_has_the_members_that_programs_rely_on() {
    let world = World::new();
    let task = long_task(&world);
    let shown = world.plica(&["show", &task, "--json"]).exits(0);
    let state = shown.json();
    for member in ["context", "governance", "head", "runtime", "state", "status", "task"] {
        assert!(state.get(member).is_some(), "{member}");
    }
    assert_eq!((state["status"].as_str(), state["task"].as_str()), (Some("completed"), Some(task.as_str())));
    assert_eq!(state["governance"]["tool_calls"], 22);
    assert!(state["runtime"]["messages"].is_array());
    let events = world.events(&task);
    assert_eq!(state["head"]["seq"], events.len());
    assert_eq!(shown.out.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
}

/// SN-1, SN-6: as of any event, with and without snapshots, the state is the same.
#[test]
fn sn_6_show_at_agrees_with_the_whole_fold() {
    let world = World::new();
    let task = long_task(&world);
    let events = world.events(&task);
    assert!(events.iter().filter(|event| event["type"] == "TaskSnapshot").count() >= 2, "snapshots were taken");
    let last = events.len();
    for seq in (1..=last).step_by(13).chain([last]) {
        let seq = seq.to_string();
        let quick = world.plica(&["show", &task, "--json", "--at", &seq]).exits(0);
        let full = world.plica(&["show", &task, "--json", "--at", &seq, "--ignore-snapshots"]).exits(0);
        assert_eq!(quick.out, full.out, "at {seq}");
        assert_eq!(quick.json()["head"]["seq"].to_string(), seq);
        world.plica(&["show", &task, "--at", &seq]).exits(0);
    }
    assert_eq!(
        world.plica(&["show", &task, "--json"]).out,
        world.plica(&["show", &task, "--json", "--at", &last.to_string()]).out
    );
    world.plica(&["show", &task, "--at", "0"]).exits(2);
    world.is_sound(&task);
}

#[test]
fn cl_5_list_as_json_is_a_line_a_task_newest_first() {
    let world = World::new();
    let agent = world.agent("a", &[say("done")], "");
    let ids: Vec<String> = (0..3).map(|number| world.submit(&agent, &format!("Goal {number}."))).collect();
    let rows = world.plica(&["list", "--json"]).exits(0).lines();
    let listed: Vec<&str> = rows.iter().map(|row| row["task"].as_str().expect("an id")).collect();
    assert_eq!(listed, [ids[2].as_str(), &ids[1], &ids[0]]);
    for member in ["task", "status", "agent", "goal", "queue", "created_at"] {
        assert!(rows[0][member].is_string(), "{member}");
    }
    assert_eq!(rows[0]["goal"], "Goal 2.");
    assert_eq!(world.plica(&["list", "--json", "--limit", "2"]).exits(0).lines().len(), 2);
    assert_eq!(world.plica(&["list", "--json", "--status", "completed"]).exits(0).lines().len(), 0);
    assert!(world.plica(&["list"]).exits(0).text().contains("Goal 1."));
}

#[test]
fn cl_5_verify_as_json_has_the_members_that_programs_rely_on() {
    let world = World::new();
    let task = long_task(&world);
    for args in [&["verify", &task, "--json"][..], &["verify", "--all", "--json"]] {
        let verdict = world.plica(args).exits(0).json();
        assert_eq!(verdict["ok"], true);
        assert_eq!((verdict["integrity"].as_str(), verdict["causality"].as_str()), (Some("ok"), Some("ok")));
        assert_eq!(verdict["authenticity"], "not_checked");
        assert_eq!(verdict["completeness"], "not_checked");
        assert!(verdict["not_checked"].as_array().is_some_and(|list| list.len() >= 2));
        assert_eq!(verdict["breaks"].as_array().map(Vec::len), Some(0));
    }
}

#[test]
fn cl_1_every_verb_speaks_json() {
    let world = World::new();
    let agent = world.agent("chat", &[say("one"), say("two")], "interactive = true\n");
    let agent = text(&agent);
    let submitted = world.plica(&["submit", "--json", "--agent", agent, "Hello."]).exits(0).json();
    assert_eq!(submitted["new"], true);
    let task = submitted["task"].as_str().expect("an id").to_owned();
    let worked = world.plica(&["worker", "--until-idle", "--json"]).exits(0).lines().pop().expect("how it ended");
    assert_eq!(worked["ended"], "idle");
    assert!(worked["worker"].is_string());
    let sent = world.plica(&["send", &task, "More.", "--json"]).exits(3).json();
    assert_eq!((sent["task"].as_str(), sent["driven"].as_bool()), (Some(task.as_str()), Some(true)));
    assert_eq!((sent["status"].as_str(), sent["answer"].as_str()), (Some("waiting"), Some("two")));
    let detached = world.plica(&["send", &task, "More.", "--json", "--detach"]).exits(0).json();
    assert_eq!((detached["driven"].as_bool(), detached.get("answer")), (Some(false), None));
    for verb in [&["show", &task][..], &["verify", &task], &["doctor"]] {
        assert!(world.plica(&[verb, &["--json"]].concat()).exits(0).json().is_object());
    }
    for verb in [&["list"][..], &["events", &task], &["messages", &task]] {
        let lines = world.plica(&[verb, &["--json"]].concat()).exits(0).lines();
        assert!(!lines.is_empty() && lines.iter().all(Value::is_object), "{verb:?}");
    }
    let cancelled = world.plica(&["cancel", &task, "--json"]).exits(1).json();
    assert_eq!(cancelled["status"], "cancelled");
    assert!(!world.plica(&["run", "--json", "--agent", agent, "Hello."]).exits(3).lines().is_empty());
}

#[test]
fn cl_1_messages_are_said_in_order_for_programs_too() {
    let world = World::new();
    let agent = world.agent("a", &[bash("echo hi"), say("done")], "");
    world.plica(&["run", "--agent", text(&agent), "Go."]).exits(0);
    let said = world.plica(&["messages", "@last", "--json"]).exits(0).lines();
    let roles: Vec<&str> = said.iter().map(|one| one["role"].as_str().expect("a role")).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert_eq!(said[0]["origin"], "human");
    assert_eq!((said[2]["text"].as_str(), said[2]["status"].as_str()), (Some("hi\n"), Some("ok")));
    assert_eq!(said[1]["calls"][0]["tool"], "Bash");
}

#[test]
fn cl_1_every_verb_has_a_man_page() {
    let world = World::new();
    let folder = world.path("work");
    world.plica(&["man", text(&folder)]).exits(0);
    let help = world.plica(&["--help"]).exits(0).text();
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.contains(&"run") && verbs.contains(&"doctor"), "{verbs:?}");
    for verb in verbs.iter().filter(|verb| **verb != "help") {
        let page = fs::read_to_string(folder.join(format!("plica-{verb}.1"))).expect("a page");
        assert!(page.contains("Example"), "the page of {verb} has an example");
    }
    assert!(folder.join("plica.1").is_file());
    world.plica(&["man", "nowhere/at/all"]).exits(4).says(&["nowhere/at/all"]);
}

/// Text that a model or person wrote cannot act on a terminal, and nothing is coloured where
/// there is none.
#[test]
fn cl_1_no_escape_reaches_the_terminal() {
    let world = World::new();
    let nasty = "red \u{1b}[31m bell \u{7} title \u{1b}]0;x\u{7} \u{202e}turned";
    let agent = world.agent("a", &[bash("printf '\\033[31mred\\007'"), say(nasty)], "");
    world.plica_given(&["run", "--agent", text(&agent), "-"], nasty.as_bytes()).exits(0);
    for verb in [&["list"][..], &["show", "@last"], &["events", "@last"], &["messages", "@last"], &["verify", "@last"]]
    {
        let shown = world.plica(verb).exits(0);
        assert!(!shown.out.iter().any(|byte| matches!(byte, 0x1b | 0x07)), "{verb:?}: {}", shown.text());
        assert!(!shown.text().contains('\u{202e}'));
    }
}

#[test]
fn cl_9_events_are_filtered() {
    let world = World::new();
    let agent = world.agent("a", &[bash("echo hi"), say("done")], "");
    world.plica(&["run", "--agent", text(&agent), "Go."]).exits(0);
    let all = world.events("@last");
    let filtered = |args: &[&str]| -> Vec<Value> {
        let lines = world.plica(&[&["events", "@last", "--json"], args].concat()).exits(0).lines();
        lines.into_iter().map(|line| line["event"].clone()).collect()
    };
    let wanted =
        |keep: &dyn Fn(&Value) -> bool| -> Vec<Value> { all.iter().filter(|event| keep(event)).cloned().collect() };
    assert_eq!(filtered(&["--origin", "tool"]), wanted(&|event| event["origin"] == "tool"));
    assert_eq!(filtered(&["--actor", "user:ada"]), wanted(&|event| event["actor"] == "user:ada"));
    assert!(!filtered(&["--actor", "user:ada"]).is_empty());
    assert_eq!(filtered(&["--after", "4"]), wanted(&|event| event["seq"].as_u64() > Some(4)));
    let types = wanted(&|event| event["type"] == "ToolCallStarted" || event["type"] == "ToolCallFinished");
    assert_eq!(filtered(&["--type", "ToolCallStarted,ToolCallFinished"]), types);
    assert_eq!(filtered(&["--type", "ToolCallStarted", "--type", "ToolCallFinished"]), types);
    assert_eq!(filtered(&["--origin", "tool", "--actor", "user:ada"]), Vec::<Value>::new());
    assert_eq!(world.plica(&["events", "@last"]).exits(0).text().lines().count(), all.len());
}

/// The follower prints every event, the one that ends the task included, and ends with it.
#[test]
fn cl_9_following_ends_when_the_task_does() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[bash("echo hi"), say("done")], ""), "Go.");
    let follower = world.spawn(&["events", &task, "--json", "--follow"]);
    follower.line();
    world.work();
    let ended = follower.end().exits(0).lines();
    assert_eq!(ended.last().expect("events")["event"]["type"], "TaskCompleted");
    assert_eq!(ended.len() + 1, world.events(&task).len());
    assert_eq!(world.plica(&["events", &task, "--follow"]).exits(0).out, world.plica(&["events", &task]).exits(0).out);
}

/// `plica events --follow | head -n 1` ends, and so does `run --json` without losing the task.
#[test]
fn cl_1_a_reader_that_has_had_enough_ends_the_verb() {
    let world = World::new();
    let agent = world.agent("a", &[bash("echo hi"), say("done")], "");
    let task = world.submit(&agent, "Go.");
    let pipe = |command: &str| {
        let program = env!("CARGO_BIN_EXE_plica");
        let mut shell = world.command::<&str>(&[]);
        let mut bash = std::process::Command::new("timeout");
        bash.args(["60", "bash", "-o", "pipefail", "-c", command, "bash", program]).current_dir(world.path("work"));
        bash.envs(shell.env("X", "").get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = bash.output().expect("bash runs");
        assert!(ended.status.success(), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
        assert!(!String::from_utf8_lossy(&ended.stderr).contains("panicked"));
    };
    // The task waits for a worker, so nothing but the reader's leaving ends this one. The second
    // line is what finds the pipe closed.
    let feed = format!("\"$1\" events {task} --follow | head -n 1; true");
    let follower = std::thread::scope(|scope| {
        let follower = scope.spawn(|| pipe(&feed));
        world.work();
        follower.join()
    });
    follower.expect("it ended");
    pipe(&format!("\"$1\" run --json --agent {} Go. | head -n 1", text(&agent)));
    assert_eq!(world.status(world.plica(&["list", "--json"]).lines()[0]["task"].as_str().expect("an id")), "completed");
}

#[test]
fn cl_8_doctor_names_the_versions_and_show_says_what_to_do() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say("done")], ""), "Go.");
    let found = world.plica(&["doctor", "--json"]).exits(0).json();
    let version = found["store"]["sqlite version"].as_str().expect("a version").to_owned();
    let parts: Vec<u32> = version.split('.').map(|part| part.parse().expect("a number")).collect();
    assert!(parts >= vec![3, 51, 3], "{version}");
    assert!(world.plica(&["doctor"]).exits(0).text().contains(&format!("sqlite version {version}")));
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("no worker is alive; `plica worker --until-idle` works on it"), "{shown}");
    world.work();
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains(&format!("done; `plica messages {task}`")), "{shown}");
}
