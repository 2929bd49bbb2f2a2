//! How long the store has kept a worker from committing anything (ST-10).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plica_kernel::limits::UNAVAILABLE_MAX_MS;

/// Failures that belong together, on the worker's clock.
#[derive(Debug)]
struct Trouble {
    since: Duration,
    latest: Duration,
    why: String,
}

#[derive(Debug, Default)]
struct Troubles {
    /// Of looking for work: over once that succeeds.
    claims: Option<Trouble>,
    /// Of doing it, over however many claims: over once an append is committed.
    appends: Option<Trouble>,
}

/// What a worker and the steps it drives know of the store's reachability.
///
/// Only the time between failures counts, never the time in which nothing was tried: a call that
/// takes an hour, or a timer that is waited for, is no outage.
#[derive(Debug, Default)]
pub(crate) struct Outage(Mutex<Troubles>);

impl Outage {
    /// Work could not be looked for.
    pub(crate) fn claims_fail(&self, now: Duration, why: &str) {
        note(&mut self.lock().claims, now, why);
    }

    /// Work could be looked for.
    pub(crate) fn claims_work(&self) {
        self.lock().claims = None;
    }

    /// Whether work could not be looked for the last time.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        self.lock().claims.is_some()
    }

    /// Something that leads to an append could not be done.
    pub(crate) fn appends_fail(&self, now: Duration, why: &str) {
        note(&mut self.lock().appends, now, why);
    }

    /// An append was committed.
    pub(crate) fn committed(&self) {
        *self.lock() = Troubles::default();
    }

    /// How long it has lasted and what the store said last, once that is more than `run` and
    /// `--until-idle` put up with.
    pub(crate) fn is_too_long(&self) -> Option<(Duration, String)> {
        let troubles = self.lock();
        let longest = troubles.claims.iter().chain(&troubles.appends).max_by_key(|trouble| trouble.lasted())?;
        (longest.lasted() >= PATIENCE).then(|| (longest.lasted(), longest.why.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Troubles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const PATIENCE: Duration = Duration::from_millis(UNAVAILABLE_MAX_MS);

impl Trouble {
    fn lasted(&self) -> Duration {
        self.latest.saturating_sub(self.since)
    }
}

/// A failure after so long without one is not the same outage.
fn note(trouble: &mut Option<Trouble>, now: Duration, why: &str) {
    let since = match trouble {
        Some(trouble) if now.saturating_sub(trouble.latest) <= PATIENCE => trouble.since,
        _ => now,
    };
    *trouble = Some(Trouble { since, latest: now, why: why.to_owned() });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn st_10_an_outage_lasts_from_its_first_failure_to_its_last() {
        let outage = Outage::default();
        assert_eq!(outage.is_too_long(), None);
        outage.appends_fail(at(100), "one");
        outage.appends_fail(at(129), "two");
        assert_eq!(outage.is_too_long(), None);
        outage.appends_fail(at(130), "three");
        assert_eq!(outage.is_too_long(), Some((at(30), "three".into())));
        outage.committed();
        assert_eq!(outage.is_too_long(), None);
    }

    #[test]
    fn st_10_failures_far_apart_are_two_outages() {
        let outage = Outage::default();
        outage.appends_fail(at(0), "one");
        outage.appends_fail(at(31), "another");
        assert_eq!(outage.is_too_long(), None);
    }

    #[test]
    fn st_10_finding_work_again_ends_only_the_trouble_of_finding_it() {
        let outage = Outage::default();
        outage.claims_fail(at(0), "claim");
        outage.appends_fail(at(1), "append");
        assert!(outage.is_out_of_reach());
        outage.claims_work();
        assert!(!outage.is_out_of_reach());
        outage.claims_fail(at(29), "claim");
        outage.claims_fail(at(31), "claim");
        assert_eq!(outage.is_too_long(), None);
        outage.appends_fail(at(31), "append");
        assert_eq!(outage.is_too_long(), Some((at(30), "append".into())));
    }
}
