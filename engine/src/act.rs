//! What the outside world does for a step: a model's reply, a tool's result, a look for the
//! result of a call that was cut off.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::decide::{Aside, CallOutcome, Orphan};
use plica_kernel::event::{CallStatus, Failure, LeftFile};
use plica_kernel::id::{CallId, Seq, TaskId};
use plica_kernel::state::Task;
use plica_ports::{
    CallContext, Clock, Definition, Delta, DeltaSink, Model, ModelError, ModelRequest, Recovered, Reply, RunningJob,
    TaskJobs, Tool, ToolError, ToolOutput,
};
use tokio_util::sync::CancellationToken;

use crate::aside::aside;
use crate::heartbeat::Hold;
use crate::host::Audience;

/// What came back from outside, for the action that began at a seq.
#[derive(Debug)]
pub(crate) struct Happened {
    pub(crate) action: Seq,
    pub(crate) what: Result<Outcome, Broken>,
}

/// What an action came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    Reply {
        reply: Box<Result<Reply, ModelError>>,
        elapsed: Duration,
    },
    Call {
        outcome: Box<CallOutcome>,
        /// What it left running.
        job: Option<(CallId, RunningJob)>,
    },
    Orphan(Box<Orphan>),
    /// Files were put back: how many, and which were left.
    Restored {
        restored: u64,
        left: Vec<LeftFile>,
    },
}

/// Why an action came to nothing that could be recorded as its outcome: an adapter panicked,
/// or content that the log cites cannot be had. It fails the turn.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) Failure);

/// Passes a reply's deltas on to whoever listens, under the name of its request. A listener that
/// panics hears no more of this reply, and the reply is none the worse for it.
struct Overheard {
    audience: Option<Arc<dyn Audience>>,
    task: TaskId,
    request: Seq,
    deaf: AtomicBool,
}

impl DeltaSink for Overheard {
    fn delta(&self, delta: Delta) {
        let Some(audience) = self.audience.as_ref().filter(|_| !self.deaf.load(Ordering::Relaxed)) else { return };
        let call = AssertUnwindSafe(|| audience.hears(&self.task, self.request, delta));
        if catch_unwind(call).is_err() {
            self.deaf.store(true, Ordering::Relaxed);
            tracing::warn!(task = %self.task, request = %self.request, "an audience failed");
        }
    }
}

/// Asks the model; `action` is the request's own event.
pub(crate) async fn ask(
    clock: Arc<dyn Clock>,
    model: Arc<dyn Model>,
    request: ModelRequest,
    action: Seq,
    audience: Option<Arc<dyn Audience>>,
) -> Outcome {
    let began = clock.monotonic();
    let overheard = Overheard { audience, task: request.task.clone(), request: action, deaf: AtomicBool::new(false) };
    let reply = model.ask(&request, &overheard).await;
    Outcome::Reply { reply: Box::new(reply), elapsed: clock.monotonic().saturating_sub(began) }
}

/// Runs a call.
pub(crate) async fn run(clock: Arc<dyn Clock>, tool: Arc<dyn Tool>, args: String, context: CallContext) -> Outcome {
    let began = clock.monotonic();
    let outcome = |status, output, elapsed_ms| outcome(&*tool, &context, status, output, elapsed_ms);
    let result = tool.call(&args, &context).await;
    let job = match &result {
        Ok(output) => output.job.as_ref().map(|started| (context.call, started.job.clone())),
        Err(_) => None,
    };
    let elapsed = clock.monotonic().saturating_sub(began);
    let elapsed_ms = millis(elapsed);
    let outcome = Box::new(match result {
        Ok(output) => outcome(CallStatus::Ok, output, elapsed_ms),
        Err(ToolError::Failed(output)) => outcome(CallStatus::Error, output, elapsed_ms),
        Err(ToolError::Unknown(output)) => outcome(CallStatus::Unknown, output, elapsed_ms),
        Err(ToolError::Stopped(output)) => outcome(CallStatus::Interrupted, output, elapsed_ms),
    });
    Outcome::Call { outcome, job }
}

/// A call whose tool is not here: an agent that was moved to another definition has it no more.
pub(crate) fn without(tool: &str) -> Outcome {
    let outcome = CallOutcome {
        aside: Aside::default(),
        blobs: Vec::new(),
        elapsed_ms: 0,
        files: Vec::new(),
        job: None,
        output: format!("not run: there is no tool {tool} any more"),
        status: CallStatus::Error,
        whole: None,
    };
    Outcome::Call { outcome: Box::new(outcome), job: None }
}

/// Looks for the result of a call that a former holder began.
pub(crate) async fn look(tool: Option<Arc<dyn Tool>>, args: String, context: CallContext) -> Outcome {
    let Some(tool) = tool else { return Outcome::Orphan(Box::new(Orphan::Lost)) };
    Outcome::Orphan(Box::new(match tool.recover(&args, &context).await {
        Recovered::Found(output) => Orphan::Found(outcome(&*tool, &context, CallStatus::Recovered, output, 0)),
        Recovered::Unknown if tool.declaration().retry_safe => Orphan::RetrySafe,
        Recovered::Unknown => Orphan::Lost,
    }))
}

fn outcome(
    tool: &dyn Tool,
    context: &CallContext,
    status: CallStatus,
    output: ToolOutput,
    elapsed_ms: u64,
) -> CallOutcome {
    let whole = output.whole.as_ref().map(|blob| blob.reference.clone());
    let actor = format!("tool:{}", tool.declaration().name);
    CallOutcome {
        aside: aside(&actor, &context.task, output.records, output.outgoing),
        blobs: output.blobs.into_iter().chain(output.whole).collect(),
        elapsed_ms,
        files: output.files,
        job: output.job.filter(|_| status == CallStatus::Ok).map(|started| started.what),
        output: output.text,
        status,
        whole,
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The circumstances of a call, as its tool is told.
pub(crate) fn context(
    task: &Task,
    hold: &Hold,
    definition: &Definition,
    call: CallId,
    attempt: u32,
    jobs: TaskJobs,
    stop: &CancellationToken,
) -> CallContext {
    CallContext {
        task: task.id().clone(),
        call,
        attempt,
        idempotency_key: plica_kernel::id::idempotency_key(task.id(), call),
        epoch: hold.claim.epoch,
        run: hold.claim.run.clone(),
        workspace: definition.workspace.clone().into(),
        env: definition.env.clone(),
        jobs,
        stop: plica_ports::StopSignal::new(TokenStop(stop.clone())),
    }
}

struct TokenStop(CancellationToken);

#[async_trait]
impl plica_ports::Stop for TokenStop {
    fn is_stopped(&self) -> bool {
        self.0.is_cancelled()
    }

    async fn stopped(&self) {
        self.0.cancelled().await;
    }
}
