//! The inbox: delivering, and waking whom it wakes under the same lock (ST-7).

use plica_kernel::canonical::{Hash, content_hash};
use plica_kernel::id::{DedupKey, Position, TaskId};
use plica_kernel::row::Status;
use plica_kernel::wake::Item;
use plica_ports::store::rules::{is_woken, item_bytes};
use plica_ports::store::{DeliverError, Delivered, Delivery, StoreError};
use rusqlite::OptionalExtension;

use crate::error::Fail;
use crate::rows::{Record, hash, int, number, untaken};
use crate::writer::Tx;

/// An item in the form in which it is kept.
#[derive(Debug)]
pub(crate) struct Parcel {
    bytes: Vec<u8>,
    fingerprint: Hash,
}

/// Writes an item down, and hashes it before any lock is taken.
pub(crate) fn pack(task: &TaskId, item: &Item) -> Result<Parcel, DeliverError> {
    let bytes = item_bytes(task, item)?;
    Ok(Parcel { fingerprint: content_hash(&bytes), bytes })
}

/// Puts an item into a task's inbox.
pub(crate) fn deliver(
    tx: &Tx<'_>,
    task: &TaskId,
    actor: &str,
    item: &Item,
    dedup: &DedupKey,
    parcel: &Parcel,
) -> Result<Delivered, Fail<DeliverError>> {
    let found = Record::find(tx.conn, task)?;
    let record = found.ok_or_else(|| Fail::Refused(StoreError::UnknownTask(task.clone()).into()))?;
    let sql = "SELECT position, fingerprint FROM inbox WHERE task = ?1 AND dedup = ?2";
    let first = tx
        .conn
        .prepare_cached(sql)?
        .query_row((record.key, dedup.as_str()), |row| Ok((Position(number(row, 0)?), hash(row, 1)?)))
        .optional()?;
    match first {
        Some((position, found)) if found == parcel.fingerprint => return Ok(Delivered { position, fresh: false }),
        Some(_) => return Err(Fail::Refused(DeliverError::KeyConflict { task: task.clone(), key: dedup.clone() })),
        None => {}
    }
    if record.status.is_over() && !item.outlives_the_task() {
        let (task, kind) = (task.clone(), item.kind());
        return Err(Fail::Refused(DeliverError::TaskOver { task, status: record.status, kind }));
    }
    let position = record.locked.inbox_tail.next();
    let sql = "INSERT INTO inbox (task, position, dedup, fingerprint, at, actor, item) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    tx.conn.prepare_cached(sql)?.execute((
        record.key,
        int(position.0),
        dedup.as_str(),
        parcel.fingerprint.as_bytes(),
        tx.now.micros(),
        actor,
        &parcel.bytes,
    ))?;
    tx.conn
        .prepare_cached("UPDATE tasks SET inbox_tail = ?2 WHERE key = ?1")?
        .execute((record.key, int(position.0)))?;
    wake(tx, &record, item)?;
    Ok(Delivered { position, fresh: true })
}

/// Makes the task claimable if the item that just arrived wakes it. Of a held task only the
/// holder is told (ST-13), by its inbox tail.
fn wake(tx: &Tx<'_>, record: &Record, item: &Item) -> rusqlite::Result<()> {
    if record.is_held() || record.blocked {
        return Ok(());
    }
    let woken = match record.status {
        Status::Ready | Status::Running => item.stops(),
        Status::Waiting if item.steers() => true,
        // An item that no alternative names leaves the condition as it was, however many lie
        // there already.
        Status::Waiting => {
            let key = item.key();
            record.wake.any.iter().any(|alternative| Some(&alternative.key) == key.as_ref())
                && is_woken(record.status, &record.wake, &untaken(tx.conn, record.key, Position(0))?)
        }
        Status::Completed | Status::Failed | Status::Cancelled => item.outlives_the_task(),
    };
    if !woken {
        return Ok(());
    }
    let due = record.claimable_at.map_or(tx.now, |due| due.min(tx.now));
    let due = record.rest_until.map_or(due, |rest| rest.max(due));
    tx.conn.prepare_cached("UPDATE tasks SET claimable_at = ?2 WHERE key = ?1")?.execute((record.key, due.micros()))?;
    tx.moves_due();
    Ok(())
}

/// Delivers with an append, which never fails by it: whatever a delivery of its own would be
/// refused for is passed over (ST-7). Says where the item is now.
pub(crate) fn pass_on(tx: &Tx<'_>, delivery: &Delivery, parcel: &Parcel) -> rusqlite::Result<Option<Position>> {
    let Delivery { task, actor, item, dedup } = delivery;
    match deliver(tx, task, actor, item, dedup, parcel) {
        Ok(delivered) if delivered.fresh => Ok(Some(delivered.position)),
        Ok(_) => Ok(None),
        // A child that was cancelled reports to a parent that is over, as a rule.
        Err(Fail::Refused(error)) => {
            tracing::debug!(%task, key = %dedup, %error, "a delivery was passed over");
            Ok(None)
        }
        Err(Fail::Sql(error)) => Err(error),
    }
}
