//! However a call ends, nothing that its command started lives on.

use std::time::Duration;

use plica_ports::{Tool, ToolError, ToolOutput};
use plica_tools::Bash;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::alive::Alive;
use crate::harness::{Scene, context};

/// Starts processes in the fore- and background, orphans among them and one that cannot be
/// asked to end, which all hold the pipe.
const FAMILY: &str = "exec 7>alive
sleep 1000 &
(sleep 1000 &)
( (trap '' HUP INT TERM; sleep 1000) & )
nohup bash -c 'sleep 1000; true' >/dev/null 2>&1 &
";

fn family(end: &str) -> String {
    format!("{FAMILY}{end}")
}

#[tokio::test]
async fn to_5_what_a_command_leaves_behind_ends_with_it() {
    let scene = Scene::new();
    let alive = Alive::new(&scene.context.workspace);
    let command = family("echo done; echo ready >&7");
    let output = scene.call(&Bash::default(), json!({"command": command})).await.unwrap();
    assert_eq!(output.text, "done\n");
    assert_eq!(alive.line(), "ready");
    alive.gone();
}

#[tokio::test]
async fn to_5_background_output_that_never_ends_does_not_hold_the_call() {
    let scene = Scene::new();
    let output = scene.call(&Bash::default(), json!({"command": "yes & echo $!; exit 0"})).await.unwrap();
    assert!(output.text.contains("y\ny\n"));
}

/// What leaves the group is out of reach, but it must not hold the call either.
#[tokio::test]
async fn to_5_what_leaves_the_group_does_not_hold_the_call() {
    let scene = Scene::new();
    let bash = Bash::default();
    let call = scene.call(&bash, json!({"command": "setsid sleep 1000 & echo $!"}));
    let output = tokio::time::timeout(Duration::from_secs(60), call).await.unwrap().unwrap();
    let left = Pid::from_raw(output.text.trim().parse().unwrap()).unwrap();
    kill_process(left, Signal::KILL).unwrap();
}

#[tokio::test]
async fn to_3_a_timeout_is_unknown_and_ends_everything() {
    let scene = Scene::new();
    let alive = Alive::new(&scene.context.workspace);
    let command = family("echo so far; echo ready >&7; trap '' TERM; sleep 1000");
    let result = scene.call(&Bash::default(), json!({"command": command, "timeout": 500})).await;
    let Err(ToolError::Unknown(ToolOutput { text, .. })) = result else { panic!("{result:?}") };
    assert!(text.contains("did not end within 500 ms") && text.contains("may have happened"), "{text}");
    assert!(text.ends_with("so far\n"), "{text}");
    assert_eq!(alive.line(), "ready");
    alive.gone();
}

#[tokio::test]
async fn to_5_what_a_command_said_before_it_was_cut_off_is_kept_whole() {
    let mut scene = Scene::new();
    let command = "seq 20000; sleep 1000";
    let result = scene.call(&Bash::default(), json!({"command": command, "timeout": 1_500})).await;
    let Err(ToolError::Unknown(output)) = result else { panic!("{result:?}") };
    let lines = |output: ToolOutput| String::from_utf8(output.whole.unwrap().bytes).unwrap().lines().count();
    assert_eq!(lines(output), 20_000);

    let token = CancellationToken::new();
    scene.stopped_by(&token);
    // It is stopped by its own last word.
    let alive = Alive::new(&scene.context.workspace);
    let command = "exec 7>alive; seq 20000; echo ready >&7; sleep 1000";
    let said = tokio::task::spawn_blocking(move || {
        assert_eq!(alive.line(), "ready");
        token.cancel();
    });
    let result = scene.call(&Bash::default(), json!({"command": command})).await;
    let Err(ToolError::Stopped(output)) = result else { panic!("{result:?}") };
    assert_eq!(lines(output), 20_000);
    said.await.unwrap();
}

#[tokio::test]
async fn to_5_a_timeout_lets_the_command_tidy_up() {
    let scene = Scene::new();
    let command = "trap 'echo tidied up; exit 0' TERM; sleep 1000 & wait";
    let result = scene.call(&Bash::default(), json!({"command": command, "timeout": 500})).await;
    let Err(ToolError::Unknown(ToolOutput { text, .. })) = result else { panic!("{result:?}") };
    assert!(text.ends_with("tidied up\n"), "{text}");
}

