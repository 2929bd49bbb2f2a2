//! Handing out tasks (ST-1, ST-12, ST-16, ST-18).

use std::collections::HashSet;
use std::time::Duration;

use plica_kernel::canonical::Domain;
use plica_kernel::id::{Position, RunId, TaskId};
use plica_kernel::limits::IDLE_CLAIMS_MAX;
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_ports::store::{Claim, ClaimRequest, Claimed, StoreError, Token, Verdict, Worker};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use crate::error::Fail;
use crate::rows::{Record, id, int, limit, untaken};
use crate::writer::Tx;
use crate::{lease, workers};

/// The priority classes, in the order in which they are served.
const PRIORITIES: std::ops::RangeInclusive<u8> = 0..=3;

/// What is due in one class of one queue.
pub(crate) const DUE_IN_QUEUE: &str = "SELECT claimable_at, id FROM tasks \
    WHERE queue = ?1 AND priority = ?2 AND claimable_at <= ?3 ORDER BY claimable_at LIMIT ?4";
/// What is due in one class of every queue.
pub(crate) const DUE: &str = "SELECT claimable_at, id FROM tasks \
    WHERE priority = ?1 AND claimable_at <= ?2 ORDER BY claimable_at LIMIT ?3";

/// Takes tasks to work on; `gone` are the processes known to be gone.
pub(crate) fn claim(tx: &Tx<'_>, request: &ClaimRequest, gone: &[i64]) -> Result<Vec<Claimed>, Fail<StoreError>> {
    gone.iter().try_for_each(|process| end_leases(tx, *process))?;
    let mut claimed = Vec::new();
    let mut passed: HashSet<TaskId> = request.except.iter().cloned().collect();
    // A task that turns out to be poison leaves its place to another, so look until there is
    // nothing new.
    while claimed.len() < request.max {
        let room = request.max - claimed.len();
        let mut due = match &request.task {
            Some(task) => named(tx.conn, request, task)?.into_iter().collect(),
            None => due(tx.conn, request, tx.now, room.saturating_add(passed.len()))?,
        };
        due.retain(|task| !passed.contains(task));
        due.truncate(room);
        if due.is_empty() {
            break;
        }
        for task in due {
            if let Some(record) = Record::find(tx.conn, &task)?
                && record.claimable_at.is_some_and(|due| due <= tx.now)
            {
                claimed.extend(take(tx, &request.worker, &task, &record, request.lease)?);
            }
            passed.insert(task);
        }
    }
    Ok(claimed)
}

/// The task that is asked for by name, if it is in a queue that is served.
fn named(conn: &Connection, request: &ClaimRequest, task: &TaskId) -> rusqlite::Result<Option<TaskId>> {
    let sql = "SELECT queue FROM tasks WHERE id = ?1";
    let queue: Option<String> = conn.prepare_cached(sql)?.query_row([task.as_str()], |row| row.get(0)).optional()?;
    let serves = |queue: String| request.queues.is_empty() || request.queues.iter().any(|own| own.as_str() == queue);
    Ok(queue.is_some_and(serves).then(|| task.clone()))
}

/// Ids of tasks that are due, class by class and in a class by when they became due.
fn due(conn: &Connection, request: &ClaimRequest, now: Timestamp, most: usize) -> rusqlite::Result<Vec<TaskId>> {
    let mut found = Vec::new();
    for priority in PRIORITIES {
        let mut class = Vec::new();
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, id(row, 1, TaskId::new)?));
        if request.queues.is_empty() {
            let mut statement = conn.prepare_cached(DUE)?;
            for row in statement.query_map((priority, now.micros(), limit(most)), read)? {
                class.push(row?);
            }
        }
        for queue in &request.queues {
            let mut statement = conn.prepare_cached(DUE_IN_QUEUE)?;
            for row in statement.query_map((queue.as_str(), priority, now.micros(), limit(most)), read)? {
                class.push(row?);
            }
        }
        class.sort();
        class.dedup();
        found.extend(class.into_iter().map(|(_, task)| task));
        if found.len() >= most {
            break;
        }
    }
    found.truncate(most);
    Ok(found)
}

