//! `plica agent`: agent files, checked and described, without a task.

use std::path::Path;

use plica_ports::Definition;
use serde_json::{Value, json};

use super::submit::read_agent;
use super::{json_line, print};
use crate::agent;
use crate::args::AgentVerb;
use crate::fault::Fault;

pub fn agent(wanted: &AgentVerb) -> Result<u8, Fault> {
    match wanted {
        AgentVerb::Schema(arguments) if arguments.json => print(&json_line(&agent::schema()))?,
        AgentVerb::Schema(_) => print(format!("{:#}\n", agent::schema()).as_bytes())?,
        // It is about a task, and carried out where the store is at hand.
        AgentVerb::Set(_) => {}
        AgentVerb::Check(arguments) => return check(arguments.files.iter().map(AsRef::as_ref), arguments.json),
    }
    Ok(0)
}

/// Checks every file, the broken ones too, and fails if any was.
fn check<'a>(files: impl Iterator<Item = &'a Path>, json: bool) -> Result<u8, Fault> {
    let mut broken = Vec::new();
    for file in files {
        let name = file.display().to_string();
        match read_agent(file) {
            Ok(agent) if json => print(&json_line(&as_json(&name, &agent.definition)))?,
            Ok(agent) => print(format!("{name}: ok, {}\n", in_words(&agent.definition)).as_bytes())?,
            Err(fault) => {
                if json {
                    print(&json_line(&json!({ "file": name, "ok": false, "error": fault.to_string() })))?;
                }
                broken.push(fault.to_string());
            }
        }
    }
    if broken.is_empty() { Ok(0) } else { Err(Fault::Config(broken.join("\nplica: "))) }
}

/// What an agent is, in a line.
pub fn in_words(agent: &Definition) -> String {
    let tools = if agent.tools.is_empty() { "no tools".to_owned() } else { agent.tools.join(" ") };
    let model = format!("{}:{}", agent.model.provider, agent.model.name);
    let line = format!("agent {}, model {model}, {tools}, in {}", agent.name, agent.workspace);
    crate::render::clean(&line)
}

fn as_json(file: &str, agent: &Definition) -> Value {
    json!({
        "file": file,
        "ok": true,
        "name": agent.name,
        "provider": agent.model.provider,
        "model": agent.model.name,
        "tools": agent.tools,
        "workspace": agent.workspace,
        "interactive": agent.interactive,
    })
}
