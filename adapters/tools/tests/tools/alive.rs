//! Tells without waiting or guessing when the processes of a command are gone: each holds a
//! named pipe open, and its reader meets the end when the last of them has ended.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// What only a broken tool reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// The reader of the named pipe.
pub struct Alive(Receiver<String>);

impl Alive {
    /// Makes the pipe `alive` in the workspace. A command holds it by `exec 7>alive`.
    pub fn new(workspace: &Path) -> Self {
        let path = workspace.join("alive");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (sender, receiver) = channel();
        thread::spawn(move || {
            for line in BufReader::new(std::fs::File::open(path).unwrap()).lines() {
                // The test may be over: nobody listens any more.
                let _ = sender.send(line.unwrap());
            }
        });
        Self(receiver)
    }

    /// The next line that a process wrote.
    pub fn line(&self) -> String {
        self.0.recv_timeout(PATIENCE).expect("a process writes a line")
    }

    /// Returns once every process is gone.
    pub fn gone(&self) {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match self.0.recv_timeout(PATIENCE) {
            Err(Disconnected) => {}
            Err(Timeout) => panic!("processes of the command live on"),
            Ok(line) => panic!("an unexpected line: {line}"),
        }
    }
}
