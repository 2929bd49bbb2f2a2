//! Between columns and the port's types.

use std::borrow::Cow;
use std::time::Duration;

use plica_kernel::canonical::{Hash, from_slice, to_vec};
use plica_kernel::id::{DedupKey, Epoch, InstanceId, Position, Queue, RunId, Seq, TaskId, WorkerId};
use plica_kernel::row::{Blocked, Projection, Status};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item, Wake};
use plica_ports::store::rules::LockedRow;
use plica_ports::store::{Facts, ProcessIdentity, Row, StoreError, Worker};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row as Columns;
use tokio_postgres::types::FromSql;

/// What every number of the port becomes: PostgreSQL's integers are signed.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count as a limit.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Microseconds of a duration.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A text as PostgreSQL can keep it: NUL as `\0`, a backslash doubled.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if text.contains(['\\', '\0']) { text.replace('\\', "\\\\").replace('\0', "\\0").into() } else { text.into() }
}

/// The text that was [`escaped`].
pub(crate) fn unescaped(text: String) -> String {
    if !text.contains('\\') {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => plain.push(if rest.next() == Some('0') { '\0' } else { '\\' }),
            c => plain.push(c),
        }
    }
    plain
}

/// Writes a value as canonical JSON, which is text without NUL.
pub(crate) fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, String> {
    let bytes = to_vec(value).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn damaged(column: &str, why: impl std::fmt::Display) -> StoreError {
    StoreError::Unusable(format!("the store holds what this version cannot read: column {column}: {why}"))
}

/// A column of a row.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Columns, column: &str) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| damaged(column, error))
}

pub(crate) fn number(row: &Columns, column: &str) -> Result<u64, StoreError> {
    u64::try_from(get::<i64>(row, column)?).map_err(|error| damaged(column, error))
}

pub(crate) fn small(row: &Columns, column: &str) -> Result<u32, StoreError> {
    u32::try_from(get::<i64>(row, column)?).map_err(|error| damaged(column, error))
}

pub(crate) fn time(row: &Columns, column: &str) -> Result<Timestamp, StoreError> {
    get(row, column).map(Timestamp::from_micros)
}

pub(crate) fn time_if(row: &Columns, column: &str) -> Result<Option<Timestamp>, StoreError> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros))
}

pub(crate) fn hash(row: &Columns, column: &str) -> Result<Hash, StoreError> {
    hash_if(row, column)?.ok_or_else(|| damaged(column, "no hash"))
}

pub(crate) fn hash_if(row: &Columns, column: &str) -> Result<Option<Hash>, StoreError> {
    let Some(bytes) = get::<Option<&[u8]>>(row, column)? else { return Ok(None) };
    let bytes: [u8; 32] = bytes.try_into().map_err(|error| damaged(column, error))?;
    Ok(Some(Hash::from_bytes(bytes)))
}

/// A text that may have been escaped.
pub(crate) fn text(row: &Columns, column: &str) -> Result<String, StoreError> {
    get(row, column).map(unescaped)
}

/// An identifier, by its constructor.
pub(crate) fn id<T, E: std::fmt::Display>(
    row: &Columns,
    column: &str,
    new: impl Fn(String) -> Result<T, E>,
) -> Result<T, StoreError> {
    new(get(row, column)?).map_err(|error| damaged(column, error))
}

/// An identifier, if there is one.
pub(crate) fn id_if<T, E: std::fmt::Display>(
    row: &Columns,
    column: &str,
    new: impl Fn(String) -> Result<T, E>,
) -> Result<Option<T>, StoreError> {
    get::<Option<String>>(row, column)?.map(new).transpose().map_err(|error| damaged(column, error))
}

/// A value kept as canonical JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &Columns, column: &str) -> Result<T, StoreError> {
    from_slice(get::<&str>(row, column)?.as_bytes()).map_err(|error| damaged(column, error))
}

fn status(row: &Columns, column: &str) -> Result<Status, StoreError> {
    Status::named(get(row, column)?).ok_or_else(|| damaged(column, "no status"))
}

/// The columns on which a write's verdict depends, as functions return them.
pub(crate) fn locked(row: &Columns) -> Result<LockedRow, StoreError> {
    Ok(LockedRow {
        epoch: Epoch(number(row, "epoch")?),
        token: hash_if(row, "token")?,
        lease_until: time_if(row, "lease_until")?,
        seq: Seq(number(row, "seq")?),
        hash: hash(row, "hash")?,
        inbox_tail: Position(number(row, "inbox_tail")?),
    })
}

