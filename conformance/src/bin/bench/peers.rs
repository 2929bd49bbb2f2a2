//! Our half of the comparison with other durable runtimes on PostgreSQL: E2 and E5.
//!
//! They were measured once, on a quiet machine, beside the raw statement of [`RawStatement`], which
//! did [`RAW_THERE`] a second there. What a bar compares is therefore each one's share of the raw
//! statement on its own machine at its own time.

use std::sync::Arc;
use std::time::Instant;

use plica_engine::Stop;

use crate::Bench;
use crate::drain::submit;
use crate::engine::{Engine, Talk, now_micros};
use crate::measure::median;
use crate::place::{Kind, Site};
use crate::raw::RawStatement;
use crate::report::{Bar, Limit, Report, rate};

/// The raw statement's rate on the machine on which the others were measured: the middle of 3,520
/// and 3,940.
const RAW_THERE: f64 = 3_730.0;
/// Others' rate of durable steps in sequence there, and how many times as many ours are to be.
const STEPS: [(&str, f64, f64); 3] = [("absurd", 1_271.0, 2.0), ("DBOS", 399.0, 5.0), ("Restate", 878.0, 3.0)];
/// The same for short runs.
const RUNS: [(&str, f64, f64); 2] = [("absurd", 500.0, 2.0), ("DBOS", 166.0, 5.0)];
/// Rounds of the task whose steps are counted; a round is two durable steps.
const ROUNDS: u64 = 100;
/// Short runs of a turn, and how many are worked on at once.
const SHORT: usize = 500;
const AT_ONCE: usize = 16;
/// Turns of ours and of the raw statement.
const TURNS: usize = 5;

fn add(report: &mut Report, id: &str, what: &str, (ours, raw): (f64, f64), others: &[(&str, f64, f64)]) {
    for (name, theirs, times) in others {
        let share = theirs / RAW_THERE;
        report.add(Bar {
            id,
            what: &format!("{what}, raw statements; {name} has {share:.2} of them"),
            ours: rate(ours, "step"),
            against: rate(raw, "commit"),
            ratio: ours / raw / share,
            limit: Limit::AtLeast(*times),
        });
    }
}

/// E2: durable steps of one task in sequence, a result of 450 bytes in every second one: the
/// request of a round is one, the call and its result another.
pub(crate) fn steps(bench: &Bench, report: &mut Report) {
    let Some(site) = Site::new(bench, Kind::Postgres, "E2") else { return };
    let place = site.place("steps");
    let Some(fresh) = place.fresh() else { return };
    let mut raw = bench.runtime.block_on(RawStatement::new(fresh, 628));
    let engine = Engine::on(place.store(), Talk::Rounds(ROUNDS));
    let (mut ours, mut theirs) = (vec![], vec![]);
    for _ in 0..TURNS {
        ours.push(bench.runtime.block_on(async {
            engine.submit(false).await;
            engine.requests.take();
            engine.work().await;
            // From the first request on record to the last, so that neither claiming nor the end
            // of the worker counts.
            let times = engine.requests.take();
            let [first, .., last] = times[..] else { return f64::NAN };
            2.0 * ROUNDS as f64 / (last - first).as_secs_f64()
        }));
        theirs.push(bench.runtime.block_on(raw.per_second()));
    }
    add(report, "E2", "durable steps of one task", (median(&ours), median(&theirs)), &STEPS);
}

/// E5: short runs of one step, from being submitted to their end, by one process.
pub(crate) fn runs(bench: &Bench, report: &mut Report) {
    let Some(site) = Site::new(bench, Kind::Postgres, "E5") else { return };
    let place = site.place("runs");
    let Some(fresh) = place.fresh() else { return };
    let mut raw = bench.runtime.block_on(RawStatement::new(fresh, 628));
    let engine = Arc::new(Engine::on(place.store(), Talk::Rounds(0)));
    let (mut ours, mut theirs) = (vec![], vec![]);
    for _ in 0..TURNS {
        let began = now_micros();
        bench.runtime.block_on(async {
            let (stop, worker) = (Stop::new(), engine.worker_of(false, AT_ONCE));
            let told = stop.clone();
            let working = tokio::spawn(async move { worker.run(told).await });
            submit(&engine, SHORT).await;
            let waiting = Instant::now();
            loop {
                let outlook = engine.store.outlook(&[]).await.expect("the outlook can be read");
                if outlook.held == 0 && outlook.next.is_none() {
                    break;
                }
                assert!(waiting.elapsed().as_secs() < 60, "the tasks come to their end");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            stop.stop();
            working.await.expect("the worker ends").expect("the worker ends well");
        });
        let last = place.number("SELECT max(updated_at) FROM plica.tasks WHERE status = 'completed'");
        ours.push(SHORT as f64 * 1e6 / (last - began) as f64);
        theirs.push(bench.runtime.block_on(raw.per_second()));
    }
    add(report, "E5", "short runs of one step", (median(&ours), median(&theirs)), &RUNS);
}
