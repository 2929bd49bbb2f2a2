//! Holding on and letting go: renewing, releasing, blocking.

use std::time::Duration;

use plica_kernel::canonical::Hash;
use plica_kernel::id::{Epoch, Position, Seq, TaskId};
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_ports::store::rules::check_claim;
use plica_ports::store::{AppendError, Claim, CommitFate, Conflict, Renewed, StoreError, Verdict};
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::append::disagreement;
use crate::claim::rests;
use crate::error::Lost;
use crate::rows::{get, hash_if, int, locked, micros, number, time, time_if, to_json};
use crate::watch::Beat;
use crate::writer::{Absent, Call};

/// Extends leases (ST-2): one verdict a claim, in the order asked.
pub(crate) async fn renew(store: &PostgresStore, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
    if claims.is_empty() {
        return Ok(Renewed { now: store.time().await?, verdicts: Vec::new() });
    }
    let hashes: Vec<Hash> = claims.iter().map(|claim| claim.token.hash()).collect();
    let call = Call::of("renew")
        .repeatable()
        .texts(claims.iter().map(|claim| claim.task.as_str()).collect::<Vec<_>>())
        .ints(claims.iter().map(|claim| int(claim.epoch.0)).collect::<Vec<_>>())
        .many_bytes(hashes.iter().map(|hash| &hash.as_bytes()[..]).collect())
        .int(micros(lease));
    let rows = store.write(Absent::Say, &call, None).await.map_err(Lost::store)?.unwrap_or_default();
    let mut verdicts = Vec::with_capacity(claims.len());
    for claim in claims {
        let mut found = None;
        for row in &rows {
            if get::<&str>(row, "id")? == claim.task.as_str() {
                found = Some(locked(row)?);
            }
        }
        verdicts.push(match found {
            None => Err(unknown(claim)),
            Some(row) => check_claim(&row, claim).map(|()| row.inbox_tail),
        });
    }
    let now = match rows.first() {
        Some(row) => time(row, "now")?,
        None => store.time().await?,
    };
    Ok(Renewed { now, verdicts })
}

/// The verdict on a claim of a task that is not there: its epoch was never handed out.
fn unknown(claim: &Claim) -> Conflict {
    Conflict::FenceUnknown { task: claim.task.clone(), claimed: claim.epoch, current: Epoch(0) }
}

/// Hands a claim back (ST-2, ST-18).
pub(crate) async fn release(
    store: &PostgresStore,
    claim: &Claim,
    not_before: Option<Timestamp>,
) -> Result<Verdict, AppendError> {
    let row = let_go(store, claim, not_before, None).await?;
    store.pulse.tell(Beat::of([&claim.task], time_if(&row, "due")?));
    Ok(Verdict { now: time(&row, "now")?, inbox_tail: Position(number(&row, "inbox_tail")?) })
}

/// Blocks the task that `claim` holds (RC-9).
pub(crate) async fn block(store: &PostgresStore, claim: &Claim, why: &Blocked) -> Result<(), AppendError> {
    let invalid = |rule| AppendError::Invalid { task: claim.task.clone(), rule };
    let why = to_json(why).map_err(invalid)?;
    let_go(store, claim, None, Some(why)).await.map(|_| ())
}

async fn let_go(
    store: &PostgresStore,
    claim: &Claim,
    not_before: Option<Timestamp>,
    blocked: Option<String>,
) -> Result<Row, AppendError> {
    let task = &claim.task;
    let call = Call::of("release")
        .text(task.as_str())
        .int(int(claim.epoch.0))
        .bytes(claim.token.hash().as_bytes().to_vec())
        .int(not_before.map(|time| time.micros()))
        .ints(rests())
        .text(blocked);
    let rows = store.write(Absent::Say, &call, None).await.map_err(|lost| lost.append(task))?;
    let absent = || AppendError::from(StoreError::UnknownTask(task.clone()));
    let row = rows.unwrap_or_default().into_iter().next().ok_or_else(absent)?;
    match get::<&str>(&row, "outcome")? {
        "done" => Ok(row),
        "refused" => {
            let refused = check_claim(&locked(&row)?, claim);
            Err(refused.err().map_or_else(|| disagreement(task), Into::into))
        }
        _ => Err(absent()),
    }
}

/// Lifts a block and forgets idle claims; says whether there was a block.
pub(crate) async fn unblock(store: &PostgresStore, task: &TaskId) -> Result<bool, StoreError> {
    let call = Call::of("unblock").text(task.as_str());
    let rows = store.write(Absent::Say, &call, None).await.map_err(Lost::store)?.unwrap_or_default();
    let outcome = rows.first().map(|row| get::<&str>(row, "outcome")).transpose()?;
    store.pulse.tell(Beat::of([task], Some(Timestamp::default())));
    match outcome {
        Some("lifted") => Ok(true),
        Some("free") => Ok(false),
        _ => Err(StoreError::UnknownTask(task.clone())),
    }
}

/// What became of an append whose commit is in doubt (ST-9).
pub(crate) async fn settle(
    store: &PostgresStore,
    task: &TaskId,
    seq: Seq,
    hash: &Hash,
) -> Result<CommitFate, StoreError> {
    let call = Call::of("settle").repeatable().text(task.as_str()).int(int(seq.0));
    let rows = store.write(Absent::Say, &call, None).await.map_err(Lost::store)?.unwrap_or_default();
    match rows.first() {
        Some(row) if get::<&str>(row, "outcome")? == "there" => Ok(match hash_if(row, "hash")? {
            None => CommitFate::NotThere,
            Some(stored) if stored == *hash => CommitFate::Written,
            Some(_) => CommitFate::Superseded,
        }),
        _ => Err(StoreError::UnknownTask(task.clone())),
    }
}
