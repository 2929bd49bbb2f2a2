//! The workers: real processes, that are killed, stopped and started again.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::plan::Folder;

/// How long a worker that was told to end may take.
const END: Duration = Duration::from_secs(30);
/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How `plica` is called.
#[derive(Debug, Clone)]
pub struct Plica {
    /// The program.
    pub program: PathBuf,
    /// The store.
    pub store: String,
    /// Where everything is.
    pub folder: Folder,
}

impl Plica {
    /// A call, with nothing of our own environment that it would heed.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.folder.work()).env("PLICA_STORE", &self.store);
        command.env("NO_COLOR", "1").env("HOME", self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Calls, and says with which status it ended and what it printed.
    pub fn call(&self, args: &[&str]) -> io::Result<(Option<i32>, String)> {
        let output = self.command(args).stderr(Stdio::null()).output()?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }
}

/// Workers by their place.
#[derive(Debug)]
pub struct Fleet {
    plica: Plica,
    workers: Mutex<Vec<Option<Child>>>,
}

impl Fleet {
    /// So many places, with nobody in them.
    pub fn new(plica: Plica, count: usize) -> Self {
        Self { plica, workers: Mutex::new((0..count).map(|_| None).collect()) }
    }

    fn workers(&self) -> MutexGuard<'_, Vec<Option<Child>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many places there are.
    pub fn count(&self) -> usize {
        self.workers().len()
    }

    /// Starts a worker in every empty place, and where one has ended by itself; says how many.
    pub fn fill(&self) -> io::Result<usize> {
        let mut started = 0;
        for (place, worker) in self.workers().iter_mut().enumerate() {
            let has_ended = match worker {
                Some(child) => child.try_wait()?.is_some(),
                None => true,
            };
            if has_ended {
                let log = File::options().create(true).append(true).open(self.log(place))?;
                let mut command = self.plica.command(&["worker", "--lease", "1"]);
                *worker = Some(command.stdout(Stdio::null()).stderr(log).spawn()?);
                started += 1;
            }
        }
        Ok(started)
    }

    /// Where the worker in a place says what it has to say.
    fn log(&self, place: usize) -> PathBuf {
        self.plica.folder.path().join(format!("worker-{place}.log"))
    }

    /// Lines in which a worker says that it panicked.
    pub fn panics(&self) -> Vec<String> {
        let mut panics = Vec::new();
        for place in 0..self.count() {
            if let Ok(said) = std::fs::read_to_string(self.log(place)) {
                let lines = said.lines().filter(|line| line.contains("panicked at"));
                panics.extend(lines.map(|line| format!("worker {place}: {line}")));
            }
        }
        panics
    }

    /// Kills the worker in a place.
    pub fn kill(&self, place: usize) -> io::Result<()> {
        if let Some(mut child) = self.workers().get_mut(place).and_then(Option::take) {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Sends a signal to the worker in a place, if there is one.
    pub fn signal(&self, place: usize, signal: Signal) {
        if let Some(Some(child)) = self.workers().get(place)
            && let Some(pid) = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0))
        {
            // One that has ended in between has nothing to be told.
            let _ = kill_process(pid, signal);
        }
    }

    /// Lets every worker go on, and end; says who did not end well.
    pub fn end(&self) -> io::Result<Vec<String>> {
        let count = self.count();
        for place in 0..count {
            self.signal(place, Signal::CONT);
            self.signal(place, Signal::TERM);
        }
        let until = Instant::now() + END;
        let mut unwell = Vec::new();
        for place in 0..count {
            match self.wait(place, until)? {
                Some(status) if status.success() => {}
                Some(status) => unwell.push(format!("worker {place} ended with {status}")),
                None => {
                    unwell.push(format!("worker {place} did not end within {END:?}"));
                    self.kill(place)?;
                }
            }
        }
        Ok(unwell)
    }

    fn wait(&self, place: usize, until: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(Some(child)) = self.workers().get_mut(place)
                && let Some(status) = child.try_wait()?
            {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in self.workers().iter_mut().flatten() {
            // Whatever way this ends, nobody is left behind.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
