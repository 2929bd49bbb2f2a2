//! Background jobs: the claim that outlasts a wait, their ends, and what becomes of them when
//! their worker goes.

mod crash;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use plica_engine::{Stop, Worker, WorkerOptions};
use plica_kernel::event::{EventType, JobEnd, Payload};
use plica_kernel::id::{Seq, TaskId, WorkerId};
use plica_kernel::row::Status;
use serde_json::{Value, json};

use crate::common::say;
use crate::waits::stage::{Stage, call, calls};
use tool::JobTool;

const USER: &str = "user:ada";

/// The seq of the first job that starts in the first call of a task: its id.
const FIRST_JOB: u64 = 10;

/// One agent on a host with a tool that starts jobs.
struct Scene {
    stage: Stage,
    tool: Arc<JobTool>,
}

impl Scene {
    fn new(replies: &[Value]) -> Self {
        let tool = JobTool::new();
        Self { stage: Stage::with(&[("main", replies)], |host| host.tool(tool.clone())), tool }
    }

    async fn submit(&self, interactive: bool) -> TaskId {
        let change = |submission: &mut plica_engine::Submission| {
            submission.definition.tools.push("Job".into());
            submission.definition.interactive = interactive;
        };
        self.stage.submit(change).await
    }

    /// How each job of the task ended.
    async fn ends(&self, task: &TaskId) -> Vec<(JobEnd, Option<i32>)> {
        let ended = self.stage.payloads(task).await.into_iter().filter_map(|payload| match payload {
            Payload::BackgroundJobEnded(ended) => Some((ended.how, ended.code)),
            _ => None,
        });
        ended.collect()
    }

    /// The jobs that the model was told of, each time.
    async fn told(&self, task: &TaskId) -> Vec<Seq> {
        let told = self.stage.payloads(task).await.into_iter().filter_map(|payload| match payload {
            Payload::MessagesAppended(appended) => Some(appended.jobs),
            _ => None,
        });
        told.flatten().collect()
    }

    /// Returns once the task waits while its holder keeps a job alive.
    async fn rests(&self, task: &TaskId) {
        self.stage.reaches(task, EventType::TaskSuspended).await;
        let row = self.stage.row(task).await;
        assert_eq!(row.projection.status, Status::Waiting);
        assert!(row.holder.is_some(), "the claim is retained");
    }
}

fn start() -> Value {
    calls(&[call("Job", json!({}))])
}

fn ask() -> Value {
    calls(&[call("AskUser", json!({ "question": "which?" }))])
}

/// ST-13: the task waits and its worker goes on holding it, however long; the end of the job wakes
/// it there, and once nothing is alive any more the claim goes.
#[tokio::test(start_paused = true)]
async fn st_13_a_task_that_waits_for_its_job_stays_with_its_worker() {
    let scene = Scene::new(&[start(), say("started"), say("seen")]);
    let task = scene.submit(true).await;
    let works = scene.stage.works();
    scene.rests(&task).await;
    let held = scene.stage.row(&task).await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let row = scene.stage.row(&task).await;
    assert_eq!((row.epoch, &row.run), (held.epoch, &held.run), "renewed, and by nobody else");
    assert_eq!(row.claimable_at, row.lease_until);
    assert!(!works.is_finished(), "it waits for something that comes by itself");
    scene.tool.job(0).exits(3);
    works.await.unwrap().unwrap();
    assert_eq!(scene.ends(&task).await, [(JobEnd::Exited, Some(3))]);
    assert_eq!(scene.told(&task).await, [Seq(FIRST_JOB)]);
    let conversation = scene.stage.conversation(&task).await;
    assert!(conversation.contains("Background job 10 was started.") && conversation.contains("ask for it"));
    assert!(conversation.contains("Background job 10 (make all) ended with exit status 3. Its output:"));
    assert_eq!(scene.stage.count(&task, EventType::TaskWoken).await, 1);
    assert_eq!(scene.stage.status(&task).await, Status::Waiting);
    assert!(scene.stage.row(&task).await.holder.is_none());
    scene.tool.job(0).gone().await;
    scene.stage.is_at_rest(&task).await;
}

/// A running task is told at the next safe point, and what it was told can be read again.
#[tokio::test(start_paused = true)]
async fn st_13_jobs_are_read_and_killed_by_their_id() {
    let by_id = |verb: &str, id: u64| {
        let mut args = serde_json::Map::new();
        args.insert(verb.into(), id.into());
        calls(&[call("Job", args.into())])
    };
    let slow = json!({ "text": "", "delay_ms": 5_000, "calls": [call("Job", json!({ "look": FIRST_JOB }))] });
    let replies = [start(), by_id("look", FIRST_JOB), by_id("kill", FIRST_JOB), slow, by_id("look", 4), say("done")];
    let scene = Scene::new(&replies);
    let task = scene.submit(false).await;
    scene.stage.work().await;
    assert_eq!(scene.stage.status(&task).await, Status::Completed);
    let conversation = scene.stage.conversation(&task).await;
    for told in ["make all runs: so far", "told to end", "make all killed: all of it", "unknown"] {
        assert!(conversation.contains(told), "{told}: {conversation}");
    }
    assert_eq!(scene.ends(&task).await, [(JobEnd::Killed, None)]);
    assert_eq!(scene.told(&task).await, [Seq(FIRST_JOB)]);
    scene.stage.is_at_rest(&task).await;
}

