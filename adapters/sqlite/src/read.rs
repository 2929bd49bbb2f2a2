//! Reading, on connections of its own: every call is one consistent view and ends at once, so
//! that no reader ever holds a writer up (ST-11).

use std::sync::{Arc, Mutex, PoisonError};

use plica_kernel::id::{Position, Queue, Seq, TaskId};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::InboxItem;
use plica_ports::store::{Outlook, Page, Row, StoreError, StoredEvent, TaskFilter, Worker};
use rusqlite::{Connection, OptionalExtension, named_params};

use crate::connect::{Opened, Place};
use crate::error::store_error;
use crate::migrations::{MIGRATIONS, version_of};
use crate::rows::{ROW, hash, id, int, limit, number, time_if, untaken, whole_row};
use crate::workers;
use crate::writer::may_block;

/// Connections that are kept open between reads; a burst opens more for as long as it lasts.
const KEPT: usize = 4;

/// Connections that only read.
#[derive(Debug)]
pub(crate) struct Readers {
    place: Arc<Place>,
    idle: Mutex<Vec<Opened>>,
    in_place: bool,
}

impl Readers {
    /// With `in_place` a read is made by the thread that asks, where that may block.
    pub(crate) fn new(place: Arc<Place>, in_place: bool) -> Self {
        Self { place, idle: Mutex::default(), in_place }
    }

    /// Runs `work` on one consistent view; `None` when there is no store.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        if self.in_place && may_block() {
            return tokio::task::block_in_place(|| self.view(work));
        }
        let readers = Arc::clone(self);
        tokio::task::spawn_blocking(move || readers.view(work))
            .await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(format!("a read was cut off: {error}"))))
    }

    fn view<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<Option<T>, StoreError> {
        let Some(mut opened) = self.take()? else { return Ok(None) };
        let read = |conn: &mut Connection| {
            let view = conn.transaction()?;
            // Another process may have brought the file to a newer schema since it was opened.
            let version: i64 = view.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
            if version != version_of(MIGRATIONS) {
                return Ok(Err(version));
            }
            let value = work(&view)?;
            view.finish().map(|()| Ok(value))
        };
        match read(&mut opened.conn) {
            Ok(Err(version)) => Err(self.place.newer(version)),
            Ok(Ok(value)) => {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < KEPT {
                    idle.push(opened);
                }
                Ok(Some(value))
            }
            // The connection is not kept: the next read gets a fresh one.
            Err(error) => Err(store_error(&self.place.path, &error)),
        }
    }

    fn take(&self) -> Result<Option<Opened>, StoreError> {
        let Some(file) = self.place.look()? else { return Ok(None) };
        let kept = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|opened| opened.file == file);
            idle.pop()
        };
        match kept {
            Some(opened) => Ok(Some(opened)),
            None => self.place.reader(),
        }
    }
}

fn stored(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredEvent> {
    Ok(StoredEvent { seq: Seq(number(row, 0)?), hash: hash(row, 1)?, body: row.get(2)? })
}

/// The number of a task, under which its events and items stand; `None` for an unknown one.
fn key_of(conn: &Connection, task: &TaskId) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT key FROM tasks WHERE id = ?1")?.query_row([task.as_str()], |row| row.get(0)).optional()
}

/// Events from `from` on; `None` for an unknown task.
pub(crate) fn events(
    conn: &Connection,
    task: &TaskId,
    from: Seq,
    most: usize,
) -> rusqlite::Result<Option<Vec<StoredEvent>>> {
    let Some(key) = key_of(conn, task)? else { return Ok(None) };
    let sql = "SELECT seq, hash, body FROM events WHERE task = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3";
    let mut statement = conn.prepare_cached(sql)?;
    statement.query_map((key, int(from.0), limit(most)), stored)?.collect::<rusqlite::Result<_>>().map(Some)
}

/// The statement behind [`baselines`].
pub(crate) const BASELINES: &str = "SELECT seq, hash, body FROM events WHERE task = ?1 \
    AND baseline IS NOT NULL ORDER BY seq DESC LIMIT ?2";

/// Baseline events, newest first; `None` for an unknown task.
pub(crate) fn baselines(conn: &Connection, task: &TaskId, most: usize) -> rusqlite::Result<Option<Vec<StoredEvent>>> {
    let Some(key) = key_of(conn, task)? else { return Ok(None) };
    let mut statement = conn.prepare_cached(BASELINES)?;
    statement.query_map((key, limit(most)), stored)?.collect::<rusqlite::Result<_>>().map(Some)
}

/// The untaken items after `after`; `None` for an unknown task.
pub(crate) fn inbox(conn: &Connection, task: &TaskId, after: Position) -> rusqlite::Result<Option<Vec<InboxItem>>> {
    key_of(conn, task)?.map(|key| untaken(conn, key, after)).transpose()
}

/// Head and inbox tail of a task; `None` for an unknown one.
pub(crate) fn head(conn: &Connection, task: &TaskId) -> rusqlite::Result<Option<(Seq, Position)>> {
    conn.prepare_cached("SELECT seq, inbox_tail FROM tasks WHERE id = ?1")?
        .query_row([task.as_str()], |row| Ok((Seq(number(row, 0)?), Position(number(row, 1)?))))
        .optional()
}

/// The row of a task.
pub(crate) fn row(conn: &Connection, task: &TaskId) -> rusqlite::Result<Option<Row>> {
    conn.prepare_cached(&format!("{ROW} WHERE tasks.id = ?1"))?.query_row([task.as_str()], whole_row).optional()
}

