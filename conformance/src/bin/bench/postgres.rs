//! The PostgreSQL store on a server of its own, which flushes what it commits: L5, L6, L7, L8.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plica_conformance::{Log, note, opening_facts};
use plica_kernel::wake::{Wake, WakeKey};
use plica_pgserver::Fresh;
use plica_ports::Store;
use plica_ports::store::{ClaimRequest, Claimed};
use plica_postgres::{OpenOptions, PostgresStore};
use tokio::task::JoinSet;

use crate::appends::worker;
use crate::measure::{SLICE, by_turns, median};
use crate::place::server;
use crate::raw::{RAW_NAME, RawStatement};
use crate::report::{Bar, Limit, Report, rate, short, time};
use crate::{Bench, mix};

/// Bytes of the text that makes an event of 628 bytes, the mean of real logs.
const USUAL: usize = 215;
/// Long enough for anything measured here.
const LEASE: Duration = Duration::from_secs(3600);
/// Connections that append at the same time.
const MANY: usize = 16;
/// Tasks made at once.
const AT_ONCE: usize = 16;
/// Claims under an old snapshot, and how many of the first and the last are compared.
const CLAIMS: usize = 10_000;
const COMPARED: usize = 1_000;
/// Appends whose flushes are counted.
const COUNTED: u32 = 200;

fn open(fresh: &Fresh, more: &str) -> Arc<PostgresStore> {
    let url = format!("{}&notify=off{more}", fresh.url());
    Arc::new(PostgresStore::open(&url, OpenOptions::default()).expect("a URL is a URL"))
}

/// A handle that does not wait for flushes, to make what is measured with another.
pub(crate) fn maker(fresh: &Fresh) -> Arc<PostgresStore> {
    open(fresh, "&pool=16&options=-csynchronous_commit%3Doff")
}

/// A task and the claim on it.
struct Held {
    log: Log,
    claimed: Claimed,
    text: String,
}

impl Held {
    async fn new(store: &PostgresStore, number: usize) -> Self {
        let ledger = store.ledger().await.expect("a store has a name");
        let now = store.now().await.expect("a store tells the time");
        let (log, task) = Log::begin(&ledger, &mix::task_id(number), opening_facts(now));
        store.create(task).await.expect("a task is created");
        let request = ClaimRequest { task: Some(log.id.clone()), ..request() };
        let claimed = store.claim(&request).await.expect("claiming works").pop().expect("the task is claimable");
        Self { log, claimed, text: "x".repeat(USUAL) }
    }

    async fn append(&mut self, store: &PostgresStore) {
        let batch = self.log.batch(&self.claimed, vec![note(&self.text)]);
        store.append(&self.claimed.claim, &batch).await.expect("a sound batch is written");
        self.log.accept(&batch);
    }
}

fn request() -> ClaimRequest {
    ClaimRequest { worker: worker(), queues: Vec::new(), lease: LEASE, max: 1, task: None, except: Vec::new() }
}

/// How often a second `held` append, all at the same time.
async fn appends(store: &Arc<PostgresStore>, held: &mut Vec<Held>) -> f64 {
    let began = Instant::now();
    let mut running = JoinSet::new();
    for mut one in held.drain(..) {
        let store = Arc::clone(store);
        running.spawn(async move {
            let mut count = 0.0;
            while began.elapsed() < SLICE {
                one.append(&store).await;
                count += 1.0;
            }
            (one, count)
        });
    }
    let mut sum = 0.0;
    for (one, count) in running.join_all().await {
        held.push(one);
        sum += count;
    }
    sum / began.elapsed().as_secs_f64()
}

/// Processor time that the server spends on what is measured: unlike times by the clock it does not
/// depend on what else the machine does.
#[derive(Default)]
struct Spent {
    seconds: f64,
    times: f64,
}

