//! `plica worker`: resident, or until nothing is left to do (CL-4).

use std::sync::Arc;

use plica_engine::Stop;
use plica_ports::Store;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{json_line, print};
use crate::args::Worker;
use crate::compose::{self, Work};
use crate::fault::Fault;

/// Exits with 0 whatever its tasks came to, on SIGTERM too; a second signal stops at once.
pub async fn work(store: Arc<dyn Store>, arguments: Worker) -> Result<u8, Fault> {
    let work = Work {
        queues: arguments.queues,
        lease: arguments.lease,
        concurrency: usize::from(arguments.concurrency),
        until_idle: arguments.until_idle,
        only: None,
    };
    let no_signals = |error: std::io::Error| Fault::Config(format!("signals cannot be heard: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let identity = compose::identity();
    let name = identity.id.to_string();
    let worker = compose::worker(compose::host(store).build(), identity, work);
    let stop = Stop::new();
    let run = worker.run(stop.clone());
    tokio::pin!(run);
    let mut told = false;
    loop {
        tokio::select! {
            worked = &mut run => {
                worked?;
                if arguments.json {
                    let ended = if told { "stopped" } else { "idle" };
                    print(&json_line(&json!({ "worker": name, "ended": ended })))?;
                }
                return Ok(0);
            }
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if told {
            return Err(Fault::Interrupted);
        }
        told = true;
        stop.stop();
    }
}
