//! Verbs that steer a task: delivered to its inbox and durable when they return; with no
//! worker alive they then drive the task here, unless `--detach` (CL-6).

use std::time::{Duration, Instant};

use plica_engine::Client;
use plica_kernel::id::TaskId;
use plica_kernel::limits::EVENT_KIND_BYTES_MAX;
use plica_kernel::row::Status;
use plica_kernel::wake::WakeKey;
use plica_ports::store::Row;
use serde_json::json;

use super::drive::{Shown, drive};
use super::{json_line, named, print, read_text};
use crate::args::{Cancel, Send, Signal, Steer};
use crate::compose;
use crate::fault::Fault;
use crate::talk;

/// How long a worker that is alive may take to reopen a conversation.
const CARRIED_OUT: Duration = Duration::from_secs(5);

pub async fn send(client: &Client, arguments: Send) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let text = read_text(arguments.text)?;
    client.send(&row.id, &compose::actor(), text).await?;
    go_on(client, &row, arguments.detach, arguments.json).await
}

pub async fn cancel(client: &Client, arguments: Cancel) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    client.cancel(&row.id, &compose::actor(), arguments.reason).await?;
    go_on(client, &row, arguments.detach, arguments.json).await
}

pub async fn interrupt(client: &Client, arguments: Steer) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let rests = row.projection.status == Status::Waiting
        && row.projection.wake.any.iter().any(|alternative| alternative.key == WakeKey::Message);
    if rests {
        let id = &row.id;
        let next = if row.projection.closed { format!("reopen {id}") } else { format!("send {id} TEXT") };
        return Err(Fault::Usage(format!("task {id} is in no turn: it waits for a message; `plica {next}`")));
    }
    client.interrupt(&row.id, &compose::actor(), arguments.reason).await?;
    go_on(client, &row, arguments.detach, arguments.json).await
}

pub async fn close(client: &Client, arguments: Steer) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    if row.projection.closed {
        return Err(Fault::Usage(format!("task {} is closed already; `plica reopen {}` opens it", row.id, row.id)));
    }
    client.close(&row.id, &compose::actor(), arguments.reason).await?;
    go_on(client, &row, arguments.detach, arguments.json).await
}

pub async fn reopen(client: &Client, arguments: Steer) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    if !row.projection.closed && !row.projection.status.is_over() {
        return Err(Fault::Usage(format!(
            "task {} is neither closed nor over; `plica show {}` says what it waits for",
            row.id, row.id
        )));
    }
    client.reopen(&row.id, &compose::actor(), arguments.reason).await?;
    let code = go_on(client, &row, arguments.detach, arguments.json).await?;
    if !arguments.detach {
        wait_until_open(client, &row.id).await?;
    }
    Ok(code)
}

/// Gives a worker that is alive the time to carry the order out: what is sent next is taken then.
pub async fn wait_until_open(client: &Client, task: &TaskId) -> Result<(), Fault> {
    let until = Instant::now() + CARRIED_OUT;
    loop {
        let row = client.row(task).await?;
        let left = until.saturating_duration_since(Instant::now());
        if !(row.projection.closed || row.projection.status.is_over()) || left.is_zero() {
            return Ok(());
        }
        client.watch(task, row.projection.seq, left).await?;
    }
}

pub async fn signal(client: &Client, arguments: Signal) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let kind = arguments.kind;
    if kind.is_empty() || kind.len() > EVENT_KIND_BYTES_MAX || kind.chars().any(char::is_control) {
        return Err(Fault::Usage(format!(
            "an event's kind has 1 to {EVENT_KIND_BYTES_MAX} bytes and no control characters"
        )));
    }
    if let Some(data) = &arguments.data
        && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(data)
    {
        return Err(Fault::Usage(format!("--data is not JSON: {error}")));
    }
    client.signal(&row.id, &compose::actor(), kind, arguments.data, arguments.key).await?;
    go_on(client, &row, arguments.detach, arguments.json).await
}

/// Drives the task that something was delivered to, unless somebody else does; exits as `run`
/// would if it does (CL-2).
pub async fn go_on(client: &Client, row: &Row, detach: bool, json: bool) -> Result<u8, Fault> {
    let id = &row.id;
    let attended = is_attended(client, row).await?;
    let driven = !detach && !attended;
    let code = if driven {
        let task = top_of(client, row).await?;
        drive(client, &task, if json { Shown::Nothing } else { Shown::Answer }).await?
    } else {
        if attended {
            talk::say(format!("delivered; a worker is alive: `plica events {id} --follow` shows what comes of it"));
        } else {
            talk::say("delivered; no worker is alive: `plica worker --until-idle` works on it");
        }
        0
    };
    if json {
        let status = client.row(id).await?.projection.status.name();
        let mut object = json!({ "task": id.as_str(), "driven": driven, "status": status });
        if driven && let Some(answer) = client.answer(id).await? {
            object["answer"] = answer.into();
        }
        print(&json_line(&object))?;
    }
    Ok(code)
}

/// The task that waits for this one, as far up as there is one that is not over: what was
/// delivered to a subtask carries the whole on.
async fn top_of(client: &Client, row: &Row) -> Result<TaskId, Fault> {
    let mut top = row.clone();
    while let Some(parent) = top.facts.parent.clone() {
        let row = client.row(&parent).await?;
        if row.projection.status.is_over() {
            break;
        }
        top = row;
    }
    Ok(top.id)
}

/// Whether a worker is alive that serves the task's queue, or that holds it now, as another
/// `plica run` does.
async fn is_attended(client: &Client, row: &Row) -> Result<bool, Fault> {
    if client.has_worker(&row.facts.queue).await? {
        return Ok(true);
    }
    let now = client.store().now().await?;
    let row = client.row(&row.id).await?;
    Ok(row.lease_until.is_some_and(|until| until > now) && row.holder.is_some_and(|holder| !compose::is_gone(&holder)))
}
