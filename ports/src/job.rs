use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use plica_kernel::event::JobEnd;
use plica_kernel::id::Seq;

/// How a background job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobExit {
    /// Its exit status, if it exited and has one.
    pub code: Option<i32>,
    /// How it ended.
    pub how: JobEnd,
    /// The end of its output: the last `JOB_OUTPUT_BYTES_MAX` bytes at most.
    pub output: String,
}

/// Something that a call left running, in the hands of the worker that holds the task.
///
/// * **ST-13** It lives no longer than this: whoever drops the last reference to it ends it, and
///   so does the death of the process, however that comes.
#[async_trait]
pub trait Job: Send + Sync {
    /// The end of its output so far.
    fn output(&self) -> String;

    /// Tells it to end, ends it if it does not within 5 s, and returns once it has ended. What
    /// has ended by itself before stays as it ended.
    async fn kill(&self);

    /// Returns once it has ended; however often it is asked.
    async fn ended(&self) -> JobExit;
}

/// A running background job.
#[derive(Clone)]
pub struct RunningJob(Arc<dyn Job>);

impl RunningJob {
    /// A handle on `job`.
    pub fn new(job: impl Job + 'static) -> Self {
        Self(Arc::new(job))
    }
}

impl std::ops::Deref for RunningJob {
    type Target = dyn Job;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for RunningJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunningJob(..)")
    }
}

/// Handles on the same job are equal.
impl PartialEq for RunningJob {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for RunningJob {}

/// What a call leaves running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedJob {
    /// The job.
    pub job: RunningJob,
    /// What runs, in a line.
    pub what: String,
}

/// A background job of a task, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownJob {
    /// Where it stands.
    pub state: JobState,
    /// What it runs.
    pub what: String,
}

/// Where a background job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It runs on this worker.
    Running(RunningJob),
    /// It has ended.
    Ended(JobExit),
}

/// A place among the jobs that a task may run at once, taken until it is dropped.
pub struct JobSlot(
    #[expect(dead_code, reason = "held, so that dropping it frees the place")] Box<dyn Any + Send + Sync>,
);

impl JobSlot {
    /// A place that `guard` frees when it is dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for JobSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSlot(..)")
    }
}

/// The background jobs of one task, as its tools see them.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// A place for one more; `None` when `JOBS_MAX` run already. A tool takes it before it starts
    /// anything and keeps it as long as that lives.
    fn slot(&self) -> Option<JobSlot>;

    /// The job of this id; `None` when the task has none, or has forgotten it. One that a former
    /// holder ran has ended.
    ///
    /// # Errors
    /// Why its output cannot be had now.
    async fn job(&self, id: Seq) -> Result<Option<KnownJob>, String>;
}

/// The background jobs of the task that a call belongs to.
#[derive(Clone)]
pub struct TaskJobs(Arc<dyn Jobs>);

impl TaskJobs {
    /// What tools see of `jobs`.
    pub fn new(jobs: impl Jobs + 'static) -> Self {
        Self(Arc::new(jobs))
    }

    /// None, and no room for any: for calls outside any task.
    pub fn none() -> Self {
        struct NoJobs;
        #[async_trait]
        impl Jobs for NoJobs {
            fn slot(&self) -> Option<JobSlot> {
                None
            }
            async fn job(&self, _: Seq) -> Result<Option<KnownJob>, String> {
                Ok(None)
            }
        }
        Self::new(NoJobs)
    }
}

impl std::ops::Deref for TaskJobs {
    type Target = dyn Jobs;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for TaskJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskJobs(..)")
    }
}
