use std::collections::BTreeMap;

use plica_kernel::canonical::{CanonicalError, from_slice, to_vec};
use plica_kernel::event::Budget;
use serde::{Deserialize, Serialize};

/// Which model, from which provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    /// The provider: `script`, `openai-compatible`, `anthropic`, …
    pub provider: String,
    /// The model's name there.
    pub name: String,
    /// The script itself, for provider `script`: resolved into content at submission (EN-8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<plica_kernel::body::ContentRef>,
    /// Everything else the provider takes, by name; secrets only as names of variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

impl ModelChoice {
    /// The model of this name, with no option set.
    pub fn new(provider: impl Into<String>, name: impl Into<String>) -> Self {
        Self { provider: provider.into(), name: name.into(), script: None, options: BTreeMap::new() }
    }
}

/// What no rule names follows the mode (EN-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Asks for mutations.
    #[default]
    Default,
    /// Asks for mutations other than Write and Edit.
    AcceptEdits,
    /// Asks for nothing.
    Bypass,
    /// Denies mutations.
    Plan,
}

/// What becomes of an attempt that a crash broke (RC-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnCrash {
    /// Each call is settled by evidence, a new start, or as unknown.
    #[default]
    Resolve,
    /// The step is run again where that is safe.
    Redrive,
    /// A person decides.
    Park,
}

/// An agent's definition: content-addressed and cited by `TaskCreated`, so any worker can run
/// any task and nobody edits a running agent by accident (EN-8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Rules that let a call run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Rules that ask a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// What a task of this agent may spend.
    #[serde(default)]
    pub budget: Budget,
    /// Rules that refuse a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Names of variables that commands may see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// What the model is told before anything else.
    pub instructions: String,
    /// Whether a finished turn waits for the next message instead of completing.
    #[serde(default)]
    pub interactive: bool,
    /// The model.
    pub model: ModelChoice,
    /// The agent's name.
    pub name: String,
    /// What becomes of an attempt that a crash broke.
    #[serde(default)]
    pub on_crash: OnCrash,
    /// What no rule names follows this.
    #[serde(default)]
    pub permission_mode: PermissionMode,
    /// The queue its tasks wait in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<plica_kernel::id::Queue>,
    /// Agents it may delegate to, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub subagents: BTreeMap<String, plica_kernel::body::ContentRef>,
    /// The tools it may call, by name.
    pub tools: Vec<String>,
    /// The folder it works in: an absolute path on the worker's host.
    pub workspace: String,
}

/// Stored bytes that are no definition of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent definition cannot be read: {0}")]
pub struct DefinitionError(#[from] pub CanonicalError);

impl Definition {
    /// An agent without tools, rules or caps, which works in `/`; set what else it needs.
    pub fn new(name: impl Into<String>, model: ModelChoice) -> Self {
        Self {
            allow: Vec::new(),
            ask: Vec::new(),
            budget: Budget::default(),
            deny: Vec::new(),
            env: Vec::new(),
            instructions: String::new(),
            interactive: false,
            model,
            name: name.into(),
            on_crash: OnCrash::default(),
            permission_mode: PermissionMode::default(),
            queue: None,
            subagents: BTreeMap::new(),
            tools: Vec::new(),
            workspace: "/".into(),
        }
    }

    /// The canonical bytes that are stored and cited.
    ///
    /// # Errors
    /// When a number is out of the canonical range.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DefinitionError> {
        Ok(to_vec(self)?)
    }

    /// Reads what [`Self::to_bytes`] wrote, by this version or another.
    ///
    /// # Errors
    /// When the bytes are not canonical or a required member is missing.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DefinitionError> {
        Ok(from_slice(bytes)?)
    }
}
