//! Worker processes: who is alive (ST-19), and whose process is gone (ST-16).

use std::time::Duration;

use plica_kernel::id::{Queue, WorkerId};
use plica_ports::store::{ProcessIdentity, StoreError, Worker, WorkerRow};
use serde::Serialize;
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::error::Lost;
use crate::rows::{escaped, get, id, int, json, micros, number, process, text, time, to_json};
use crate::writer::{Absent, Call, Query};

/// A worker process, as the functions write it down.
#[derive(Serialize)]
struct Columns {
    instance: String,
    id: String,
    host: String,
    version: String,
    boot: Option<String>,
    namespace: Option<String>,
    pid: Option<u32>,
    started: Option<i64>,
}

/// A worker process as JSON.
pub(crate) fn columns(worker: &Worker) -> Result<String, StoreError> {
    let process = worker.process.as_ref();
    let columns = Columns {
        instance: worker.instance.as_str().to_owned(),
        id: worker.id.as_str().to_owned(),
        host: escaped(&worker.host).into_owned(),
        version: escaped(&worker.version).into_owned(),
        boot: process.map(|process| escaped(&process.boot).into_owned()),
        namespace: process.map(|process| escaped(&process.namespace).into_owned()),
        pid: process.map(|process| process.pid),
        started: process.map(|process| int(process.started)),
    };
    serde_json::to_string(&columns).map_err(|error| StoreError::Unusable(error.to_string()))
}

/// Notes that a worker is alive.
pub(crate) async fn register(
    store: &PostgresStore,
    worker: &Worker,
    queues: &[Queue],
    lease: Duration,
) -> Result<(), StoreError> {
    let queues = to_json(queues).map_err(StoreError::Unusable)?;
    let call = Call::of("register").repeatable().text(columns(worker)?).text(queues).int(micros(lease));
    store.write(Absent::Create, &call, None).await.map_err(Lost::store).map(|_| ())
}

/// Forgets a worker that ends; what it still holds stays under its name.
pub(crate) async fn deregister(store: &PostgresStore, worker: &Worker) -> Result<(), StoreError> {
    let call = Call::of("deregister").repeatable().text(worker.instance.as_str());
    store.write(Absent::Say, &call, None).await.map_err(Lost::store).map(|_| ())
}

/// Workers seen within twice their lease, newest first. One whose process is known to be gone
/// is not alive, however lately it was seen: who counts on it would wait for nothing.
pub(crate) async fn list(store: &PostgresStore) -> Result<Vec<WorkerRow>, StoreError> {
    let query = Query::of(
        "SELECT id, host, version, queues, lease, seen_at, boot, namespace, pid, started FROM plica.workers \
         WHERE seen_at IS NOT NULL AND plica.now_us() - seen_at <= 2 * lease::numeric \
         ORDER BY seen_at DESC, key DESC",
    );
    let rows = store.view(&query).await?.unwrap_or_default();
    let mut alive = Vec::with_capacity(rows.len());
    for row in &rows {
        if !is_gone(store, row)? {
            alive.push(WorkerRow {
                id: id(row, "id", WorkerId::new)?,
                host: text(row, "host")?,
                version: text(row, "version")?,
                queues: json(row, "queues")?,
                lease: Duration::from_micros(number(row, "lease")?),
                seen_at: time(row, "seen_at")?,
            });
        }
    }
    Ok(alive)
}

/// Whether the process of a row is known to be gone.
pub(crate) fn is_gone(store: &PostgresStore, row: &Row) -> Result<bool, StoreError> {
    let Some(known) = &store.options.processes else { return Ok(false) };
    let is_here = |process: &ProcessIdentity| {
        process.boot == known.own.boot && process.namespace == known.own.namespace && *process != known.own
    };
    Ok(process(row)?.is_some_and(|process| is_here(&process) && (known.is_gone)(&process)))
}

/// Numbers of the processes of this host that hold something and are known to be gone.
pub(crate) async fn gone(store: &PostgresStore) -> Result<Vec<i64>, StoreError> {
    let Some(known) = &store.options.processes else { return Ok(Vec::new()) };
    let query = Query::of(
        "SELECT key, boot, namespace, pid, started FROM plica.workers \
         WHERE boot = $1 AND namespace = $2 AND pid IS NOT NULL AND started IS NOT NULL \
         AND EXISTS (SELECT 1 FROM plica.tasks WHERE tasks.holder = workers.key)",
    )
    .text(escaped(&known.own.boot))
    .text(escaped(&known.own.namespace));
    let rows = store.view(&query).await?.unwrap_or_default();
    let mut gone = Vec::new();
    for row in &rows {
        if is_gone(store, row)? {
            gone.push(get(row, "key")?);
        }
    }
    Ok(gone)
}
