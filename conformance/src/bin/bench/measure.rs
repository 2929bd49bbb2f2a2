//! Clocks, medians, alternation.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Alternations of the two sides of a ratio.
pub(crate) const TURNS: usize = 7;
/// How long one side of a ratio that waits for the disk runs.
pub(crate) const SLICE: Duration = Duration::from_millis(300);

/// The middle of some numbers.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    quantile(numbers, 0.5)
}

/// The number below which `share` of some numbers lie.
pub(crate) fn quantile(numbers: &[f64], share: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Two sides measured by turns.
pub(crate) struct Sides {
    pub(crate) ours: f64,
    pub(crate) against: f64,
    /// The median of the ratios turn by turn, so that a load which comes and goes hits both.
    pub(crate) ratio: f64,
}

/// Measures two things by turns: ours, then what it is measured against.
pub(crate) fn by_turns(ours: impl FnMut() -> f64, against: impl FnMut() -> f64) -> Sides {
    by_turns_of(TURNS, ours, against)
}

/// The same with so many turns.
pub(crate) fn by_turns_of(turns: usize, mut ours: impl FnMut() -> f64, mut against: impl FnMut() -> f64) -> Sides {
    let turns: Vec<(f64, f64)> = (0..turns).map(|_| (ours(), against())).collect();
    let (first, second): (Vec<f64>, Vec<f64>) = turns.iter().copied().unzip();
    let ratios: Vec<f64> = turns.iter().map(|(ours, against)| ours / against).collect();
    Sides { ours: median(&first), against: median(&second), ratio: median(&ratios) }
}

/// How often per second `work` can be done, tried for a while.
pub(crate) fn per_second(mut work: impl FnMut()) -> f64 {
    let began = Instant::now();
    let mut count = 0.0;
    while began.elapsed() < SLICE {
        work();
        count += 1.0;
    }
    count / began.elapsed().as_secs_f64()
}

/// Seconds that `work` takes by the wall clock.
pub(crate) fn wall(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds of this thread's processor time that `work` takes.
pub(crate) fn cpu(work: impl FnOnce()) -> f64 {
    let began = seconds(ClockId::ThreadCPUTime);
    work();
    seconds(ClockId::ThreadCPUTime) - began
}

/// Seconds of processor time that this process has used.
pub(crate) fn process_cpu() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

/// Bytes of memory that this process occupies.
pub(crate) fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(f64::NAN);
    pages * rustix::param::page_size() as f64
}
