//! Plugins and definitions in force: what a task's steps are made with.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::governance::Budget;
use crate::body::ContentRef;
use crate::canonical::Hash;

/// What a plugin is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginKind {
    /// Calls.
    Tool,
    /// Patches of the task's own state.
    Policy,
    /// Rulings on calls.
    Guard,
    /// Looks at what is committed.
    Observer,
}

/// A plugin in force (RC-8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginPin {
    /// What it is for.
    pub kind: PluginKind,
    /// Its name, by which the next worker finds it.
    pub name: String,
    /// Hash of what it declares of itself, parameters included; left out for a plugin that
    /// declares nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Hash>,
    /// Where it comes from.
    pub source: String,
    /// Its version.
    pub version: String,
}

impl PluginPin {
    /// Whether both are the same plugin, of whatever version.
    pub fn is_same_plugin(&self, other: &Self) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }
}

/// These plugins are in force from here on, each in the place of an earlier version of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginsPinned {
    /// The plugins; those that do not fit stand in further events of the same append (EV-7).
    pub plugins: Vec<PluginPin>,
}

/// A person moved the task to another definition, between two steps; what was recorded before
/// means what it meant (EN-8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRevised {
    /// The agent's name.
    pub agent: String,
    /// The caps of the definition. A root's change with them, grants kept; a child's are its
    /// parent's to give.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// The definition.
    pub definition: ContentRef,
    /// Whether a finished turn waits for the next message; a child's never does.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub interactive: bool,
    /// Why the task stays with the definition that it has, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
