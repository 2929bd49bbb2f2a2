//! `plica run`: creates a task, drives it to its end or until it waits for someone, prints the
//! answer (CL-4).

use plica_engine::Client;

use super::drive::{Shown, drive};
use super::read_text;
use super::submit::prepare;
use crate::args::Run;
use crate::fault::Fault;
use crate::talk;

pub async fn run(client: &Client, arguments: Run) -> Result<u8, Fault> {
    let submission = prepare(&arguments.agent, read_text(arguments.goal)?)?;
    let created = client.submit(submission).await?;
    // Whoever has to act on it from another terminal needs its name before it is over.
    talk::say(format!("task {}", created.id));
    let shown = if arguments.json { Shown::Events } else { Shown::Answer };
    drive(client, &created.id, shown).await
}
