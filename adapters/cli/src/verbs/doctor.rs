//! `plica doctor`: the store, its workers, and tasks that cannot go on by themselves.

use plica_engine::Client;
use plica_ports::store::{Page, TaskFilter};
use serde_json::{Value, json};

use super::{json_line, named, print};
use crate::args::Doctor;
use crate::compose::{self, Reach};
use crate::fault::Fault;
use crate::talk;

/// Blocked tasks that are listed.
const BLOCKED_SHOWN: usize = 1_000;

pub async fn doctor(client: &Client, arguments: Doctor) -> Result<u8, Fault> {
    if let Some(name) = &arguments.unblock {
        let row = named(client, name).await?;
        if !client.store().unblock(&row.id).await? {
            return Err(Fault::Usage(format!(
                "task {} is not blocked; `plica show {}` says what it waits for",
                row.id, row.id
            )));
        }
        if arguments.json {
            print(&json_line(&json!({ "task": row.id.as_str(), "unblocked": true })))?;
        } else {
            talk::say(format!("task {} can be claimed again; `plica worker --until-idle` works on it", row.id));
        }
        return Ok(0);
    }
    let store = client.store();
    let facts = store.describe().await?;
    let now = store.now().await?;
    let workers = store.workers().await?;
    let filter = TaskFilter { blocked: true, ..TaskFilter::default() };
    let blocked = client.list(&filter, &Page::first(BLOCKED_SHOWN)).await?;
    let models = compose::reach().await;
    if arguments.json {
        let facts: serde_json::Map<String, Value> =
            facts.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        let workers: Vec<Value> = workers
            .iter()
            .map(|worker| json!({ "worker": worker.id.as_str(), "host": worker.host, "version": worker.version, "seen_at": worker.seen_at.to_string() }))
            .collect();
        let blocked: Vec<Value> = blocked
            .iter()
            .map(|row| json!({ "task": row.id.as_str(), "blocked": row.blocked.as_ref().map(ToString::to_string) }))
            .collect();
        let version = env!("CARGO_PKG_VERSION");
        let found = json!({ "plica": version, "store": facts, "store_time": now.to_string(), "workers": workers, "blocked": blocked, "models": models.iter().map(reach_json).collect::<Vec<_>>() });
        print(&json_line(&found))?;
        return Ok(0);
    }
    let mut text = format!("plica {}\nstore time {now}\n", env!("CARGO_PKG_VERSION"));
    for (name, value) in facts {
        text.push_str(&format!("{name} {value}\n"));
    }
    text.push_str(&format!("workers alive {}\n", workers.len()));
    for worker in &workers {
        text.push_str(&format!(
            "  {} on {} (plica {}), seen {}\n",
            worker.id, worker.host, worker.version, worker.seen_at
        ));
    }
    text.push_str("models\n");
    for (provider, reach) in &models {
        text.push_str(&format!("  {provider}: {reach}\n"));
    }
    text.push_str(&format!("blocked tasks {}\n", blocked.len()));
    for row in &blocked {
        if let Some(why) = &row.blocked {
            text.push_str(&format!("  {}: {why}; `plica doctor --unblock {}` lets it go on\n", row.id, row.id));
        }
    }
    print(text.as_bytes())?;
    Ok(0)
}

fn reach_json((provider, reach): &(&'static str, Reach)) -> Value {
    json!({ "provider": provider, "ready": reach.is_ready(), "found": reach.to_string() })
}
