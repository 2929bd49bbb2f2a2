//! `plica worker`: resident, or until nothing is left to do (CL-4).

use std::sync::Arc;

use plica_engine::{Client, Stop};
use plica_ports::Store;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{json_line, print};
use crate::args::Worker;
use crate::compose::{self, Work};
use crate::fault::Fault;
use crate::live::{Centre, EventLines, Live};
use crate::talk;

/// The signals that tell a worker to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn heard() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Exits with 0 whatever its tasks came to, on SIGTERM too; a second signal stops at once.
pub async fn work(store: Arc<dyn Store>, arguments: Worker) -> Result<u8, Fault> {
    let work = Work {
        queues: arguments.queues,
        lease: arguments.lease,
        concurrency: usize::from(arguments.concurrency),
        until_idle: arguments.until_idle,
        only: None,
    };
    let mut signals = Signals::heard().map_err(|error| Fault::Config(format!("signals cannot be heard: {error}")))?;
    let identity = compose::identity();
    let name = identity.id.to_string();
    let host = compose::host(Arc::clone(&store));
    let lines = arguments.json.then(EventLines::start);
    let live = (!arguments.json).then(|| Live::start(Client::new(store), Centre::Worker));
    let host = match (&lines, &live) {
        (Some(lines), _) => host.observer(lines.clone()),
        (None, Some(live)) => host.observer(live.clone()).audience(live.clone()),
        (None, None) => host,
    };
    if !work.until_idle {
        talk::say(format!("worker {name} waits for tasks; Ctrl-C stops it, and nothing is lost by that"));
    }
    let worker = compose::worker(host.build(), identity, work);
    let stop = Stop::new();
    let run = worker.run(stop.clone());
    tokio::pin!(run);
    let mut told = false;
    loop {
        tokio::select! {
            worked = &mut run => {
                if let Some(live) = live {
                    live.finish().await;
                }
                if let Some(lines) = lines {
                    tokio::select! {
                        () = lines.finish() => {}
                        () = signals.next() => return Err(Fault::Interrupted),
                    }
                    worked?;
                    let ended = if told { "stopped" } else { "idle" };
                    print(&json_line(&json!({ "worker": name, "ended": ended })))?;
                    return Ok(0);
                }
                worked?;
                return Ok(0);
            }
            () = signals.next() => {}
        }
        if told {
            return Err(Fault::Interrupted);
        }
        told = true;
        talk::say("stopping: what runs is given a moment, and handed back; again to stop at once");
        stop.stop();
    }
}
