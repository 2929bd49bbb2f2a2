//! `plica show`: the whole state for machines, or what the task is doing in words (CL-5, CL-8).

use plica_engine::Client;

use super::{named, print};
use crate::args::Show;
use crate::fault::Fault;
use crate::render;

pub async fn show(client: &Client, arguments: Show) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    if let Some(at) = arguments.at
        && (at.0 == 0 || at > row.projection.seq)
    {
        return Err(Fault::Usage(format!("task {} has events 1 to {}, none at {at}", row.id, row.projection.seq)));
    }
    let state = client.state(&row.id, arguments.at, arguments.ignore_snapshots).await?;
    if arguments.json {
        let mut bytes = state.to_bytes().map_err(|error| Fault::Config(format!("task {}: {error}", row.id)))?;
        bytes.push(b'\n');
        print(&bytes)?;
    } else {
        let workers = client.store().workers().await?;
        let now = client.store().now().await?;
        print(render::show(&row, &state, &workers, now).as_bytes())?;
    }
    Ok(0)
}
