//! Bad input: the message names the thing and the next step, the exit status follows CL-2,
//! nothing is created and nothing is lost.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::world::{World, bash, say, text};

/// Every verb that takes a task, with the rest of its arguments.
const ON_A_TASK: &[&[&str]] =
    &[&["show"], &["events"], &["messages"], &["verify"], &["doctor", "--unblock"], &["cancel"], &["send"]];

fn on(verb: &[&str], task: &str) -> Vec<String> {
    let mut args: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
    args.push(task.to_owned());
    if ["send", "answer"].contains(&verb[0]) {
        args.push("hello".into());
    }
    args
}

#[test]
fn cl_1_an_unknown_task_is_named_with_the_next_step() {
    let world = World::new();
    for verb in ON_A_TASK {
        for name in ["no-such-task", "%", "_", "*", "0", "'; --", &"x".repeat(5000)] {
            let refusal = world.plica(&on(verb, name)).exits(2).says(&[name, "`plica list`"]);
            world.next_commands_work(&refusal);
        }
    }
    assert!(!world.db().exists(), "nothing was created");
}

#[test]
fn cl_1_an_empty_name_is_no_task() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say("done")], ""), "Go.");
    for verb in ON_A_TASK {
        world.plica(&on(verb, "")).exits(2).says(&["no task \"\""]);
    }
    assert_eq!(world.status(&task), "ready", "the only task was not taken for it");
}

#[test]
fn cl_1_last_of_an_empty_store_says_how_to_make_a_task() {
    let world = World::new();
    for verb in ON_A_TASK {
        world.plica(&on(verb, "@last")).exits(2).says(&["no task yet", "`plica submit`"]);
    }
}

#[test]
fn cl_1_an_ambiguous_prefix_lists_the_tasks_and_a_unique_one_is_enough() {
    let world = World::new();
    let agent = world.agent("a", &[say("done")], "");
    let (first, second) = (world.submit(&agent, "One."), world.submit(&agent, "Two."));
    let common = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
    assert!(common > 0, "ids begin with the time");
    for verb in ON_A_TASK {
        let refusal = world.plica(&on(verb, &first[..common])).exits(2).says(&[&first, &second]);
        world.next_commands_work(&refusal);
    }
    let unique = &second[..=common];
    assert!(world.plica(&["show", unique]).exits(0).text().contains(&second));
    assert!(world.plica(&["show", "@last"]).exits(0).text().contains(&second), "the newest");
}

/// A child's id begins with its parent's.
#[test]
fn cl_1_an_exact_id_wins_over_those_that_begin_with_it() {
    let world = World::new();
    let parent = world.submit(&world.agent("a", &[say("done")], ""), "Go.");
    world.sql(&format!(
        "CREATE TEMP TABLE copy AS SELECT * FROM tasks;
         UPDATE copy SET key = 99, id = id || '.7.0', parent = '{parent}', claimable_at = NULL;
         INSERT INTO tasks SELECT * FROM copy;"
    ));
    assert_eq!(world.plica(&["list", "--json"]).exits(0).lines().len(), 2);
    let shown = world.plica(&["show", &parent]).exits(0).text();
    assert!(shown.starts_with(&format!("task {parent}\n")), "{shown}");
    world.plica(&["show", &parent[..30]]).exits(2).says(&[&format!("{parent}.7.0")]);
}

#[test]
fn st_16_a_missing_folder_is_named_and_not_made() {
    let world = World::new();
    let agent = world.agent("a", &[say("done")], "");
    let store = format!("sqlite:{}", text(&world.path("nowhere/plica.db")));
    let agent = text(&agent);
    let verbs: [&[&str]; 6] = [
        &["list"],
        &["show", "x"],
        &["verify", "--all"],
        &["doctor"],
        &["worker", "--until-idle"],
        &["run", "--agent", agent, "hi"],
    ];
    for verb in verbs {
        let refusal = world.plica(&[verb, &["--store", &store]].concat()).exits(4).says(&["nowhere"]);
        world.next_commands_work(&refusal);
    }
    assert!(!world.path("nowhere").exists());
}

#[test]
fn st_16_what_is_no_store_is_refused_and_left_alone() {
    let world = World::new();
    let agent = world.agent("a", &[say("done")], "");
    let text_file = world.write("notes.txt", "These are my notes, and no store of anything.\n");
    let foreign = world.path("foreign.db");
    rusqlite::Connection::open(&foreign).and_then(|file| file.execute_batch("CREATE TABLE mine (a)")).expect("a file");
    for path in [&text_file, &foreign, &world.path("work")] {
        let before = fs::read(path).ok();
        let store = format!("sqlite:{}", path.display());
        for verb in
            [&["list"][..], &["doctor"], &["submit", "--agent", text(&agent), "hi"], &["worker", "--until-idle"]]
        {
            let refusal = world.plica(&[&["--store", &store], verb].concat()).exits(4).says(&[text(path)]);
            world.next_commands_work(&refusal);
        }
        assert_eq!(fs::read(path).ok(), before, "{}", path.display());
    }
    for store in ["", "sqlite:", "ledger", "mongodb://host", "/tmp/plica.db", "memory:x"] {
        let refusal = world.plica(&["list", "--store", store]).exits(4).says(&["sqlite:PATH"]);
        world.next_commands_work(&refusal);
    }
}

#[test]
fn st_14_a_store_of_a_newer_version_is_refused() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[say("done")], ""), "Go.");
    world.sql("PRAGMA user_version = 4711");
    for verb in [&["list"][..], &["show", &task], &["send", &task, "x"], &["worker", "--until-idle"]] {
        world.plica(verb).exits(4).says(&["4711", "newer version"]);
    }
}

