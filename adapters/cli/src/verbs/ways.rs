//! What would wake a waiting task, its subtasks' own waits included: a subtask that waits for a
//! person shows in the task that waits for it.

use plica_engine::Client;
use plica_kernel::row::Status;
use plica_kernel::state::Task;
use plica_kernel::time::Timestamp;
use plica_ports::store::Row;

use crate::fault::Fault;
use crate::render::{self, Subtask};

/// Open subtasks of one task that are looked at.
const SUBTASKS: usize = 32;

/// The ways to wake the task of `state`, each with the command to type.
pub async fn ways_to_wake(client: &Client, state: &Task, now: Timestamp) -> Result<Vec<String>, Fault> {
    let subtasks = open_subtasks(client, state, now).await?;
    Ok(render::ways_to_wake(state, &subtasks, now))
}

/// The subtasks that have not ended, with what each is doing.
pub async fn open_subtasks(client: &Client, state: &Task, now: Timestamp) -> Result<Vec<Subtask>, Fault> {
    let mut subtasks = Vec::new();
    for (_, child) in state.governance().children().take(SUBTASKS) {
        let row = client.row(&child.child).await?;
        let doing = doing(client, &row, now).await?;
        subtasks.push(Subtask { id: row.id, doing });
    }
    Ok(subtasks)
}

async fn doing(client: &Client, row: &Row, now: Timestamp) -> Result<String, Fault> {
    if let Some(blocked) = &row.blocked {
        return Ok(format!("is blocked: {blocked}"));
    }
    if row.projection.status != Status::Waiting || row.holder.is_some() {
        return Ok(format!("is {}", row.projection.status));
    }
    // One that cannot be read now is no reason to say nothing of the others.
    match client.state(&row.id, None, false).await {
        Ok(state) => {
            let ways = Box::pin(ways_to_wake(client, &state, now)).await?;
            Ok(format!("waits for {}", ways.join(" or for ")))
        }
        Err(error) => Ok(format!("cannot be read: {error}")),
    }
}
