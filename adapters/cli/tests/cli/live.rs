//! What is said while tasks run: in plain lines to a pipe, as it comes on a terminal.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::world::{World, bash, say, text};

/// A terminal: what is written to it, once everybody who writes has ended.
struct Terminal {
    master: File,
    name: String,
}

impl Terminal {
    fn new() -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it can be opened");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("of text");
        Self { master: File::from(master), name }
    }

    fn end(&self) -> Stdio {
        File::options().read(true).write(true).open(&self.name).expect("it opens").into()
    }

    /// Reading ends with an error (EIO) when the last writer has gone.
    fn shown(mut self) -> String {
        let mut bytes = vec![];
        let _ = self.master.read_to_end(&mut bytes);
        String::from_utf8(bytes).expect("text").replace("\r\n", "\n")
    }
}

fn agent(world: &World) -> std::path::PathBuf {
    let first = json!({ "text": "I look.", "calls": [{ "tool": "Bash", "args": { "command": "echo one" } }],
        "usage": { "uncached": 10, "output": 2 } });
    world.agent("a", &[first, say("It says one.")], "")
}

/// Runs the agent with both outputs on one terminal.
fn on_terminal(variables: &[(&str, &str)]) -> String {
    let world = World::new();
    let agent = agent(&world);
    let terminal = Terminal::new();
    let mut command = world.command(&["run", "--agent", text(&agent), "Go."]);
    command.envs(variables.iter().copied()).stdout(terminal.end()).stderr(terminal.end());
    let mut child = command.spawn().expect("the program runs");
    // The command holds ends of the terminal too.
    drop(command);
    let shown = terminal.shown();
    assert!(child.wait().expect("it ends").success(), "{shown}");
    shown
}

#[test]
fn cl_1_on_a_terminal_the_answer_is_shown_once_as_it_comes() {
    let shown = on_terminal(&[("TERM", "xterm")]);
    assert_eq!(shown.matches("It says one.").count(), 1, "{shown}");
    assert!(shown.contains("I look.\n→ \u{1b}[1mBash\u{1b}[0m echo one\n  \u{1b}[32mok\u{1b}[0m, "), "{shown:?}");
    assert!(shown.contains("\nplica: 2 requests, 1 call, 10 tokens in, 2 out, "), "{shown}");
}

#[test]
fn cl_1_no_colour_under_no_color_or_on_a_dumb_terminal() {
    for variables in [&[("TERM", "xterm"), ("NO_COLOR", "1")][..], &[("TERM", "dumb")], &[]] {
        let shown = on_terminal(variables);
        assert!(!shown.contains('\u{1b}'), "{variables:?}: {shown:?}");
        assert!(shown.contains("I look.\n→ Bash echo one\n  ok, "), "{shown}");
        assert_eq!(shown.matches("It says one.").count(), 1, "{shown}");
    }
}

#[test]
fn cl_1_into_pipes_data_and_talk_are_apart_and_plain() {
    let world = World::new();
    let ran = world.plica(&["run", "--agent", text(&agent(&world)), "Go."]).exits(0);
    assert_eq!(ran.out, b"It says one.\n");
    assert!(ran.err.contains("\nI look.\n→ Bash echo one\n  ok, "), "{}", ran.err);
    assert!(!ran.err.contains("It says one.") && !ran.err.contains('\u{1b}'), "{}", ran.err);
    assert!(ran.err.lines().last().is_some_and(|line| line.starts_with("plica: 2 requests, 1 call, ")), "{}", ran.err);
    let ran = world.plica(&["run", "--json", "--agent", text(&agent(&world)), "Go."]).exits(0);
    assert_eq!(ran.err.lines().count(), 1, "events are for programs: {}", ran.err);
}

/// What nobody reads holds nothing up, however much there is to say.
#[test]
fn cl_1_a_reader_who_stands_still_or_goes_away_breaks_no_run() {
    let world = World::new();
    let much = "all work and no play ".repeat(20_000);
    let agent = world.agent("much", &[json!({ "text": much, "calls": [] }), say("unread")], "");
    let task = world.submit(&agent, "Go.");
    // Its standard error is a pipe that nobody reads, and that holds a part of it.
    let mut worker = world.command(&["worker", "--until-idle"]).spawn().expect("the program runs");
    assert!(worker.wait().expect("it ends").success());
    assert_eq!(world.status(&task), "completed");
    let task = world.submit(&agent, "Again.");
    let mut command = world.command(&["worker", "--until-idle"]);
    let mut worker = command.spawn().expect("the program runs");
    drop((worker.stdout.take(), worker.stderr.take()));
    assert!(worker.wait().expect("it ends").success());
    assert_eq!(world.status(&task), "completed");
}

/// `worker --json` prints each committed event as `events --json` does, and last how it ended.
#[test]
fn cl_4_a_workers_json_is_the_events_that_it_commits() {
    let world = World::new();
    let task = world.submit(&world.agent("a", &[bash("true"), say("done")], ""), "Go.");
    let worked = world.plica(&["worker", "--until-idle", "--json"]).exits(0);
    let stored = world.plica(&["events", &task, "--json", "--after", "2"]).exits(0);
    let lines = worked.text();
    let (events, last) = lines.rsplit_once('\n').expect("lines");
    assert_eq!(events, stored.text());
    assert!(last.contains("\"ended\":\"idle\""), "{last}");
}

/// CL-8: a store that was named by a flag is named in the commands that are printed.
#[test]
fn cl_8_printed_commands_name_the_store_that_a_flag_named() {
    let world = World::new();
    let agent = world.agent("chat", &[say("Yes?")], "interactive = true\n");
    let store = format!("sqlite:{}", world.path("it's another.db").display());
    let quoted = format!("'{}'", store.replace('\'', "'\\''"));
    let ran = world.plica(&["--store", &store, "run", "--agent", text(&agent), "Go."]).exits(3);
    assert!(ran.err.contains(&format!("`plica --store {quoted} send ")), "{}", ran.err);
    let shown = world.plica(&["show", "@last", "--store", &store]).exits(0).text();
    assert!(shown.contains(&format!("`plica --store {quoted} send ")), "{shown}");
    let ran = world.plica(&["show", "nothing", "--store", &store]).exits(2);
    assert!(ran.err.contains(&format!("`plica --store {quoted} list`")), "{}", ran.err);
}

/// Completions know the tasks that there are, of the store that the unfinished line names.
#[test]
fn cl_1_completions_offer_live_tasks() {
    let world = World::new();
    let task = world.submit(&agent(&world), "Count the ways.");
    let script = world.plica(&["completions", "bash"]).exits(0).text();
    assert!(script.contains("COMPLETE=\"bash\""), "{script}");
    let offered = |store: &str| {
        let mut command = world.command(&["--", "plica", "--store", store, "show", ""]);
        command.env("COMPLETE", "zsh").env("_CLAP_COMPLETE_INDEX", "4").env_remove("PLICA_STORE");
        String::from_utf8(command.output().expect("the program runs").stdout).expect("text")
    };
    let store = format!("sqlite:{}", world.db().display());
    assert!(offered(&store).contains(&format!("{task}:ready a: Count the ways.")), "{}", offered(&store));
    let elsewhere = offered(&format!("sqlite:{}", world.path("none.db").display()));
    assert!(!elsewhere.contains(&task) && !world.path("none.db").exists(), "{elsewhere}");
    world.plica(&["completions", "cobol"]).exits(2).says(&["bash", "zsh"]);
}
