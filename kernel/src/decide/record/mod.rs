//! How each outcome is recorded: state and outcome in, events out.

mod budget;
mod calls;
mod items;
mod jobs;
mod plugins;
mod request;
mod rewind;
mod turn;

use alloc::string::String;

pub use calls::{CallOutcome, CallPlan, ChangedFile, Foreseen, Spawn, call_outcome};
pub use plugins::{Aside, PluginRecord, Revision, observed, revise};
pub use request::{Answer, Refusal, close_request, refusal, reply};
pub use rewind::{Prepared, restored};
pub use turn::fail;

pub(super) use budget::{ask_for_budget, suspend_for_budget};
pub(super) use calls::{ended, finish_call, start_call};
pub(super) use items::{join, resolve, rule, say, take, wake};
pub(super) use jobs::{lose_jobs, tell_jobs};
pub(super) use request::{compose, start_request};
pub(super) use rewind::{resume, rewind};
pub(super) use turn::{cancel, finish, interrupt, park, rest_again, suspend_for_calls};

use calls::begin_calls;

/// Bytes of a tool's name in a decision: 32 entries have to fit a payload.
const TOOL_BYTES_MAX: usize = 66;
/// Bytes of a rule in a decision.
const RULE_BYTES_MAX: usize = 34;
/// Bytes of short words that others choose, such as a provider's stop reason.
const WORD_BYTES_MAX: usize = 66;

/// What composes requests, as the plan names it.
#[derive(Debug, Clone)]
pub struct Composer {
    /// The composer and its version.
    pub version: String,
    /// The model, as the definition names it.
    pub model: String,
}
