//! `plica events`: the log, as stored or in words (CL-5, CL-9).

use std::time::Duration;

use plica_engine::Client;
use plica_kernel::decode::decode_trusted;
use plica_kernel::envelope::{Envelope, write_line};
use plica_kernel::id::Seq;
use plica_ports::store::StoredEvent;

use super::{named, print};
use crate::args::Events;
use crate::fault::Fault;
use crate::render;
use crate::talk;

/// Events read at once.
const PAGE: usize = 500;
/// Longest wait for new events before looking again.
const FOLLOW: Duration = Duration::from_secs(1);

pub async fn events(client: &Client, arguments: Events) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let mut after = arguments.after.unwrap_or(Seq(0));
    loop {
        // Looked at before the events are: what ends the task is among those read after.
        let over = client.row(&row.id).await?.projection.status.is_over();
        loop {
            let page = client.events(&row.id, after.next(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for stored in &page {
                show(&arguments, stored)?;
            }
        }
        if !arguments.follow || over {
            return Ok(0);
        }
        tokio::select! {
            watched = client.watch(&row.id, after, FOLLOW) => { watched?; }
            _ = tokio::signal::ctrl_c() => return Err(Fault::Interrupted),
        }
    }
}

/// An event that cannot be decoded is shown as it is stored, unless something is filtered.
fn show(arguments: &Events, stored: &StoredEvent) -> Result<(), Fault> {
    let filtered = arguments.origin.is_some() || arguments.actor.is_some() || !arguments.types.is_empty();
    if arguments.json && !filtered {
        return print(&write_line(&stored.body, &stored.hash));
    }
    match decode_trusted(&stored.body) {
        Ok(event) if !matches(arguments, &event) => Ok(()),
        Ok(_) if arguments.json => print(&write_line(&stored.body, &stored.hash)),
        Ok(event) => print(format!("{}\n", render::event_line(&event)).as_bytes()),
        Err(error) => {
            talk::say(format!("event {}: {error}", stored.seq));
            Ok(())
        }
    }
}

fn matches(arguments: &Events, event: &Envelope) -> bool {
    arguments.origin.is_none_or(|origin| origin == event.origin)
        && arguments.actor.as_ref().is_none_or(|actor| *actor == event.actor)
        && (arguments.types.is_empty() || arguments.types.contains(&event.kind()))
}
