//! Appends to one file by one process: L1, L2, L4, B1.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plica_conformance::{Log, note, opening_facts};
use plica_kernel::id::{InstanceId, WorkerId};
use plica_ports::Store;
use plica_ports::store::{ClaimRequest, Claimed, Worker};
use plica_sqlite::{OpenOptions, SqliteStore};
use tokio::task::JoinSet;

use crate::measure::{SLICE, by_turns, median, per_second, process_cpu};
use crate::place::{Kind, Site};
use crate::raw::RawLoop;
use crate::report::{Bar, Limit, Report, rate, short, time};
use crate::{Bench, mix};

/// Long enough for anything measured here.
const LEASE: Duration = Duration::from_secs(3600);
/// Bytes of the text that makes an event of 628 bytes, the mean of real logs, and of one that
/// makes the smallest.
const USUAL: usize = 215;
const SMALL: usize = 1;
/// Events of one append while a long log is made.
const CHUNK: u64 = 500;

/// How hosts open their stores.
pub(crate) const OPTIONS: OpenOptions = OpenOptions { create_folder: false, in_place: true };

/// A store on a file that is made at the first write.
pub(crate) fn store(path: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(path, OPTIONS).expect("a path for a store"))
}

/// A worker process.
pub(crate) fn worker() -> Worker {
    Worker {
        id: WorkerId::new("bench").expect("an id"),
        instance: InstanceId::new(format!("bench-{}", std::process::id())).expect("an id"),
        host: "here".into(),
        version: "1".into(),
        process: plica_sqlite::process_identity(),
    }
}

/// A task and the claim on it.
pub(crate) struct Hold {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) log: Log,
    pub(crate) claimed: Claimed,
    text: String,
}

impl Hold {
    /// A new task, held; each event carries a text of `size` bytes.
    pub(crate) async fn new(store: &Arc<SqliteStore>, number: usize, size: usize) -> Self {
        let ledger = store.ledger().await.expect("a store has a name");
        let now = store.now().await.expect("a store tells the time");
        let (log, task) = Log::begin(&ledger, &mix::task_id(number), opening_facts(now));
        store.create(task).await.expect("a task is created");
        let request = ClaimRequest {
            worker: worker(),
            queues: Vec::new(),
            lease: LEASE,
            max: 1,
            task: Some(log.id.clone()),
            except: Vec::new(),
        };
        let claimed = store.claim(&request).await.expect("claiming works").pop().expect("the task is claimable");
        Self { store: store.clone(), log, claimed, text: "x".repeat(size) }
    }

    /// Appends one event; its size in bytes.
    pub(crate) async fn append(&mut self) -> usize {
        self.append_many(1).await
    }

    /// Appends events in one batch; the size of the last in bytes.
    async fn append_many(&mut self, events: u64) -> usize {
        let payloads = (0..events).map(|_| note(&self.text)).collect();
        let batch = self.log.batch(&self.claimed, payloads);
        self.store.append(&self.claimed.claim, &batch).await.expect("a sound batch is written");
        self.log.accept(&batch);
        batch.events.last().map_or(0, |event| event.body.len())
    }

    /// Appends for a slice of time; how many events a second.
    async fn rate(&mut self) -> f64 {
        let began = Instant::now();
        let mut events = 0.0;
        while began.elapsed() < SLICE {
            self.append().await;
            events += 1.0;
        }
        events / began.elapsed().as_secs_f64()
    }

    /// Appends for a slice of time; the median of the times taken.
    async fn latency(&mut self) -> f64 {
        let began = Instant::now();
        let mut times = Vec::new();
        while began.elapsed() < SLICE {
            let one = Instant::now();
            self.append().await;
            times.push(one.elapsed().as_secs_f64());
        }
        median(&times)
    }
}

/// L1: one fenced event a commit, ours against the raw loop; on the disk, and in memory, where
/// flushing costs nothing and the rest shows.
pub(crate) fn one_event(bench: &Bench, report: &mut Report) {
    let in_memory = tempfile::Builder::new().prefix("plica-bench").tempdir_in("/dev/shm").ok();
    let places = [(Some(bench.folder.as_path()), "on the disk (FULL)", 0.9)];
    let memory = (in_memory.as_ref().map(|folder| folder.path()), "without a disk", 0.7);
    for (folder, where_, limit) in places.into_iter().chain([memory]) {
        let Some(folder) = folder else { continue };
        for (size, which) in [(USUAL, "usual"), (SMALL, "small")] {
            let store = store(&folder.join(format!("l1-{which}")));
            let mut hold = bench.runtime.block_on(Hold::new(&store, 1, size));
            let bytes = bench.runtime.block_on(hold.append());
            let mut raw = RawLoop::new(&folder.join(format!("l1-raw-{which}")), bytes);
            let sides = by_turns(|| bench.runtime.block_on(hold.rate()), || per_second(|| raw.append(1)));
            report.add(Bar {
                id: "L1",
                what: &format!("append of one {which} event of {bytes} B {where_}, raw loop"),
                ours: rate(sides.ours, "commit"),
                against: rate(sides.against, "commit"),
                ratio: sides.ratio,
                limit: Limit::AtLeast(limit),
            });
            let sides = by_turns(
                || cpu_each(|| bench.runtime.block_on(hold.rate())),
                || cpu_each(|| per_second(|| raw.append(1))),
            );
            report.add(Bar {
                id: "L1",
                what: &format!("processor time of an append of one {which} event {where_}, raw loop"),
                ours: time(sides.ours),
                against: time(sides.against),
                ratio: sides.ratio,
                limit: Limit::None,
            });
        }
    }
}

