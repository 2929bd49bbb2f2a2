//! What can be wrong with an agent file.

use std::fmt;
use std::path::Path;

use plica_engine::govern::RuleError;
use plica_kernel::limits::TASK_DEPTH_MAX;
use plica_ports::DefinitionError;
use plica_script::ScriptError;

/// A path as messages show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(String);

impl Shown {
    /// This path.
    pub fn of(path: &Path) -> Self {
        Self(path.display().to_string())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An agent file that cannot be used: a matter of configuration, exit status 4 (CL-2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentFileError {
    /// The file cannot be read.
    #[error("agent file {file} cannot be read: {why}; name an existing file")]
    Read {
        /// The file.
        file: Shown,
        /// What the system says.
        why: String,
    },
    /// The file is not TOML.
    #[error("agent file {file} is not valid TOML: {why}")]
    Syntax {
        /// The file.
        file: Shown,
        /// Where and what.
        why: String,
    },
    /// A key that agent files do not have.
    #[error("agent file {file}: unknown key `{key}`; did you mean `{nearest}`?")]
    UnknownKey {
        /// The file.
        file: Shown,
        /// The key, with the tables it stands in.
        key: String,
        /// The known key that is nearest to it.
        nearest: String,
    },
    /// A key that has to be there is not.
    #[error("agent file {file}: the key `{key}` is missing; add a line like {example}")]
    MissingKey {
        /// The file.
        file: Shown,
        /// The key.
        key: String,
        /// A line that has it.
        example: &'static str,
    },
    /// A key has a value of another type, or one that means nothing.
    #[error("agent file {file}: the value of `{key}` is wrong: {rule}")]
    Value {
        /// The file.
        file: Shown,
        /// The key, with the tables it stands in.
        key: String,
        /// What is wrong, or what is expected.
        rule: String,
    },
    /// A key that another version knows what to do with.
    #[error("agent file {file}: `{key}` is not supported by this version; remove it")]
    Unsupported {
        /// The file.
        file: Shown,
        /// The key.
        key: &'static str,
    },
    /// A tool that no version has.
    #[error("agent file {file}: unknown tool `{tool}` in {place}; did you mean `{nearest}`?")]
    UnknownTool {
        /// The file.
        file: Shown,
        /// Where it is named.
        place: String,
        /// The name.
        tool: String,
        /// The tool whose name is nearest.
        nearest: String,
    },
    /// A tool that this build does not have.
    #[error("agent file {file}: the tool `{tool}` is not available in this version; remove it from `tools`")]
    ToolUnavailable {
        /// The file.
        file: Shown,
        /// The tool.
        tool: String,
    },
    /// A file that the agent file names is not there.
    #[error("agent file {file}: the {what} {path} is not there; its path is taken from the agent file's folder")]
    Cited {
        /// The agent file.
        file: Shown,
        /// What it is: script or subagent.
        what: &'static str,
        /// Where it was looked for.
        path: Shown,
    },
    /// The script cannot be read from its file.
    #[error("agent file {file}: the script {path} cannot be read: {why}")]
    ScriptRead {
        /// The agent file.
        file: Shown,
        /// The script.
        path: Shown,
        /// Why.
        why: String,
    },
    /// The script is broken.
    #[error("agent file {file}: the script {path} is broken: {source}")]
    Script {
        /// The agent file.
        file: Shown,
        /// The script.
        path: Shown,
        /// What is wrong.
        source: ScriptError,
    },
    /// The workspace cannot be used.
    #[error("agent file {file}: the workspace {path} cannot be used: {why}; make the folder or name another")]
    Workspace {
        /// The file.
        file: Shown,
        /// The folder.
        path: Shown,
        /// Why.
        why: String,
    },
    /// A rule cannot be read.
    #[error("agent file {file}: {source}")]
    Rule {
        /// The file.
        file: Shown,
        /// Which, and what is wrong.
        source: RuleError,
    },
    /// Agents that delegate to each other in a circle.
    #[error("agent files name each other as subagents in a circle: {chain}; remove one of these `subagents` entries")]
    Cycle {
        /// The files, from the first to itself.
        chain: String,
    },
    /// Subagents below more subagents than tasks can be deep.
    #[error("agent files name subagents more than {TASK_DEPTH_MAX} levels deep: {chain}; tasks cannot go deeper")]
    TooDeep {
        /// The files from the top down.
        chain: String,
    },
    /// Two subagents share a name, so `Task` could not tell them apart.
    #[error("agent file {file}: two of its subagents are named `{name}`; give one of them another `name`")]
    SameName {
        /// The file.
        file: Shown,
        /// The name.
        name: String,
    },
    /// The definition has no canonical form.
    #[error("agent file {file}: {source}")]
    Definition {
        /// The file.
        file: Shown,
        /// Why.
        source: DefinitionError,
    },
}
