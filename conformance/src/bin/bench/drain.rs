//! Many short tasks worked off by worker processes: how fast, and that neither finished nor
//! waiting tasks in the store slow it down.

use std::path::Path;
use std::process::Child;
use std::sync::Arc;

use plica_engine::Stop;
use plica_kernel::id::TaskId;
use tokio::task::JoinSet;

use crate::Bench;
use crate::engine::{Engine, Talk, now_micros};
use crate::measure::by_turns_of;
use crate::place::{self, Kind, Place, Site};
use crate::processes::itself;
use crate::report::{Bar, Limit, Report, rate};

/// Tasks that are worked off.
const TASKS: usize = 5_000;
/// Tasks that are worked off in each turn among many others and among none, and turns.
const SOME: usize = 1_500;
const FEW: usize = 3;
/// Tasks that one worker works on at once.
const CONCURRENCY: usize = 4;
/// Tasks submitted at once.
const AT_ONCE: usize = 64;
/// Rows of tasks that are finished, and of such that wait.
const FINISHED: u64 = 100_000;
const WAITING: u64 = 1_000_000;
/// Time for every worker to start before all begin, in microseconds.
const START: i64 = 3_000_000;

/// Submits tasks; their ids.
pub(crate) async fn submit(engine: &Arc<Engine>, count: usize) -> Vec<TaskId> {
    let mut submitting = JoinSet::new();
    let mut tasks = Vec::with_capacity(count);
    for _ in 0..count {
        let engine = engine.clone();
        submitting.spawn(async move { engine.submit(false).await });
        if submitting.len() == AT_ONCE {
            tasks.extend(submitting.join_next().await.map(|joined| joined.expect("a task is submitted")));
        }
    }
    tasks.extend(submitting.join_all().await);
    tasks
}

/// A worker process: begins at `start` and ends when nothing is left to do.
pub(crate) async fn child(name: &str, concurrency: usize, start: i64) {
    let engine = Engine::on(place::open(name), Talk::Rounds(1));
    let left = u64::try_from(start - now_micros()).unwrap_or(0);
    tokio::time::sleep(std::time::Duration::from_micros(left)).await;
    engine.worker_of(true, concurrency).run(Stop::new()).await.expect("the worker ends well");
}

/// Starts a worker process that begins at `start`.
pub(crate) fn start(place: &Place<'_>, concurrency: usize, start: i64) -> Child {
    let mut command = itself("--child-drain", Path::new(&place.name()), concurrency);
    command.arg(start.to_string()).spawn().expect("this program starts again")
}

/// Tasks a second that so many worker processes finish.
fn drain(bench: &Bench, place: &Place<'_>, tasks: usize, workers: usize) -> f64 {
    let engine = Arc::new(Engine::on(place.maker(), Talk::Rounds(1)));
    bench.runtime.block_on(submit(&engine, tasks));
    drop(engine);
    let begins = now_micros() + START;
    let running: Vec<Child> = (0..workers).map(|_| start(place, CONCURRENCY, begins)).collect();
    for mut worker in running {
        assert!(worker.wait().expect("a worker ends").success(), "a worker failed");
    }
    let own = "FROM plica.tasks WHERE status = 'completed' AND id NOT LIKE 'copy-%' AND updated_at >=";
    assert_eq!(place.number(&format!("SELECT count(*) {own} {begins}")), tasks as i64, "every task is finished");
    let last = place.number(&format!("SELECT max(updated_at) {own} {begins}"));
    tasks as f64 / ((last - begins) as f64 / 1e6)
}

/// Fills a store with rows of tasks that are finished or wait.
fn fill(bench: &Bench, place: &Place<'_>) {
    for (talk, count) in [(Talk::Rounds(1), FINISHED), (Talk::Event, WAITING)] {
        let engine = Engine::on(place.maker(), talk);
        let like = bench.runtime.block_on(async {
            let task = engine.submit(false).await;
            engine.work().await;
            task
        });
        place.copies(&like, count);
    }
}

/// One, four and sixteen workers; and four among very many other tasks.
pub(crate) fn all(bench: &Bench, report: &mut Report) {
    for kind in Kind::ALL {
        let Some(site) = Site::new(bench, kind, "drain") else { continue };
        let name = kind.name();
        let mut add = |what: String, ours: f64, against: f64, limit: Limit| {
            let (ratio, ours, against) = (ours / against, rate(ours, "task"), rate(against, "task"));
            report.add(Bar { id: "drain", what: &what, ours, against, ratio, limit });
        };
        let [one, four, sixteen] =
            [1, 4, 16].map(|workers| drain(bench, &site.place(&format!("{workers}")), TASKS, workers));
        add(format!("{name}: {TASKS} tasks of one round by 4 workers, by 1"), four, one, Limit::AtLeast(least(kind)));
        add(format!("{name}: the same by 16 workers, by 1"), sixteen, one, Limit::AtLeast(least(kind)));
        let (full, empty) = (site.place("full"), site.place("empty"));
        fill(bench, &full);
        let sides = by_turns_of(FEW, || drain(bench, &full, SOME, 4), || drain(bench, &empty, SOME, 4));
        report.add(Bar {
            id: "drain",
            what: &format!("{name}: 4 workers, {FINISHED} finished and {WAITING} waiting; none"),
            ours: rate(sides.ours, "task"),
            against: rate(sides.against, "task"),
            ratio: sides.ratio,
            limit: Limit::AtLeast(1.0 / 1.2),
        });
    }
}

/// What more workers have to bring at least, where all share two cores: processes on one file take
/// turns at its one lock (L3), a server commits for several with one flush.
fn least(kind: Kind) -> f64 {
    match kind {
        Kind::Sqlite => 0.25,
        Kind::Postgres => 1.0,
    }
}
