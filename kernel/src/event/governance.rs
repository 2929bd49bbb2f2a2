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

/// The largest integer that has a canonical form (EV-1).
const CANONICAL_MAX: u64 = (1 << 53) - 1;

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

    /// Each dimension of this budget beside the same one of `other`.
    #[must_use]
    pub fn zip(self, other: Self, mut with: impl FnMut(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            nano_usd: with(self.nano_usd, other.nano_usd),
            steps: with(self.steps, other.steps),
            tokens: with(self.tokens, other.tokens),
            wall_ms: with(self.wall_ms, other.wall_ms),
        }
    }

    /// A cap in every dimension.
    pub const fn all(spent: Spent) -> Self {
        Self {
            nano_usd: Some(spent.nano_usd),
            steps: Some(spent.steps),
            tokens: Some(spent.tokens),
            wall_ms: Some(spent.wall_ms),
        }
    }

    /// What `spent` leaves of each cap; `None` where there is no cap.
    #[must_use]
    pub fn less(self, spent: Spent) -> Self {
        self.zip(Self::all(spent), |cap, spent| Some(cap?.saturating_sub(spent?)))
    }

    /// The caps raised by `more`, where there are caps.
    #[must_use]
    pub fn raised_by(self, more: Self) -> Self {
        self.zip(more, |cap, more| Some(cap?.saturating_add(more.unwrap_or(0)).min(CANONICAL_MAX)))
    }
}

/// What was spent of a budget, or is set aside to be spent.
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

impl Spent {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            nano_usd: self.nano_usd.saturating_add(other.nano_usd),
            steps: self.steps.saturating_add(other.steps),
            tokens: self.tokens.saturating_add(other.tokens),
            wall_ms: self.wall_ms.saturating_add(other.wall_ms),
        }
    }
}

impl From<Budget> for Spent {
    /// What is set aside with a slice: nothing where it has no cap.
    fn from(slice: Budget) -> Self {
        Self {
            nano_usd: slice.nano_usd.unwrap_or(0),
            steps: slice.steps.unwrap_or(0),
            tokens: slice.tokens.unwrap_or(0),
            wall_ms: slice.wall_ms.unwrap_or(0),
        }
    }
}

/// What an approval is about, when it is no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalSubject {
    /// More of what the task may spend: the arguments are the [`Budget`] that an approval adds to
    /// its caps (EN-4).
    Budget,
}

/// A person is asked whether something may happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The arguments that would run.
    pub args: Body,
    /// The call; for a budget, this event's own seq and index 0.
    pub call: CallId,
    /// Digest of the exact call: what is approved is what runs.
    pub digest: Hash,
    /// No longer to be granted after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The rule that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What it is about, when it is no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<ApprovalSubject>,
    /// The tool; the subject's name when it is no call.
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

/// What a person says became of a call whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallResolution {
    /// It happened, with this output.
    Landed,
    /// It did not happen: it runs now.
    NotLanded,
    /// The agent is to go on without it.
    Skip,
}

/// A person settled a call whose outcome was unknown (TO-3); allows its next start when it did
/// not land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResolved {
    /// The call.
    pub call: CallId,
    /// What it brought, when it landed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Body>,
    /// What became of it.
    pub verdict: CallResolution,
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
    /// Set when the child was told to stop and has not said yet what it spent: its slice stays
    /// reserved until it does.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub unsettled: bool,
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
    /// What a child that had been told to stop had spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
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