/// Rows that match, newest first.
pub(crate) fn tasks(conn: &Connection, filter: &TaskFilter, page: &Page) -> rusqlite::Result<Vec<Row>> {
    // Conditions that are not asked for are left out rather than made always true, so that the
    // indexes are used.
    let mut sql = format!("{ROW} WHERE :limit > 0");
    let conditions = [
        (filter.status.is_some(), " AND status = :status"),
        (filter.queue.is_some(), " AND queue = :queue"),
        (filter.agent.is_some(), " AND agent = :agent"),
        (filter.parent.is_some(), " AND parent = :parent"),
        (filter.prefix.is_some(), " AND tasks.id >= :prefix AND substr(tasks.id, 1, length(:prefix)) = :prefix"),
        (filter.blocked, " AND blocked IS NOT NULL"),
        (page.after.is_some(), " AND (created_at, tasks.id) < (:time, :id)"),
    ];
    for (_, condition) in conditions.iter().filter(|(is_set, _)| *is_set) {
        sql.push_str(condition);
    }
    sql.push_str(" ORDER BY created_at DESC, tasks.id DESC LIMIT :limit");
    let mut statement = conn.prepare_cached(&sql)?;
    let values: &[(&str, &dyn rusqlite::ToSql)] = named_params! {
        ":limit": limit(page.limit),
        ":status": filter.status.map(|status| status.name()),
        ":queue": filter.queue.as_ref().map(Queue::as_str),
        ":agent": filter.agent,
        ":parent": filter.parent.as_ref().map(TaskId::as_str),
        ":prefix": filter.prefix,
        ":time": page.after.as_ref().map(|(time, _)| time.micros()),
        ":id": page.after.as_ref().map(|(_, id)| id.as_str()),
    };
    for (name, value) in values {
        if let Some(at) = statement.parameter_index(name)? {
            statement.raw_bind_parameter(at, value)?;
        }
    }
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(whole_row(row)?);
    }
    Ok(found)
}

/// Tasks held by a process instance.
pub(crate) fn held_by(conn: &Connection, worker: &Worker) -> rusqlite::Result<Vec<TaskId>> {
    let sql = "SELECT tasks.id FROM tasks JOIN workers ON workers.key = tasks.holder \
               WHERE workers.instance = ?1 ORDER BY tasks.id";
    let mut statement = conn.prepare_cached(sql)?;
    statement.query_map([worker.instance.as_str()], |row| id(row, 0, TaskId::new))?.collect()
}

/// The earliest time in one class of one queue that is not under a lease.
pub(crate) const NEXT_IN_QUEUE: &str = "SELECT claimable_at FROM tasks WHERE queue = ?1 AND priority = ?2 \
    AND claimable_at IS NOT NULL AND (holder IS NULL OR lease_until <= ?3) ORDER BY claimable_at LIMIT 1";
/// The same for every queue.
pub(crate) const NEXT: &str = "SELECT claimable_at FROM tasks WHERE priority = ?1 \
    AND claimable_at IS NOT NULL AND (holder IS NULL OR lease_until <= ?2) ORDER BY claimable_at LIMIT 1";
/// What is held under a lease that has not run out.
pub(crate) const HELD: &str =
    "SELECT holder, queue, rest_until, lease_until FROM tasks WHERE holder IS NOT NULL AND lease_until > ?1";

/// What is due by itself, and when the first of the leases that hold ends. What a process
/// holds that is known to be gone is due now, or once it has rested.
pub(crate) fn outlook(
    conn: &Connection,
    queues: &[Queue],
    now: Timestamp,
) -> rusqlite::Result<(Outlook, Option<Timestamp>)> {
    let gone = workers::gone(conn)?;
    let mut outlook = Outlook { held: 0, next: None, now };
    let mut lease_end = None;
    let mut statement = conn.prepare_cached(HELD)?;
    let mut rows = statement.query([now.micros()])?;
    while let Some(row) = rows.next()? {
        let queue = row.get_ref(1)?.as_str()?;
        if !queues.is_empty() && !queues.iter().any(|asked| asked.as_str() == queue) {
            continue;
        }
        if gone.contains(&row.get(0)?) {
            let due = time_if(row, 2)?.map_or(now, |rest| rest.max(now));
            outlook.next = earlier(outlook.next, Some(due));
        } else {
            outlook.held += 1;
            lease_end = earlier(lease_end, time_if(row, 3)?);
        }
    }
    for priority in 0..=3u8 {
        if queues.is_empty() {
            let mut statement = conn.prepare_cached(NEXT)?;
            let next = statement.query_row((priority, now.micros()), |row| time_if(row, 0)).optional()?;
            outlook.next = earlier(outlook.next, next.flatten());
        }
        for queue in queues {
            let mut statement = conn.prepare_cached(NEXT_IN_QUEUE)?;
            let asked = (queue.as_str(), priority, now.micros());
            let next = statement.query_row(asked, |row| time_if(row, 0)).optional()?;
            outlook.next = earlier(outlook.next, next.flatten());
        }
    }
    Ok((outlook, lease_end))
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// What the file says of itself, for `doctor`.
pub(crate) fn describe(conn: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut said = Vec::new();
    let pragmas = ["journal_mode", "user_version", "page_size", "page_count", "freelist_count"];
    for (pragma, name) in
        pragmas.into_iter().zip(["journal mode", "schema version", "page size", "pages", "free pages"])
    {
        let value: rusqlite::types::Value = conn.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))?;
        said.push((
            name.to_string(),
            match value {
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Integer(number) => number.to_string(),
                other => format!("{other:?}"),
            },
        ));
    }
    for (table, name) in [("tasks", "tasks"), ("workers", "worker processes")] {
        let count: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
        said.push((name.to_string(), count.to_string()));
    }
    Ok(said)
}
