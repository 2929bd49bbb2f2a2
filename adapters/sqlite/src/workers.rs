//! Worker processes: who is alive (ST-19), and whose process is gone (ST-16).

use std::time::Duration;

use plica_kernel::id::{Queue, WorkerId};
use plica_kernel::time::Timestamp;
use plica_ports::store::{Worker, WorkerRow};
use rusqlite::{Connection, OptionalExtension};

use crate::process::{is_gone, is_process_gone, process_identity};
use crate::rows::{id, int, json, micros, number, process, time, to_json};
use crate::writer::Tx;

/// How long a worker that was not seen is remembered: long enough for people to ask.
const KEPT_US: i64 = 24 * 3_600_000_000;

/// The number of a worker process, under which its claims stand; new ones get one.
pub(crate) fn key_of(tx: &Tx<'_>, worker: &Worker) -> rusqlite::Result<i64> {
    if let Some(key) = known(tx.conn, worker)? {
        return Ok(key);
    }
    forget_old(tx)?;
    let process = worker.process.as_ref();
    let sql = "INSERT INTO workers (instance, id, host, version, boot, namespace, pid, started) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    tx.conn.prepare_cached(sql)?.insert((
        worker.instance.as_str(),
        worker.id.as_str(),
        &worker.host,
        &worker.version,
        process.map(|process| &process.boot),
        process.map(|process| &process.namespace),
        process.map(|process| process.pid),
        process.map(|process| int(process.started)),
    ))
}

/// The number of a worker process that has one.
fn known(conn: &Connection, worker: &Worker) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT key FROM workers WHERE instance = ?1")?
        .query_row([worker.instance.as_str()], |row| row.get(0))
        .optional()
}

/// Whether what stands under this number is held by `worker`: by this instance of it.
pub(crate) fn is_holder(conn: &Connection, worker: &Worker, holder: Option<i64>) -> rusqlite::Result<bool> {
    Ok(holder.is_some() && known(conn, worker)? == holder)
}

/// Forgets processes that hold nothing and were not seen for long, so that the table does not
/// grow with every start.
fn forget_old(tx: &Tx<'_>) -> rusqlite::Result<()> {
    let before = tx.now.micros().saturating_sub(KEPT_US);
    let sql = "DELETE FROM workers WHERE ifnull(seen_at, 0) < ?1 \
               AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.holder = workers.key)";
    tx.conn.prepare_cached(sql)?.execute([before]).map(|_| ())
}

/// Notes that a worker is alive.
pub(crate) fn register(tx: &Tx<'_>, worker: &Worker, queues: &[Queue], lease: Duration) -> rusqlite::Result<()> {
    let key = key_of(tx, worker)?;
    let sql = "UPDATE workers SET queues = ?2, lease = ?3, seen_at = ?4 WHERE key = ?1";
    tx.conn.prepare_cached(sql)?.execute((key, to_json(queues)?, micros(lease), tx.now.micros()))?;
    Ok(())
}

/// Forgets a worker that ends; what it still holds stays under its name.
pub(crate) fn deregister(tx: &Tx<'_>, worker: &Worker) -> rusqlite::Result<()> {
    let sql = "UPDATE workers SET seen_at = NULL WHERE instance = ?1";
    tx.conn.prepare_cached(sql)?.execute([worker.instance.as_str()])?;
    Ok(())
}

/// Workers seen within twice their lease, newest first. One whose process is known to be gone
/// is not alive, however lately it was seen: who counts on it would wait for nothing.
pub(crate) fn list(conn: &Connection, now: Timestamp) -> rusqlite::Result<Vec<WorkerRow>> {
    let sql = "SELECT id, host, version, queues, lease, seen_at, boot, namespace, pid, started FROM workers \
               WHERE seen_at IS NOT NULL AND ?1 - seen_at <= 2 * lease ORDER BY seen_at DESC, key DESC";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([now.micros()], |row| {
        let alive = process(row, 6)?.is_none_or(|process| !is_process_gone(&process));
        let worker = WorkerRow {
            id: id(row, 0, WorkerId::new)?,
            host: row.get(1)?,
            version: row.get(2)?,
            queues: json(row, 3)?,
            lease: Duration::from_micros(number(row, 4)?),
            seen_at: time(row, 5)?,
        };
        Ok(alive.then_some(worker))
    })?;
    rows.filter_map(Result::transpose).collect()
}

/// Numbers of the processes that hold something and are known to be gone. What is gone stays
/// gone, so this may be asked before the lock is taken.
pub(crate) fn gone(conn: &Connection) -> rusqlite::Result<Vec<i64>> {
    let Some(own) = process_identity() else { return Ok(Vec::new()) };
    let sql = "SELECT key, pid, started FROM workers \
               WHERE boot = ?1 AND namespace = ?2 AND pid IS NOT NULL AND started IS NOT NULL \
               AND EXISTS (SELECT 1 FROM tasks WHERE tasks.holder = workers.key)";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement
        .query_map((&own.boot, &own.namespace), |row| Ok((row.get(0)?, row.get::<_, u32>(1)?, number(row, 2)?)))?;
    let mut gone = Vec::new();
    for row in rows {
        let (key, pid, started) = row?;
        if (pid, started) != (own.pid, own.started) && is_gone(pid, started) {
            gone.push(key);
        }
    }
    Ok(gone)
}
