//! The worker processes of a demo.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use plica_kernel::id::TaskId;
use plica_ports::store::Row;
use tokio::process::{Child, Command};

use crate::fault::Fault;

/// Workers, some of which may be gone.
pub(super) struct Crew {
    store: String,
    folder: PathBuf,
    workers: Vec<Option<Child>>,
}

impl Crew {
    /// One without workers yet.
    pub(super) fn new(store: &str, folder: &Path) -> Self {
        Self { store: store.to_owned(), folder: folder.to_owned(), workers: Vec::new() }
    }

    /// Starts workers until there are `count`.
    pub(super) fn fill(&mut self, count: usize) -> Result<(), Fault> {
        self.workers.resize_with(count, || None);
        for index in 0..count {
            if self.workers[index].is_none() {
                let started = self.start(index);
                self.workers[index] =
                    Some(started.map_err(|error| Fault::Config(format!("a worker cannot be started: {error}")))?);
            }
        }
        Ok(())
    }

    fn start(&self, index: usize) -> std::io::Result<Child> {
        let log = self.folder.join(format!("worker-{}.log", index + 1));
        let log = std::fs::File::options().create(true).append(true).open(log)?;
        Command::new(std::env::current_exe()?)
            .args(["worker", "--lease", "1", "--concurrency", "2", "--store", &self.store])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
    }

    /// A worker that holds something; the first to be looked at changes with `turn`.
    pub(super) fn busy(&self, rows: &[Row], turn: usize) -> Option<usize> {
        let count = self.workers.len().max(1);
        (0..count).map(|step| (turn + step) % count).find(|index| !self.held(*index, rows).is_empty())
    }

    /// The tasks that a worker holds.
    pub(super) fn held(&self, index: usize, rows: &[Row]) -> Vec<TaskId> {
        let id = self.workers.get(index).and_then(Option::as_ref).and_then(Child::id);
        let is_held = |row: &&Row| {
            let process = row.holder.as_ref().and_then(|holder| holder.process.as_ref());
            id.is_some() && process.map(|process| process.pid) == id
        };
        rows.iter().filter(is_held).map(|row| row.id.clone()).collect()
    }

    /// Ends a worker with SIGKILL; it is gone when this returns.
    pub(super) async fn kill(&mut self, index: usize) -> Result<(), Fault> {
        if let Some(mut worker) = self.workers.get_mut(index).and_then(Option::take) {
            worker.kill().await.map_err(|error| Fault::Config(format!("a worker cannot be killed: {error}")))?;
        }
        Ok(())
    }

    /// Ends them all: there is nothing left to do.
    pub(super) async fn end(&mut self) {
        for worker in self.workers.iter_mut().flatten() {
            // One that is gone already has ended too.
            let _ = worker.kill().await;
        }
    }
}
