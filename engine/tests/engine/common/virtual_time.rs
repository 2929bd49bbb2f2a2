//! A memory store by the runtime's virtual time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::time::Timestamp;
use plica_memory::{MemoryStore, StoreClock};
use tokio::time::Instant;

/// The runtime's virtual time, so that leases and back-offs pass as fast as nothing happens.
struct Virtual(Instant);

#[async_trait]
impl StoreClock for Virtual {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.0.elapsed().as_micros()).expect("a test is short");
        Timestamp::from_micros(1_796_031_682_123_456 + passed)
    }

    async fn reached(&self, time: Timestamp) {
        let left = u64::try_from(time.micros() - self.now().micros()).unwrap_or(0);
        tokio::time::sleep(Duration::from_micros(left)).await;
    }
}

/// A store by the runtime's virtual time.
pub fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::with(Arc::new(Virtual(Instant::now())), 1))
}
