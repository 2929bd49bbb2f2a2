//! What would wake a waiting task, its subtasks' own waits included: a subtask that waits for a
//! person shows in the task that waits for it.

use plica_engine::Client;
use plica_kernel::id::{CallId, TaskId};
use plica_kernel::row::Status;
use plica_kernel::state::Task;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_ports::store::Row;

use crate::fault::Fault;
use crate::render::{self, Around, Subtask};

/// Open subtasks of one task that are looked at.
const SUBTASKS: usize = 32;

/// The ways to wake the task of `state`, each with the command to type.
pub async fn ways_to_wake(client: &Client, state: &Task, now: Timestamp) -> Result<Vec<String>, Fault> {
    let around = around(client, state, now).await?;
    Ok(render::ways_to_wake(state, &around, now))
}

/// What stands around the task of `state`: the subtasks that have not ended, with what each is
/// doing, and what people said that no worker has taken yet.
pub async fn around(client: &Client, state: &Task, now: Timestamp) -> Result<Around, Fault> {
    let mut subtasks = Vec::new();
    for (_, child) in state.governance().children().take(SUBTASKS) {
        let row = client.row(&child.child).await?;
        let doing = doing(client, &row, now).await?;
        subtasks.push(Subtask { id: row.id, doing });
    }
    Ok(Around { subtasks, answered: answered(client, state.id()).await? })
}

async fn answered(client: &Client, task: &TaskId) -> Result<Vec<CallId>, Fault> {
    let items = client.untaken(task).await?.into_iter();
    let calls = items.filter_map(|item| match item.item {
        Item::Answer { call, .. } | Item::Verdict { call, .. } | Item::Resolve { call, .. } => Some(call),
        _ => None,
    });
    Ok(calls.collect())
}

async fn doing(client: &Client, row: &Row, now: Timestamp) -> Result<String, Fault> {
    if let Some(blocked) = &row.blocked {
        return Ok(format!("is blocked: {blocked}"));
    }
    if row.projection.status != Status::Waiting || row.holder.is_some() {
        return Ok(format!("is {}", row.projection.status));
    }
    if row.claimable_at.is_some_and(|at| at <= now) {
        return Ok("is claimable: the next free worker takes it".to_owned());
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
