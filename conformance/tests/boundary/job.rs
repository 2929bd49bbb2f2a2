//! A background job of the reference tasks: it runs until it is told to end.

use async_trait::async_trait;
use plica_kernel::event::JobEnd;
use plica_ports::{Job, JobExit, JobSlot, RunningJob, StartedJob};
use tokio::sync::watch;

/// One that only ever ends by being killed: what it comes to otherwise the people of a case say, so
/// that it is the same in every run.
struct Served {
    killed: watch::Sender<bool>,
    _slot: JobSlot,
}

#[async_trait]
impl Job for Served {
    fn output(&self) -> String {
        "serving".into()
    }

    async fn kill(&self) {
        self.killed.send_replace(true);
    }

    async fn ended(&self) -> JobExit {
        // The sender is this job's own.
        let _ = self.killed.subscribe().wait_for(|killed| *killed).await;
        JobExit { code: None, how: JobEnd::Killed, output: self.output() }
    }
}

/// Starts one.
pub fn served(what: &str, slot: JobSlot) -> StartedJob {
    StartedJob {
        job: RunningJob::new(Served { killed: watch::Sender::new(false), _slot: slot }),
        what: what.to_owned(),
    }
}
