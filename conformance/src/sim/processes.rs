//! What calls leave running outside: background jobs, each of which lives no longer than the
//! worker process that started it (ST-13).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::event::JobEnd;
use plica_kernel::id::TaskId;
use plica_ports::{CallContext, Job, JobExit, JobSlot};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::gate::Gate;
use super::planted::PlantedBug;

/// How a process ended, with its exit status if it exited.
pub type End = (JobEnd, Option<i32>);

/// A process that a call left running.
#[derive(Debug)]
pub struct Process {
    /// The task of the call.
    pub task: TaskId,
    /// The call, as it is written in logs.
    pub call: String,
    /// The epoch under which it began.
    pub epoch: u64,
    /// The worker process that started it: it dies with it.
    worker: Arc<Gate>,
    end: watch::Sender<Option<End>>,
    /// Whether the worker let go of it, which ends it.
    dropped: AtomicBool,
    /// Whether it goes on until it is ended.
    for_good: bool,
    /// Since when it should be gone.
    overdue: Mutex<Option<Duration>>,
}

impl Process {
    /// How it ended, if it was there to see that.
    pub fn end(&self) -> Option<End> {
        *self.end.borrow()
    }

    /// Whether it is alive.
    pub fn runs(&self) -> bool {
        self.end().is_none() && !self.dropped.load(Ordering::Relaxed) && !self.worker.is_gone()
    }

    /// Whether it is alive, and will be until someone ends it.
    pub fn lasts(&self) -> bool {
        self.for_good && self.runs()
    }

    /// What it writes until it ends.
    pub fn output(&self) -> String {
        format!("all that {}:{} had to say", self.task, self.call)
    }

    /// Notes whether it should be gone at `now`; says for how long already, without the time in
    /// which its worker stood still and could not have seen to it.
    pub fn overdue(&self, now: Duration, should_be_gone: bool) -> Duration {
        let mut since = self.overdue.lock().unwrap_or_else(PoisonError::into_inner);
        if !should_be_gone || self.worker.is_stalled() {
            *since = None;
        }
        if should_be_gone { now.saturating_sub(*since.get_or_insert(now)) } else { Duration::ZERO }
    }

    fn ends(&self, end: End) {
        if self.runs() {
            self.end.send_replace(Some(end));
        }
    }
}

/// A worker's hold on a process.
pub struct Handle {
    process: Arc<Process>,
    /// Ends it by itself when its time has come.
    life: Option<JoinHandle<()>>,
    /// How long it takes to end when it is told to.
    dying: Duration,
    planted: Option<PlantedBug>,
    _slot: JobSlot,
}

impl Handle {
    /// Starts a process for a call: it exits after `life`, with a status, or lives on.
    pub fn start(
        context: &CallContext,
        (worker, slot): (Arc<Gate>, JobSlot),
        life: Option<(Duration, i32)>,
        dying: Duration,
        planted: Option<PlantedBug>,
    ) -> (Self, Arc<Process>) {
        let process = Arc::new(Process {
            task: context.task.clone(),
            call: context.call.to_string(),
            epoch: context.epoch.0,
            worker,
            end: watch::Sender::new(None),
            dropped: AtomicBool::new(false),
            for_good: life.is_none(),
            overdue: Mutex::default(),
        });
        let living = process.clone();
        let life = life.map(|(life, code)| {
            tokio::spawn(async move {
                tokio::time::sleep(life).await;
                living.ends((JobEnd::Exited, Some(code)));
            })
        });
        (Self { process: process.clone(), life, dying, planted, _slot: slot }, process)
    }

    fn is_immortal(&self) -> bool {
        self.planted == Some(PlantedBug::JobOutlivesHold)
    }
}

#[async_trait]
impl Job for Handle {
    fn output(&self) -> String {
        "so far so good".into()
    }

    async fn kill(&self) {
        self.process.worker.pass().await;
        if self.process.runs() && !self.is_immortal() {
            tokio::time::sleep(self.dying).await;
            self.process.ends((JobEnd::Killed, None));
        }
        self.process.worker.pass().await;
    }

    async fn ended(&self) -> JobExit {
        let mut end = self.process.end.subscribe();
        // The sender is in the process, which this handle keeps.
        let end = end.wait_for(Option::is_some).await.ok().and_then(|end| *end);
        let (how, code) = end.unwrap_or((JobEnd::Killed, None));
        self.process.worker.pass().await;
        match (how, self.planted) {
            (JobEnd::Killed, Some(PlantedBug::JobExitInvented)) => {
                JobExit { code: Some(0), how: JobEnd::Exited, output: self.process.output() }
            }
            _ => JobExit { code, how, output: self.process.output() },
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(life) = &self.life {
            life.abort();
        }
        if !self.is_immortal() {
            self.process.dropped.store(true, Ordering::Relaxed);
        }
    }
}
