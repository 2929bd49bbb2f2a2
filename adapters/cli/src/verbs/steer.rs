//! Verbs that steer a task: delivered to its inbox and durable when they return; with no
//! worker alive they then drive the task here, unless `--detach` (CL-6).

use plica_engine::Client;
use plica_ports::store::Row;

use super::drive::{Driven, drive};
use super::{named, read_text};
use crate::args::{Cancel, Send};
use crate::compose;
use crate::fault::Fault;

pub async fn send(client: &Client, arguments: Send) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let text = read_text(arguments.text)?;
    client.send(&row.id, &compose::actor(), text).await?;
    go_on(client, &row, arguments.detach).await
}

pub async fn cancel(client: &Client, arguments: Cancel) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    client.cancel(&row.id, &compose::actor(), arguments.reason).await?;
    if arguments.detach || client.has_worker(&row.facts.queue).await? {
        return Ok(0);
    }
    drive(client, &row.id, Driven { json: false }).await?;
    // The task being cancelled is what was asked for, not a failure.
    Ok(0)
}

async fn go_on(client: &Client, row: &Row, detach: bool) -> Result<u8, Fault> {
    if detach || client.has_worker(&row.facts.queue).await? {
        return Ok(0);
    }
    drive(client, &row.id, Driven { json: false }).await
}
