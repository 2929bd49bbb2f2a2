//! Verbs by which people answer what a task asked them (CL-6).

use plica_engine::{Client, ClientError};
use plica_kernel::event::{ApprovalVerdict, CallResolution};
use plica_kernel::id::{CallId, TaskId};
use plica_ports::store::DeliverError;

use super::steer::go_on;
use super::{named, read_text};
use crate::args::{Answer, Resolve, Ruling};
use crate::compose;
use crate::fault::Fault;

pub async fn answer(client: &Client, arguments: Answer) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let state = client.state(&row.id, None, false).await?;
    let pending = state.governance().questions.keys().copied().collect();
    let call = the_one(&row.id, "question", "--question", arguments.question, pending)?;
    let text = read_text(arguments.text)?;
    let delivered = client.answer_question(&row.id, &compose::actor(), call, text).await;
    first_stands(delivered.map(|_| ()), &row.id, call)?;
    go_on(client, &row, arguments.detach, arguments.json).await
}

pub async fn rule(client: &Client, arguments: Ruling, verdict: ApprovalVerdict) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let state = client.state(&row.id, None, false).await?;
    let approvals = state.governance().approvals.iter();
    let pending = approvals.filter(|(_, approval)| approval.resolved.is_none()).map(|(call, _)| *call).collect();
    let call = the_one(&row.id, "approval", "--call", arguments.call, pending)?;
    let delivered = client.rule(&row.id, &compose::actor(), call, verdict, arguments.reason).await;
    first_stands(delivered.map(|_| ()), &row.id, call)?;
    go_on(client, &row, arguments.detach, arguments.json).await
}

pub async fn resolve(client: &Client, arguments: Resolve) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let state = client.state(&row.id, None, false).await?;
    let unknown = state.runtime().unknown.iter().map(|unknown| unknown.call).collect();
    let call = the_one(&row.id, "call of unknown outcome", "--call", arguments.call, unknown)?;
    let verdict = match (&arguments.landed, arguments.not_landed) {
        (Some(_), _) => CallResolution::Landed,
        (None, true) => CallResolution::NotLanded,
        (None, false) => CallResolution::Skip,
    };
    let output = arguments.landed.map(read_text).transpose()?;
    let delivered = client.resolve(&row.id, &compose::actor(), call, verdict, output).await;
    first_stands(delivered.map(|_| ()), &row.id, call)?;
    go_on(client, &row, arguments.detach, arguments.json).await
}

/// The pending one that is meant: the one that is named, or the only one.
fn the_one(
    task: &TaskId,
    what: &str,
    flag: &str,
    named: Option<CallId>,
    pending: Vec<CallId>,
) -> Result<CallId, Fault> {
    let list = || pending.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (named, pending.as_slice()) {
        (Some(call), pending) if pending.contains(&call) => Ok(call),
        (None, [call]) => Ok(*call),
        (_, []) => {
            Err(Fault::Usage(format!("task {task} has no {what} pending; `plica show {task}` says what it waits for")))
        }
        (Some(call), _) => Err(Fault::Usage(format!(
            "task {task} has no {what} {call} pending, but {}; `plica show {task}` says what they are",
            list()
        ))),
        (None, _) => Err(Fault::Usage(format!(
            "task {task} has several pending; name one with {flag}: {}; `plica show {task}` says what they are",
            list()
        ))),
    }
}

fn first_stands(delivered: Result<(), ClientError>, task: &TaskId, call: CallId) -> Result<(), Fault> {
    match delivered {
        Err(ClientError::Deliver(DeliverError::KeyConflict { .. })) => Err(Fault::Usage(format!(
            "{call} of task {task} was answered otherwise already, and the first answer stands; `plica show {task}` says what it waits for"
        ))),
        delivered => Ok(delivered?),
    }
}
