use std::path::{Path, PathBuf};

use async_trait::async_trait;
use plica_kernel::body::Blob;
use plica_kernel::decide::{ChangedFile, Foreseen};
use plica_kernel::id::{CallId, Epoch, RunId, TaskId};

use crate::job::{StartedJob, TaskJobs};
use crate::observer::{Outgoing, Record};

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Read,
    /// A change that is the same however often it is made under one key.
    Idempotent,
    /// A change.
    Mutation,
}

/// What a tool says of itself (TO-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDeclaration {
    /// Its name: unique in an agent.
    pub name: String,
    /// What the model is told it is for.
    pub description: String,
    /// JSON Schema of its arguments, as text.
    pub schema: String,
    /// What it does to the world.
    pub effect: Effect,
    /// Whether a call that a crash cut off may simply run again under the same key (RC-2).
    pub retry_safe: bool,
    /// Its version.
    pub version: String,
}

impl ToolDeclaration {
    /// A tool of version `1`. What only reads is safe to run again after a crash; anything else
    /// is not, unless it says so.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: impl Into<String>,
        effect: Effect,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            schema: schema.into(),
            effect,
            retry_safe: effect == Effect::Read,
            version: "1".into(),
        }
    }
}

/// The circumstances of one call.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The task.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The n-th start of it, from 1.
    pub attempt: u32,
    /// `<task>:<call>`: the same on every worker and every try (TO-2). Whoever changes the
    /// outside sends it along with the fence where the target takes them (TO-6).
    pub idempotency_key: String,
    /// The claim's epoch: the fence.
    pub epoch: Epoch,
    /// The claim.
    pub run: RunId,
    /// The folder the agent works in.
    pub workspace: PathBuf,
    /// Names of variables of the worker's environment that the agent's commands may see.
    pub env: Vec<String>,
    /// The background jobs of the task.
    pub jobs: TaskJobs,
    /// Ends the call early when the claim is lost, or the turn or task is stopped: the tool
    /// stops what it started and returns what it knows.
    pub stop: StopSignal,
}

/// A signal that says stop, once and for good.
#[derive(Clone)]
pub struct StopSignal(std::sync::Arc<dyn Stop>);

/// What a [`StopSignal`] is made of; the engine brings its own.
#[async_trait]
pub trait Stop: Send + Sync {
    /// Whether it has been said.
    fn is_stopped(&self) -> bool;
    /// Returns once it has been said.
    async fn stopped(&self);
}

impl StopSignal {
    /// A signal made of `stop`.
    pub fn new(stop: impl Stop + 'static) -> Self {
        Self(std::sync::Arc::new(stop))
    }

    /// One that never comes: for tests and calls outside any task.
    pub fn never() -> Self {
        struct Never;
        #[async_trait]
        impl Stop for Never {
            fn is_stopped(&self) -> bool {
                false
            }
            async fn stopped(&self) {
                std::future::pending().await
            }
        }
        Self::new(Never)
    }

    /// Whether it has been said.
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }

    /// Returns once it has been said.
    pub async fn stopped(&self) {
        self.0.stopped().await;
    }
}

impl std::fmt::Debug for StopSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StopSignal").field(&self.is_stopped()).finish()
    }
}

/// What a call that ended well says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOutput {
    /// What the model is told.
    pub text: String,
    /// The whole output, when `text` is only a part of it: kept as content.
    pub whole: Option<Blob>,
    /// Other bodies that belong to the call, such as pre-images of files (TO-5).
    pub blobs: Vec<Blob>,
    /// Files of the workspace that it changed, in order, so that a rewind can put them back.
    pub files: Vec<ChangedFile>,
    /// What it left running in the background: on record with the call's end, which tells the
    /// model its id, and dead with its worker (ST-13).
    pub job: Option<StartedJob>,
    /// Records to append with the call's outcome (EN-9).
    pub records: Vec<Record>,
    /// What to send to other tasks with it.
    pub outgoing: Vec<Outgoing>,
}

impl ToolOutput {
    /// An output of `text` and nothing else.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// How a call failed (TO-3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// It ended and says that it failed: the model is told.
    #[error("{}", .0.text)]
    Failed(ToolOutput),
    /// It may have happened: a mutation that timed out or lost its connection.
    #[error("{}", .0.text)]
    Unknown(ToolOutput),
    /// It was stopped from outside before it ended.
    #[error("{}", .0.text)]
    Stopped(ToolOutput),
}

impl ToolError {
    /// A failure of `text` and nothing else.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(ToolOutput::text(text))
    }

    /// An end that nobody can tell, with `text` and nothing else.
    pub fn unknown(text: impl Into<String>) -> Self {
        Self::Unknown(ToolOutput::text(text))
    }

    /// A stop from outside, with `text` and nothing else.
    pub fn stopped(text: impl Into<String>) -> Self {
        Self::Stopped(ToolOutput::text(text))
    }
}

/// What a look for the result of a call that a crash cut off came to (TO-3).
#[expect(clippy::large_enum_variant, reason = "one a call that a crash cut off, taken apart at once")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// The effect was found: this is its result.
    Found(ToolOutput),
    /// Nothing can be said, be it that the tool cannot look or could not.
    Unknown,
}

/// Something an agent can call.
///
/// * **TO-1** `declaration` is constant. Arguments reach `call` only after they were
///   validated against the schema.
/// * **TO-2** The key of the context is the same on every worker and every try.
/// * **TO-3** A call ends well, failed or unknown; "could not look" is never "did not happen".
/// * A call that is dropped (its worker gives the task up) stops what it started.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the tool says of itself.
    fn declaration(&self) -> &ToolDeclaration;

    /// Where the tool comes from, as records name it: a server, or the host itself.
    fn source(&self) -> &str {
        "host"
    }

    /// What a call will change in the files of `workspace` if it does what it is asked to. Asked
    /// before the call's start goes on record, which keeps it (TO-5): a rewind puts a file back even
    /// if the call is cut off. `args` is JSON text, valid by the schema; the default foresees nothing.
    async fn foresee(&self, args: &str, workspace: &Path) -> Foreseen {
        let _ = (args, workspace);
        Foreseen::default()
    }

    /// Runs a call. `args` is JSON text, valid by the schema.
    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError>;

    /// Looks for the result of a call that a crash cut off, and may clean up what its start
    /// left behind. The default cannot look.
    async fn recover(&self, args: &str, context: &CallContext) -> Recovered {
        let _ = (args, context);
        Recovered::Unknown
    }
}
