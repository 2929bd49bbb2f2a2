//! Writing events: a batch under a claim, and the first events of a new task.

use plica_kernel::body::Blob;
use plica_kernel::envelope::SealedEvent;
use plica_kernel::id::{Position, Seq, TaskId};
use plica_ports::store::rules::{LockedRow, Standing, check_append, claimable_at, is_woken};
use plica_ports::store::sound::check_batch;
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimAfter, Conflict, CreateError, Created, NewTask, StoreError, Verdict,
};
use rusqlite::{OptionalExtension, named_params};

use crate::error::Fail;
use crate::inbox::Parcel;
use crate::pack::Frames;
use crate::rows::{Record, hash, id, int, to_json, untaken};
use crate::writer::Tx;
use crate::{content, inbox, lease};

/// What of a batch is brought into the form in which it is kept before the writer is asked, so that
/// neither hashing nor packing ever happens under the lock.
#[derive(Debug)]
pub(crate) struct Packed {
    /// Its deliveries, in their order.
    parcels: Vec<Parcel>,
    /// Its bodies, those of its children included.
    frames: Frames,
}

impl Packed {
    /// That of a batch, which is checked.
    pub(crate) fn of(claim: &Claim, batch: &Batch) -> Result<Self, String> {
        check_batch(claim, batch)?;
        let parcels = batch.deliveries.iter().map(|delivery| inbox::pack(&delivery.task, &delivery.item));
        let parcels = parcels.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let bodies = batch.blobs.iter().chain(batch.children.iter().flat_map(|child| &child.blobs));
        Ok(Self { parcels, frames: Frames::of(bodies) })
    }
}

/// Writes a batch, whole or not at all (ST-3, ST-4, ST-7, ST-8); `packed` holds its deliveries and
/// bodies as they are kept.
pub(crate) fn append(
    tx: &Tx<'_>,
    claim: &Claim,
    batch: &Batch,
    packed: &Packed,
) -> Result<Appended, Fail<AppendError>> {
    let found = Record::find(tx.conn, &batch.task)?;
    let record = found.ok_or_else(|| Fail::Refused(StoreError::UnknownTask(batch.task.clone()).into()))?;
    check_append(&record.locked, claim, batch, tx.now).map_err(|conflict| Fail::Refused(conflict.into()))?;
    consume(tx, record.key, batch)?;
    for child in &batch.children {
        // Someone else wrote what this writer is about to write.
        if let Some(there) = Record::find(tx.conn, &child.id)? {
            let LockedRow { seq, hash, .. } = there.locked;
            let conflict = Conflict::RevisionConflict { task: child.id.clone(), expected: Seq(0), seq, hash };
            return Err(Fail::Refused(conflict.into()));
        }
        insert_task(tx, child, &packed.frames)?;
    }
    insert_blobs(tx, &batch.blobs, &packed.frames)?;
    insert_events(tx, record.key, &batch.events)?;
    let held = settle_row(tx, &record, batch)?;
    let mut inbox_tail = record.locked.inbox_tail;
    for (delivery, parcel) in batch.deliveries.iter().zip(&packed.parcels) {
        if let Some(position) = inbox::pass_on(tx, delivery, parcel)?
            && delivery.task == batch.task
        {
            inbox_tail = position;
        }
    }
    Ok(Appended { verdict: Verdict { now: tx.now, inbox_tail }, held })
}

/// Brings the row up to the batch; says whether the claim still holds.
fn settle_row(tx: &Tx<'_>, record: &Record, batch: &Batch) -> rusqlite::Result<bool> {
    let row = &batch.row;
    let sql = "UPDATE tasks SET seq = ?2, hash = ?3, status = ?4, wake = ?5, closed = ?6, updated_at = ?7, \
               idle_claims = 0, rest_until = NULL WHERE key = ?1";
    tx.conn.prepare_cached(sql)?.execute((
        record.key,
        int(row.seq.0),
        row.hash.as_bytes(),
        row.status.name(),
        to_json(&row.wake)?,
        row.closed,
        tx.now.micros(),
    ))?;
    let not_before = match batch.claim {
        ClaimAfter::Release { not_before } => not_before,
        ClaimAfter::ByStatus if batch.rests() => None,
        ClaimAfter::ByStatus | ClaimAfter::Retain => {
            if record.rest_until.is_some() {
                // The rest after idle claims may have reached beyond the lease.
                let sql = "UPDATE tasks SET claimable_at = lease_until WHERE key = ?1";
                tx.conn.prepare_cached(sql)?.execute([record.key])?;
                tx.moves_due();
            }
            return Ok(true);
        }
    };
    let after = Record { status: row.status, wake: row.wake.clone(), locked: record.locked.clone(), ..*record };
    let woken = is_woken(row.status, &row.wake, &untaken(tx.conn, record.key, Position(0))?);
    let due = claimable_at(&after.unheld(woken, not_before), tx.now);
    lease::let_go(tx, record.key, due)?;
    Ok(false)
}

