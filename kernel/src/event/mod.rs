//! The catalogue: every event type there is, its causal class, and its payload.
//!
//! One table. A type is [readable](EventType::is_readable) when this version has a payload
//! for it; the names of the others are reserved, and a log that holds one is left to the
//! version that wrote it.

mod context;
mod files;
mod governance;
mod job;
mod plugin;
mod refs;
mod runtime;
mod task;
#[cfg(test)]
mod tests;

use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::canonical::{CanonicalError, from_slice};

pub use context::{AssistantThinkingRecorded, ContextPlanComposed};
pub use files::{FileChange, FileWas, FilesRestored, FilesRestoring, LeftFile, PlannedFile, RestorePlan};
pub use governance::{
    ApprovalRequested, ApprovalResolved, ApprovalSubject, ApprovalVerdict, Budget, CallResolution, CallResolved,
    ExtensionRecorded, LateKind, LateResultRecorded, QuestionAnswered, QuestionAsked, Spent, SubtaskCompleted,
    SubtaskSpawned, SubtaskStatus,
};
pub use job::{BackgroundJobEnded, BackgroundJobStarted, JobEnd};
pub use plugin::{AgentRevised, PluginKind, PluginPin, PluginsPinned};
pub use runtime::{
    CallStatus, LLMRequestFinished, LLMRequestStarted, LLMRetryScheduled, Message, MessageOrigin, MessagesAppended,
    ModelFailure, RequestStatus, Role, ToolCallDenied, ToolCallFinished, ToolCallStarted, Usage,
};
pub use task::{
    CallEntry, ConversationClosed, ConversationReopened, DecisionKind, DecisionRecorded, Failure, FailureReason,
    SealVerdict, StepAttemptAbandoned, StepAttemptResumed, SuspendReason, TaskCancelled, TaskCompleted, TaskCreated,
    TaskFailed, TaskForked, TaskRewound, TaskSnapshot, TaskStatePatch, TaskStatePatched, TaskSuspended, TaskWoken,
    Todo, TodoStatus, TurnInterrupted, WaitFor,
};

/// What part an event plays in a chain of cause and effect (section 6 of the design).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Allows actions.
    Decision,
    /// Begins something that may touch the outside; cites the decision that allowed it.
    Action,
    /// Ends an action; cites it.
    Outcome,
    /// Notes a fact; no link of its own.
    Observation,
    /// Marks a place in the log; no link of its own.
    Checkpoint,
}

macro_rules! catalogue {
    (
        readable { $($name:ident: $class:ident,)* }
        reserved { $($other:ident: $other_class:ident,)* }
    ) => {
        /// The type of an event.
        #[expect(missing_docs, reason = "the names are the catalogue of section 5 of the design")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventType { $($name,)* $($other,)* }

        impl EventType {
            /// Every type of the catalogue.
            pub const ALL: &'static [Self] = &[$(Self::$name,)* $(Self::$other,)*];

            /// The name as it stands in `type`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    $(Self::$other => stringify!($other),)*
                }
            }

            /// The type of this name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$name),)*
                    $(stringify!($other) => Some(Self::$other),)*
                    _ => None,
                }
            }

            /// Its causal class.
            pub const fn class(self) -> Class {
                match self {
                    $(Self::$name => Class::$class,)*
                    $(Self::$other => Class::$other_class,)*
                }
            }

            /// Whether this version has a payload for the type.
            pub const fn is_readable(self) -> bool {
                match self {
                    $(Self::$name => true,)*
                    $(Self::$other => false,)*
                }
            }
        }

        /// The payload of an event.
        #[expect(missing_docs, reason = "each variant is documented at its payload type")]
        #[derive(Debug, Clone, PartialEq)]
        pub enum Payload { $($name($name),)* }

        impl Payload {
            /// The type of the event that carries this payload.
            pub const fn kind(&self) -> EventType {
                match self { $(Self::$name(_) => EventType::$name,)* }
            }

            /// Reads a payload of `kind` where it stands in a larger text; `None` when the type
            /// is only reserved.
            pub(crate) fn read<'de, D: Deserializer<'de>>(
                kind: EventType,
                deserializer: D,
            ) -> Result<Option<Self>, D::Error> {
                match kind {
                    $(EventType::$name => $name::deserialize(deserializer).map(|payload| Some(Self::$name(payload))),)*
                    $(EventType::$other => Ok(None),)*
                }
            }

            /// Decodes the canonical bytes of a payload of `kind`.
            ///
            /// # Errors
            /// When the bytes are not canonical or not of that shape, or the type is only
            /// reserved.
            pub fn decode(kind: EventType, bytes: &[u8]) -> Result<Self, CanonicalError> {
                match kind {
                    $(EventType::$name => from_slice(bytes).map(Self::$name),)*
                    $(EventType::$other => Err(CanonicalError::Unrepresentable(kind.name().into())),)*
                }
            }
        }

        impl Serialize for Payload {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$name(payload) => payload.serialize(serializer),)* }
            }
        }

        $(impl From<$name> for Payload {
            fn from(payload: $name) -> Self {
                Self::$name(payload)
            }
        })*
    };
}

