//! `plica list`: the tasks, newest first.

use std::collections::BTreeSet;

use plica_engine::Client;
use plica_kernel::id::TaskId;
use plica_ports::store::{Page, Row, TaskFilter};
use serde_json::{Map, Value};

use super::{json_line, print};
use crate::args::List;
use crate::fault::Fault;
use crate::render;
use crate::talk;

/// Rows read at once.
const PAGE: usize = 500;
/// Rows that people are shown unless they ask for more.
const SHOWN: usize = 50;

pub async fn list(client: &Client, arguments: List) -> Result<u8, Fault> {
    if arguments.tree {
        return tree(client, arguments.limit).await;
    }
    let filter = TaskFilter { status: arguments.status, ..TaskFilter::default() };
    let limit = arguments.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let limit = limit.unwrap_or(if arguments.json { usize::MAX } else { SHOWN });
    let mut left = limit;
    let mut page = Page::first(PAGE.min(left));
    let mut shown = Vec::new();
    loop {
        let rows = client.list(&filter, &page).await?;
        let Some(last) = rows.last() else { break };
        page.after = Some((last.facts.created_at, last.id.clone()));
        left -= rows.len();
        let more = rows.len() == page.limit && left > 0;
        page.limit = PAGE.min(left);
        if arguments.json {
            for row in &rows {
                print(&json_line(&as_json(row)))?;
            }
        } else {
            shown.extend(rows);
        }
        if !more {
            break;
        }
    }
    if !arguments.json {
        if shown.is_empty() {
            talk::say("no tasks; `plica run --agent FILE GOAL` makes one");
        } else {
            let now = client.store().now().await?;
            print(render::task_table(&shown, now).as_bytes())?;
        }
    }
    Ok(0)
}

/// Lists roots with what they spawned below them. Subtasks are newer than their root, so all of
/// them have been read by the time it is.
async fn tree(client: &Client, limit: Option<u64>) -> Result<u8, Fault> {
    let limit = limit.map_or(SHOWN, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut page = Page::first(PAGE);
    let (mut roots, mut subtasks) = (Vec::new(), Vec::new());
    loop {
        let rows = client.list(&TaskFilter::default(), &page).await?;
        let more = rows.len() == page.limit;
        page.after = rows.last().map(|last| (last.facts.created_at, last.id.clone()));
        for row in rows {
            match row.facts.parent.as_ref().or(row.facts.source.as_ref()) {
                None if roots.len() < limit => roots.push(row),
                None => {}
                Some(_) => subtasks.push(row),
            }
        }
        if !more || roots.len() >= limit {
            break;
        }
    }
    // A fork whose source is older than what is shown stands by itself.
    let shown: BTreeSet<TaskId> = roots.iter().chain(&subtasks).map(|row| row.id.clone()).collect();
    let (alone, subtasks): (Vec<_>, Vec<_>) =
        subtasks.into_iter().partition(|row| row.facts.source.as_ref().is_some_and(|source| !shown.contains(source)));
    let roots: Vec<Row> = alone.into_iter().chain(roots).collect();
    if roots.is_empty() {
        talk::say("no tasks; `plica run --agent FILE GOAL` makes one");
        return Ok(0);
    }
    let now = client.store().now().await?;
    print(render::task_tree(roots, subtasks, now).as_bytes())?;
    Ok(0)
}

/// A row for machines: what CL-5 names, and what is set of the rest.
fn as_json(row: &Row) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            object.insert(name.to_owned(), Value::String(value));
        }
    };
    put("task", Some(row.id.to_string()));
    put("status", Some(row.projection.status.to_string()));
    put("agent", Some(row.facts.agent.clone()));
    put("goal", Some(row.facts.goal.clone()));
    put("queue", Some(row.facts.queue.to_string()));
    put("parent", row.facts.parent.as_ref().map(ToString::to_string));
    put("source", row.facts.source.as_ref().map(ToString::to_string));
    put("created_at", Some(row.facts.created_at.to_string()));
    put("updated_at", Some(row.updated_at.to_string()));
    put("claimable_at", row.claimable_at.map(|time| time.to_string()));
    put("wake_at", row.projection.wake.at.map(|time| time.to_string()));
    put("lease_until", row.lease_until.map(|time| time.to_string()));
    put("worker", row.holder.as_ref().map(|holder| holder.id.to_string()));
    put("blocked", row.blocked.as_ref().map(ToString::to_string));
    object.insert("priority".into(), row.facts.priority.into());
    object.insert("events".into(), row.projection.seq.0.into());
    object.insert("closed".into(), row.projection.closed.into());
    if !row.facts.labels.is_empty() {
        let labels = row.facts.labels.iter().map(|(name, value)| (name.clone(), Value::String(value.clone())));
        object.insert("labels".into(), Value::Object(labels.collect()));
    }
    Value::Object(object)
}
