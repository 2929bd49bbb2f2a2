//! What tasks are doing, shown while they do it.
//!
//! [`Live`] is told of committed events and of replies as they come, and never holds a run up: it
//! puts them in a bounded queue and a thread of its own makes them into lines for
//! [`crate::talk`]. What does not fit the queue is not shown; it is on record all the same.

mod lines;
mod screen;
mod totals;
mod words;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use plica_engine::{Audience, Client};
use plica_kernel::body::Body;
use plica_kernel::envelope::Envelope;
use plica_kernel::id::{Seq, TaskId};
use plica_ports::{Delta, Observer};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub use self::lines::EventLines;
pub use self::screen::Centre;
use self::screen::{Out, Reads, Screen};
pub use self::totals::Totals;
use crate::talk::{self, Style};

/// Events and deltas that wait to be shown at most.
const QUEUE: usize = 8_192;
/// Bytes of a body that is read for the sake of one line.
const READ_MAX: u64 = 64 << 10;
/// How often the status line is renewed.
const TICK: Duration = Duration::from_secs(1);
/// How long the end of a run waits for the last lines.
const FINISH_MAX: Duration = Duration::from_secs(1);

enum News {
    Event(Box<Envelope>),
    Delta { task: TaskId, delta: Delta },
    End(oneshot::Sender<Ending>),
}

/// What was shown, once all is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ending {
    /// What the work took.
    pub totals: Totals,
    /// The last reply of the task in the centre, if the whole of it was shown as it came.
    pub shown: Option<String>,
}

/// Shows tasks while they are worked on.
pub struct Live {
    queue: SyncSender<News>,
}

impl Live {
    /// Begins to show what is told. `client` reads what is too long to stand in an event.
    pub fn start(client: Client, centre: Centre) -> Arc<Self> {
        let (queue, news) = sync_channel(QUEUE);
        let screen = Screen::new(Style::of_stderr(), centre);
        let bodies = Bodies { client, runtime: Handle::current() };
        std::thread::spawn(move || show(&news, screen, bodies));
        Arc::new(Self { queue })
    }

    /// Shows what is left, and says what it came to.
    pub async fn finish(&self) -> Ending {
        let (sender, ending) = oneshot::channel();
        if self.queue.try_send(News::End(sender)).is_err() {
            return Ending::default();
        }
        // What cannot be shown in time is not waited for: the work is done.
        tokio::time::timeout(FINISH_MAX, ending).await.ok().and_then(Result::ok).unwrap_or_default()
    }
}

impl Observer for Live {
    fn committed(&self, event: &Envelope, _: &[u8]) {
        let _ = self.queue.try_send(News::Event(Box::new(event.clone())));
    }
}

impl Audience for Live {
    fn hears(&self, task: &TaskId, _: Seq, delta: Delta) {
        let _ = self.queue.try_send(News::Delta { task: task.clone(), delta });
    }
}

/// Reads what events do not hold, for the thread that shows it.
struct Bodies {
    client: Client,
    runtime: Handle,
}

impl Reads for Bodies {
    fn about(&self, task: &TaskId) -> String {
        match self.runtime.block_on(self.client.row(task)) {
            Ok(row) => format!("{}: {}", row.facts.agent, row.facts.goal),
            // That there is a task is said all the same.
            Err(_) => String::new(),
        }
    }

    fn text(&self, task: &TaskId, body: &Body) -> String {
        let size = || format!("({} bytes)", body.len());
        match body.inline() {
            Some(text) => text.to_owned(),
            // A line shows the beginning; that is not worth much reading.
            None if body.len() > READ_MAX => size(),
            None => self.runtime.block_on(self.client.text(task, body)).unwrap_or_else(|_| size()),
        }
    }
}

fn show(news: &Receiver<News>, mut screen: Screen, bodies: Bodies) {
    loop {
        match news.recv_timeout(TICK) {
            Ok(News::Event(event)) => screen.event(&event, Instant::now(), talk::columns(), &bodies),
            Ok(News::Delta { task, delta }) => screen.delta(&task, delta),
            Ok(News::End(ended)) => {
                let ending = screen.end();
                put(screen.take());
                // The store is closed by whoever has it last: that is to be the verb, not this.
                drop(bodies);
                let _ = ended.send(ending);
                return;
            }
            Err(RecvTimeoutError::Timeout) => screen.tick(Instant::now(), talk::columns()),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        put(screen.take());
    }
}

fn put(shown: Vec<Out>) {
    for out in shown {
        match out {
            Out::Line(text) => talk::line(text),
            Out::Piece(text) => talk::piece(text),
            Out::Status(text) => talk::status(text),
        }
    }
}