/// CA-4, EN-6: the append that ends a task closes its jobs, and they are ended.
#[tokio::test(start_paused = true)]
async fn en_6_a_job_ends_with_its_task() {
    let scene = Scene::new(&[start(), say("done")]);
    let task = scene.submit(false).await;
    scene.stage.work().await;
    assert_eq!(scene.stage.status(&task).await, Status::Completed);
    assert_eq!(scene.ends(&task).await, [(JobEnd::Killed, None)]);
    assert_eq!(scene.tool.job(0).exit(), Some(JobEnd::Killed));
    scene.tool.job(0).gone().await;
    scene.stage.is_at_rest(&task).await;

    let scene = Scene::new(&[start(), say("started")]);
    let task = scene.submit(true).await;
    let works = scene.stage.works();
    scene.rests(&task).await;
    scene.stage.client.cancel(&task, USER, None).await.unwrap();
    works.await.unwrap().unwrap();
    assert_eq!(scene.ends(&task).await, [(JobEnd::Killed, None)]);
    assert_eq!(scene.tool.job(0).exit(), Some(JobEnd::Killed));
}

/// An interrupt stops the turn; the job goes on, and its end opens no turn, nor does it in a closed
/// conversation: the task waits for a person, and the model is told then.
#[tokio::test(start_paused = true)]
async fn en_6_a_job_goes_on_through_an_interrupt_and_opens_no_turn() {
    for closed in [false, true] {
        let hangs = calls(&[call("Note", json!({ "note": "hang" }))]);
        let replies = if closed { vec![start(), say("started")] } else { vec![start(), hangs] };
        let scene = Scene::new(&[&replies[..], &[say("more")]].concat());
        let task = scene.submit(true).await;
        let works = scene.stage.works_with(|options| options.until_idle = false);
        if closed {
            scene.rests(&task).await;
            scene.stage.client.close(&task, USER, None).await.unwrap();
            scene.stage.reaches(&task, EventType::ConversationClosed).await;
        } else {
            scene.stage.note.begun.notified().await;
            scene.stage.client.interrupt(&task, USER, None).await.unwrap();
            scene.rests(&task).await;
        }
        assert_eq!((scene.ends(&task).await, scene.tool.job(0).exit()), (vec![], None));
        scene.tool.job(0).exits(3);
        scene.stage.reaches(&task, EventType::BackgroundJobEnded).await;
        assert_eq!(scene.ends(&task).await, [(JobEnd::Exited, Some(3))]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(scene.stage.count(&task, EventType::TaskWoken).await, 0);
        assert_eq!((scene.stage.status(&task).await, scene.told(&task).await), (Status::Waiting, vec![]));
        if closed {
            // It was at rest, so what it did not hear meanwhile opens a turn now.
            scene.stage.client.reopen(&task, USER, None).await.unwrap();
        } else {
            scene.stage.client.send(&task, USER, "more").await.unwrap();
        }
        while scene.stage.count(&task, EventType::TaskSuspended).await < 2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        scene.stage.is_at_rest(&task).await;
        assert_eq!(scene.told(&task).await, [Seq(FIRST_JOB)]);
        works.abort();
    }
}

/// SN-1: a rewind closes the job and ends it, and the model is told when it goes on from where it
/// knew it to run.
#[tokio::test(start_paused = true)]
async fn sn_1_a_rewind_ends_jobs() {
    let scene = Scene::new(&[start(), say("started"), say("more"), say("again")]);
    let task = scene.submit(true).await;
    let works = scene.stage.works();
    scene.rests(&task).await;
    let boundary = scene.stage.row(&task).await.projection.seq;
    scene.stage.client.send(&task, USER, "more").await.unwrap();
    while scene.stage.count(&task, EventType::TaskSuspended).await < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    scene.stage.client.rewind(&task, USER, boundary).await.unwrap();
    works.await.unwrap().unwrap();
    assert_eq!(scene.ends(&task).await, [(JobEnd::Killed, None)]);
    assert_eq!(scene.tool.job(0).exit(), Some(JobEnd::Killed));
    scene.tool.job(0).gone().await;
    let kept = scene.stage.payloads(&task).await.into_iter().find_map(|payload| match payload {
        Payload::BackgroundJobEnded(ended) => ended.output.inline().map(str::to_owned),
        _ => None,
    });
    assert_eq!(kept.as_deref(), Some("all of it"), "it has ended before it is left behind");
    assert_eq!(scene.told(&task).await, []);
    scene.stage.is_at_rest(&task).await;
    scene.stage.client.send(&task, USER, "again").await.unwrap();
    scene.stage.work().await;
    assert_eq!(scene.told(&task).await, [Seq(FIRST_JOB)]);
}

/// A wait for the time is kept in the same hold, whose job lives on.
#[tokio::test(start_paused = true)]
async fn st_13_the_holder_wakes_its_task_when_the_time_has_come() {
    let waits = calls(&[call("Wait", json!({ "seconds": 600 }))]);
    let scene = Scene::new(&[start(), waits, say("done")]);
    let task = scene.submit(false).await;
    let works = scene.stage.works();
    scene.rests(&task).await;
    works.await.unwrap().unwrap();
    assert_eq!(scene.stage.status(&task).await, Status::Completed);
    let conversation = scene.stage.conversation(&task).await;
    assert!(conversation.contains("the time has come"), "{conversation}");
    assert_eq!(scene.stage.row(&task).await.epoch.0, 1, "one hold");
}

/// What only rests leaves room for other work.
#[tokio::test(start_paused = true)]
async fn st_13_a_hold_that_only_rests_is_no_work() {
    let scene = Scene::new(&[start(), say("started"), say("seen")]);
    let first = scene.submit(true).await;
    let works = scene.stage.works_with(|options| options.concurrency = 1);
    scene.rests(&first).await;
    let second = scene.submit(true).await;
    scene.rests(&second).await;
    for job in 0..2 {
        scene.tool.job(job).exits(0);
    }
    works.await.unwrap().unwrap();
    for task in [first, second] {
        assert_eq!(scene.told(&task).await, [Seq(FIRST_JOB)]);
    }
}

/// So many jobs at once and no more.
#[tokio::test(start_paused = true)]
async fn st_13_a_ninth_job_is_refused() {
    let scene = Scene::new(&[calls(&vec![call("Job", json!({})); 9]), say("done")]);
    let task = scene.submit(false).await;
    scene.stage.work().await;
    assert_eq!(scene.stage.count(&task, EventType::BackgroundJobStarted).await, 8);
    assert_eq!(scene.ends(&task).await, [(JobEnd::Killed, None); 8]);
    assert!(scene.stage.conversation(&task).await.contains("no room"));
}

/// A worker that is to end does not wait for a person: the job ends, and is lost to whoever goes on.
#[tokio::test(start_paused = true)]
async fn st_13_a_worker_that_ends_loses_jobs_of_tasks_that_wait_for_people() {
    let scene = Scene::new(&[start(), ask(), say("done")]);
    let task = scene.submit(false).await;
    scene.stage.work().await;
    assert_eq!(scene.tool.job(0).exit(), Some(JobEnd::Killed));
    assert_eq!(scene.ends(&task).await, [(JobEnd::Lost, None)]);
    assert_eq!(scene.stage.status(&task).await, Status::Waiting);
    assert_eq!(scene.stage.count(&task, EventType::TaskWoken).await, 0);
    assert_eq!(scene.told(&task).await, []);
    scene.stage.is_at_rest(&task).await;
    let answered = scene.stage.payloads(&task).await.into_iter().find_map(|payload| match payload {
        Payload::QuestionAsked(asked) => Some(asked.call),
        _ => None,
    });
    scene.stage.client.answer_question(&task, USER, answered.unwrap(), "this").await.unwrap();
    scene.stage.work().await;
    assert_eq!(scene.told(&task).await, [Seq(FIRST_JOB)]);
    assert!(scene.stage.conversation(&task).await.contains("was lost"));
    assert_eq!(scene.stage.status(&task).await, Status::Completed);
}

/// A worker that is stopped hands its claims back, and the task is claimable at once.
#[tokio::test(start_paused = true)]
async fn st_13_a_worker_that_is_stopped_leaves_the_task_claimable_at_once() {
    let scene = Scene::new(&[start(), ask(), say("done")]);
    let task = scene.submit(false).await;
    let options = WorkerOptions::new(WorkerId::new("one").unwrap());
    let (worker, stop) = (Worker::new(scene.stage.host.clone(), options), Stop::new());
    let told = stop.clone();
    let works = tokio::spawn(async move { worker.run(told).await });
    scene.rests(&task).await;
    stop.stop();
    works.await.unwrap().unwrap();
    assert_eq!(scene.tool.job(0).exit(), Some(JobEnd::Killed));
    let row = scene.stage.row(&task).await;
    assert!(row.holder.is_none() && row.claimable_at <= Some(row.updated_at), "{row:?}");
    scene.stage.work().await;
    assert_eq!(scene.ends(&task).await, [(JobEnd::Lost, None)]);
    scene.stage.is_at_rest(&task).await;
}
