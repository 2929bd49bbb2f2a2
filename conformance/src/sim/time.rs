//! Time in a simulated world: that of the store, which may be set, and those of the workers,
//! which run a little fast or slow.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::time::Timestamp;
use plica_memory::StoreClock;
use plica_ports::Clock;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::gate::Gate;

/// When every world begins.
pub const BEGINNING: i64 = 1_796_031_682_123_456;

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The clock of the store's machine. Someone may set it forward, and then it jumps, or back,
/// and then it stands still until the time it showed has come again.
#[derive(Debug)]
pub struct WorldClock {
    began: Instant,
    set_by: AtomicI64,
    latest: AtomicI64,
    set: Notify,
}

impl WorldClock {
    /// A clock that begins now.
    pub fn new() -> Self {
        Self { began: Instant::now(), set_by: AtomicI64::new(0), latest: AtomicI64::new(BEGINNING), set: Notify::new() }
    }

    /// How long the world has been going on.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Sets the clock forward or back.
    pub fn set(&self, by_micros: i64) {
        self.set_by.fetch_add(by_micros, Ordering::Relaxed);
        self.set.notify_waiters();
    }

    fn machine(&self) -> i64 {
        BEGINNING + micros(self.began.elapsed()) + self.set_by.load(Ordering::Relaxed)
    }
}

impl Default for WorldClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl StoreClock for WorldClock {
    fn now(&self) -> Timestamp {
        let machine = self.machine();
        Timestamp::from_micros(self.latest.fetch_max(machine, Ordering::Relaxed).max(machine))
    }

    async fn reached(&self, time: Timestamp) {
        loop {
            let mut set = pin!(self.set.notified());
            set.as_mut().enable();
            if self.now() >= time {
                return;
            }
            let left = u64::try_from(time.micros() - self.machine()).unwrap_or(0).max(1);
            tokio::select! {
                biased;
                () = set => {}
                () = tokio::time::sleep(Duration::from_micros(left)) => {}
            }
        }
    }
}

/// A worker's own clock: it began at some other moment than all others and gains or loses up
/// to so many seconds in a million.
#[derive(Debug)]
pub struct WorkerClock {
    began: Instant,
    offset: Duration,
    drift_ppm: i32,
    gate: Arc<Gate>,
}

impl WorkerClock {
    /// A clock that shows `offset` now and gains `drift_ppm` millionths.
    pub fn new(offset: Duration, drift_ppm: i32, gate: Arc<Gate>) -> Self {
        Self { began: Instant::now(), offset, drift_ppm, gate }
    }
}

/// `duration` and so many millionths of it more, or less.
fn scaled(duration: Duration, ppm: i32) -> Duration {
    let more = micros(duration) / 1000 * i64::from(ppm) / 1000;
    Duration::from_micros(u64::try_from(micros(duration) + more).unwrap_or(0))
}

#[async_trait]
impl Clock for WorkerClock {
    fn monotonic(&self) -> Duration {
        self.offset + scaled(self.began.elapsed(), self.drift_ppm)
    }

    async fn sleep(&self, duration: Duration) {
        self.gate.pass().await;
        tokio::time::sleep(scaled(duration, -self.drift_ppm)).await;
        self.gate.pass().await;
    }
}
