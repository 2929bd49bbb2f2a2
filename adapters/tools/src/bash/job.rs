//! A command that goes on in the background.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use plica_kernel::event::JobEnd;
use plica_kernel::limits::JOB_OUTPUT_BYTES_MAX;
use plica_ports::{Job, JobExit, JobSlot};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::capture::Output;
use super::group::Group;
use crate::limits::JOB_GRACE;

/// The last bytes of an output, shared by whoever takes it in and whoever looks at it.
#[derive(Debug, Clone, Default)]
pub(super) struct Rolling(Arc<Mutex<VecDeque<u8>>>);

impl Rolling {
    /// The bytes as text; those that are no UTF-8 as U+FFFD, and a character that the bound cut in
    /// two left out.
    fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let cut = if bytes.len() < JOB_OUTPUT_BYTES_MAX {
            0
        } else {
            bytes.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count()
        };
        String::from_utf8_lossy(&bytes[cut..]).into_owned()
    }
}

impl Output for Rolling {
    fn push(&mut self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &bytes[bytes.len().saturating_sub(JOB_OUTPUT_BYTES_MAX)..];
        let over = (kept.len() + bytes.len()).saturating_sub(JOB_OUTPUT_BYTES_MAX);
        kept.drain(..over);
        kept.extend(bytes);
    }
}

/// A running command whose call has been answered. A task of its own follows it, which ends with
/// this and takes the command along.
pub(super) struct BashJob {
    output: Rolling,
    kill: watch::Sender<bool>,
    exit: watch::Receiver<Option<(JobEnd, Option<i32>)>>,
    follower: AbortHandle,
    _slot: JobSlot,
}

impl BashJob {
    /// Follows a command that has just been started.
    pub(super) fn follow(group: Group<Rolling>, output: Rolling, slot: JobSlot) -> Self {
        let (kill, killed) = watch::channel(false);
        let (ended, exit) = watch::channel(None);
        let follower = tokio::spawn(async move {
            let end = follow(group, killed).await;
            ended.send_replace(Some(end));
        });
        Self { output, kill, exit, follower: follower.abort_handle(), _slot: slot }
    }
}

async fn follow(mut group: Group<Rolling>, mut killed: watch::Receiver<bool>) -> (JobEnd, Option<i32>) {
    let exited = tokio::select! {
        biased;
        exited = group.follow() => Some(exited),
        Ok(_) = killed.wait_for(|killed| *killed) => None,
    };
    if exited.is_none() {
        group.terminate(JOB_GRACE).await;
    }
    group.end().await;
    match exited {
        None => (JobEnd::Killed, None),
        Some(Ok(status)) => (JobEnd::Exited, code(status)),
        Some(Err(error)) => {
            tracing::warn!(%error, "a background command was lost sight of, and ended");
            (JobEnd::Killed, None)
        }
    }
}

/// The exit status as a shell says it: 128 and the signal's number for what a signal ended.
fn code(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal))
}

#[async_trait]
impl Job for BashJob {
    fn output(&self) -> String {
        self.output.text()
    }

    async fn kill(&self) {
        self.kill.send_replace(true);
        self.ended().await;
    }

    async fn ended(&self) -> JobExit {
        let mut exit = self.exit.clone();
        // An error says that the follower is gone without a word, and the command with it.
        let ended = exit.wait_for(Option::is_some).await.ok().and_then(|ended| *ended);
        let (how, code) = ended.unwrap_or((JobEnd::Killed, None));
        JobExit { code, how, output: self.output() }
    }
}

impl Drop for BashJob {
    fn drop(&mut self) {
        self.follower.abort();
    }
}
