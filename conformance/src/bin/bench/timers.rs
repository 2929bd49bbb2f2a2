//! Ten thousand timers due at about the same time, and one of two workers killed meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plica_engine::Stop;
use plica_kernel::decode::decode_trusted;
use plica_kernel::event::Payload;
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::time::Timestamp;
use plica_ports::Store;

use crate::Bench;
use crate::drain;
use crate::engine::{Engine, Talk, now_micros};
use crate::measure::quantile;
use crate::place::{Kind, Place, Site};
use crate::report::{Bar, Limit, Report, rate, short};

/// Over how many seconds they are due where it is asked what two workers keep up with.
const SPREAD: u64 = 40;
/// Tasks worked on at once while they are put to sleep.
const MAKERS: usize = 64;
/// Tasks by which it is found out how long the others take to fall asleep.
const TRIED: usize = 200;
/// Tasks that one worker works on at once.
const CONCURRENCY: usize = 128;
/// How long before the first timer the workers start.
const AHEAD: i64 = 2_000_000;

/// What became of the timers.
#[derive(Default)]
struct Fate {
    lost: usize,
    twice: usize,
    /// How late each was, in milliseconds.
    late: Vec<f64>,
    /// When the first was due, and when the last fired.
    span: Option<(Timestamp, Timestamp)>,
}

impl Fate {
    async fn take(&mut self, store: &dyn Store, task: &TaskId) {
        let (mut due, mut fired) = (None, Vec::new());
        let mut ended = false;
        for stored in store.read(task, Seq(1), usize::MAX).await.expect("logs can be read") {
            let event = decode_trusted(&stored.body).expect("what was written decodes");
            match &event.payload {
                Payload::TaskSuspended(suspended) => due = suspended.wake.at,
                Payload::TaskWoken(_) => fired.push(event.at),
                Payload::TaskCompleted(_) => ended = true,
                _ => {}
            }
        }
        let (Some(due), Some(&first)) = (due, fired.first()) else {
            self.lost += 1;
            return;
        };
        self.lost += usize::from(!ended);
        self.twice += fired.len() - 1;
        self.late.push((first.micros() - due.micros()) as f64 / 1e3);
        let (from, to) = self.span.unwrap_or((due, first));
        self.span = Some((from.min(due), to.max(first)));
    }

    /// Timers that fired a second.
    fn rate(&self) -> f64 {
        self.span.map_or(f64::NAN, |(from, to)| self.late.len() as f64 * 1e6 / (to.micros() - from.micros()) as f64)
    }
}

/// Puts so many tasks to sleep until they are due, from `from` on; the tasks.
fn put_to_sleep(bench: &Bench, place: &Place<'_>, count: usize, from: i64, seconds: u64) -> Vec<TaskId> {
    let engine = Arc::new(Engine::on(place.maker(), Talk::Until { from, seconds }));
    bench.runtime.block_on(async {
        let tasks = drain::submit(&engine, count).await;
        let (stop, worker) = (Stop::new(), engine.worker_of(false, MAKERS));
        let told = stop.clone();
        let working = tokio::spawn(async move { worker.run(told).await });
        loop {
            let outlook = engine.store.outlook(&[]).await.expect("the outlook can be read");
            if outlook.held == 0 && outlook.next.is_some_and(|next| next > outlook.now) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.stop();
        working.await.expect("the worker ends").expect("the worker ends well");
        tasks
    })
}

/// Lets timers that are due within `seconds` fire with two workers, of which one is killed in the
/// middle.
fn fire(bench: &Bench, site: &Site<'_>, seconds: u64) -> Fate {
    let began = Instant::now();
    put_to_sleep(bench, &site.place(&format!("try-{seconds}")), TRIED, now_micros() + 3_600_000_000, 1);
    let each = began.elapsed().as_secs_f64() / TRIED as f64;
    let from = now_micros() + (each * bench.waiting as f64 * 1.5 * 1e6) as i64 + 3 * AHEAD;
    let place = site.place(&format!("{seconds}"));
    let tasks = put_to_sleep(bench, &place, bench.waiting, from, seconds);
    assert!(now_micros() < from - AHEAD, "the tasks sleep before the first is due");
    let mut workers = [0, 1].map(|_| drain::start(&place, CONCURRENCY, from - AHEAD));
    let middle = from + 500_000 * seconds as i64;
    std::thread::sleep(Duration::from_micros(u64::try_from(middle - now_micros()).unwrap_or(0)));
    workers[0].kill().expect("a worker is killed");
    workers[0].wait().expect("it is gone");
    assert!(workers[1].wait().expect("the other ends").success(), "the other worker failed");
    let (store, mut fate) = (place.store(), Fate::default());
    bench.runtime.block_on(async {
        for task in &tasks {
            fate.take(&*store, task).await;
        }
    });
    fate
}

/// All due in one second, and over so long that two workers keep up.
pub(crate) fn all(bench: &Bench, report: &mut Report) {
    for kind in Kind::ALL {
        let Some(site) = Site::new(bench, kind, "timers") else { continue };
        for seconds in [1, SPREAD] {
            let fate = fire(bench, &site, seconds);
            let what = format!("{}: {} timers due in {seconds} s, a worker killed", kind.name(), bench.waiting);
            let fired = rate(fate.rate(), "timer");
            let mut add = |what: &str, ours: String, ratio: f64, limit: f64| {
                let (against, limit) = (fired.clone(), Limit::AtMost(limit));
                report.add(Bar { id: "timer", what, ours, against, ratio, limit });
            };
            let wrong = fate.lost + fate.twice;
            add(&format!("{what}; lost or twice"), format!("{} and {}", fate.lost, fate.twice), wrong as f64, 0.0);
            let late = quantile(&fate.late, 0.99);
            add("p99 late, in ms", format!("{} ms", short(late)), late, 250.0);
        }
    }
}
