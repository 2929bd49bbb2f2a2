//! Many tasks that wait: what they cost a claim and a worker that has nothing to do.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plica_engine::Stop;
use plica_kernel::wake::{Wake, WakeKey};
use plica_pgserver::Fresh;
use plica_ports::Store;
use plica_ports::store::ClaimRequest;
use plica_sqlite::SqliteStore;
use tokio::task::JoinSet;

use crate::Bench;
use crate::appends::{Hold, store, worker};
use crate::engine::{Engine, Talk};
use crate::measure::{SLICE, by_turns, median, process_cpu, resident};
use crate::place::{self, Kind, Place, Site};
use crate::processes::itself;
use crate::report::{Bar, Limit, Report, rate, short, time};

/// Tasks made at once.
const AT_ONCE: usize = 64;
/// How long an idle worker is watched, in seconds, after a moment to settle.
const WATCHED: usize = 10;
const SETTLING: Duration = Duration::from_secs(1);

/// A fresh file in which `count` tasks wait for a message.
fn sleepers(bench: &Bench, path: &Path, count: usize) -> Arc<SqliteStore> {
    let store = store(path);
    bench.runtime.block_on(async {
        store.ledger().await.expect("a store has a name");
        let mut running = JoinSet::new();
        for number in 0..count {
            let store = store.clone();
            running.spawn(async move {
                let hold = Hold::new(&store, 1_000 + number, 1).await;
                let batch = hold.log.suspending(&hold.claimed, Wake::on(WakeKey::Message));
                store.append(&hold.claimed.claim, &batch).await.expect("a sound batch is written");
            });
            if running.len() == AT_ONCE {
                running.join_next().await;
            }
        }
        running.join_all().await;
    });
    store
}

/// The median time of a claim while one task is due.
async fn claim(store: &SqliteStore) -> f64 {
    let request = ClaimRequest {
        worker: worker(),
        queues: Vec::new(),
        lease: Duration::from_secs(60),
        max: 1,
        task: None,
        except: Vec::new(),
    };
    let began = Instant::now();
    let mut times = Vec::new();
    while began.elapsed() < SLICE {
        let one = Instant::now();
        let claimed = store.claim(&request).await.expect("claiming works").pop().expect("the task is due");
        times.push(one.elapsed().as_secs_f64());
        // Handed back with a time, which is over at once, a claim counts for nothing.
        store.release(&claimed.claim, Some(claimed.verdict.now)).await.expect("a claim is handed back");
    }
    median(&times)
}

/// L7: a claim costs the same however many tasks wait.
pub(crate) fn claims(bench: &Bench, report: &mut Report) {
    let [many, none] =
        [bench.waiting, 0].map(|count| sleepers(bench, &bench.folder.join(format!("claims-{count}")), count));
    for store in [&many, &none] {
        bench.runtime.block_on(async {
            let hold = Hold::new(store, 1, 1).await;
            let now = store.now().await.expect("a store tells the time");
            store.release(&hold.claimed.claim, Some(now)).await.expect("a claim is handed back");
        });
    }
    let sides = by_turns(|| bench.runtime.block_on(claim(&many)), || bench.runtime.block_on(claim(&none)));
    report.add(Bar {
        id: "L7",
        what: &format!("claim p50 while {} tasks wait, while none does", bench.waiting),
        ours: time(sides.ours),
        against: time(sides.against),
        ratio: sides.ratio,
        limit: Limit::AtMost(1.2),
    });
}

/// A worker with nothing to do: prints its share of a processor and the memory it occupies.
pub(crate) async fn idle_child(name: &str, seconds: usize) {
    let engine = Engine::on(place::open(name), Talk::Rounds(0));
    let (worker, stop) = (engine.worker(false), Stop::new());
    let told = stop.clone();
    let working = tokio::spawn(async move { worker.run(told).await });
    tokio::time::sleep(SETTLING).await;
    let (began, used) = (Instant::now(), process_cpu());
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    println!("{} {}", (process_cpu() - used) / began.elapsed().as_secs_f64(), resident());
    stop.stop();
    working.await.expect("the worker ends").expect("the worker ends well");
}

/// What an idle worker costs.
struct Idle {
    /// Of a processor, in percent.
    share: f64,
    /// Bytes of memory.
    memory: f64,
    /// Transactions a second on the server; a query of ours is one.
    queries: f64,
}

/// Watches a worker with nothing to do on a store.
fn watch(bench: &Bench, place: &Place<'_>) -> Idle {
    let child = itself("--child-idle", Path::new(&place.name()), WATCHED).stdout(Stdio::piped()).spawn();
    let child = child.expect("a worker starts");
    let queries = place.fresh().map_or(0.0, |fresh| bench.runtime.block_on(queries(fresh)));
    let output = child.wait_with_output().expect("a worker ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    assert!(output.status.success() && numbers.len() == 2, "an idle worker failed");
    Idle { share: numbers[0] * 100.0, memory: numbers[1], queries }
}

/// Transactions a second of everybody else, counted by the server while a worker idles.
async fn queries(fresh: &Fresh) -> f64 {
    let client = fresh.connect().await;
    let count = async || -> i64 {
        let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        client.query_one(sql, &[]).await.expect("the server counts").get(0)
    };
    // The server's own tidying up is no query of a worker.
    client.batch_execute("ALTER SYSTEM SET autovacuum = off").await.expect("a setting");
    client.batch_execute("SELECT pg_reload_conf()").await.expect("it is read");
    // The server's processes tell what they did when they have been idle for a moment, up to a
    // second later.
    tokio::time::sleep(SETTLING * 2).await;
    let (before, began) = (count().await, Instant::now());
    tokio::time::sleep(Duration::from_secs(WATCHED as u64 - 2)).await;
    // One of them was the first count.
    (count().await - before - 1) as f64 / began.elapsed().as_secs_f64()
}

/// A worker with nothing to do costs next to nothing, however many tasks wait.
pub(crate) fn idle(bench: &Bench, report: &mut Report) {
    for kind in Kind::ALL {
        let Some(site) = Site::new(bench, kind, "idle") else { continue };
        let [busy, none] = [bench.waiting, 0].map(|count| {
            let place = site.place(&format!("{count}"));
            match place.fresh() {
                None => drop(sleepers(bench, Path::new(&place.name()), count)),
                Some(fresh) => bench.runtime.block_on(async {
                    let maker = crate::postgres::maker(fresh);
                    maker.ledger().await.expect("a store has a name");
                    crate::postgres::make(&maker, count, true).await;
                }),
            }
            watch(bench, &place)
        });
        let mut add = |what: &str, ours: String, against: String, ratio: f64, limit: f64| {
            let what = format!("{}: {what}", kind.name());
            report.add(Bar { id: "idle", what: &what, ours, against, ratio, limit: Limit::AtMost(limit) });
        };
        let share = |share: f64| format!("{} % CPU", short(share));
        let what = format!("idle worker, {} tasks wait, none waits; in %", bench.waiting);
        add(&what, share(busy.share), share(none.share), busy.share, 0.5);
        if kind == Kind::Postgres {
            add("its queries a second", rate(busy.queries, "query"), rate(none.queries, "query"), busy.queries, 2.0);
        }
        let each = (busy.memory - none.memory).max(0.0) / bench.waiting as f64;
        let mega = |bytes: f64| format!("{} MB", short(bytes / 1e6));
        add("its memory; bytes for each task that waits", mega(busy.memory), mega(none.memory), each, 1_024.0);
    }
}