/// Seconds of this process's processor time that each of a slice's worth of things takes, whose
/// rate `run` says.
fn cpu_each(run: impl FnOnce() -> f64) -> f64 {
    let (began, cpu) = (Instant::now(), process_cpu());
    let rate = run();
    (process_cpu() - cpu) / (rate * began.elapsed().as_secs_f64())
}

/// L2: eight tasks that append at once share commits.
pub(crate) fn eight_tasks(bench: &Bench, report: &mut Report) {
    let store = store(&bench.folder.join("l2"));
    let mut single = bench.runtime.block_on(Hold::new(&store, 0, USUAL));
    let mut eight = Vec::new();
    for number in 1..=8 {
        eight.push(bench.runtime.block_on(Hold::new(&store, number, USUAL)));
    }
    let sides = by_turns(
        || {
            bench.runtime.block_on(async {
                let mut running = JoinSet::new();
                for mut hold in eight.drain(..) {
                    running.spawn(async move { (hold.rate().await, hold) });
                }
                let (rates, holds): (Vec<f64>, Vec<Hold>) = running.join_all().await.into_iter().unzip();
                eight = holds;
                rates.iter().sum()
            })
        },
        || bench.runtime.block_on(single.rate()),
    );
    report.add(Bar {
        id: "L2",
        what: "eight tasks appending at once, one task",
        ours: rate(sides.ours, "event"),
        against: rate(sides.against, "event"),
        ratio: sides.ratio,
        limit: Limit::AtLeast(3.5),
    });
}

/// L4: an append to a long log costs what one to an empty log costs.
pub(crate) fn long_log(bench: &Bench, report: &mut Report) {
    let store = store(&bench.folder.join("l4"));
    let mut long = bench.runtime.block_on(Hold::new(&store, 1, USUAL));
    let mut empty = bench.runtime.block_on(Hold::new(&store, 2, USUAL));
    for _ in 0..bench.events.div_ceil(CHUNK) {
        bench.runtime.block_on(long.append_many(CHUNK));
    }
    let sides = by_turns(|| bench.runtime.block_on(long.latency()), || bench.runtime.block_on(empty.latency()));
    report.add(Bar {
        id: "L4",
        what: &format!("append p50 at {} events, in a new task", short(bench.events as f64)),
        ours: time(sides.ours),
        against: time(sides.against),
        ratio: sides.ratio,
        limit: Limit::AtMost(1.25),
    });
}

/// B1: bytes of the file for an event, its hash, index and row and all bodies included, against its
/// own body.
pub(crate) fn bytes(bench: &Bench, report: &mut Report) {
    let long = mix::Stored::get(bench, bench.events);
    add_bytes(report, "bytes of the file", (long.file_bytes(), long.body_bytes, long.events), 1.5);
}

/// The same for tables of PostgreSQL and their indexes.
pub(crate) fn bytes_of_tables(bench: &Bench, report: &mut Report) {
    let Some(site) = Site::new(bench, Kind::Postgres, "b1") else { return };
    let place = site.place("log");
    bench.runtime.block_on(mix::write(&*place.maker(), mix::rounds_of(bench.events)));
    let number = |sql: &str| place.number(sql).unsigned_abs();
    let tables = ["events", "content", "tasks", "inbox"];
    let bytes = tables.iter().map(|table| number(&format!("SELECT pg_total_relation_size('plica.{table}')"))).sum();
    let bodies = number("SELECT sum(length(body)) FROM plica.events");
    add_bytes(report, "bytes of the tables", (bytes, bodies, number("SELECT count(*) FROM plica.events")), 1.6);
}

fn add_bytes(report: &mut Report, what: &str, (bytes, bodies, events): (u64, u64, u64), limit: f64) {
    let each = |bytes: u64| format!("{:.0} B", bytes as f64 / events as f64);
    report.add(Bar {
        id: "B1",
        what: &format!("{what} for an event of the mix, its body"),
        ours: each(bytes),
        against: each(bodies),
        ratio: bytes as f64 / bodies as f64,
        limit: Limit::AtMost(limit),
    });
}
