//! `plica show`: the whole state for machines, or what the task is doing in words (CL-5, CL-8).

use plica_engine::Client;

use super::ways::around;
use super::{named, print};
use crate::args::Show;
use crate::commands;
use crate::compose;
use crate::fault::Fault;
use crate::render::{self, Attendance};

pub async fn show(client: &Client, arguments: Show) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    if let Some(at) = arguments.at
        && (at.0 == 0 || at > row.projection.seq)
    {
        return Err(Fault::Usage(format!(
            "task {id} has events 1 to {}, none at {at}; `plica events {id}` lists them",
            row.projection.seq,
            id = row.id
        )));
    }
    let state = match client.state(&row.id, arguments.at, arguments.ignore_snapshots).await {
        Ok(state) => state,
        Err(error) => {
            // What the row says is worth having where the log cannot be read (CL-8).
            if !arguments.json {
                print(commands::complete(&render::show_row(&row)).as_bytes())?;
            }
            return Err(error.into());
        }
    };
    if arguments.json {
        let mut bytes = state.to_bytes().map_err(|error| Fault::Config(format!("task {}: {error}", row.id)))?;
        bytes.push(b'\n');
        print(&bytes)?;
    } else {
        let workers = client.store().workers().await?;
        let now = client.store().now().await?;
        let gone = row.holder.as_ref().is_some_and(compose::is_gone);
        let attendance = Attendance { workers: &workers, holder_is_gone: gone };
        let mut around = around(client, &state, now).await?;
        if state.head().seq < row.projection.seq {
            // What has been said since was not said then.
            around.answered.clear();
        }
        let failure = match arguments.at {
            Some(_) => None,
            None => client.last_failure(&row.id).await?,
        };
        let text = render::show(&row, &state, &attendance, &around, failure.as_ref(), now);
        print(commands::complete(&text).as_bytes())?;
    }
    Ok(0)
}
