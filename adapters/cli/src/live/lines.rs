//! Committed events as lines on standard output, while they are committed: for machines.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use plica_kernel::canonical::Domain;
use plica_kernel::envelope::{Envelope, write_line};
use plica_ports::Observer;
use tokio::sync::oneshot;

use crate::talk;

/// Events that wait for the reader at most; an event has 8 KiB at most.
const QUEUE: usize = 16_384;

enum Due {
    Line(Vec<u8>),
    End(oneshot::Sender<()>),
}

/// Prints events; a reader that is slower than the work holds nothing up, and misses some.
pub struct EventLines {
    queue: SyncSender<Due>,
    missed: AtomicU64,
}

impl EventLines {
    /// Begins to print what is told.
    pub fn start() -> Arc<Self> {
        let (queue, due) = sync_channel(QUEUE);
        std::thread::spawn(move || write(&due));
        Arc::new(Self { queue, missed: AtomicU64::new(0) })
    }

    /// Returns once every line is out.
    pub async fn finish(&self) {
        let (sender, done) = oneshot::channel();
        let queue = self.queue.clone();
        // The queue may be full, and the reader takes its time.
        let asked = tokio::task::spawn_blocking(move || queue.send(Due::End(sender)).is_ok()).await;
        if matches!(asked, Ok(true)) {
            let _ = done.await;
        }
        match self.missed.load(Ordering::Relaxed) {
            0 => {}
            missed => talk::say(format!(
                "{missed} events were not printed, since they were read too slowly; `plica events TASK --json` has them"
            )),
        }
    }
}

impl Observer for EventLines {
    fn committed(&self, _: &Envelope, body: &[u8]) {
        let line = write_line(body, &Domain::Event.hash(body));
        if self.queue.try_send(Due::Line(line)).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes until told that this was all; whoever went away has had enough.
fn write(due: &Receiver<Due>) {
    let mut gone = false;
    for one in due {
        match one {
            Due::Line(_) if gone => {}
            Due::Line(line) => {
                let mut out = std::io::stdout().lock();
                gone = out.write_all(&line).and_then(|()| out.flush()).is_err();
            }
            Due::End(done) => {
                let _ = done.send(());
                return;
            }
        }
    }
}
