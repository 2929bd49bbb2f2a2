//! A worker dies or loses its claim at each place where a job begins, lives or ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use plica_conformance::layer::{Call, Layer, Layered};
use plica_engine::Stop;
use plica_kernel::event::{CallStatus, EventType, JobEnd, Payload};
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::row::Status;
use plica_ports::Store;
use plica_ports::store::StoreError;

use super::{FIRST_JOB, Scene, ask, start};
use crate::common::dying::Dying;
use crate::common::say;

impl Scene {
    /// A worker claims what is due and dies after so many appends, and its lease runs out; `meanwhile`
    /// happens while it lives.
    async fn dies_after(&self, appends: usize, written: bool, meanwhile: impl Future<Output = ()>) {
        let dying = Dying::after(self.stage.store.clone(), appends, written);
        let tools = |host: plica_engine::HostBuilder| host.tool(self.stage.note.clone()).tool(self.tool.clone());
        let worker = self.stage.worker_on(dying.clone(), tools);
        dying.0.kills(worker, meanwhile).await;
        self.tool.job(0).gone().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }

    async fn call_ended(&self, task: &TaskId) -> Vec<CallStatus> {
        let ended = self.stage.payloads(task).await.into_iter().filter_map(|payload| match payload {
            Payload::ToolCallFinished(finished) => Some(finished.status),
            _ => None,
        });
        ended.collect()
    }
}

/// Between the start of the process and the append that records it: the call is one whose outcome
/// nobody knows, and there is no job.
#[tokio::test(start_paused = true)]
async fn rc_2_a_job_that_is_not_on_record_ends_with_its_worker() {
    let scene = Scene::new(&[start(), say("done")]);
    let task = scene.submit(false).await;
    // The request, then the reply with the call, are on record.
    scene.dies_after(2, false, async {}).await;
    scene.stage.work().await;
    assert_eq!(scene.call_ended(&task).await, [CallStatus::Unknown]);
    assert_eq!(scene.stage.count(&task, EventType::BackgroundJobStarted).await, 0);
    assert_eq!(scene.stage.status(&task).await, Status::Completed);
}

/// Right after that append, which begins the next request too: it is lost, and told once. The
/// request goes on from its plan, and no turn ends before the model was told.
#[tokio::test(start_paused = true)]
async fn st_13_a_job_whose_worker_died_is_lost_and_told_once() {
    let scene = Scene::new(&[start(), say("done"), say("seen")]);
    let task = scene.submit(false).await;
    scene.dies_after(2, true, async {}).await;
    scene.stage.work().await;
    assert_eq!(scene.call_ended(&task).await, [CallStatus::Ok]);
    assert_eq!(scene.ends(&task).await, [(JobEnd::Lost, None)]);
    assert_eq!(scene.told(&task).await, [Seq(FIRST_JOB)]);
    assert_eq!(scene.stage.status(&task).await, Status::Completed);
    scene.stage.is_at_rest(&task).await;
}

/// While the task waits for a person: lost before anything else, and it waits on, unwoken.
#[tokio::test(start_paused = true)]
async fn st_13_a_waiting_task_whose_worker_died_waits_on() {
    for takeovers in [1, 2] {
        let scene = Scene::new(&[start(), ask(), say("done")]);
        let task = scene.submit(false).await;
        let told = async {
            scene.rests(&task).await;
            // What makes the holder append, and die of it.
            scene.stage.client.close(&task, super::USER, None).await.unwrap();
        };
        scene.dies_after(4, false, told).await;
        if takeovers == 2 {
            // The one that records the loss dies before it hears of that.
            let dying = scene.dies_after(0, true, async {});
            dying.await;
        }
        scene.stage.work().await;
        assert_eq!(scene.ends(&task).await, [(JobEnd::Lost, None)]);
        assert_eq!(scene.stage.count(&task, EventType::TaskWoken).await, 0);
        assert_eq!(scene.stage.status(&task).await, Status::Waiting);
        scene.stage.is_at_rest(&task).await;
    }
}

/// Between the delivery of its end and the append that takes it: nothing is lost.
#[tokio::test(start_paused = true)]
async fn st_13_a_crash_after_the_end_was_delivered_loses_nothing() {
    for written in [false, true] {
        let scene = Scene::new(&[start(), say("started"), say("seen")]);
        let task = scene.submit(true).await;
        let ends = async {
            scene.rests(&task).await;
            scene.tool.job(0).exits(7);
        };
        scene.dies_after(4, written, ends).await;
        scene.stage.work().await;
        assert_eq!(scene.ends(&task).await, [(JobEnd::Exited, Some(7))], "written: {written}");
        assert_eq!(scene.told(&task).await, [Seq(FIRST_JOB)]);
        assert_eq!(scene.stage.count(&task, EventType::TaskWoken).await, 1);
        scene.stage.is_at_rest(&task).await;
    }
}

/// A store that a worker does not reach any more, while others do.
struct CutOff {
    inner: Arc<dyn Store>,
    cut: AtomicBool,
}

#[async_trait]
impl Layer for CutOff {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn enter(&self, _: Call) -> Result<Duration, StoreError> {
        if self.cut.load(SeqCst) { Err(StoreError::Unavailable("cut off".into())) } else { Ok(Duration::ZERO) }
    }
}

/// RC-6: a worker that has to take its claim for lost ends the job, before anyone else goes on.
#[tokio::test(start_paused = true)]
async fn rc_6_a_worker_that_lost_its_claim_ends_the_job() {
    let scene = Scene::new(&[start(), say("started"), say("seen")]);
    let task = scene.submit(true).await;
    let cut = Arc::new(Layered(CutOff { inner: scene.stage.store.clone(), cut: AtomicBool::new(false) }));
    let worker = scene.stage.worker_on(cut.clone(), |host| host.tool(scene.tool.clone()));
    let (stop, told) = (Stop::new(), Stop::new());
    let works = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(stop).await }
    });
    scene.rests(&task).await;
    cut.0.cut.store(true, SeqCst);
    scene.tool.job(0).gone().await;
    assert_eq!(scene.tool.job(0).exit(), None, "ended with its last handle");
    assert_eq!(scene.ends(&task).await, []);
    scene.stage.worker().run(told).await.unwrap();
    assert_eq!(scene.ends(&task).await, [(JobEnd::Lost, None)]);
    assert_eq!(scene.told(&task).await, [Seq(FIRST_JOB)]);
    stop.stop();
    works.await.unwrap().ok();
}
