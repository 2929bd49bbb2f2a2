use clap::CommandFactory;
use clap::error::ErrorKind;

use plica_kernel::envelope::Origin;
use plica_kernel::event::EventType;
use plica_kernel::id::Seq;
use plica_kernel::row::Status;

use super::*;

fn parse(line: &[&str]) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(["plica"].iter().chain(line))
}

fn verb(line: &[&str]) -> Verb {
    parse(line).unwrap().verb
}

#[test]
fn cl_1_the_command_line_is_sound_and_every_verb_has_an_example() {
    let mut command = Arguments::command();
    command.build();
    command.clone().debug_assert();
    let verbs: Vec<&str> =
        command.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help").collect();
    assert_eq!(
        verbs,
        [
            "run",
            "submit",
            "worker",
            "list",
            "show",
            "events",
            "messages",
            "send",
            "answer",
            "approve",
            "deny",
            "signal",
            "interrupt",
            "close",
            "reopen",
            "rewind",
            "fork",
            "resolve",
            "cancel",
            "verify",
            "gc",
            "agent",
            "doctor",
            "demo",
            "completions",
            "man"
        ]
    );
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let example = format!("  plica {}", verb.get_name());
        let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.contains(&example), "{}", verb.get_name());
        assert!(verb.get_about().is_some(), "{}", verb.get_name());
        for argument in verb.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {}", verb.get_name(), argument.get_id());
        }
    }
}

#[test]
fn cl_2_what_is_no_usage_is_exit_2() {
    for (line, kind) in [
        (&["promote", "x"][..], ErrorKind::InvalidSubcommand),
        (&[], ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        (&["run", "goal"], ErrorKind::MissingRequiredArgument),
        (&["run", "--agent", "a.toml"], ErrorKind::MissingRequiredArgument),
        (&["run", "--agent", "a.toml", "a", "b"], ErrorKind::UnknownArgument),
        (&["submit", "--agent", "a", "--in", "1h", "--at", "2026-12-01T09:00:00Z", "g"], ErrorKind::ArgumentConflict),
        (&["submit", "--agent", "a", "--priority", "4", "g"], ErrorKind::ValueValidation),
        (&["submit", "--agent", "a", "--key", "a b", "g"], ErrorKind::ValueValidation),
        (&["submit", "--agent", "a", "--label", "x", "g"], ErrorKind::ValueValidation),
        (&["submit", "--agent", "a", "--in", "5", "g"], ErrorKind::ValueValidation),
        (&["worker", "--concurrency", "0"], ErrorKind::ValueValidation),
        (&["worker", "--lease", "0"], ErrorKind::ValueValidation),
        (&["worker", "--queues", ""], ErrorKind::ValueValidation),
        (&["list", "--status", "done"], ErrorKind::InvalidValue),
        (&["list", "--limit", "0"], ErrorKind::ValueValidation),
        (&["events", "t", "--origin", "user"], ErrorKind::InvalidValue),
        (&["events", "t", "--type", "TaskCreate"], ErrorKind::InvalidValue),
        (&["show", "t", "--at", "x"], ErrorKind::ValueValidation),
        (&["verify"], ErrorKind::MissingRequiredArgument),
        (&["gc", "--grace", "5"], ErrorKind::ValueValidation),
        (&["verify", "t", "--all"], ErrorKind::ArgumentConflict),
    ] {
        let error = parse(line).unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (kind, 2), "{line:?}");
    }
    let hint = parse(&["events", "t", "--type", "TaskCreate"]).unwrap_err().to_string();
    assert!(hint.contains("'TaskCreated'"), "{hint}");
}

#[test]
fn cl_3_the_store_is_named_before_or_after_the_verb() {
    for line in [&["--store", "sqlite:x", "list"][..], &["list", "--store", "sqlite:x"], &["list", "--store=sqlite:x"]]
    {
        assert_eq!(parse(line).unwrap().store.as_deref(), Some("sqlite:x"));
    }
    let command = Arguments::command();
    let store = command.get_arguments().find(|argument| argument.get_id() == "store").unwrap();
    assert_eq!(store.get_env(), Some("PLICA_STORE".as_ref()));
}