impl Spent {
    /// Runs what says how often a second it did something; what the server's processes for the
    /// connections of this name spend on it counts.
    async fn on(&mut self, fresh: &Fresh, name: &str, work: impl Future<Output = f64>) -> f64 {
        let client = fresh.connect().await;
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = $1";
        let rows = client.query(sql, &[&name]).await.expect("the server tells");
        let spent = || -> f64 {
            let file = |row: &tokio_postgres::Row| format!("/proc/{}/schedstat", row.get::<_, i32>(0));
            let text = |row| std::fs::read_to_string(file(row)).unwrap_or_default();
            rows.iter().filter_map(|row| text(row).split(' ').next()?.parse::<f64>().ok()).sum::<f64>() / 1e9
        };
        let (before, began) = (spent(), Instant::now());
        let rate = work.await;
        self.seconds += spent() - before;
        self.times += rate * began.elapsed().as_secs_f64();
        rate
    }

    /// For each time.
    fn each(&self) -> f64 {
        self.seconds / self.times
    }
}

/// L5: an append against the statement that does the least, on one connection; and many
/// connections against one.
pub(crate) fn one_event(bench: &Bench, report: &mut Report) {
    let Some(server) = server("L5") else { return };
    let fresh = server.fresh();
    let mut raw = bench.runtime.block_on(RawStatement::new(&fresh, 628));
    let (store, mut one, mut many) = bench.runtime.block_on(async {
        let store = open(&fresh, "&pool=16");
        let one = vec![Held::new(&store, 0).await];
        let mut many = Vec::new();
        for number in 1..=MANY {
            many.push(Held::new(&store, number).await);
        }
        (store, one, many)
    });
    let mut spent = (Spent::default(), Spent::default());
    let sides = by_turns(
        || bench.runtime.block_on(spent.0.on(&fresh, "plica", appends(&store, &mut one))),
        || bench.runtime.block_on(spent.1.on(&fresh, RAW_NAME, raw.per_second())),
    );
    report.add(Bar {
        id: "L5",
        what: "append on one connection, against one raw statement",
        ours: rate(sides.ours, "commit"),
        against: rate(sides.against, "commit"),
        ratio: sides.ratio,
        limit: Limit::AtLeast(0.85),
    });
    let (ours, against) = (spent.0.each(), spent.1.each());
    report.add(Bar {
        id: "L5",
        what: "processor time of the server for it, for the raw statement",
        ours: time(ours),
        against: time(against),
        ratio: ours / against,
        limit: Limit::None,
    });
    let sides = by_turns(
        || bench.runtime.block_on(appends(&store, &mut many)),
        || bench.runtime.block_on(appends(&store, &mut one)),
    );
    report.add(Bar {
        id: "L5",
        what: "appends on 16 connections, against one",
        ours: rate(sides.ours, "commit"),
        against: rate(sides.against, "commit"),
        ratio: sides.ratio,
        limit: Limit::AtLeast(3.0),
    });
}

/// L6: flushes of the write-ahead log for each append, a claim and its release among them.
pub(crate) fn flushes(bench: &Bench, report: &mut Report) {
    let Some(server) = server("L6 on PostgreSQL") else { return };
    let fresh = server.fresh();
    let count = bench.runtime.block_on(async {
        let store = open(&fresh, "");
        let client = fresh.connect().await;
        let mut held = Held::new(&store, 0).await;
        let flushed = async || -> i64 {
            let sql = "SELECT wal_sync FROM pg_stat_wal";
            client.query_one(sql, &[]).await.expect("the server counts").get(0)
        };
        client.batch_execute("CHECKPOINT").await.expect("the server writes what it has");
        let before = flushed().await;
        for _ in 0..COUNTED {
            held.append(&store).await;
        }
        drop((held, store));
        // A process of the server tells what it did once in a while, and when it ends.
        let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'plica'";
        while client.query_one(left, &[]).await.expect("the server tells").get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        flushed().await - before
    });
    assert!(count > 0, "an append is on the disk when it is acknowledged");
    let each = count as f64 / f64::from(COUNTED);
    report.add(Bar {
        id: "L6",
        what: "flushes of the log for each append, PostgreSQL",
        ours: short(each),
        against: "1".into(),
        ratio: each,
        // The server's own background writing is in it.
        limit: Limit::AtMost(1.1),
    });
}

