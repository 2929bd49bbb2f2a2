//! What the agent says of its own work; changed by typed patches alone.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::body::Body;

/// The agent's own view of its work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskState {
    /// Content in use: kind, name, hash.
    #[serde(default)]
    pub active_content: BTreeMap<String, BTreeMap<String, String>>,
    /// What is to be done.
    pub goal: Body,
    /// What comes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<String>,
    /// Decisions the agent noted, at most the last 32.
    pub notes: Vec<String>,
    /// The phase of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The list of todos, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub todos: Option<Body>,
}
