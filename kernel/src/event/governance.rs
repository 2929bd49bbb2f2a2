//! What is asked of people, spent, delegated, and kept for the record.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::runtime::CallStatus;
use super::task::Failure;
use crate::body::{Body, ContentRef};
use crate::canonical::Hash;
use crate::id::{CallId, Seq, TaskId};
use crate::ledger::Identity;
use crate::time::Timestamp;

/// Caps on what a task may spend; `None` is no cap (EN-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Nano-USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_usd: Option<u64>,
    /// Model round-trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Input and output tokens together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Milliseconds of work, as the sum of `elapsed_ms` in outcomes; waiting is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

impl Budget {
    /// Whether no cap is set.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// What was spent of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Nano-USD.
    #[serde(default)]
    pub nano_usd: u64,
    /// Model round-trips.
    #[serde(default)]
    pub steps: u64,
    /// Input and output tokens together.
    #[serde(default)]
    pub tokens: u64,
    /// Milliseconds of work.
    #[serde(default)]
    pub wall_ms: u64,
}

/// A person is asked whether something may happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The arguments that would run.
    pub args: Body,
    /// The call.
    pub call: CallId,
    /// Digest of the exact call: what is approved is what runs.
    pub digest: Hash,
    /// No longer to be granted after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The rule that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The tool.
    pub tool: String,
}

/// What a person ruled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalVerdict {
    /// It may run, once.
    Approve,
    /// It may not run.
    Deny,
    /// Nobody answered in time.
    Expire,
}

/// A person ruled on a call; names the decision that lists it and the digest it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalResolved {
    /// The call; its decision is that of the id.
    pub call: CallId,
    /// Digest of the exact call.
    pub digest: Hash,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Body>,
    /// The ruling.
    pub verdict: ApprovalVerdict,
}

/// The agent asked a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// The call.
    pub call: CallId,
    /// What is asked.
    pub question: Body,
}

/// A question was settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    /// What the model is told.
    pub answer: Body,
    /// The call.
    pub call: CallId,
}

/// A child was created; cites the decision that allowed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskSpawned {
    /// The child's agent.
    pub agent: String,
    /// Whether the call is answered at once and the child goes on by itself.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub background: bool,
    /// The slice reserved for it.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// The call.
    pub call: CallId,
    /// The child.
    pub child: TaskId,
    /// The child's definition.
    pub definition: ContentRef,
    /// What it is to do.
    pub goal: Body,
    /// Whether the first result of the group wakes the parent.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub any: bool,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SubtaskStatus {
    /// Done.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
}

/// A child ended; cites its spawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskCompleted {
    /// What it came to.
    pub answer: Body,
    /// The call.
    pub call: CallId,
    /// The child.
    pub child: TaskId,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What it spent, its own children included.
    #[serde(default)]
    pub spent: Spent,
    /// How it ended.
    pub status: SubtaskStatus,
}

/// Why a result was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LateKind {
    /// Its identity is older than its action's, or its action was rewound.
    Stale,
    /// Its action already has an outcome.
    Late,
}

/// A result that does not count was kept (ID-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateResultRecorded {
    /// The action it answers; for what a person or child said of a call that waited for
    /// nothing any more, the decision that lists the call. A plain observation: it never poses
    /// as the outcome.
    pub answers: Seq,
    /// The call, for a tool's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The identity it came under.
    pub identity: Identity,
    /// Why it does not count.
    pub kind: LateKind,
    /// What it says.
    pub output: Body,
    /// How the tool said it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<CallStatus>,
}

/// A record of a plugin, opaque to every core rule (EN-9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtensionRecorded {
    /// The record.
    pub body: Body,
    /// Its kind; the last of each kind is kept.
    pub kind: String,
    /// The plugin.
    pub plugin: String,
}
