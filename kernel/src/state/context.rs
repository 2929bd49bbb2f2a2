//! What requests are made of, besides the conversation.

use alloc::{collections::BTreeMap, string::String};

use serde::{Deserialize, Serialize};

use super::List;
use crate::body::Body;
use crate::id::{CallId, Seq};

/// What requests are made of, besides the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContextState {
    /// Where content entered the conversation: name, number of entries before it.
    #[serde(default)]
    pub anchors: BTreeMap<String, u64>,
    /// The compaction in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// The last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Seq>,
    /// Thinking, by the first call of its reply.
    pub thinking: List<Thinking>,
}

/// A compaction of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Entries of the conversation that the summary stands for.
    pub boundary: u64,
    /// The summary.
    pub summary: Body,
}

/// Thinking that belongs to a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// Its blocks.
    pub blocks: Body,
    /// The reply's first call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}
