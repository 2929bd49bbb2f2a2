//! Holding on and letting go: renewing, releasing, blocking.

use std::time::Duration;

use plica_kernel::canonical::Hash;
use plica_kernel::id::{Epoch, Position, Seq, TaskId};
use plica_kernel::limits::idle_backoff_ms;
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_ports::store::rules::{check_claim, claimable_at, is_woken};
use plica_ports::store::{AppendError, Claim, CommitFate, Conflict, Renewed, StoreError, Verdict};
use rusqlite::OptionalExtension;

use crate::error::Fail;
use crate::rows::{Record, hash, int, micros, to_json, untaken};
use crate::writer::Tx;

/// Extends leases (ST-2): one verdict a claim, in the order asked.
pub(crate) fn renew(tx: &Tx<'_>, claims: &[Claim], lease: Duration) -> rusqlite::Result<Renewed> {
    let until = lease_end(tx.now, lease);
    // A rest after idle claims may reach beyond the lease (ST-18).
    let sql = "UPDATE tasks SET lease_until = ?2, claimable_at = max(?2, ifnull(rest_until, ?2)) WHERE key = ?1";
    let mut verdicts = Vec::with_capacity(claims.len());
    for claim in claims {
        let verdict = match Record::find(tx.conn, &claim.task)? {
            None => Err(unknown(claim)),
            Some(record) => match check_claim(&record.locked, claim) {
                Err(conflict) => Err(conflict),
                Ok(()) => {
                    tx.conn.prepare_cached(sql)?.execute((record.key, until.micros()))?;
                    Ok(record.locked.inbox_tail)
                }
            },
        };
        verdicts.push(verdict);
    }
    Ok(Renewed { now: tx.now, verdicts })
}

/// The verdict on a claim of a task that is not there: its epoch was never handed out.
pub(crate) fn unknown(claim: &Claim) -> Conflict {
    Conflict::FenceUnknown { task: claim.task.clone(), claimed: claim.epoch, current: Epoch(0) }
}

/// Hands a claim back (ST-2, ST-18).
pub(crate) fn release(tx: &Tx<'_>, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, Fail<AppendError>> {
    let record = held_under(tx, claim)?;
    let woken = is_woken_now(tx, &record)?;
    let due = claimable_at(&record.unheld(woken, not_before), tx.now);
    let (idle, rest) = match not_before {
        // Such a claim does not count. An append since then has set the count to zero.
        Some(_) => (record.idle_claims.saturating_sub(1), None),
        None => (record.idle_claims, rest_after(record.idle_claims, tx.now)),
    };
    let due = due.map(|due| rest.map_or(due, |rest| rest.max(due)));
    let sql = "UPDATE tasks SET idle_claims = ?2, rest_until = ?3 WHERE key = ?1";
    tx.conn.prepare_cached(sql)?.execute((record.key, idle, rest.map(|time| time.micros())))?;
    let_go(tx, record.key, due)?;
    Ok(Verdict { now: tx.now, inbox_tail: record.locked.inbox_tail })
}

/// The end of a lease that begins now: at least a microsecond away, so that none is over
/// before it begins.
pub(crate) fn lease_end(now: Timestamp, lease: Duration) -> Timestamp {
    Timestamp::from_micros(now.micros().saturating_add(micros(lease).max(1)))
}

/// Until when a task rests after so many idle claims, the wait counted from `from`.
pub(crate) fn rest_after(idle_claims: u32, from: Timestamp) -> Option<Timestamp> {
    match idle_backoff_ms(idle_claims) {
        0 => None,
        wait => Some(from.plus_millis(wait)),
    }
}

/// Leaves the task to nobody, claimable from `due` on.
pub(crate) fn let_go(tx: &Tx<'_>, task: i64, due: Option<Timestamp>) -> rusqlite::Result<()> {
    let sql = "UPDATE tasks SET holder = NULL, token = NULL, run = NULL, acquired_at = NULL, lease_until = NULL, \
               claimable_at = ?2 WHERE key = ?1";
    tx.conn.prepare_cached(sql)?.execute((task, due.map(|time| time.micros())))?;
    tx.moves_due();
    Ok(())
}

