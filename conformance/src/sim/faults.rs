//! What befalls the calls and processes of a world, drawn from its seed.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::gate::Gate;
use super::prng::Prng;
use crate::faults::{Call, Fault, Faults};

/// How bad things are in a world, and since when they are good.
#[derive(Debug)]
pub struct Weather {
    prng: Prng,
    began: Instant,
    /// Calls in a thousand that something befalls.
    faults_per_mille: u64,
    /// Until when the store is out of reach, in milliseconds from the beginning; `u64::MAX`
    /// once all faults are over.
    out_until_ms: AtomicU64,
    cleared: Notify,
}

impl Weather {
    /// The weather of the world of a seed.
    pub fn new(seed: u64) -> Self {
        let prng = Prng::named(seed, "weather");
        let faults_per_mille = *prng.pick(&[0, 20, 60, 150]);
        Self { prng, began: Instant::now(), faults_per_mille, out_until_ms: AtomicU64::new(0), cleared: Notify::new() }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// From now on nothing befalls anyone.
    pub fn clear_up(&self) {
        self.out_until_ms.store(u64::MAX, Ordering::Relaxed);
        self.cleared.notify_waiters();
    }

    /// Returns once all faults are over; those who wait go on in the order in which they came,
    /// which a channel of tokio's would leave to chance.
    pub async fn cleared(&self) {
        let mut cleared = pin!(self.cleared.notified());
        cleared.as_mut().enable();
        if !self.is_clear() {
            cleared.await;
        }
    }

    /// Whether all faults are over.
    pub fn is_clear(&self) -> bool {
        self.out_until_ms.load(Ordering::Relaxed) == u64::MAX
    }

    /// The store is out of reach for so long.
    pub fn outage(&self, ms: u64) {
        if !self.is_clear() {
            self.out_until_ms.store(self.elapsed_ms() + ms, Ordering::Relaxed);
        }
    }

    fn strikes(&self, call: Call) -> Option<Fault> {
        let out_until = self.out_until_ms.load(Ordering::Relaxed);
        if out_until == u64::MAX {
            return None;
        }
        if self.elapsed_ms() < out_until {
            return Some(Fault::Unavailable);
        }
        let while_ms = |most| Duration::from_millis(self.prng.between(1, most));
        let slow = |most| Some(Fault::Delay { before: while_ms(most), after: Duration::ZERO });
        if !self.prng.chance(self.faults_per_mille) {
            return if self.prng.chance(200) { slow(40) } else { None };
        }
        // Waiting for work is not worth a fault of its own.
        if matches!(call, Call::WaitClaimable | Call::Register | Call::Deregister) {
            return Some(Fault::Unavailable);
        }
        let drawn = match self.prng.below(10) {
            0..=1 => return Some(Fault::Unavailable),
            2..=3 => Fault::LostBeforeCommit,
            4..=5 => Fault::LostAfterCommit,
            6 => Fault::Adrift(while_ms(4_000)),
            7 if matches!(call, Call::Claim | Call::Adopt) => Fault::LostAfterCommit,
            7 => Fault::Twice,
            _ => return slow(6_000),
        };
        // A call that only reads loses nothing, but its connection breaks all the same.
        Some(if call.writes() || drawn == Fault::Twice { drawn } else { Fault::Unavailable })
    }
}

/// The way of one caller to the store: the weather, and its own being out of action.
pub struct Way {
    weather: Arc<Weather>,
    gate: Option<Arc<Gate>>,
}

impl Way {
    /// The way of the process behind `gate`, or of someone who is never out of action.
    pub fn new(weather: Arc<Weather>, gate: Option<Arc<Gate>>) -> Self {
        Self { weather, gate }
    }
}

#[async_trait]
impl Faults for Way {
    fn strikes(&self, call: Call) -> Option<Fault> {
        self.weather.strikes(call)
    }

    async fn pass(&self) {
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
    }
}

/// What befalls a worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfortune {
    /// It dies after so long.
    DiesAfter(Duration),
    /// It dies at its so-many-th passage to the world.
    DiesAt(u64),
    /// After the first time it stands still for the second.
    Stalls(Duration, Duration),
    /// It is told to stop after so long.
    Retires(Duration),
}

impl Misfortune {
    /// What befalls the next process.
    pub fn drawn(prng: &Prng) -> Self {
        let soon = || Duration::from_millis(prng.between(200, 30_000));
        match prng.below(10) {
            0..=2 => Self::DiesAfter(soon()),
            3..=5 => Self::DiesAt(prng.between(3, 160)),
            6..=8 => Self::Stalls(soon(), Duration::from_millis(prng.between(500, 60_000))),
            _ => Self::Retires(soon()),
        }
    }

    /// At which passage it dies, if that is what befalls it.
    pub fn last_passage(self) -> Option<u64> {
        match self {
            Self::DiesAt(passage) => Some(passage),
            Self::DiesAfter(_) | Self::Stalls(..) | Self::Retires(_) => None,
        }
    }
}