/// Makes tasks; puts them to sleep if `asleep`.
pub(crate) async fn make(store: &Arc<PostgresStore>, count: usize, asleep: bool) {
    let ledger = store.ledger().await.expect("a store has a name");
    let mut running = JoinSet::new();
    for number in 0..count {
        let (store, ledger) = (Arc::clone(store), ledger.clone());
        running.spawn(async move {
            if asleep {
                let held = Held::new(&store, 1_000 + number).await;
                let batch = held.log.suspending(&held.claimed, Wake::on(WakeKey::Message));
                store.append(&held.claimed.claim, &batch).await.expect("a sound batch is written");
            } else {
                let now = store.now().await.expect("a store tells the time");
                let (_, task) = Log::begin(&ledger, &mix::task_id(1_000 + number), opening_facts(now));
                store.create(task).await.expect("a task is created");
            }
        });
        if running.len() == AT_ONCE {
            running.join_next().await;
        }
    }
    running.join_all().await;
}

/// The median time of a claim while one task is due.
async fn claim(store: &PostgresStore) -> f64 {
    let began = Instant::now();
    let mut times = Vec::new();
    while began.elapsed() < SLICE {
        let one = Instant::now();
        let claimed = store.claim(&request()).await.expect("claiming works").pop().expect("the task is due");
        times.push(one.elapsed().as_secs_f64());
        // Handed back with a time, which is over at once, a claim counts for nothing.
        store.release(&claimed.claim, Some(claimed.verdict.now)).await.expect("a claim is handed back");
    }
    median(&times)
}

/// L7: a claim costs the same however many tasks wait.
pub(crate) fn claims(bench: &Bench, report: &mut Report) {
    let Some(server) = server("L7 on PostgreSQL") else { return };
    let [many, none] = [bench.waiting, 0].map(|count| {
        let fresh = server.fresh();
        bench.runtime.block_on(async {
            make(&maker(&fresh), count, true).await;
            let store = open(&fresh, "");
            let held = Held::new(&store, 1).await;
            let now = store.now().await.expect("a store tells the time");
            store.release(&held.claimed.claim, Some(now)).await.expect("a claim is handed back");
            store
        })
    });
    let sides = by_turns(|| bench.runtime.block_on(claim(&many)), || bench.runtime.block_on(claim(&none)));
    report.add(Bar {
        id: "L7",
        what: &format!("PostgreSQL: claim p50 while {} tasks wait, while none", bench.waiting),
        ours: time(sides.ours),
        against: time(sides.against),
        ratio: sides.ratio,
        limit: Limit::AtMost(1.2),
    });
}

/// L8: claims cost the same after many claims, whose dead entries an old snapshot keeps.
pub(crate) fn old_snapshot(bench: &Bench, report: &mut Report) {
    let Some(server) = server("L8") else { return };
    let fresh = server.fresh();
    let times = bench.runtime.block_on(async {
        let store = open(&fresh, "");
        make(&maker(&fresh), CLAIMS + COMPARED, false).await;
        let old = fresh.connect().await;
        let sql = fresh.sql("VACUUM ANALYZE plica.tasks");
        old.batch_execute(&sql).await.expect("the table is vacuumed");
        let sql = fresh.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM plica.tasks");
        old.batch_execute(&sql).await.expect("a snapshot is taken");
        let mut times = Vec::with_capacity(CLAIMS + COMPARED);
        for _ in 0..CLAIMS + COMPARED {
            let one = Instant::now();
            assert_eq!(store.claim(&request()).await.expect("claiming works").len(), 1, "a task is due");
            times.push(one.elapsed().as_secs_f64());
        }
        times
    });
    let (first, last) = (median(&times[..COMPARED]), median(&times[CLAIMS..]));
    report.add(Bar {
        id: "L8",
        what: "claim p50 after 10,000 claims under an old snapshot, before",
        ours: time(last),
        against: time(first),
        ratio: last / first,
        limit: Limit::AtMost(1.5),
    });
}
