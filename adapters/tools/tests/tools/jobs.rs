//! Commands that go on in the background: their output, their ends, and that none outlives its
//! worker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use plica_kernel::event::JobEnd;
use plica_kernel::id::Seq;
use plica_kernel::limits::JOB_OUTPUT_BYTES_MAX;
use plica_ports::{JobExit, JobSlot, JobState, Jobs, KnownJob, RunningJob, TaskJobs, ToolError};
use plica_tools::{Bash, BashOutput, KillShell};
use serde_json::json;

use crate::alive::Alive;
use crate::harness::Scene;

/// The jobs of a task that has room for one.
#[derive(Default, Clone)]
struct Room {
    known: Arc<Mutex<BTreeMap<Seq, KnownJob>>>,
    slot: Arc<()>,
}

#[async_trait]
impl Jobs for Room {
    fn slot(&self) -> Option<JobSlot> {
        // One clone is the test's own, one that of the context.
        (Arc::strong_count(&self.slot) < 3).then(|| JobSlot::new(self.slot.clone()))
    }

    async fn job(&self, id: Seq) -> Result<Option<KnownJob>, String> {
        Ok(self.known.lock().unwrap().get(&id).cloned())
    }
}

struct Stage {
    scene: Scene,
    room: Room,
}

impl Stage {
    fn new() -> Self {
        let (mut scene, room) = (Scene::new(), Room::default());
        scene.context.jobs = TaskJobs::new(room.clone());
        Self { scene, room }
    }

    async fn start(&self, command: &str) -> RunningJob {
        let args = json!({"command": command, "run_in_background": true});
        let output = self.scene.call(&Bash::default(), args).await.unwrap();
        assert!(output.text.contains("BashOutput") && output.text.contains("KillShell"), "{}", output.text);
        let started = output.job.unwrap();
        assert_eq!(started.what, command);
        self.know(JobState::Running(started.job.clone()));
        started.job
    }

    fn know(&self, state: JobState) {
        self.room.known.lock().unwrap().insert(Seq(12), KnownJob { state, what: "make".into() });
    }

    async fn shown(&self, more: serde_json::Value) -> String {
        let mut args = json!({"bash_id": "12"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.scene.text(&BashOutput::default(), args).await
    }
}

#[tokio::test]
async fn st_13_a_background_command_says_how_it_ended() {
    let stage = Stage::new();
    for (command, code) in
        [("echo out; echo err >&2", 0), ("echo out; echo err >&2; exit 3", 3), ("kill -SEGV $$", 139)]
    {
        let exit = stage.start(command).await.ended().await;
        assert_eq!((exit.how, exit.code), (JobEnd::Exited, Some(code)), "{command}");
        assert_eq!(exit.output, if code == 139 { "" } else { "out\nerr\n" });
        stage.room.known.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn st_13_output_is_read_and_searched_while_it_runs_and_after() {
    let stage = Stage::new();
    let alive = Alive::new(&stage.scene.context.workspace);
    let job = stage.start("exec 7>alive; printf 'one\\ntwo\\nthree\\n'; echo ready >&7; sleep 1000").await;
    tokio::task::spawn_blocking(move || assert_eq!(alive.line(), "ready")).await.unwrap();
    // The line went to the pipe after the output; the reader of the output may be a moment behind.
    while job.output().lines().count() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.shown(json!({})).await, "Background job 12 (make) is running.\none\ntwo\nthree\n");
    assert_eq!(stage.shown(json!({"filter": "^t"})).await, "Background job 12 (make) is running.\ntwo\nthree\n");
    let ended = |code, how| JobState::Ended(JobExit { code, how, output: "x=1\ny=2\n".into() });
    for (state, words) in [
        (ended(Some(2), JobEnd::Exited), "has ended with exit status 2"),
        (ended(None, JobEnd::Killed), "was killed"),
        (ended(None, JobEnd::Lost), "was lost with the worker that ran it"),
    ] {
        stage.know(state);
        assert_eq!(stage.shown(json!({"filter": "y.2"})).await, format!("Background job 12 (make) {words}.\ny=2\n"));
    }
    let args = json!({"bash_id": "12", "filter": "("});
    assert!(stage.scene.failure(&BashOutput::default(), args).await.contains("regular expression"));
    for id in ["13", "", "make"] {
        let text = stage.scene.failure(&BashOutput::default(), json!({"bash_id": id})).await;
        assert!(text.contains("there is no background job"), "{text}");
    }
}

/// What is told to end tidies up, and nothing of it is left.
#[tokio::test]
async fn st_13_a_background_command_is_killed_with_all_that_it_started() {
    let stage = Stage::new();
    let alive = Alive::new(&stage.scene.context.workspace);
    let command =
        "exec 7>alive; trap 'echo tidied up; exit 0' TERM; (sleep 1000 & ); echo ready >&7; sleep 1000 & wait";
    let job = stage.start(command).await;
    let gone = tokio::task::spawn_blocking(move || {
        assert_eq!(alive.line(), "ready");
        alive
    });
    let alive = gone.await.unwrap();
    let text = stage.scene.text(&KillShell::default(), json!({"shell_id": "12"})).await;
    assert_eq!(text, "Background job 12 (make) was killed.\n");
    let exit = job.ended().await;
    assert_eq!((exit.how, exit.output.as_str()), (JobEnd::Killed, "tidied up\n"));
    tokio::task::spawn_blocking(move || alive.gone()).await.unwrap();
    // Once more changes nothing.
    assert_eq!(stage.scene.text(&KillShell::default(), json!({"shell_id": "12"})).await, text);
}

/// RC-6: the last handle takes the command along.
#[tokio::test]
async fn rc_6_a_background_command_ends_with_its_last_handle() {
    let stage = Stage::new();
    let alive = Alive::new(&stage.scene.context.workspace);
    let job = stage.start("exec 7>alive; trap '' TERM; echo ready >&7; sleep 1000").await;
    let alive = tokio::task::spawn_blocking(move || {
        assert_eq!(alive.line(), "ready");
        alive
    });
    let alive = alive.await.unwrap();
    stage.room.known.lock().unwrap().clear();
    drop(job);
    tokio::task::spawn_blocking(move || alive.gone()).await.unwrap();
}

/// Of a command that says more than is kept the last bytes are.
#[tokio::test]
async fn st_13_the_end_of_a_long_output_is_kept() {
    let stage = Stage::new();
    let exit = stage.start("seq 100000; printf end").await.ended().await;
    assert_eq!(exit.output.len(), JOB_OUTPUT_BYTES_MAX);
    assert!(exit.output.ends_with("\n99999\n100000\nend"));
    let shown = stage.shown(json!({})).await;
    assert!(shown.contains("bytes before this are left out]") && shown.ends_with("\n100000\nend"));
    assert!(shown.chars().count() < 31_000);
}

#[tokio::test]
async fn st_13_no_more_jobs_than_there_is_room_for() {
    let stage = Stage::new();
    let job = stage.start("sleep 1000").await;
    let args = json!({"command": "echo > made", "run_in_background": true});
    let refused = stage.scene.failure(&Bash::default(), args.clone()).await;
    assert!(refused.contains("8 background jobs may run at once"), "{refused}");
    job.kill().await;
    stage.room.known.lock().unwrap().clear();
    drop(job);
    let second = stage.scene.call(&Bash::default(), args).await;
    assert!(second.is_ok_and(|output| output.job.is_some()));
    // Outside any task there is no room at all.
    let bare = Scene::new();
    let refused = bare.call(&Bash::default(), json!({"command": "true", "run_in_background": true})).await;
    assert!(matches!(refused, Err(ToolError::Failed(_))));
}
