use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::time::Timestamp;
use plica_ports::Clock;
use tokio::time::Instant;

/// The clock of the async runtime: real time, or virtual time where the runtime is paused.
#[derive(Debug, Clone)]
pub struct TokioClock(Instant);

impl TokioClock {
    /// A clock that begins now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for TokioClock {
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The store's time, carried on between verdicts by the worker's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreTime {
    said: Timestamp,
    heard_at: Duration,
}

impl StoreTime {
    /// The store said `now`, and the worker's clock shows `at`.
    pub(crate) fn new(now: Timestamp, at: Duration) -> Self {
        Self { said: now, heard_at: at }
    }

    /// The store's time when the worker's clock shows `at`.
    pub(crate) fn at(&self, at: Duration) -> Timestamp {
        let passed = i64::try_from(at.saturating_sub(self.heard_at).as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.said.micros().saturating_add(passed))
    }
}
