//! The store's clock (ST-6): the machine's, unless a test or a simulation tells the time.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use plica_kernel::time::Timestamp;

/// What the store tells the time by.
#[derive(Clone)]
pub(crate) struct Time(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Time {
    /// The machine's clock.
    pub(crate) fn of_the_machine() -> Self {
        Self::told_by(machine)
    }

    /// Whatever `now` says.
    pub(crate) fn told_by(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Time").field(&self.now()).finish()
    }
}

fn machine() -> Timestamp {
    let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
    };
    Timestamp::from_micros(micros)
}