catalogue! {
    readable {
        TaskCreated: Observation,
        TaskForked: Checkpoint,
        MessagesAppended: Observation,
        ContextPlanComposed: Decision,
        LLMRequestStarted: Action,
        LLMRequestFinished: Outcome,
        LLMRetryScheduled: Observation,
        AssistantThinkingRecorded: Observation,
        DecisionRecorded: Decision,
        TaskStatePatched: Observation,
        ToolCallStarted: Action,
        ToolCallFinished: Outcome,
        ToolCallDenied: Observation,
        ApprovalRequested: Observation,
        ApprovalResolved: Decision,
        CallResolved: Decision,
        QuestionAsked: Observation,
        QuestionAnswered: Observation,
        SubtaskSpawned: Action,
        SubtaskCompleted: Outcome,
        BackgroundJobStarted: Action,
        BackgroundJobEnded: Outcome,
        TaskSuspended: Observation,
        TaskWoken: Observation,
        TurnInterrupted: Observation,
        TaskSnapshot: Checkpoint,
        TaskRewound: Checkpoint,
        StepAttemptAbandoned: Checkpoint,
        StepAttemptResumed: Checkpoint,
        FilesRestoring: Observation,
        FilesRestored: Observation,
        LateResultRecorded: Observation,
        PluginsPinned: Observation,
        AgentRevised: Decision,
        ExtensionRecorded: Observation,
        ConversationClosed: Observation,
        ConversationReopened: Observation,
        TaskCompleted: Observation,
        TaskFailed: Observation,
        TaskCancelled: Observation,
    }
    reserved {
        CompactionRequested: Observation,
        Compacted: Observation,
        ContextContentRecorded: Observation,
        ModelBound: Observation,
        ArtifactRegistered: Observation,
        ArtifactRetired: Observation,
        ArtifactPurged: Observation,
        MutationIntended: Decision,
        MutationDispatched: Action,
        MutationObserved: Outcome,
        ArtifactDelivered: Observation,
        EffectResolved: Observation,
        RetentionChanged: Decision,
        CheckpointRecorded: Checkpoint,
        RecoveryAcknowledged: Checkpoint,
    }
}

impl EventType {
    /// Whether the event ends its task.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::TaskCompleted | Self::TaskFailed | Self::TaskCancelled)
    }

    /// Whether a fold may start or turn here: stores index these (ST-11).
    pub const fn is_baseline(self) -> bool {
        matches!(self, Self::TaskSnapshot | Self::TaskRewound | Self::StepAttemptAbandoned | Self::TaskForked)
    }

    /// Whether the event may follow a terminal one (FO-4).
    pub const fn may_follow_end(self) -> bool {
        matches!(
            self,
            Self::TaskRewound
                | Self::ConversationReopened
                | Self::ConversationClosed
                | Self::TaskSnapshot
                | Self::CheckpointRecorded
                | Self::LateResultRecorded
                | Self::ExtensionRecorded
                | Self::EffectResolved
                | Self::RetentionChanged
                | Self::ArtifactRetired
                | Self::ArtifactPurged
        )
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
