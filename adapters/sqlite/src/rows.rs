//! Between columns and the port's types.

use plica_kernel::canonical::{Hash, from_slice, to_vec};
use plica_kernel::id::{Epoch, InstanceId, Position, Queue, RunId, Seq, TaskId, WorkerId};
use plica_kernel::row::{Blocked, Projection, Status};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item, Wake};
use plica_ports::store::rules::{LockedRow, Standing};
use plica_ports::store::{Facts, ProcessIdentity, Row, Worker};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row as Columns};
use serde::de::DeserializeOwned;

/// What every number of the port becomes: SQLite's integers are signed.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count as a limit.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Microseconds of a duration.
pub(crate) fn micros(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn damaged(at: usize, kind: Type, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, kind, why.into())
}

pub(crate) fn number(row: &Columns<'_>, at: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(at)?;
    u64::try_from(value).map_err(|error| damaged(at, Type::Integer, error))
}

pub(crate) fn small(row: &Columns<'_>, at: usize) -> rusqlite::Result<u32> {
    u32::try_from(number(row, at)?).map_err(|error| damaged(at, Type::Integer, error))
}

pub(crate) fn time(row: &Columns<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    row.get(at).map(Timestamp::from_micros)
}

pub(crate) fn time_if(row: &Columns<'_>, at: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Timestamp::from_micros))
}

pub(crate) fn hash(row: &Columns<'_>, at: usize) -> rusqlite::Result<Hash> {
    hash_if(row, at)?.ok_or_else(|| damaged(at, Type::Null, "no hash"))
}

pub(crate) fn hash_if(row: &Columns<'_>, at: usize) -> rusqlite::Result<Option<Hash>> {
    Ok(row.get::<_, Option<[u8; 32]>>(at)?.map(Hash::from_bytes))
}

/// An identifier, by its constructor.
pub(crate) fn id<T, E>(row: &Columns<'_>, at: usize, new: impl Fn(String) -> Result<T, E>) -> rusqlite::Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    new(row.get(at)?).map_err(|error| damaged(at, Type::Text, error))
}

/// A value kept as canonical JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &Columns<'_>, at: usize) -> rusqlite::Result<T> {
    let bytes = row.get_ref(at)?.as_blob()?;
    from_slice(bytes).map_err(|error| damaged(at, Type::Blob, error.to_string()))
}

/// Writes a value as canonical JSON.
pub(crate) fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> rusqlite::Result<Vec<u8>> {
    to_vec(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.to_string().into()))
}

fn status(row: &Columns<'_>, at: usize) -> rusqlite::Result<Status> {
    let word = row.get_ref(at)?.as_str()?;
    Status::named(word).ok_or_else(|| damaged(at, Type::Text, format!("{word:?} is no status")))
}

/// The columns on which a write's verdict depends.
#[derive(Debug)]
pub(crate) struct Record {
    /// The task's number.
    pub key: i64,
    /// What the rules look at.
    pub locked: LockedRow,
    /// Its status.
    pub status: Status,
    /// What wakes it.
    pub wake: Wake,
    /// The number of the worker process that holds it.
    pub holder: Option<i64>,
    /// When it may next be claimed.
    pub claimable_at: Option<Timestamp>,
    /// Not before this, after idle claims (ST-18).
    pub rest_until: Option<Timestamp>,
    /// Claims since the last append.
    pub idle_claims: u32,
    /// Whether it is blocked.
    pub blocked: bool,
}

const RECORD: &str = "SELECT key, epoch, token, lease_until, seq, hash, inbox_tail, status, wake, \
    holder, claimable_at, rest_until, idle_claims, blocked IS NOT NULL FROM tasks WHERE id = ?1";

impl Record {
    /// The task of this id.
    pub(crate) fn find(conn: &Connection, task: &TaskId) -> rusqlite::Result<Option<Self>> {
        conn.prepare_cached(RECORD)?.query_row([task.as_str()], Self::read).optional()
    }

    fn read(row: &Columns<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            locked: LockedRow {
                epoch: Epoch(number(row, 1)?),
                token: hash_if(row, 2)?,
                lease_until: time_if(row, 3)?,
                seq: Seq(number(row, 4)?),
                hash: hash(row, 5)?,
                inbox_tail: Position(number(row, 6)?),
            },
            status: status(row, 7)?,
            wake: json(row, 8)?,
            holder: row.get(9)?,
            claimable_at: time_if(row, 10)?,
            rest_until: time_if(row, 11)?,
            idle_claims: small(row, 12)?,
            blocked: row.get(13)?,
        })
    }

    /// Whether somebody holds it, lease run out or not.
    pub(crate) fn is_held(&self) -> bool {
        self.locked.token.is_some()
    }

    /// How it stands once nobody holds it.
    pub(crate) fn unheld(&self, woken: bool, not_before: Option<Timestamp>) -> Standing {
        Standing {
            status: self.status,
            lease_until: None,
            woken,
            wake_at: self.wake.at,
            not_before,
            blocked: self.blocked,
        }
    }
}