/// Takes the items that the events record out of the inbox (ST-8).
fn consume(tx: &Tx<'_>, task: i64, batch: &Batch) -> Result<(), Fail<AppendError>> {
    if batch.consumed.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE inbox SET item = NULL WHERE task = ?1 AND position = ?2 AND item IS NOT NULL";
    let mut statement = tx.conn.prepare_cached(sql)?;
    for position in &batch.consumed {
        if statement.execute((task, int(position.0)))? != 1 {
            return Err(Fail::Refused(AppendError::Invalid {
                task: batch.task.clone(),
                rule: format!("item {position} is not in the inbox"),
            }));
        }
    }
    Ok(())
}

fn insert_events(tx: &Tx<'_>, task: i64, events: &[SealedEvent]) -> rusqlite::Result<()> {
    let sql = "INSERT INTO events (task, seq, type, baseline, hash, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut statement = tx.conn.prepare_cached(sql)?;
    for event in events {
        let baseline = event.kind.is_baseline().then_some(1);
        statement.execute((task, int(event.seq.0), event.kind.name(), baseline, event.hash.as_bytes(), &event.body))?;
    }
    Ok(())
}

fn insert_blobs(tx: &Tx<'_>, blobs: &[Blob], frames: &Frames) -> rusqlite::Result<()> {
    blobs.iter().try_for_each(|blob| content::put(tx, blob, frames))
}

/// Writes a new root task (ST-16).
pub(crate) fn create(tx: &Tx<'_>, task: &NewTask, frames: &Frames) -> Result<Created, Fail<CreateError>> {
    if let Some((key, fingerprint)) = &task.key {
        let sql = "SELECT id, fingerprint FROM tasks WHERE dedup = ?1";
        let first = tx
            .conn
            .prepare_cached(sql)?
            .query_row([key.as_str()], |row| Ok((id(row, 0, TaskId::new)?, hash(row, 1)?)))
            .optional()?;
        match first {
            Some((id, found)) if found == *fingerprint => return Ok(Created { id, fresh: false }),
            Some((id, _)) => return Err(Fail::Refused(CreateError::KeyConflict { key: key.clone(), task: id })),
            None => {}
        }
    }
    if Record::find(tx.conn, &task.id)?.is_some() {
        return Err(Fail::Refused(CreateError::Exists(task.id.clone())));
    }
    insert_task(tx, task, frames)?;
    Ok(Created { id: task.id.clone(), fresh: true })
}

fn insert_task(tx: &Tx<'_>, task: &NewTask, frames: &Frames) -> rusqlite::Result<()> {
    let (facts, row) = (&task.facts, &task.row);
    let standing = Standing {
        status: row.status,
        lease_until: None,
        woken: false,
        wake_at: row.wake.at,
        not_before: facts.not_before,
        blocked: false,
    };
    let sql = "INSERT INTO tasks (id, agent, goal, parent, source, queue, priority, labels, not_before, created_at, dedup, \
        fingerprint, seq, hash, status, wake, closed, updated_at, epoch, claimable_at, idle_claims, inbox_tail) \
        VALUES (:id, :agent, :goal, :parent, :source, :queue, :priority, :labels, :not_before, :created_at, :dedup, \
        :fingerprint, :seq, :hash, :status, :wake, :closed, :now, 0, :due, 0, 0)";
    let key = tx.conn.prepare_cached(sql)?.insert(named_params! {
        ":id": task.id.as_str(),
        ":agent": facts.agent,
        ":goal": facts.goal,
        ":parent": facts.parent.as_ref().map(|parent| parent.as_str()),
        ":source": facts.source.as_ref().map(|source| source.as_str()),
        ":queue": facts.queue.as_str(),
        ":priority": facts.priority,
        ":labels": to_json(&facts.labels)?,
        ":not_before": facts.not_before.map(|time| time.micros()),
        ":created_at": facts.created_at.micros(),
        ":dedup": task.key.as_ref().map(|(key, _)| key.as_str()),
        ":fingerprint": task.key.as_ref().map(|(_, fingerprint)| fingerprint.as_bytes()),
        ":seq": int(row.seq.0),
        ":hash": row.hash.as_bytes(),
        ":status": row.status.name(),
        ":wake": to_json(&row.wake)?,
        ":closed": row.closed,
        ":now": tx.now.micros(),
        ":due": claimable_at(&standing, tx.now).map(|time| time.micros()),
    })?;
    tx.moves_due();
    insert_blobs(tx, &task.blobs, frames)?;
    insert_events(tx, key, &task.events)
}
