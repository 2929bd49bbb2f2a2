//! Background jobs with real processes: they are read, end with their task and their worker, and
//! what was lost is said once.

use std::path::PathBuf;
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::world::{World, say, text};

fn call(tool: &str, args: Value) -> Value {
    json!({ "calls": [{ "tool": tool, "args": args }] })
}

fn in_background(command: &str) -> Value {
    call("Bash", json!({ "command": command, "run_in_background": true }))
}

fn ask() -> Value {
    call("AskUser", json!({ "question": "Which?" }))
}

fn agent(world: &World, name: &str, replies: &[Value], lines: &str) -> PathBuf {
    world.write(&format!("{name}.json"), &json!({ "replies": replies }).to_string());
    let file = format!(
        "name = \"{name}\"\nmodel = \"script:{name}.json\"\nworkspace = \"work\"\n\
         tools = [\"Bash\", \"BashOutput\", \"KillShell\", \"AskUser\", \"Wait\"]\npermission_mode = \"bypass\"\n{lines}"
    );
    world.write(&format!("{name}.toml"), &file)
}

/// A command that runs until it is ended, and a thread that ends once all of it is gone.
fn server(world: &World) -> (Value, JoinHandle<()>) {
    let alive = world.pipe("alive");
    let gone = std::thread::spawn(move || alive.wait());
    (in_background("exec 7>alive; echo serving; (sleep 600 &); sleep 600"), gone)
}

fn ends(world: &World, task: &str) -> Vec<Value> {
    world.payloads(task, "BackgroundJobEnded").iter().map(|ended| ended["how"].clone()).collect()
}

/// How often the model was told of a job.
fn told(world: &World, task: &str) -> usize {
    world.payloads(task, "MessagesAppended").iter().filter_map(|said| said["jobs"].as_array()).map(Vec::len).sum()
}

/// ST-13, TO-5: killed with its worker by SIGKILL; the next worker records it as lost and leaves
/// the task waiting; the model is told with the next wake.
#[test]
fn st_13_a_job_dies_with_its_worker_and_is_lost() {
    let world = World::new();
    let (serve, gone) = server(&world);
    let task = world.submit(&agent(&world, "a", &[serve, ask(), say("Done.")], ""), "Serve.");
    let worker = world.spawn(&["worker"]);
    world.wait_for(&task, "TaskSuspended", 1);
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains("which runs its background jobs; waits for an answer"), "{shown}");
    assert!(shown.contains(" runs since ") && shown.contains("exec 7>alive"), "{shown}");
    worker.kill();
    gone.join().expect("the command is gone");
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains(" is gone with its worker: ") && !shown.contains(" runs since "), "{shown}");
    world.work();
    assert_eq!((ends(&world, &task), told(&world, &task)), (vec![json!("lost")], 0));
    assert_eq!((world.status(&task).as_str(), world.payloads(&task, "TaskWoken").len()), ("waiting", 0));
    let shown = world.plica(&["show", &task]).exits(0).text();
    assert!(shown.contains(" lost ") && shown.contains("the agent is still to be told"), "{shown}");
    world.plica(&["answer", &task, "This."]).exits(0);
    assert_eq!((ends(&world, &task).len(), told(&world, &task)), (1, 1));
    let said = world.plica(&["messages", &task]).exits(0).text();
    assert_eq!(said.matches("was lost: the worker that ran it is gone").count(), 1, "{said}");
    world.is_sound(&task);
}

/// CL-4: `run` does not stay to wait for a person, and says what that ended.
#[test]
fn cl_4_a_run_that_waits_for_a_person_says_that_the_job_was_ended() {
    let world = World::new();
    let (serve, gone) = server(&world);
    let agent = agent(&world, "a", &[serve, ask(), say("Done.")], "");
    world
        .plica(&["run", "--agent", text(&agent), "Serve."])
        .exits(3)
        .says(&["no worker stays here to wait for people, so background job", "waits for an answer"]);
    gone.join().expect("the command is gone");
    assert_eq!(ends(&world, "@last"), [json!("lost")]);
    world.plica(&["answer", "@last", "This."]).exits(0);
    assert_eq!(told(&world, "@last"), 1);
    world.is_sound("@last");
}