#[test]
fn cl_2_an_agent_file_that_cannot_be_used_is_a_matter_of_configuration() {
    let world = World::new();
    world.write("ok.json", r#"{"replies":[]}"#);
    world.write("bad.json", r#"{"replies":[{"txt":"a"}]}"#);
    let model = "model = \"script:ok.json\"\n";
    let cases: &[(&str, String, &[&str])] = &[
        ("key", "name = \"x\"\nmodle = \"script:ok.json\"\n".into(), &["`modle`", "`model`"]),
        ("budget", format!("name = \"x\"\n{model}[budget]\nstep = 3\n"), &["`budget.step`", "`budget.steps`"]),
        ("toml", "name = ".into(), &["TOML"]),
        ("name", model.into(), &["`name`"]),
        ("script", "name = \"x\"\nmodel = \"script:gone.json\"\n".into(), &["gone.json", "not there"]),
        ("broken", "name = \"x\"\nmodel = \"script:bad.json\"\n".into(), &["bad.json", "txt"]),
        ("provider", "name = \"x\"\nmodel = \"scrip:ok.json\"\n".into(), &["`scrip`", "`script`"]),
        ("tool", format!("name = \"x\"\n{model}tools = [\"Bahs\"]\n"), &["`Bahs`", "`Bash`"]),
        ("mode", format!("name = \"x\"\n{model}permission_mode = \"bypas\"\n"), &["`bypas`", "`bypass`"]),
        ("place", format!("name = \"x\"\n{model}workspace = \"nowhere\"\n"), &["nowhere"]),
        ("rule", format!("name = \"x\"\n{model}allow = [\"Bash(\"]\n"), &["`Bash(`"]),
    ];
    for (name, content, words) in cases {
        let file = world.write(&format!("{name}.toml"), content);
        for verb in ["run", "submit"] {
            world.plica(&[verb, "--agent", text(&file), "hi"]).exits(4).says(&[text(&file)]).says(words);
        }
    }
    world.plica(&["run", "--agent", "gone.toml", "hi"]).exits(4).says(&["gone.toml", "name an existing file"]);
    world.plica(&["run", "--agent", "/", "hi"]).exits(4).says(&["agent file /"]);
    assert!(!world.db().exists(), "nothing was created");
}

#[test]
fn cl_2_a_script_that_runs_out_of_replies_fails_the_task_in_plain_words() {
    let world = World::new();
    let agent = world.agent("short", &[bash("true")], "");
    let refusal = world.plica(&["run", "--agent", text(&agent), "Go."]).exits(1).says(&["1 reply", "reply 2"]);
    assert_eq!(refusal.text(), "");
    world.next_commands_work(&refusal);
    assert_eq!(world.plica(&["list", "--json"]).lines()[0]["status"], "failed");
}

#[test]
fn cl_2_what_does_not_apply_is_usage_and_says_what_does() {
    let world = World::new();
    let agent = world.agent("a", &[say("done")], "");
    let task = world.plica(&["run", "--agent", text(&agent), "Go."]).exits(0);
    assert_eq!(task.text(), "done");
    for args in [
        &["show", "@last", "--at", "99"][..],
        &["doctor", "--unblock", "@last"],
        &["send", "@last", "more"],
        &["cancel", "@last"],
        &["interrupt", "@last"],
        &["approve", "@last"],
        &["deny", "@last", "--call", "7.0"],
        &["answer", "@last", "yes"],
        &["signal", "@last", "--kind", "deploy.done"],
    ] {
        let refusal = world.plica(args).exits(2);
        world.next_commands_work(&refusal);
    }
}

/// CL-2: whatever the command line is, the program neither panics nor fails without a word.
#[test]
fn cl_2_no_command_line_makes_it_panic() {
    let world = World::new();
    let agent = world.agent("a", &[say("done")], "");
    let agent = text(&agent);
    let cases: &[&[&str]] = &[
        &[],
        &["nonsense"],
        &["show"],
        &["show", "a", "b"],
        &["show", "x", "--at", "-1"],
        &["show", "x", "--at", "18446744073709551616"],
        &["events", "x", "--type", "Nonsense"],
        &["events", "x", "--origin", "nobody"],
        &["events", "x", "--after", ""],
        &["list", "--limit", "0"],
        &["list", "--status", "asleep"],
        &["worker", "--lease", "nan"],
        &["worker", "--lease", "1e308"],
        &["worker", "--lease", "0"],
        &["worker", "--concurrency", "0"],
        &["worker", "--queues", ",", "--until-idle"],
        &["submit", "--agent", agent, "--in", "99999999999999999999d", "x"],
        &["submit", "--agent", agent, "--in", "1h", "--at", "2030-01-01", "x"],
        &["submit", "--agent", agent, "--at", "yesterday", "x"],
        &["submit", "--agent", agent, "--priority", "4", "x"],
        &["submit", "--agent", agent, "--key", "", "x"],
        &["submit", "--agent", agent, "--queue", "", "x"],
        &["submit", "--agent", agent, "--label", "=x", "x"],
        &["submit", "--agent", agent],
        &["verify"],
        &["verify", "x", "--all"],
        &["run", "hi"],
    ];
    for args in cases {
        let refusal = world.plica(args).exits(2);
        assert!(!refusal.err.is_empty(), "plica {args:?} says nothing");
    }
    world.plica(&[OsStr::new("show"), OsStr::from_bytes(b"\xff\xfe")]).exits(2);
    let goal = [OsStr::new("submit"), OsStr::new("--agent"), OsStr::new(agent), OsStr::from_bytes(b"\xff")];
    world.plica(&goal).exits(2);
    assert!(!world.db().exists(), "nothing was created");
    world.plica(&["--help"]).exits(0);
    world.plica(&["--version"]).exits(0);
}
