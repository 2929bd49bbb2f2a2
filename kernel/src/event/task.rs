//! A task's life: creation, decisions, waits, ends, and the marks a fold turns at.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::fmt;

use serde::{Deserialize, Serialize};

use super::governance::Budget;
use crate::body::{Body, ContentRef};
use crate::canonical::Hash;
use crate::id::{CallId, DedupKey, LedgerId, Queue, Seq, TaskId};
use crate::time::Timestamp;
use crate::wake::{Wake, Woken};

/// The first event of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCreated {
    /// The agent's name.
    pub agent: String,
    /// Whether the parent's call was answered at once and this child goes on by itself.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub background: bool,
    /// What the task may spend; no cap unless set.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// The call of the parent that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The agent definition.
    pub definition: ContentRef,
    /// Steps from the root: 0 for a root.
    pub depth: u32,
    /// What the task is to do.
    pub goal: Body,
    /// Whether a finished turn waits for the next message instead of completing.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub interactive: bool,
    /// The caller's key that makes the creation idempotent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<DedupKey>,
    /// Free labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The store the task lives in.
    pub ledger: LedgerId,
    /// Not to be claimed before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The parent of a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// Priority class, 0 first and 3 last.
    pub priority: u8,
    /// The queue it waits in.
    pub queue: Queue,
}

/// The first event of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskForked {
    /// The store the task lives in.
    pub ledger: LedgerId,
    /// The task it branches from.
    pub source: TaskId,
    /// Hash of that event.
    pub source_hash: Hash,
    /// The last event of the source that it inherits.
    pub source_seq: Seq,
}

/// What a reply asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionKind {
    /// Calls to make.
    Calls,
    /// The turn is done.
    Finish,
    /// The reply was cut by the output limit; the model is asked again.
    Truncated,
    /// The reply held nothing; the model is asked again.
    Empty,
}

/// A call that a decision lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEntry {
    /// The rule that let it run, if it was let run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The tool it names.
    pub tool: String,
    /// What it waits for, when it is a `Wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitFor>,
}

/// What a call to `Wait` waits for: an event, a time, or whichever is first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitFor {
    /// The time, by the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// The event's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

/// What was decided on a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecorded {
    /// The turn's answer, with kind `finish`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Body>,
    /// The calls, at most 32; their place here is their index.
    pub calls: Vec<CallEntry>,
    /// What the reply asks for.
    pub kind: DecisionKind,
    /// Calls beyond the 32, which are answered "too many calls".
    #[serde(default, skip_serializing_if = "is_zero")]
    pub over: u32,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// How far a todo is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
}

/// One entry of the agent's own list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// A typed change of [`crate::state::TaskState`]; an unknown member is an error (FO-3).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskStatePatch {
    /// Decision notes to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_notes: Vec<String>,
    /// A new goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Body>,
    /// What comes next, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<String>,
    /// A new phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The whole new list of todos: a JSON array of [`Todo`], or its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub todos: Option<Body>,
}

/// A policy or `TodoWrite` changed the task's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatePatched {
    /// The call it answers, when `TodoWrite` made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The change.
    pub patch: TaskStatePatch,
}

/// Why a turn or task failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The model could not be asked, or would not answer.
    LlmError,
    /// Three truncated replies in a row.
    LlmTruncated,
    /// The cap was reached.
    Budget,
    /// A bug in engine or plugin.
    InternalError,
    /// Content that the log cites cannot be had or decoded.
    ContentError,
    /// No worker has a pinned plugin.
    PluginMissing,
    /// The agent's definition cannot be used.
    DefinitionError,
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LlmError => "llm_error",
            Self::LlmTruncated => "llm_truncated",
            Self::Budget => "budget",
            Self::InternalError => "internal_error",
            Self::ContentError => "content_error",
            Self::PluginMissing => "plugin_missing",
            Self::DefinitionError => "definition_error",
        })
    }
}

/// A failure of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was said, cut to what an event holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why.
    pub reason: FailureReason,
}

/// What a suspended task waits for, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendReason {
    /// The next message of an interactive task.
    Message,
    /// Answers, approvals, children, events or timers of open calls.
    Calls,
    /// Someone who grants more of a budget that is spent.
    Budget,
    /// A turn that failed; the next message carries on.
    Failed,
    /// A person interrupted the turn; the next message carries on.
    Interrupted,
    /// The task was rewound or reopened; the next message carries on.
    Rewound,
    /// An attempt that a crash broke waits for a person.
    Parked,
}

/// The task waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSuspended {
    /// The answer of the turn that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Body>,
    /// Why the turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What it waits for.
    pub reason: SuspendReason,
    /// What wakes it.
    pub wake: Wake,
}

/// The task woke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWoken {
    /// What woke it.
    pub item: Woken,
}

/// A person stopped the turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnInterrupted {
    /// Why, if a reason was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The whole state as of a seq: an accelerator and nothing else (SN-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSnapshot {
    /// Version of the code that folded: a hash over its sources (SN-2).
    pub fold: Hash,
    /// The state.
    pub state_ref: ContentRef,
    /// The last event the state holds; before this one.
    pub through: Seq,
}

/// The conversation continues from `to_seq`; what came between is dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRewound {
    /// Where it lands.
    pub to_seq: Seq,
}

/// What becomes of an attempt that a crash broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SealVerdict {
    /// Run the step again; the attempt is dead.
    Redrive,
    /// Run nothing again; a person's message carries on.
    Park,
}

/// An attempt was sealed after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepAttemptAbandoned {
    /// First event of the attempt.
    pub from_seq: Seq,
    /// What becomes of it.
    pub verdict: SealVerdict,
}

/// A person's message carries a parked attempt on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepAttemptResumed {
    /// The seal that parked it.
    pub seal: Seq,
}

/// The conversation was closed; it takes no messages until reopened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationClosed {
    /// Why, if a reason was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The conversation was reopened and waits for a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationReopened {
    /// Why, if a reason was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The task is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCompleted {
    /// What it came to.
    pub answer: Body,
}

/// The task failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFailed {
    /// What was said, cut to what an event holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why.
    pub reason: FailureReason,
}

/// The task was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCancelled {
    /// Why, if a reason was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
