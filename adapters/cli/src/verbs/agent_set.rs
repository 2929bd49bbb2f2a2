//! `plica agent set`: moves a task to another definition (EN-8).

use plica_engine::Client;
use serde_json::json;

use super::submit::prepare;
use super::{json_line, named, print};
use crate::args::AgentSet;
use crate::compose;
use crate::fault::Fault;
use crate::talk;

pub async fn set(client: &Client, arguments: AgentSet) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let agent = prepare(&arguments.agent, String::new())?;
    let name = &agent.definition.name;
    client.revise(&row.id, &compose::actor(), &agent.definition, &agent.blobs).await?;
    if arguments.json {
        print(&json_line(&json!({ "task": row.id.as_str(), "agent": name })))?;
    } else {
        let name = crate::render::clean(name);
        talk::say(format!("task {} moves to agent {name} with its next step; `plica show {}`", row.id, row.id));
        if let Some(queue) = agent.definition.queue.filter(|queue| *queue != row.facts.queue) {
            talk::say(format!("it stays in queue {}: {queue} is for tasks that are submitted", row.facts.queue));
        }
    }
    Ok(0)
}