#[tokio::test]
async fn to_5_a_stop_ends_everything() {
    let mut scene = Scene::new();
    let token = CancellationToken::new();
    scene.stopped_by(&token);
    let alive = Alive::new(&scene.context.workspace);
    let command = family("echo so far; echo ready >&7; wait");
    let said = tokio::task::spawn_blocking(move || {
        assert_eq!(alive.line(), "ready");
        token.cancel();
        alive.gone();
    });
    let result = scene.call(&Bash::default(), json!({"command": command})).await;
    let Err(ToolError::Stopped(ToolOutput { text, .. })) = result else { panic!("{result:?}") };
    assert!(text.ends_with("so far\n"), "{text}");
    said.await.unwrap();
    // A stop that came before leaves nothing to do.
    let result = scene.call(&Bash::default(), json!({"command": "echo > made"})).await;
    assert!(matches!(result, Err(ToolError::Stopped(_))), "{result:?}");
    assert!(!scene.path("made").exists());
}

#[tokio::test]
async fn to_5_a_dropped_call_ends_everything() {
    let scene = Scene::new();
    let alive = Alive::new(&scene.context.workspace);
    let command = family("echo ready >&7; wait");
    let said = tokio::task::spawn_blocking(move || {
        assert_eq!(alive.line(), "ready");
        alive
    });
    let bash = Bash::default();
    let alive = tokio::select! {
        result = scene.call(&bash, json!({"command": command})) => panic!("{result:?}"),
        alive = said => alive.unwrap(),
    };
    tokio::task::spawn_blocking(move || alive.gone()).await.unwrap();
}

const WORKER: &str = "PLICA_TOOLS_TEST_WORKER";

/// Runs itself as the worker that is killed.
#[test]
fn to_5_a_command_dies_with_its_worker() {
    if let Some(workspace) = std::env::var_os(WORKER) {
        return hold_a_call(workspace.as_ref());
    }
    // The second one has tried to end its guard first.
    for end in
        ["echo ready >&7; wait", "trap '' TERM INT HUP; kill -TERM 0; kill -INT 0; kill -HUP 0; echo ready >&7; wait"]
    {
        let scene = Scene::new();
        let alive = Alive::new(&scene.context.workspace);
        scene.put("command", family(end));
        let mut worker = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bash_ends::to_5_a_command_dies_with_its_worker"])
            .env(WORKER, &scene.context.workspace)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        assert_eq!(alive.line(), "ready");
        worker.kill().unwrap();
        worker.wait().unwrap();
        alive.gone();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn hold_a_call(workspace: &std::path::Path) {
    let command = std::fs::read_to_string(workspace.join("command")).unwrap();
    let args = json!({"command": command}).to_string();
    let result = Bash::default().call(&args, &context(workspace)).await;
    panic!("the worker outlived its call: {result:?}");
}

const REAPER: &str = "PLICA_TOOLS_TEST_REAPER";

/// Runs itself as a worker that orphans become children of, as in a container.
#[test]
fn to_5_a_worker_that_inherits_orphans_is_left_with_none() {
    if std::env::var_os(REAPER).is_some() {
        return inherit_orphans();
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "bash_ends::to_5_a_worker_that_inherits_orphans_is_left_with_none"])
        .env(REAPER, "1")
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::main(flavor = "current_thread")]
async fn inherit_orphans() {
    set_child_subreaper(Some(getpid())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for command in ["true", "exit 3", "(sleep 1000 &) ; sleep 1000 &", "kill -KILL 0"] {
        let args = json!({"command": command}).to_string();
        let call = Bash::default();
        let ended = tokio::time::timeout(Duration::from_secs(60), call.call(&args, &context(folder.path()))).await;
        assert!(ended.is_ok(), "{command}");
        assert_eq!(wait(WaitOptions::NOHANG).err(), Some(Errno::CHILD), "{command}");
    }
}