/// Blocks the task that `claim` holds (RC-9).
pub(crate) fn block(tx: &Tx<'_>, claim: &Claim, why: &Blocked) -> Result<(), Fail<AppendError>> {
    let record = held_under(tx, claim)?;
    set_blocked(tx, record.key, why)?;
    Ok(())
}

/// Blocks a task, whoever holds it: it lets go of it.
pub(crate) fn set_blocked(tx: &Tx<'_>, task: i64, why: &Blocked) -> rusqlite::Result<()> {
    let_go(tx, task, None)?;
    tx.conn.prepare_cached("UPDATE tasks SET blocked = ?2 WHERE key = ?1")?.execute((task, to_json(why)?))?;
    Ok(())
}

/// Lifts a block and forgets idle claims; says whether there was a block.
pub(crate) fn unblock(tx: &Tx<'_>, task: &TaskId) -> Result<bool, Fail<StoreError>> {
    let found = Record::find(tx.conn, task)?;
    let record = found.ok_or_else(|| Fail::Refused(StoreError::UnknownTask(task.clone())))?;
    let sql = "UPDATE tasks SET idle_claims = 0, rest_until = NULL, blocked = NULL WHERE key = ?1";
    tx.conn.prepare_cached(sql)?.execute([record.key])?;
    let was_blocked = record.blocked;
    let only_rests = !record.is_held() && record.rest_until.is_some() && record.rest_until == record.claimable_at;
    if record.is_held() && record.rest_until.is_some() {
        // The rest may have reached beyond the lease.
        tx.conn.prepare_cached("UPDATE tasks SET claimable_at = lease_until WHERE key = ?1")?.execute([record.key])?;
        tx.moves_due();
    } else if was_blocked || only_rests {
        let record = Record { blocked: false, ..record };
        let due = claimable_at(&record.unheld(is_woken_now(tx, &record)?, None), tx.now);
        // What was due already keeps its place.
        let_go(tx, record.key, [record.claimable_at, due].into_iter().flatten().min())?;
    }
    Ok(was_blocked)
}

/// What became of an append whose commit is in doubt (ST-9). The write lock is held, so no
/// commit is under way.
pub(crate) fn settle(tx: &Tx<'_>, task: &TaskId, seq: Seq, hash_of: &Hash) -> Result<CommitFate, Fail<StoreError>> {
    let found = Record::find(tx.conn, task)?;
    let record = found.ok_or_else(|| Fail::Refused(StoreError::UnknownTask(task.clone())))?;
    let sql = "SELECT hash FROM events WHERE task = ?1 AND seq = ?2";
    let stored = tx.conn.prepare_cached(sql)?.query_row((record.key, int(seq.0)), |row| hash(row, 0)).optional()?;
    Ok(match stored {
        None => CommitFate::NotThere,
        Some(stored) if stored == *hash_of => CommitFate::Written,
        Some(_) => CommitFate::Superseded,
    })
}

/// The row of the task that `claim` holds, lease run out or not.
fn held_under(tx: &Tx<'_>, claim: &Claim) -> Result<Record, Fail<AppendError>> {
    let found = Record::find(tx.conn, &claim.task)?;
    let record = found.ok_or_else(|| Fail::Refused(StoreError::UnknownTask(claim.task.clone()).into()))?;
    check_claim(&record.locked, claim).map_err(|conflict| Fail::Refused(conflict.into()))?;
    Ok(record)
}

/// Whether untaken items wake the task.
fn is_woken_now(tx: &Tx<'_>, record: &Record) -> rusqlite::Result<bool> {
    Ok(is_woken(record.status, &record.wake, &untaken(tx.conn, record.key, Position(0))?))
}
