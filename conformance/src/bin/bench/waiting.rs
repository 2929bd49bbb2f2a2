//! Many tasks that wait: what they cost a claim and a worker that has nothing to do.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plica_engine::Stop;
use plica_kernel::wake::{Wake, WakeKey};
use plica_ports::Store;
use plica_ports::store::ClaimRequest;
use plica_sqlite::SqliteStore;
use tokio::task::JoinSet;

use crate::Bench;
use crate::appends::{Hold, store, worker};
use crate::engine::Engine;
use crate::measure::{SLICE, by_turns, median, process_cpu, resident};
use crate::processes::itself;
use crate::report::{Bar, Limit, Report, short, time};

/// Tasks made at once.
const AT_ONCE: usize = 64;
/// How long an idle worker is watched, in seconds, after a moment to settle.
const WATCHED: usize = 4;

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
pub(crate) async fn idle_child(path: &Path, seconds: usize) {
    let engine = Engine::new(path, 0);
    let (worker, stop) = (engine.worker(false), Stop::new());
    let told = stop.clone();
    let working = tokio::spawn(async move { worker.run(told).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (began, used) = (Instant::now(), process_cpu());
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    println!("{} {}", (process_cpu() - used) / began.elapsed().as_secs_f64(), resident());
    stop.stop();
    working.await.expect("the worker ends").expect("the worker ends well");
}

/// A worker with nothing to do costs next to nothing, however many tasks wait.
pub(crate) fn idle(bench: &Bench, report: &mut Report) {
    let mut shares = Vec::new();
    for count in [bench.waiting, 0] {
        let path = bench.folder.join(format!("waiting-{count}"));
        drop(sleepers(bench, &path, count));
        let output = itself("--child-idle", &path, WATCHED).stdout(Stdio::piped()).output().expect("a worker starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        assert!(output.status.success() && numbers.len() == 2, "an idle worker failed");
        shares.push((numbers[0] * 100.0, numbers[1]));
    }
    let [(busy, memory), (none, empty)] = shares[..] else { return };
    let mut add = |what: String, ours: String, against: String, ratio: f64, limit: f64| {
        report.add(Bar { id: "idle", what: &what, ours, against, ratio, limit: Limit::AtMost(limit) });
    };
    let share = |share: f64| format!("{} % CPU", short(share));
    add(
        format!("idle worker while {} tasks wait, while none does; in %", bench.waiting),
        share(busy),
        share(none),
        busy,
        0.5,
    );
    let each = (memory - empty).max(0.0) / bench.waiting as f64;
    let mega = |bytes: f64| format!("{} MB", short(bytes / 1e6));
    add("its memory; bytes for each task that waits".into(), mega(memory), mega(empty), each, 1_024.0);
}
