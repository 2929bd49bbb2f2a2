//! The store's own clock (ST-6), as an argument.

use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use plica_kernel::time::Timestamp;
use tokio::sync::Notify;

/// What a store tells the time by.
#[async_trait]
pub trait StoreClock: Send + Sync {
    /// The time; never earlier than at any call before.
    fn now(&self) -> Timestamp;

    /// Returns once [`now`](Self::now) is `time` or later.
    async fn reached(&self, time: Timestamp);
}

/// The machine's clock, held back when the machine's is set back.
#[derive(Debug, Default)]
pub struct SystemClock {
    latest: AtomicI64,
}

#[async_trait]
impl StoreClock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.latest.fetch_max(micros, Ordering::AcqRel).max(micros))
    }

    async fn reached(&self, time: Timestamp) {
        loop {
            let left = time.micros().saturating_sub(self.now().micros());
            let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) else { return };
            tokio::time::sleep(Duration::from_micros(left)).await;
        }
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
    moved: Notify,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { micros: AtomicI64::new(start.micros()), moved: Notify::new() }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        // The update never declines, so neither outcome says anything.
        let _ = self.micros.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| Some(now.saturating_add(by)));
        self.moved.notify_waiters();
    }
}

#[async_trait]
impl StoreClock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::Acquire))
    }

    async fn reached(&self, time: Timestamp) {
        loop {
            let mut moved = pin!(self.moved.notified());
            moved.as_mut().enable();
            if self.now() >= time {
                return;
            }
            moved.await;
        }
    }
}
