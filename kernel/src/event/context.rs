//! What a request is made of.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::body::{Body, ContentRef};
use crate::id::{CallId, Seq};

/// A request was composed. With the definition and the state as of `through` it can be
/// rebuilt byte for byte (MO-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPlanComposed {
    /// The composer and its version, for example `plain.v1`.
    pub composer: String,
    /// The agent definition in force.
    pub definition: ContentRef,
    /// Content that entered besides the conversation, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<ContentRef>,
    /// The conversation is that of the state as of this seq.
    pub through: Seq,
}

/// The model's thinking that belongs to a decision's calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantThinkingRecorded {
    /// Canonical text of the thinking blocks.
    pub blocks: Body,
    /// The first call of the reply, if it made any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}