#[test]
fn cl_4_submit_run_and_worker() {
    let Verb::Submit(submit) = verb(&[
        "submit",
        "--agent",
        "a.toml",
        "--in",
        "90s",
        "--key",
        "k",
        "--queue",
        "q",
        "--priority",
        "0",
        "--label",
        "a=b=c",
        "--label",
        "d=",
        "Do it.",
    ]) else {
        panic!("not submit")
    };
    assert_eq!(submit.agent, PathBuf::from("a.toml"));
    assert_eq!((submit.delay, submit.at), (Some(Duration::from_secs(90)), None));
    assert_eq!(submit.key.unwrap().as_str(), "k");
    assert_eq!(submit.queue.unwrap().as_str(), "q");
    assert_eq!(submit.priority, 0);
    let label = |name: &str, value: &str| Label { name: name.into(), value: value.into() };
    assert_eq!(submit.labels, [label("a", "b=c"), label("d", "")]);
    assert_eq!(submit.goal, Text::Given("Do it.".into()));

    let Verb::Submit(submit) = verb(&["submit", "--agent", "a", "--at", "2026-12-01T09:00:00Z", "--", "-x"]) else {
        panic!("not submit")
    };
    assert_eq!(submit.at.unwrap().to_string(), "2026-12-01T09:00:00.000000Z");
    assert_eq!((submit.priority, submit.goal), (2, Text::Given("-x".into())));

    let Verb::Run(run) = verb(&["run", "--agent", "a", "-", "--json"]) else { panic!("not run") };
    assert_eq!((run.goal, run.json), (Text::StandardInput, true));

    let Verb::Worker(worker) = verb(&["worker"]) else { panic!("not worker") };
    assert_eq!((worker.until_idle, worker.lease, worker.concurrency), (false, Duration::from_secs(30), 4));
    assert!(worker.queues.is_empty());
    let Verb::Worker(worker) =
        verb(&["worker", "--until-idle", "--lease", "0.5", "--concurrency", "2", "--queues", "a,b"])
    else {
        panic!("not worker")
    };
    assert_eq!((worker.until_idle, worker.lease, worker.concurrency), (true, Duration::from_millis(500), 2));
    assert_eq!(worker.queues.iter().map(Queue::as_str).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn cl_5_reading_verbs() {
    let Verb::List(list) = verb(&["list", "--json", "--status", "waiting", "--limit", "3"]) else { panic!("not list") };
    assert_eq!((list.json, list.status, list.limit), (true, Some(Status::Waiting), Some(3)));
    let Verb::Show(show) = verb(&["show", "@last", "--json", "--at", "7", "--ignore-snapshots"]) else {
        panic!("not show")
    };
    assert_eq!((show.task.as_str(), show.json, show.at, show.ignore_snapshots), ("@last", true, Some(Seq(7)), true));
    let Verb::Messages(messages) = verb(&["messages", "t"]) else { panic!("not messages") };
    assert_eq!((messages.task.as_str(), messages.json), ("t", false));
    let Verb::Verify(verify) = verb(&["verify", "--all", "--json"]) else { panic!("not verify") };
    assert_eq!((verify.task, verify.all, verify.json), (None, true, true));
    let Verb::Doctor(doctor) = verb(&["doctor", "--unblock", "t"]) else { panic!("not doctor") };
    assert_eq!((doctor.unblock.as_deref(), doctor.json), (Some("t"), false));
}

#[test]
fn cl_6_steering_verbs() {
    let Verb::Send(send) = verb(&["send", "t", "hello", "--detach"]) else { panic!("not send") };
    assert_eq!((send.task.as_str(), send.text, send.detach), ("t", Text::Given("hello".into()), true));
    let Verb::Cancel(cancel) = verb(&["cancel", "t", "--reason", "why"]) else { panic!("not cancel") };
    assert_eq!((cancel.task.as_str(), cancel.reason.as_deref(), cancel.detach), ("t", Some("why"), false));
}

#[test]
fn cl_9_events_are_filtered_and_followed() {
    let Verb::Events(events) = verb(&[
        "events",
        "t",
        "--json",
        "--origin",
        "tool",
        "--actor",
        "user:ada",
        "--type",
        "TaskCreated,TaskWoken",
        "--type",
        "Compacted",
        "--after",
        "4",
        "--follow",
    ]) else {
        panic!("not events")
    };
    assert_eq!((events.json, events.follow, events.origin), (true, true, Some(Origin::Tool)));
    assert_eq!(events.actor.as_deref(), Some("user:ada"));
    assert_eq!(events.types, [EventType::TaskCreated, EventType::TaskWoken, EventType::Compacted]);
    assert_eq!(events.after, Some(Seq(4)));
}
