//! What work took, in numbers.

use std::time::Duration;

use plica_kernel::event::Usage;

use super::words::{dollars, span};
use crate::render::counted;

/// What work took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Model requests that began.
    pub requests: u64,
    /// Calls that began.
    pub calls: u64,
    /// Tokens.
    pub usage: Usage,
    /// Their price, if any was told.
    pub nano_usd: Option<u64>,
    /// Time spent working: what requests and calls took.
    pub time: Duration,
}

impl Totals {
    /// Adds what a request came to.
    pub fn answered(&mut self, usage: &Usage, cost: Option<u64>, elapsed_ms: u64) {
        self.add(&Self { usage: *usage, nano_usd: cost, time: Duration::from_millis(elapsed_ms), ..Self::default() });
    }

    /// Adds what other work took.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.calls = self.calls.saturating_add(other.calls);
        self.time = self.time.saturating_add(other.time);
        self.nano_usd = match (self.nano_usd, other.nano_usd) {
            (Some(one), Some(more)) => Some(one.saturating_add(more)),
            (one, more) => one.or(more),
        };
        let (sum, more) = (&mut self.usage, &other.usage);
        sum.cache_read = sum.cache_read.saturating_add(more.cache_read);
        sum.cache_write = sum.cache_write.saturating_add(more.cache_write);
        sum.output = sum.output.saturating_add(more.output);
        sum.reasoning = sum.reasoning.saturating_add(more.reasoning);
        sum.uncached = sum.uncached.saturating_add(more.uncached);
    }

    /// The numbers on a line.
    pub fn line(&self) -> String {
        let mut parts = vec![counted(self.requests, "request"), counted(self.calls, "call")];
        if !self.usage.is_zero() {
            let cached = match self.usage.cache_read {
                0 => String::new(),
                read => format!(" ({read} cached)"),
            };
            parts.push(format!("{} tokens in{cached}, {} out", self.usage.input(), self.usage.output));
        }
        parts.extend(self.nano_usd.map(dollars));
        parts.push(span(self.time));
        parts.join(", ")
    }
}
