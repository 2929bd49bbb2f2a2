//! A process that stands for a worker's own, since the test outlives its workers.

use std::fs;
use std::process::{Child, Command, Stdio};

use plica_ports::store::ProcessIdentity;
use plica_sqlite::process_identity;

/// Runs until it is dropped.
pub struct Process(Child);

impl Process {
    pub fn start() -> Self {
        let mut sleep = Command::new("sleep");
        Self(sleep.arg("600").stdin(Stdio::null()).spawn().expect("a process can be started"))
    }

    /// As the store knows it; `None` where the system does not say.
    pub fn identity(&self) -> Option<ProcessIdentity> {
        let own = process_identity()?;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).ok()?;
        // Behind the command in parentheses; the start time is the 22nd field (proc_pid_stat(5)).
        let started = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
        Some(ProcessIdentity { pid: self.0.id(), started, ..own })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().expect("a process of our own");
        self.0.wait().expect("a process of our own");
    }
}
