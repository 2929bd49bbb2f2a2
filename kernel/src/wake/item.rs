use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use super::WakeKey;
use crate::body::{Body, ContentRef};
use crate::event::{ApprovalVerdict, CallResolution, CallStatus, Failure, JobEnd, Spent, SubtaskStatus};
use crate::id::{CallId, DedupKey, Position, Seq, TaskId};
use crate::ledger::Identity;
use crate::time::Timestamp;

/// Something delivered to a task, waiting to be taken by the append that records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxItem {
    /// When the store took it.
    pub at: Timestamp,
    /// Who sent it: becomes the actor of the event that records it.
    pub actor: String,
    /// The key it was delivered under.
    pub dedup: DedupKey,
    /// What it is.
    pub item: Item,
    /// Its place in the inbox.
    pub position: Position,
}

/// What can be delivered. As text, an object whose `kind` names the variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    /// A message to the agent.
    Message {
        /// What it says.
        text: String,
    },
    /// End the task.
    Cancel {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Stop the turn.
    Interrupt {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Go back to a turn boundary.
    Rewind {
        /// Where to land.
        to_seq: Seq,
    },
    /// Close the conversation.
    Close {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Open a conversation that is over or closed.
    Reopen {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A question is answered.
    Answer {
        /// The call that asked.
        call: CallId,
        /// The answer.
        text: String,
    },
    /// An approval is granted or refused.
    Verdict {
        /// The call.
        call: CallId,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The ruling.
        verdict: ApprovalVerdict,
    },
    /// A call whose outcome is unknown is settled.
    Resolve {
        /// The call.
        call: CallId,
        /// What it brought, when it landed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// What became of it.
        verdict: CallResolution,
    },
    /// An event from outside.
    Event {
        /// What it carries, as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// Its kind.
        event: String,
    },
    /// A child ended.
    Child {
        /// Its answer; content of the same store when it is not inline.
        answer: Body,
        /// Whether its call was answered before and it went on by itself.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        background: bool,
        /// The call that spawned it.
        call: CallId,
        /// The child.
        child: TaskId,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
        /// What it spent.
        spent: Spent,
        /// How it ended.
        status: SubtaskStatus,
    },
    /// A background job ended: its holder says so to its own task, so that the end is durable
    /// before anything comes of it.
    Job {
        /// Its exit status, if it exited and has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// How it ended.
        how: JobEnd,
        /// The job: the event that started it.
        job: Seq,
        /// The end of its output.
        output: String,
    },
    /// Move to another definition, between two steps.
    Revise {
        /// The definition; content of the same store.
        definition: ContentRef,
    },
    /// A finished result of a worker that lost its claim (ID-3).
    Evidence {
        /// The action it answers.
        action: Seq,
        /// The call.
        call: CallId,
        /// The identity it came under.
        identity: Identity,
        /// What it says.
        output: String,
        /// How the tool said it ended.
        status: CallStatus,
    },
}

impl Item {
    /// The variant's name, as in `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Message { .. } => "message",
            Self::Cancel { .. } => "cancel",
            Self::Interrupt { .. } => "interrupt",
            Self::Rewind { .. } => "rewind",
            Self::Close { .. } => "close",
            Self::Reopen { .. } => "reopen",
            Self::Answer { .. } => "answer",
            Self::Verdict { .. } => "verdict",
            Self::Resolve { .. } => "resolve",
            Self::Event { .. } => "event",
            Self::Child { .. } => "child",
            Self::Job { .. } => "job",
            Self::Revise { .. } => "revise",
            Self::Evidence { .. } => "evidence",
        }
    }

    /// The wake key that the item carries, if waits can name it.
    pub fn key(&self) -> Option<WakeKey> {
        match self {
            // A word on a call whose outcome is unknown opens a turn, as any other word does.
            Self::Message { .. } | Self::Resolve { .. } => Some(WakeKey::Message),
            Self::Answer { call, .. } | Self::Verdict { call, .. } => Some(WakeKey::Answer(call.decision)),
            Self::Event { event, .. } => Some(WakeKey::Event(event.to_string())),
            Self::Child { background: true, .. } | Self::Job { .. } => Some(WakeKey::Background),
            Self::Child { call, .. } => Some(WakeKey::Group(call.decision)),
            Self::Cancel { .. }
            | Self::Interrupt { .. }
            | Self::Rewind { .. }
            | Self::Close { .. }
            | Self::Reopen { .. }
            | Self::Revise { .. }
            | Self::Evidence { .. } => None,
        }
    }

    /// Whether the item steers: it makes a waiting task claimable whatever the task waits
    /// for (ST-7).
    pub fn steers(&self) -> bool {
        matches!(
            self,
            Self::Message { .. }
                | Self::Cancel { .. }
                | Self::Interrupt { .. }
                | Self::Rewind { .. }
                | Self::Close { .. }
                | Self::Reopen { .. }
                | Self::Revise { .. }
        )
    }

    /// Whether the item stops the turn or the task: nobody waits for a not-before to be over
    /// before it is carried out (EN-6).
    pub fn stops(&self) -> bool {
        matches!(self, Self::Cancel { .. } | Self::Interrupt { .. } | Self::Rewind { .. })
    }

    /// Whether a task that is over still takes the item (ST-7).
    pub fn outlives_the_task(&self) -> bool {
        matches!(self, Self::Rewind { .. } | Self::Reopen { .. } | Self::Evidence { .. })
    }
}
