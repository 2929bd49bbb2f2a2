//! What is said to people: standard error, written by one thread.
//!
//! Nobody who has something to say waits for whoever reads it: the queue is bounded, what does not
//! fit is counted and left out, and a reader that went away is no error. The thread alone knows
//! where the cursor is, so a line never begins in the middle of another one, and the status line
//! is gone before anything else is written.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use crate::commands;
use crate::render::harmless;

/// Pieces that wait for the terminal at most.
const QUEUE: usize = 8_192;
/// How long the end of a verb waits for what was said to be read.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// How often a full queue is tried again meanwhile.
const FLUSH_TRY: Duration = Duration::from_millis(2);

/// What standard error can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Text as it comes, in the middle of a line too: somebody looks on.
    pub stream: bool,
    /// Colours and a status line that is overwritten: sequences that a terminal acts on.
    pub escapes: bool,
}

impl Style {
    /// Whole lines and nothing else.
    #[cfg(test)]
    pub const PLAIN: Self = Self { stream: false, escapes: false };

    /// That of this process's standard error: a terminal streams, and gets colours unless it is
    /// dumb or `NO_COLOR` is set.
    pub fn of_stderr() -> Self {
        let stream = io::stderr().is_terminal();
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let capable = variable("TERM").is_some_and(|term| term != "dumb");
        Self { stream, escapes: stream && capable && variable("NO_COLOR").is_none() }
    }
}

/// The columns of the terminal now, since it may be resized at any time; elsewhere lines may be long.
pub fn columns() -> usize {
    const UNKNOWN: usize = 160;
    terminal_size::terminal_size_of(io::stderr()).map_or(UNKNOWN, |(width, _)| usize::from(width.0))
}

enum Said {
    /// Text that begins on a line of its own and ends it.
    Line(String),
    /// Text that goes on where the last piece ended.
    Piece(String),
    /// The line that says what is going on, until something else is said.
    Status(String),
    /// Ends the line and says when everything is out.
    Settle(SyncSender<()>),
}

struct Voice {
    queue: SyncSender<Said>,
    left_out: AtomicU64,
    /// Nobody reads: waiting for it once was enough.
    stuck: AtomicBool,
}

static VOICE: OnceLock<Voice> = OnceLock::new();

fn voice() -> &'static Voice {
    VOICE.get_or_init(|| {
        let (queue, said) = sync_channel(QUEUE);
        std::thread::spawn(move || speak(&said));
        Voice { queue, left_out: AtomicU64::new(0), stuck: AtomicBool::new(false) }
    })
}

fn put(said: Said) {
    let voice = voice();
    if voice.queue.try_send(said).is_err() {
        voice.left_out.fetch_add(1, Ordering::Relaxed);
    }
}

/// Says something in the program's own name; commands in it are completed so that they work as
/// printed (CL-8), and what a terminal would act on is made harmless.
pub fn say(message: impl Display) {
    put(Said::Line(harmless(&format!("plica: {}", commands::complete(&message.to_string())))));
}

/// A line as it is; the caller has made it harmless.
pub fn line(text: String) {
    put(Said::Line(text));
}

/// Text that goes on where the last piece ended; the caller has made it harmless.
pub fn piece(text: String) {
    put(Said::Piece(text));
}

/// The status line, until something else is said; only where [`Style::escapes`].
pub fn status(text: String) {
    put(Said::Status(text));
}

/// Ends the line and returns once what was said is out, or nobody has read it for a while.
pub fn settle() {
    let Some(voice) = VOICE.get() else { return };
    if voice.stuck.load(Ordering::Relaxed) {
        return;
    }
    let until = Instant::now() + FLUSH_MAX;
    let (done, is_done) = sync_channel(1);
    let mut said = Said::Settle(done);
    let asked = loop {
        match voice.queue.try_send(said) {
            Ok(()) => break true,
            Err(TrySendError::Full(back)) if Instant::now() < until => {
                said = back;
                std::thread::sleep(FLUSH_TRY);
            }
            Err(_) => break false,
        }
    };
    let left = until.saturating_duration_since(Instant::now());
    if !asked || is_done.recv_timeout(left).is_err() {
        voice.stuck.store(true, Ordering::Relaxed);
    }
}

/// Where log lines go.
pub struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        line(harmless(String::from_utf8_lossy(bytes).trim_end_matches('\n')));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what is said, in order. Errors are of no account: whoever read it has gone.
fn speak(queue: &Receiver<Said>) {
    let mut cursor = Cursor::default();
    for said in queue {
        let mut bytes = Vec::new();
        let done = cursor.put(said, &mut bytes);
        if let Some(voice) = VOICE.get()
            && let count @ 1.. = voice.left_out.swap(0, Ordering::Relaxed)
        {
            cursor.put(Said::Line(format!("plica: … {count} pieces of output were left out")), &mut bytes);
        }
        let mut err = io::stderr().lock();
        let _ = err.write_all(&bytes).and_then(|()| err.flush());
        if let Some(done) = done {
            let _ = done.send(());
        }
    }
}

/// Where the cursor stands.
#[derive(Default)]
struct Cursor {
    in_line: bool,
    on_status: bool,
}

/// To the line's beginning, and what stands there is erased (ECMA-48: EL).
const ERASE: &[u8] = b"\r\x1b[K";

impl Cursor {
    fn put(&mut self, said: Said, bytes: &mut Vec<u8>) -> Option<SyncSender<()>> {
        match said {
            // It never replaces a piece of a line that is still being said.
            Said::Status(_) if self.in_line => {}
            Said::Status(text) => {
                bytes.extend_from_slice(ERASE);
                bytes.extend_from_slice(text.as_bytes());
                self.on_status = true;
            }
            Said::Piece(text) => {
                self.leave_status(bytes);
                bytes.extend_from_slice(text.as_bytes());
                if !text.is_empty() {
                    self.in_line = !text.ends_with('\n');
                }
            }
            Said::Line(text) => {
                self.leave_line(bytes);
                bytes.extend_from_slice(text.as_bytes());
                bytes.push(b'\n');
            }
            Said::Settle(done) => {
                self.leave_line(bytes);
                return Some(done);
            }
        }
        None
    }

    fn leave_status(&mut self, bytes: &mut Vec<u8>) {
        if std::mem::take(&mut self.on_status) {
            bytes.extend_from_slice(ERASE);
        }
    }

    fn leave_line(&mut self, bytes: &mut Vec<u8>) {
        self.leave_status(bytes);
        if std::mem::take(&mut self.in_line) {
            bytes.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(said: Vec<Said>) -> String {
        let (mut cursor, mut bytes) = (Cursor::default(), Vec::new());
        for one in said {
            cursor.put(one, &mut bytes);
        }
        String::from_utf8(bytes).expect("text")
    }

    /// CL-1: a line never begins within another, and no status line stays.
    #[test]
    fn cl_1_a_line_begins_on_a_line_of_its_own() {
        let (line, piece, status) =
            (|t: &str| Said::Line(t.into()), |t: &str| Said::Piece(t.into()), |t: &str| Said::Status(t.into()));
        assert_eq!(written(vec![piece("a b"), piece(" c"), line("x"), line("y")]), "a b c\nx\ny\n");
        assert_eq!(written(vec![piece("a\n"), line("x")]), "a\nx\n");
        assert_eq!(written(vec![status("s"), piece("a")]), "\r\x1b[Ks\r\x1b[Ka");
        assert_eq!(written(vec![piece("a"), status("s"), piece("b")]), "ab");
        let (done, _keep) = sync_channel(1);
        assert_eq!(written(vec![piece("a"), Said::Settle(done)]), "a\n");
    }
}