/// The untaken items of a task after `after`, in order.
pub(crate) fn untaken(conn: &Connection, task: i64, after: Position) -> rusqlite::Result<Vec<InboxItem>> {
    let sql = "SELECT position, at, actor, dedup, item FROM inbox \
               WHERE task = ?1 AND position > ?2 AND item IS NOT NULL ORDER BY position";
    let mut statement = conn.prepare_cached(sql)?;
    let items = statement.query_map((task, int(after.0)), |row| {
        Ok(InboxItem {
            at: time(row, 1)?,
            actor: row.get(2)?,
            dedup: id(row, 3, plica_kernel::id::DedupKey::new)?,
            item: json::<Item>(row, 4)?,
            position: Position(number(row, 0)?),
        })
    })?;
    items.collect()
}

/// The columns of [`whole_row`], in its order.
pub(crate) const ROW: &str = "SELECT tasks.id, agent, goal, parent, queue, priority, labels, not_before, created_at, \
    seq, hash, status, wake, closed, updated_at, epoch, run, acquired_at, lease_until, claimable_at, inbox_tail, \
    idle_claims, blocked, \
    workers.id, workers.instance, workers.host, workers.version, boot, namespace, pid, started, source \
    FROM tasks LEFT JOIN workers ON workers.key = tasks.holder";

/// Reads a row of [`ROW`].
pub(crate) fn whole_row(row: &Columns<'_>) -> rusqlite::Result<Row> {
    let wake: Wake = json(row, 12)?;
    let blocked = row.get_ref(22)? != rusqlite::types::ValueRef::Null;
    Ok(Row {
        id: id(row, 0, TaskId::new)?,
        facts: facts(row)?,
        projection: Projection {
            seq: Seq(number(row, 9)?),
            hash: hash(row, 10)?,
            status: status(row, 11)?,
            wake,
            closed: row.get(13)?,
        },
        updated_at: time(row, 14)?,
        epoch: Epoch(number(row, 15)?),
        holder: if row.get::<_, Option<String>>(24)?.is_some() { Some(worker(row, 23)?) } else { None },
        run: row.get::<_, Option<String>>(16)?.map(|_| id(row, 16, RunId::new)).transpose()?,
        acquired_at: time_if(row, 17)?,
        lease_until: time_if(row, 18)?,
        claimable_at: time_if(row, 19)?,
        inbox_tail: Position(number(row, 20)?),
        idle_claims: small(row, 21)?,
        blocked: if blocked { Some(json::<Blocked>(row, 22)?) } else { None },
    })
}

fn facts(row: &Columns<'_>) -> rusqlite::Result<Facts> {
    Ok(Facts {
        agent: row.get(1)?,
        goal: row.get(2)?,
        parent: row.get::<_, Option<String>>(3)?.map(|_| id(row, 3, TaskId::new)).transpose()?,
        source: row.get::<_, Option<String>>(31)?.map(|_| id(row, 31, TaskId::new)).transpose()?,
        queue: id(row, 4, Queue::new)?,
        priority: row.get(5)?,
        labels: json(row, 6)?,
        not_before: time_if(row, 7)?,
        created_at: time(row, 8)?,
    })
}

/// Reads boot, namespace, pid and start time, from `at` on.
pub(crate) fn process(row: &Columns<'_>, at: usize) -> rusqlite::Result<Option<ProcessIdentity>> {
    Ok(match (row.get(at)?, row.get(at + 1)?, row.get(at + 2)?, row.get(at + 3)?) {
        (Some(boot), Some(namespace), Some(pid), Some(started)) => {
            let started: i64 = started;
            Some(ProcessIdentity { boot, namespace, pid, started: started.unsigned_abs() })
        }
        _ => None,
    })
}

/// Reads id, instance, host, version, boot, namespace, pid and start time, from `at` on.
fn worker(row: &Columns<'_>, at: usize) -> rusqlite::Result<Worker> {
    Ok(Worker {
        id: id(row, at, WorkerId::new)?,
        instance: id(row, at + 1, InstanceId::new)?,
        host: row.get(at + 2)?,
        version: row.get(at + 3)?,
        process: process(row, at + 4)?,
    })
}
