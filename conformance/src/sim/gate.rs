//! What holds a simulated process up: it may be stopped for a while, or gone for good.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// One start of a worker process, as the world treats it. Everything that it asks of the
/// world passes here, so a process that is gone changes nothing any more, whatever is left
/// of its code.
#[derive(Debug)]
pub struct Gate {
    gone: AtomicBool,
    stalled: AtomicBool,
    /// Passages left until it dies by itself; `u64::MAX` for never.
    left: AtomicU64,
    resumed: Notify,
    died: Notify,
}

impl Gate {
    /// A process that dies at its `last`-th passage, if it is to die by itself.
    pub fn new(last: Option<u64>) -> Self {
        Self {
            gone: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            left: AtomicU64::new(last.unwrap_or(u64::MAX)),
            resumed: Notify::new(),
            died: Notify::new(),
        }
    }

    /// Returns when the process may go on: at once, when its stall is over, or never.
    pub async fn pass(&self) {
        let left = self.left.load(Ordering::Relaxed);
        if left != u64::MAX {
            self.left.store(left.saturating_sub(1), Ordering::Relaxed);
            if left <= 1 {
                self.kill();
            }
        }
        loop {
            let mut resumed = pin!(self.resumed.notified());
            resumed.as_mut().enable();
            if self.gone.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if !self.stalled.load(Ordering::Relaxed) {
                return;
            }
            resumed.await;
        }
    }

    /// Ends the process.
    pub fn kill(&self) {
        self.gone.store(true, Ordering::Relaxed);
        self.died.notify_one();
    }

    /// Whether the process has ended.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Returns once the process has ended; for one that waits.
    pub async fn died(&self) {
        if !self.is_gone() {
            self.died.notified().await;
        }
    }

    /// Whether the process stands still.
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Stops the process where it stands.
    pub fn stall(&self) {
        self.stalled.store(true, Ordering::Relaxed);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.stalled.store(false, Ordering::Relaxed);
        self.resumed.notify_waiters();
    }

    /// The process no longer dies by itself.
    pub fn spare(&self) {
        self.left.store(u64::MAX, Ordering::Relaxed);
    }
}
