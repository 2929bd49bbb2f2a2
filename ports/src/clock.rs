use std::time::Duration;

use async_trait::async_trait;

/// The worker's own time: monotonic, and no source of recorded times, which are the store's.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Time since some fixed moment of this process; never runs back.
    fn monotonic(&self) -> Duration;

    /// Returns after `duration`.
    async fn sleep(&self, duration: Duration);
}