/// SN-1, EN-6: a rewind and a cancel end the process; an exit wakes the task that waits for it.
#[test]
fn en_6_cancel_and_rewind_end_the_process() {
    for order in ["rewind", "cancel"] {
        let world = World::new();
        let (serve, gone) = server(&world);
        let replies = [say("Ready."), serve, say("Serving."), say("More.")];
        let task = world.submit(&agent(&world, "a", &replies, "interactive = true\n"), "Begin.");
        world.work();
        let boundary = world.events(&task).last().expect("events")["seq"].to_string();
        let worker = world.spawn(&["worker"]);
        world.plica(&["send", &task, "--detach", "Serve."]).exits(0);
        world.wait_for(&task, "TaskSuspended", 2);
        match order {
            "cancel" => world.plica(&["cancel", &task, "--detach"]).exits(0),
            _ => world.plica(&["rewind", &task, "--to", &boundary, "--detach"]).exits(0),
        };
        gone.join().expect("the command is gone");
        world.wait_for(&task, "BackgroundJobEnded", 1);
        assert_eq!(ends(&world, &task), [json!("killed")], "{order}");
        worker.signal("TERM");
        worker.end().exits(0);
        world.is_sound(&task);
    }
}

/// The end of a job is told to the task that waits for it, and what it said is read by its id.
#[test]
fn st_13_a_job_is_read_searched_and_killed_by_its_id() {
    let world = World::new();
    let probe = world.submit(&agent(&world, "probe", &[in_background("true"), say("Done.")], ""), "Probe.");
    world.work();
    let started = world.events(&probe).into_iter().find(|event| event["type"] == "BackgroundJobStarted");
    let id = started.expect("a job")["seq"].to_string();
    let ready = world.pipe("ready");
    let replies = [
        in_background("echo one; echo two; cat ready >/dev/null; sleep 600"),
        call("Wait", json!({ "event": "go" })),
        call("KillShell", json!({ "shell_id": id })),
        call("BashOutput", json!({ "bash_id": id, "filter": "w" })),
        say("Done."),
    ];
    let begun = std::thread::spawn(move || ready.open());
    let task = world.submit(&agent(&world, "a", &replies, ""), "Read.");
    let worker = world.spawn(&["worker"]);
    begun.join().expect("the command reads");
    world.wait_for(&task, "TaskSuspended", 1);
    world.plica(&["signal", &task, "--kind", "go", "--detach"]).exits(0);
    world.wait_for(&task, "TaskCompleted", 1);
    worker.signal("TERM");
    worker.end().exits(0);
    let outputs: Vec<String> = world
        .payloads(&task, "ToolCallFinished")
        .iter()
        .map(|call| call["output"].as_str().expect("a text").to_owned())
        .collect();
    assert!(outputs[0].starts_with(&format!("Background job {id} was started.\n")), "{outputs:?}");
    assert!(outputs[1].contains("was killed"), "{outputs:?}");
    assert!(outputs[2].ends_with("was killed.\ntwo\n"), "{outputs:?}");
    assert_eq!((ends(&world, &task), told(&world, &task)), (vec![json!("killed")], 1));
    world.is_sound(&task);
}

/// An interactive task waits for its job in `run`, and goes on when it has ended.
#[test]
fn st_13_a_run_waits_for_the_job_that_its_task_waits_for() {
    let world = World::new();
    let replies = [in_background("sleep 1; exit 4"), say("Started."), say("Seen.")];
    let agent = agent(&world, "a", &replies, "interactive = true\n");
    let ran = world.plica(&["run", "--agent", text(&agent), "Build."]).exits(3);
    assert_eq!(ran.text(), "Seen.");
    assert_eq!(world.payloads("@last", "BackgroundJobEnded")[0]["code"], 4);
    assert_eq!(told(&world, "@last"), 1);
    world.is_sound("@last");
}

/// CL-7: Ctrl-C ends a `run` whose task waits for a job that never ends, and the job with it.
#[test]
fn cl_7_ctrl_c_ends_a_run_that_waits_for_a_job() {
    let world = World::new();
    let (serve, gone) = server(&world);
    let agent = agent(&world, "a", &[serve, say("Serving."), say("Lost.")], "interactive = true\n");
    let runner = world.spawn(&["run", "--json", "--agent", text(&agent), "Serve."]);
    let task = loop {
        let event: Value = serde_json::from_str(&runner.line()).expect("an event");
        if event["event"]["type"] == "TaskSuspended" {
            break event["event"]["task"].as_str().expect("an id").to_owned();
        }
    };
    runner.signal("INT");
    runner.end().exits(130).says(&["interrupted; `plica send"]);
    gone.join().expect("the command is gone");
    world.work();
    assert_eq!((ends(&world, &task), told(&world, &task)), (vec![json!("lost")], 0));
    // The model is told once a person carries on.
    world.plica(&["send", &task, "Go on."]).exits(3);
    assert_eq!((ends(&world, &task), told(&world, &task)), (vec![json!("lost")], 1));
    world.is_sound(&task);
}