/// An inbox item as `plica.items` writes it.
#[derive(Deserialize)]
struct Untaken {
    position: u64,
    at: i64,
    actor: String,
    dedup: String,
    item: String,
}

/// The items of a column written by `plica.items`.
pub(crate) fn items(row: &Columns, column: &str) -> Result<Vec<InboxItem>, StoreError> {
    let untaken: Vec<Untaken> = serde_json::from_str(get(row, column)?).map_err(|error| damaged(column, error))?;
    let read = |item: Untaken| {
        Ok(InboxItem {
            position: Position(item.position),
            at: Timestamp::from_micros(item.at),
            actor: unescaped(item.actor),
            dedup: DedupKey::new(item.dedup).map_err(|error| damaged(column, error))?,
            item: from_slice::<Item>(item.item.as_bytes()).map_err(|error| damaged(column, error))?,
        })
    };
    untaken.into_iter().map(read).collect()
}

/// The columns of [`whole_row`].
pub(crate) const ROW: &str = "SELECT tasks.id, agent, goal, parent, source, queue, priority, labels, not_before, created_at, \
    seq, hash, status, wake, closed, updated_at, epoch, run, acquired_at, lease_until, claimable_at, inbox_tail, \
    idle_claims, blocked, workers.id AS worker, instance, host, workers.version, boot, namespace, pid, started \
    FROM plica.tasks LEFT JOIN plica.workers ON workers.key = tasks.holder";

/// Reads a row of [`ROW`].
pub(crate) fn whole_row(row: &Columns) -> Result<Row, StoreError> {
    let wake: Wake = json(row, "wake")?;
    let is_blocked = get::<Option<&str>>(row, "blocked")?.is_some();
    let is_held = get::<Option<&str>>(row, "instance")?.is_some();
    Ok(Row {
        id: id(row, "id", TaskId::new)?,
        facts: facts(row)?,
        projection: Projection {
            seq: Seq(number(row, "seq")?),
            hash: hash(row, "hash")?,
            status: status(row, "status")?,
            wake,
            closed: get(row, "closed")?,
        },
        updated_at: time(row, "updated_at")?,
        epoch: Epoch(number(row, "epoch")?),
        holder: if is_held { Some(worker(row)?) } else { None },
        run: id_if(row, "run", RunId::new)?,
        acquired_at: time_if(row, "acquired_at")?,
        lease_until: time_if(row, "lease_until")?,
        claimable_at: time_if(row, "claimable_at")?,
        inbox_tail: Position(number(row, "inbox_tail")?),
        idle_claims: small(row, "idle_claims")?,
        blocked: if is_blocked { Some(json::<Blocked>(row, "blocked")?) } else { None },
    })
}

fn facts(row: &Columns) -> Result<Facts, StoreError> {
    Ok(Facts {
        agent: text(row, "agent")?,
        goal: text(row, "goal")?,
        parent: id_if(row, "parent", TaskId::new)?,
        source: id_if(row, "source", TaskId::new)?,
        queue: id(row, "queue", Queue::new)?,
        priority: u8::try_from(get::<i16>(row, "priority")?).map_err(|error| damaged("priority", error))?,
        labels: json(row, "labels")?,
        not_before: time_if(row, "not_before")?,
        created_at: time(row, "created_at")?,
    })
}

/// Which process a worker is, if that is known.
pub(crate) fn process(row: &Columns) -> Result<Option<ProcessIdentity>, StoreError> {
    let identity = (get(row, "boot")?, get(row, "namespace")?, get(row, "pid")?, get(row, "started")?);
    let (Some(boot), Some(namespace), Some(pid), Some(started)) = identity else { return Ok(None) };
    let (boot, namespace) = (unescaped(boot), unescaped(namespace));
    let pid: i64 = pid;
    let started: i64 = started;
    let pid = u32::try_from(pid).map_err(|error| damaged("pid", error))?;
    Ok(Some(ProcessIdentity { boot, namespace, pid, started: started.unsigned_abs() }))
}

fn worker(row: &Columns) -> Result<Worker, StoreError> {
    Ok(Worker {
        id: id(row, "worker", WorkerId::new)?,
        instance: id(row, "instance", InstanceId::new)?,
        host: text(row, "host")?,
        version: text(row, "version")?,
        process: process(row)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ev_6_any_text_survives_in_a_column() {
        for text in ["", "plain", "a\0b", "\\0", "\\\0\\\\0", "C:\\new", "ends in \\"] {
            let kept = escaped(text);
            assert!(!kept.contains('\0'), "{text:?}");
            assert_eq!(unescaped(kept.into_owned()), text);
        }
    }
}
