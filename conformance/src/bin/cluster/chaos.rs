//! What goes wrong, and when: a function of the seed.

use std::io;
use std::time::{Duration, Instant};

use plica_conformance::sim::Prng;
use rustix::process::Signal;

use crate::fleet::Fleet;
use crate::place::{Kind as StoreKind, Place};
use crate::proxy::Way;

/// The lease of the workers.
const LEASE_MS: u64 = 1_000;
/// Between two faults.
const GAP_MS: (u64, u64) = (150, 800);
/// The longest time without a database.
const OUTAGE_MS_MAX: u64 = 60_000;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL for the worker in a place.
    Kill(usize),
    /// SIGKILL for all of them.
    KillAll,
    /// SIGSTOP for so many milliseconds, then SIGCONT.
    Stop(usize, u64),
    /// Connections are cut after so many more bytes of what goes this way.
    Cut(Way, u64),
    /// The server crashes, and is away for so many milliseconds.
    Crash(u64),
    /// There is no database for so many milliseconds.
    Outage(u64),
}

/// How often each fault happened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// SIGKILLs, those of all included.
    pub kills: usize,
    /// SIGKILLs of all.
    pub kill_alls: usize,
    /// SIGSTOPs.
    pub stops: usize,
    /// Crashes of the server.
    pub crashes: usize,
    /// Times without a database.
    pub outages: usize,
    /// Workers started.
    pub starts: usize,
}

/// The faults of a seed, each with its time in milliseconds.
pub fn schedule(seed: u64, seconds: u64, workers: usize, store: StoreKind) -> Vec<(u64, Fault)> {
    let dice = Prng::named(seed, "faults");
    let end = seconds * 1000;
    let outage = (end / 4).min(OUTAGE_MS_MAX);
    let mut faults = Vec::new();
    let mut at = dice.between(GAP_MS.0, GAP_MS.1);
    let mut had_outage = store == StoreKind::Sqlite;
    while at < end {
        if !had_outage && at > end / 2 {
            had_outage = true;
            faults.push((at, Fault::Outage(outage)));
            at += outage;
            continue;
        }
        let place = usize::try_from(dice.below(workers as u64)).unwrap_or(0);
        // The last of them need a server.
        let fault = match dice.below(if store == StoreKind::Sqlite { 82 } else { 100 }) {
            0..55 => Fault::Kill(place),
            55..75 => Fault::Stop(place, LEASE_MS * dice.between(150, 300) / 100),
            75..82 => Fault::KillAll,
            82..89 => Fault::Cut(Way::There, dice.below(4_000)),
            89..97 => Fault::Cut(Way::Back, dice.below(200)),
            _ => Fault::Crash(dice.below(1_500)),
        };
        faults.push((at, fault));
        at += dice.between(GAP_MS.0, GAP_MS.1);
    }
    faults
}

/// Lets everything go wrong in its time.
pub fn run(faults: &[(u64, Fault)], seconds: u64, fleet: &Fleet, place: &Place) -> io::Result<Counts> {
    let began = Instant::now();
    let mut counts = Counts { starts: fleet.fill()?, ..Counts::default() };
    let mut asleep: Vec<(Instant, usize)> = Vec::new();
    let mut due = faults.iter().peekable();
    let end = Duration::from_secs(seconds);
    while began.elapsed() < end {
        asleep.retain(|(until, worker)| {
            let goes_on = *until <= Instant::now();
            if goes_on {
                fleet.signal(*worker, Signal::CONT);
            }
            !goes_on
        });
        if let Some((_, fault)) = due.next_if(|(at, _)| Duration::from_millis(*at) <= began.elapsed()) {
            happen(*fault, fleet, place, &mut counts, &mut asleep)?;
        }
        counts.starts += fleet.fill()?;
        // The clock of the schedule is the machine's: it has to pass.
        std::thread::sleep(Duration::from_millis(10));
    }
    for (_, worker) in asleep {
        fleet.signal(worker, Signal::CONT);
    }
    counts.starts += fleet.fill()?;
    Ok(counts)
}

fn happen(
    fault: Fault,
    fleet: &Fleet,
    place: &Place,
    counts: &mut Counts,
    asleep: &mut Vec<(Instant, usize)>,
) -> io::Result<()> {
    match fault {
        Fault::Kill(worker) => {
            fleet.kill(worker)?;
            counts.kills += 1;
        }
        Fault::KillAll => {
            for worker in 0..fleet.count() {
                fleet.kill(worker)?;
                counts.kills += 1;
            }
            counts.kill_alls += 1;
        }
        Fault::Stop(worker, ms) => {
            fleet.signal(worker, Signal::STOP);
            asleep.push((Instant::now() + Duration::from_millis(ms), worker));
            counts.stops += 1;
        }
        Fault::Cut(way, bytes) => place.cut(way, bytes),
        Fault::Crash(ms) => {
            place.crash(Duration::from_millis(ms))?;
            counts.crashes += 1;
        }
        Fault::Outage(ms) => {
            place.outage(true);
            // Workers are killed and started in the meantime too.
            let until = Instant::now() + Duration::from_millis(ms);
            while Instant::now() < until {
                fleet.kill(counts.kills % fleet.count())?;
                counts.kills += 1;
                counts.starts += fleet.fill()?;
                std::thread::sleep(Duration::from_millis(LEASE_MS).min(until - Instant::now().min(until)));
            }
            place.outage(false);
            counts.outages += 1;
        }
    }
    Ok(())
}
