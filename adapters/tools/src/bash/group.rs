//! The process group of one command.

use std::process::ExitStatus;
use std::time::Duration;

use plica_ports::CallContext;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout, timeout_at};

use super::capture::Output;
use super::environment::environment;
use crate::limits::{BASH_DRAIN_MAX, BASH_QUIET, BASH_REAP_TRIES_MAX};

/// Starts a command beside its watcher; says there why and how.
const WRAPPER: &str = include_str!("wrapper.sh");

/// A running command with all that it starts.
///
/// The watcher is in the group too and ends only with it, so the group's number is never
/// another's while this lives. Dropping it kills the group.
pub(super) struct Group<O: Output> {
    pid: Pid,
    child: Child,
    output: ChildStdout,
    /// The worker's end of the pipe that the watcher reads. It closes on exec, so nothing else
    /// holds it, and closes by itself however the worker ends.
    _watched: ChildStdin,
    taken: O,
    status: Option<ExitStatus>,
    output_ended: bool,
    /// Whether nobody of the group can be left, so that its number may be another's.
    ended: bool,
}

impl<O: Output> Group<O> {
    /// Starts `command` in the workspace; `taken` takes its output in.
    pub(super) fn start(command: &str, context: &CallContext, taken: O) -> std::io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", WRAPPER, "sh", command])
            .current_dir(&context.workspace)
            .env_clear()
            .envs(environment(std::env::vars_os(), context))
            .process_group(0)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            // What the wrapper itself says, such as that its command was killed, is not output.
            .stderr(std::process::Stdio::null())
            .spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (Some(pid), Some(watched), Some(output)) = (pid, child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("the shell was started without its pipes"));
        };
        Ok(Self { pid, child, output, _watched: watched, taken, status: None, output_ended: false, ended: false })
    }

    /// Takes output until the command has ended and what it left behind is quiet. May be
    /// dropped and called again.
    pub(super) async fn follow(&mut self) -> std::io::Result<ExitStatus> {
        let mut buffer = vec![0; 64 << 10];
        let status = loop {
            if let Some(status) = self.status {
                break status;
            }
            tokio::select! {
                read = self.output.read(&mut buffer), if !self.output_ended => {
                    take(&mut self.taken, &mut self.output_ended, &buffer, read?);
                }
                status = self.child.wait() => self.status = Some(status?),
            }
        };
        self.drain(&mut buffer).await?;
        Ok(status)
    }

    /// Takes what output is still on its way, but never waits for long: something that the
    /// command left behind may hold the pipe open for ever.
    async fn drain(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        let end = Instant::now() + BASH_DRAIN_MAX;
        while !self.output_ended {
            let quiet = (Instant::now() + BASH_QUIET).min(end);
            match timeout_at(quiet, self.output.read(buffer)).await {
                Ok(read) => take(&mut self.taken, &mut self.output_ended, buffer, read?),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Asks all of the group to end, and takes output until they have or `grace` is over.
    pub(super) async fn terminate(&mut self, grace: Duration) {
        self.signal(Signal::TERM);
        let _ = timeout(grace, self.follow()).await;
    }

    /// Ends all of the group, and gives the output.
    pub(super) async fn end(mut self) -> O {
        self.signal(Signal::KILL);
        self.ended = true;
        let mut buffer = vec![0; 64 << 10];
        let last = async {
            self.child.wait().await?;
            self.drain(&mut buffer).await
        };
        if let Err(error) = last.await {
            tracing::warn!(%error, "the last output of a command could not be read");
        }
        self.reap().await;
        std::mem::take(&mut self.taken)
    }

    /// Takes the exit of what became a child of this process when the shell ended. That happens
    /// where the worker is the first process of a container: nobody else would do it there, and
    /// every call would leave a dead process behind. Anywhere else there is nothing to do.
    async fn reap(&self) {
        for _ in 0..BASH_REAP_TRIES_MAX {
            match waitpgid(self.pid, WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                // Killed, but still on its way out.
                Ok(None) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(_) => return,
            }
        }
        tracing::warn!(group = %self.pid, "killed processes of a command have not ended yet");
    }

    fn signal(&self, signal: Signal) {
        match kill_process_group(self.pid, signal) {
            // Nobody is left.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => tracing::warn!(%error, "the processes of a command could not be signalled"),
        }
    }
}

impl<O: Output> Drop for Group<O> {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(Signal::KILL);
        }
    }
}

fn take(taken: &mut impl Output, ended: &mut bool, buffer: &[u8], read: usize) {
    taken.push(&buffer[..read]);
    *ended = read == 0;
}
