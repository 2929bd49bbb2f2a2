//! What the machine can do at best: the disk alone, SQLite alone, PostgreSQL alone.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use plica_pgserver::Fresh;
use rusqlite::Connection;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

use crate::Bench;
use crate::measure::{SLICE, TURNS, median, quantile};
use crate::report::{Bar, Limit, Report, time};

/// A page of the disk.
const PAGE: [u8; 4096] = [7; 4096];

/// The floor under every durable commit: a page written and flushed.
pub(crate) fn floor(bench: &Bench, report: &mut Report) {
    let path = bench.folder.join("floor");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&path).expect("a file");
    for _ in 0..256 {
        file.write_all(&PAGE).expect("the disk takes a page");
    }
    file.sync_all().expect("the disk flushes");
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < SLICE * TURNS as u32 {
        let one = Instant::now();
        file.write_at(&PAGE, 4096 * (times.len() as u64 % 256)).expect("the disk takes a page");
        file.sync_data().expect("the disk flushes");
        times.push(one.elapsed().as_secs_f64());
    }
    report.add(Bar {
        id: "floor",
        what: "4 KiB overwritten and flushed: p50, against p99",
        ours: time(median(&times)),
        against: time(quantile(&times, 0.99)),
        ratio: median(&times) / quantile(&times, 0.99),
        limit: Limit::None,
    });
}

/// The bare minimum of an append to SQLite: one fenced event a commit, nothing of ours.
pub(crate) struct RawLoop {
    conn: Connection,
    seq: i64,
    body: Vec<u8>,
}

impl RawLoop {
    /// A fresh file at `path`, at `synchronous = FULL`; each event has `size` bytes.
    pub(crate) fn new(path: &Path, size: usize) -> Self {
        let conn = Connection::open(path).expect("a file");
        conn.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE tasks (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB);
             CREATE TABLE events (task INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL,
                 body BLOB NOT NULL, UNIQUE (task, seq));
             INSERT INTO tasks VALUES (1, 1, 0, NULL);",
        )
        .expect("tables");
        Self { conn, seq: 0, body: vec![b'x'; size] }
    }

    /// Appends `events` events in one commit.
    pub(crate) fn append(&mut self, events: usize) {
        let prepared = |sql| self.conn.prepare_cached(sql).expect("a statement");
        prepared("BEGIN IMMEDIATE").execute([]).expect("a lock");
        let (epoch, seq): (i64, i64) = prepared("SELECT epoch, seq FROM tasks WHERE id = ?1")
            .query_row([1], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("a row");
        assert_eq!((epoch, seq), (1, self.seq), "nobody else writes");
        for _ in 0..events {
            self.seq += 1;
            prepared("INSERT INTO events VALUES (1, ?1, ?2, ?3)")
                .execute((self.seq, [7u8; 32], &self.body))
                .expect("an event");
        }
        prepared("UPDATE tasks SET seq = ?1, hash = ?2 WHERE id = 1").execute((self.seq, [7u8; 32])).expect("a row");
        prepared("COMMIT").execute([]).expect("a commit");
    }

    /// Seconds that each of a slice's worth of one-event commits takes.
    pub(crate) fn commits(&mut self) -> Vec<f64> {
        let began = Instant::now();
        let mut times = Vec::new();
        while began.elapsed() < SLICE {
            let one = Instant::now();
            self.append(1);
            times.push(one.elapsed().as_secs_f64());
        }
        times
    }
}

/// The least that a store does for an append: the task moves on if it is where it should be, and
/// the event is there.
const RAW: &str = "WITH moved AS (UPDATE raw.tasks SET seq = seq + 1 WHERE id = $1 AND epoch = 1 AND seq = $2 \
    RETURNING id) INSERT INTO raw.events SELECT id, $2, $3 FROM moved";
const RAW_TABLES: &str = "DROP SCHEMA IF EXISTS raw CASCADE; CREATE SCHEMA raw; \
    CREATE TABLE raw.tasks (id bigint PRIMARY KEY, epoch bigint NOT NULL, seq bigint NOT NULL) WITH (fillfactor = 75); \
    CREATE TABLE raw.events (task bigint, seq bigint, body bytea, PRIMARY KEY (task, seq)); \
    INSERT INTO raw.tasks SELECT n, 1, 0 FROM generate_series(1, 1000) AS n";

/// What its connection calls itself.
pub(crate) const RAW_NAME: &str = "raw";

/// The bare minimum of an append to PostgreSQL: one statement, prepared, on one connection.
pub(crate) struct RawStatement {
    client: Client,
    statement: Statement,
    seq: i64,
    body: Vec<u8>,
}

impl RawStatement {
    /// Tables of its own on the server of `fresh`; each event has `size` bytes.
    pub(crate) async fn new(fresh: &Fresh, size: usize) -> Self {
        let client = fresh.connect().await;
        client.batch_execute(RAW_TABLES).await.expect("the tables are made");
        let named = client.batch_execute(&format!("SET application_name = {RAW_NAME}")).await;
        named.expect("a connection has a name");
        let types = [Type::INT8, Type::INT8, Type::BYTEA];
        let statement = client.prepare_typed(RAW, &types).await.expect("the statement is one");
        Self { client, statement, seq: 0, body: vec![b'x'; size] }
    }

    /// How often a second it runs, tried for a while.
    pub(crate) async fn per_second(&mut self) -> f64 {
        let (began, first) = (Instant::now(), self.seq);
        while began.elapsed() < SLICE {
            let done = self.client.execute(&self.statement, &[&1_i64, &self.seq, &self.body]).await;
            assert_eq!(done.expect("the statement runs"), 1, "the raw task is where it should be");
            self.seq += 1;
        }
        (self.seq - first) as f64 / began.elapsed().as_secs_f64()
    }
}
