//! The tools that an agent file names.

use plica_engine::govern::Rules;

use super::error::AgentFileError;
use super::table::{Section, nearest};

/// Every tool that some version of Plica has (section 16 of the design).
pub(super) const TOOLS: &[&str] = &[
    "AskUser",
    "Bash",
    "BashOutput",
    "Edit",
    "Glob",
    "Grep",
    "KillShell",
    "Read",
    "Task",
    "TodoWrite",
    "Wait",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// How the tools of MCP servers begin, and what stands for all of them in a build's list.
const MCP: &str = "mcp__";
const ANY_MCP: &str = "mcp__*";

/// The tools under `tools`, each once, all of them in `known`.
pub(super) fn listed(section: &Section<'_>, known: &[&str]) -> Result<Vec<String>, AgentFileError> {
    let mut tools: Vec<String> = vec![];
    for tool in section.texts("tools")? {
        check(section, "`tools`".to_owned(), &tool, known)?;
        let available = known.contains(&tool.as_str()) || tool.starts_with(MCP) && known.contains(&ANY_MCP);
        if !available {
            return Err(AgentFileError::ToolUnavailable { file: section.file(), tool });
        }
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    Ok(tools)
}

/// A rule about a tool that no version has would never match, and a `deny` that never matches
/// is a hole.
pub(super) fn check_rules(section: &Section<'_>, rules: &Rules) -> Result<(), AgentFileError> {
    rules.named_tools().try_for_each(|(rule, tool)| check(section, format!("the rule `{rule}`"), tool, &[]))
}

fn check(section: &Section<'_>, place: String, tool: &str, known: &[&str]) -> Result<(), AgentFileError> {
    if TOOLS.contains(&tool) || known.contains(&tool) || tool.starts_with(MCP) {
        return Ok(());
    }
    let nearest = nearest(tool, TOOLS).to_owned();
    Err(AgentFileError::UnknownTool { file: section.file(), place, tool: tool.to_owned(), nearest })
}
