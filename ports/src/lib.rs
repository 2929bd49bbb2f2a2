//! The promises between Plica's engine and the world: traits, their requests and replies,
//! and their contracts as numbered clauses of the design.
//!
//! Nothing here does anything: adapters implement the traits, the engine calls them, and the
//! `plica-conformance` crate checks any implementation against the clauses. First type to
//! read: [`Store`].

mod clock;
mod content;
mod definition;
mod files;
mod guard;
mod job;
mod model;
mod observer;
mod policy;
pub mod store;
mod text;
mod tool;

pub use clock::Clock;
pub use content::{ContentError, ContentStore, KeptBody, Removed};
pub use definition::{Definition, DefinitionError, ModelChoice, OnCrash, PermissionMode};
pub use files::{FileNow, Files, FilesError};
pub use guard::{Guard, GuardView, Ruling};
pub use job::{Job, JobExit, JobSlot, JobState, Jobs, KnownJob, RunningJob, StartedJob, TaskJobs};
pub use model::{
    Delta, DeltaSink, Model, ModelError, ModelErrorKind, ModelRequest, Reply, RequestMessage, StopReason, ToolSpec,
};
pub use observer::{Observer, Outgoing, Parcel, Progress, Record};
pub use policy::{Policy, PolicyView};
pub use store::Store;
pub use text::ForeignText;
pub use tool::{CallContext, Effect, Recovered, Stop, StopSignal, Tool, ToolDeclaration, ToolError, ToolOutput};
