//! `plica run`: creates a task, drives it to its end or until it waits for someone, prints the
//! answer (CL-4).

use plica_engine::Client;

use super::drive::{Driven, drive};
use super::read_text;
use super::submit::prepare;
use crate::args::Run;
use crate::fault::Fault;

pub async fn run(client: &Client, arguments: Run) -> Result<u8, Fault> {
    let submission = prepare(&arguments.agent, read_text(arguments.goal)?)?;
    let created = client.submit(submission).await?;
    drive(client, &created.id, Driven { json: arguments.json }).await
}
