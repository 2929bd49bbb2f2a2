//! One kind of fault, on or off.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Call, Fault, Faults};

/// Gives one fault to a number of the calls that it concerns; to none when it is new.
#[derive(Debug)]
pub struct Switched {
    fault: Fault,
    only: Vec<Call>,
    left: AtomicU64,
    struck: AtomicU64,
}

impl Switched {
    /// A source of this fault that is switched off.
    pub const fn new(fault: Fault) -> Self {
        Self { fault, only: Vec::new(), left: AtomicU64::new(0), struck: AtomicU64::new(0) }
    }

    /// Strikes no other calls than these.
    #[must_use]
    pub fn only(mut self, calls: &[Call]) -> Self {
        self.only = calls.to_vec();
        self
    }

    /// Strikes every such call from now on.
    pub fn switch_on(&self) {
        self.strike(u64::MAX);
    }

    /// Strikes no call from now on.
    pub fn switch_off(&self) {
        self.strike(0);
    }

    /// Strikes the next `calls` of them and none after those.
    pub fn strike(&self, calls: u64) {
        self.left.store(calls, Ordering::Release);
    }

    /// How many calls were struck so far.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Acquire)
    }
}

impl Faults for Switched {
    fn strikes(&self, call: Call) -> Option<Fault> {
        let is_meant = self.only.is_empty() || self.only.contains(&call);
        if !is_meant || !self.fault.concerns(call) {
            return None;
        }
        let one_less = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(1) };
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).ok()?;
        self.struck.fetch_add(1, Ordering::AcqRel);
        Some(self.fault)
    }
}