/// Gives a task to `worker`, or finds that this would be one idle claim too many and blocks it.
fn take(
    tx: &Tx<'_>,
    worker: &Worker,
    task: &TaskId,
    record: &Record,
    lease: Duration,
) -> Result<Option<Claimed>, Fail<StoreError>> {
    // The instance that still holds it takes it up again: no crash lies in between (ST-18).
    let is_resumed = workers::is_holder(tx.conn, worker, record.holder)?;
    let (idle_claims, rest) = if is_resumed {
        (record.idle_claims, record.rest_until)
    } else {
        (record.idle_claims + 1, lease::rest_after(record.idle_claims + 1, tx.now))
    };
    if idle_claims >= IDLE_CLAIMS_MAX {
        let sql = "UPDATE tasks SET idle_claims = ?2 WHERE key = ?1";
        tx.conn.prepare_cached(sql)?.execute((record.key, idle_claims))?;
        lease::set_blocked(tx, record.key, &Blocked::Poison)?;
        return Ok(None);
    }
    hold(tx, worker, task, record, lease, (idle_claims, rest)).map(Some)
}

/// Sets holder, epoch + 1 and lease, and hands out the secret.
fn hold(
    tx: &Tx<'_>,
    worker: &Worker,
    task: &TaskId,
    record: &Record,
    lease: Duration,
    (idle_claims, rest): (u32, Option<Timestamp>),
) -> Result<Claimed, Fail<StoreError>> {
    let claim = Claim { task: task.clone(), epoch: record.locked.epoch.next(), run: run_id()?, token: token()? };
    let lease_until = lease::lease_end(tx.now, lease);
    let due = rest.map_or(lease_until, |rest| rest.max(lease_until));
    let sql = "UPDATE tasks SET epoch = ?2, holder = ?3, token = ?4, run = ?5, acquired_at = ?6, lease_until = ?7, \
               claimable_at = ?8, rest_until = ?9, idle_claims = ?10 WHERE key = ?1";
    tx.conn.prepare_cached(sql)?.execute((
        record.key,
        int(claim.epoch.0),
        workers::key_of(tx, worker)?,
        Domain::Token.hash(&claim.token.0).as_bytes(),
        claim.run.as_str(),
        tx.now.micros(),
        lease_until.micros(),
        due.micros(),
        rest.map(|time| time.micros()),
        idle_claims,
    ))?;
    tx.moves_due();
    Ok(Claimed {
        claim,
        seq: record.locked.seq,
        hash: record.locked.hash,
        items: untaken(tx.conn, record.key, Position(0))?,
        verdict: Verdict { now: tx.now, inbox_tail: record.locked.inbox_tail },
        lease_until,
    })
}

/// Takes up again what this same instance holds (ST-9).
pub(crate) fn adopt(
    tx: &Tx<'_>,
    worker: &Worker,
    task: &TaskId,
    lease: Duration,
) -> Result<Option<Claimed>, Fail<StoreError>> {
    match Record::find(tx.conn, task)? {
        Some(record) if workers::is_holder(tx.conn, worker, record.holder)? => {
            hold(tx, worker, task, &record, lease, (record.idle_claims, record.rest_until)).map(Some)
        }
        _ => Ok(None),
    }
}

/// Ends the leases of a process that is gone, so that what it held is due like anything else
/// (ST-16); after idle claims, once it has rested (ST-18).
fn end_leases(tx: &Tx<'_>, process: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE tasks SET lease_until = ?2, claimable_at = max(?2, ifnull(rest_until, ?2)) \
               WHERE holder = ?1 AND lease_until > ?2";
    tx.moves_due();
    tx.conn.prepare_cached(sql)?.execute((process, tx.now.micros())).map(|_| ())
}

fn token() -> Result<Token, Fail<StoreError>> {
    let mut bytes = [0; 32];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(Token(bytes)),
        Err(error) => Err(Fail::Refused(StoreError::Unavailable(format!("no random bytes for a token: {error}")))),
    }
}

fn run_id() -> Result<RunId, Fail<StoreError>> {
    RunId::new(Uuid::now_v7().to_string()).map_err(|error| Fail::Refused(StoreError::Unavailable(error.to_string())))
}
