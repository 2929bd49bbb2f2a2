//! `plica submit`: creates a task and prints its id alone (CL-4).

use std::collections::BTreeMap;
use std::path::Path;

use plica_engine::{Client, NotBefore, Submission};
use plica_ports::store::Created;
use serde_json::json;

use super::{json_line, print, read_text};
use crate::agent::{Agent, AgentReader};
use crate::args::Submit;
use crate::compose;
use crate::fault::Fault;

pub async fn submit(client: &Client, arguments: Submit) -> Result<u8, Fault> {
    let mut submission = prepare(&arguments.agent, read_text(arguments.goal)?)?;
    submission.key = arguments.key;
    submission.queue = arguments.queue;
    submission.priority = Some(arguments.priority);
    submission.labels = arguments.labels.into_iter().map(|label| (label.name, label.value)).collect::<BTreeMap<_, _>>();
    submission.not_before = arguments.at.map(NotBefore::At).or(arguments.delay.map(NotBefore::In));
    let Created { id, fresh } = client.submit(submission).await?;
    if arguments.json {
        print(&json_line(&json!({ "task": id.as_str(), "new": fresh })))?;
    } else {
        print(format!("{id}\n").as_bytes())?;
    }
    Ok(0)
}

/// A submission of `goal` to the agent of a file.
pub fn prepare(file: &Path, goal: String) -> Result<Submission, Fault> {
    let Agent { definition, blobs } = read_agent(file)?;
    Ok(Submission { actor: compose::actor(), blobs, ..Submission::new(definition, goal) })
}

/// The agent of a file, for which this build has all it needs.
pub fn read_agent(file: &Path) -> Result<Agent, Fault> {
    let here = std::env::current_dir().map_err(|error| Fault::Config(format!("no current folder: {error}")))?;
    let tools = compose::tool_names();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let agent = AgentReader::new(&tools, &here).read(file).map_err(|error| Fault::Config(error.to_string()))?;
    let providers = compose::providers();
    if !providers.contains(&agent.definition.model.provider.as_str()) {
        return Err(Fault::Config(format!(
            "{}: no adapter for model provider {:?} in this build; there is: {}",
            file.display(),
            agent.definition.model.provider,
            providers.join(", ")
        )));
    }
    Ok(agent)
}
