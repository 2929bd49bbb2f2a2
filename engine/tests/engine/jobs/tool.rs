//! A tool whose calls leave jobs running that the test ends.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use plica_kernel::event::JobEnd;
use plica_kernel::id::Seq;
use plica_ports::{
    CallContext, Effect, Job, JobExit, JobSlot, JobState, RunningJob, StartedJob, Tool, ToolDeclaration, ToolError,
    ToolOutput,
};
use serde_json::Value;
use tokio::sync::{Notify, watch};

/// What the test sees of a job.
#[derive(Clone)]
pub struct Seen {
    exit: watch::Sender<Option<(JobEnd, Option<i32>)>>,
    /// Whether some handle on it is left.
    pub alive: watch::Receiver<bool>,
}

impl Seen {
    /// It ends by itself.
    pub fn exits(&self, code: i32) {
        self.exit.send_replace(Some((JobEnd::Exited, Some(code))));
    }

    /// How it ended, if it has; one that was only dropped has not.
    pub fn exit(&self) -> Option<JobEnd> {
        self.exit.borrow().map(|(how, _)| how)
    }

    /// Returns once no handle is left.
    pub async fn gone(&self) {
        self.alive.clone().wait_for(|alive| !alive).await.ok();
    }
}

struct Fake {
    exit: watch::Sender<Option<(JobEnd, Option<i32>)>>,
    alive: watch::Sender<bool>,
    _slot: JobSlot,
}

#[async_trait]
impl Job for Fake {
    fn output(&self) -> String {
        "so far".into()
    }

    async fn kill(&self) {
        self.exit.send_if_modified(|exit| {
            let runs = exit.is_none();
            *exit = exit.or(Some((JobEnd::Killed, None)));
            runs
        });
    }

    async fn ended(&self) -> JobExit {
        let mut exit = self.exit.subscribe();
        let (how, code) = exit.wait_for(Option::is_some).await.unwrap().unwrap();
        JobExit { code, how, output: "all of it".into() }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.alive.send_replace(false);
    }
}

/// `Job{}` starts one, `Job{"look": id}` says where one stands, `Job{"kill": id}` ends it.
pub struct JobTool {
    declaration: ToolDeclaration,
    pub jobs: Mutex<Vec<Seen>>,
    pub started: Notify,
}

impl JobTool {
    pub fn new() -> Arc<Self> {
        let declaration = ToolDeclaration::new("Job", "Starts a job.", r#"{"type":"object"}"#, Effect::Mutation);
        Arc::new(Self { declaration, jobs: Mutex::default(), started: Notify::new() })
    }

    pub fn job(&self, nth: usize) -> Seen {
        self.jobs.lock().unwrap()[nth].clone()
    }
}

#[async_trait]
impl Tool for JobTool {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: Value = serde_json::from_str(args).unwrap();
        if let Some(id) = args["look"].as_u64().or(args["kill"].as_u64()) {
            let Some(known) = context.jobs.job(Seq(id)).await.unwrap() else { return Ok(ToolOutput::text("unknown")) };
            return Ok(ToolOutput::text(match known.state {
                JobState::Running(job) if args["kill"].is_u64() => {
                    job.kill().await;
                    "told to end".to_owned()
                }
                JobState::Running(job) => format!("{} runs: {}", known.what, job.output()),
                JobState::Ended(exit) => format!("{} {}: {}", known.what, exit.how, exit.output),
            }));
        }
        let Some(slot) = context.jobs.slot() else { return Err(ToolError::failed("no room")) };
        let (exit, alive) = (watch::Sender::new(None), watch::Sender::new(true));
        self.jobs.lock().unwrap().push(Seen { exit: exit.clone(), alive: alive.subscribe() });
        self.started.notify_one();
        let job = RunningJob::new(Fake { exit, alive, _slot: slot });
        let job = StartedJob { job, what: "make\nall".into() };
        Ok(ToolOutput { job: Some(job), ..ToolOutput::text("ask for it by its id") })
    }
}
