//! Writing events: a batch under a claim, and the first events of a new task.

use plica_kernel::body::Blob;
use plica_kernel::canonical::Hash;
use plica_kernel::envelope::SealedEvent;
use plica_kernel::id::{Position, Seq, TaskId};
use plica_kernel::row::Projection;
use plica_kernel::wake::Wake;
use plica_ports::store::rules::check_append;
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimAfter, Conflict, CreateError, Created, NewTask, StoreError, Verdict,
};
use serde::Serialize;
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::error::Lost;
use crate::inbox::Parcel;
use crate::rows::{escaped, get, hash, id, int, locked, number, time, time_if, to_json};
use crate::watch::Beat;
use crate::writer::{Absent, Call};

/// What wakes a task, as the functions read it: each key with how many items it takes.
#[derive(Serialize)]
struct WakeColumns {
    wake: String,
    wake_at: Option<i64>,
    wake_keys: Vec<String>,
    wake_needs: Vec<i64>,
}

impl WakeColumns {
    fn of(wake: &Wake) -> Result<Self, String> {
        Ok(Self {
            wake: to_json(wake)?,
            wake_at: wake.at.map(|time| time.micros()),
            wake_keys: wake.any.iter().map(|way| escaped(&way.key.to_string()).into_owned()).collect(),
            wake_needs: wake.any.iter().map(|way| int(way.items() as u64)).collect(),
        })
    }
}

/// What the kernel computed.
#[derive(Serialize)]
struct ProjectionColumns {
    seq: i64,
    hash: Hash,
    status: &'static str,
    closed: bool,
    #[serde(flatten)]
    wake: WakeColumns,
}

impl ProjectionColumns {
    fn of(row: &Projection) -> Result<Self, String> {
        Ok(Self {
            seq: int(row.seq.0),
            hash: row.hash,
            status: row.status.name(),
            closed: row.closed,
            wake: WakeColumns::of(&row.wake)?,
        })
    }
}

/// The row of a new task.
#[derive(Serialize)]
struct TaskColumns<'a> {
    id: &'a str,
    agent: String,
    goal: String,
    parent: Option<&'a str>,
    source: Option<&'a str>,
    queue: &'a str,
    priority: u8,
    labels: String,
    not_before: Option<i64>,
    created_at: i64,
    dedup: Option<&'a str>,
    fingerprint: Option<Hash>,
    #[serde(flatten)]
    row: ProjectionColumns,
}

impl<'a> TaskColumns<'a> {
    fn of(task: &'a NewTask) -> Result<Self, String> {
        let facts = &task.facts;
        Ok(Self {
            id: task.id.as_str(),
            agent: escaped(&facts.agent).into_owned(),
            goal: escaped(&facts.goal).into_owned(),
            parent: facts.parent.as_ref().map(TaskId::as_str),
            source: facts.source.as_ref().map(TaskId::as_str),
            queue: facts.queue.as_str(),
            priority: facts.priority,
            labels: to_json(&facts.labels)?,
            not_before: facts.not_before.map(|time| time.micros()),
            created_at: facts.created_at.micros(),
            dedup: task.key.as_ref().map(|(key, _)| key.as_str()),
            fingerprint: task.key.as_ref().map(|(_, fingerprint)| *fingerprint),
            row: ProjectionColumns::of(&task.row)?,
        })
    }
}

/// Writes a value as the JSON that a function takes apart.
fn text_of<T: Serialize>(value: &T) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

fn with_events<'a>(call: Call<'a>, events: &[&'a SealedEvent]) -> Call<'a> {
    call.ints(events.iter().map(|event| int(event.seq.0)).collect::<Vec<_>>())
        .texts(events.iter().map(|event| event.kind.name()).collect::<Vec<_>>())
        .many_bytes(events.iter().map(|event| &event.hash.as_bytes()[..]).collect())
        .many_bytes(events.iter().map(|event| &event.body[..]).collect())
}

fn with_blobs<'a>(call: Call<'a>, blobs: &[&'a Blob]) -> Call<'a> {
    call.many_bytes(blobs.iter().map(|blob| &blob.reference.sha256.as_bytes()[..]).collect())
        .ints(blobs.iter().map(|blob| int(blob.reference.size)).collect::<Vec<_>>())
        .many_bytes(blobs.iter().map(|blob| &blob.bytes[..]).collect())
}

fn with_row<'a>(call: Call<'a>, row: &'a Projection) -> Result<Call<'a>, String> {
    let ProjectionColumns { seq, hash: _, status, closed, wake } = ProjectionColumns::of(row)?;
    let WakeColumns { wake, wake_at, wake_keys, wake_needs } = wake;
    let call = call.int(seq).bytes(&row.hash.as_bytes()[..]).text(status);
    Ok(call.text(wake).int(wake_at).texts(wake_keys).ints(wake_needs).flag(closed))
}

/// Whether the batch gives the claim back.
fn releases(batch: &Batch) -> bool {
    match batch.claim {
        ClaimAfter::Release { .. } => true,
        ClaimAfter::ByStatus => batch.rests(),
        ClaimAfter::Retain => false,
    }
}

/// The call that writes a batch whose deliveries are `parcels`.
fn append_call<'a>(claim: &'a Claim, batch: &'a Batch, parcels: &[Parcel]) -> Result<Call<'a>, String> {
    let mut lock: Vec<&str> = batch.deliveries.iter().map(|delivery| delivery.task.as_str()).collect();
    lock.push(batch.task.as_str());
    lock.sort_unstable();
    lock.dedup();
    let not_before = match batch.claim {
        ClaimAfter::Release { not_before } => not_before.map(|time| time.micros()),
        ClaimAfter::ByStatus | ClaimAfter::Retain => None,
    };
    let mut owners = vec![0; batch.events.len()];
    let mut events: Vec<&SealedEvent> = batch.events.iter().collect();
    let mut blobs: Vec<&Blob> = batch.blobs.iter().collect();
    for (owner, child) in (1..).zip(&batch.children) {
        owners.extend(child.events.iter().map(|_| owner));
        events.extend(&child.events);
        blobs.extend(&child.blobs);
    }
    let children = batch.children.iter().map(TaskColumns::of).collect::<Result<Vec<_>, _>>()?;
    let call = Call::of("append")
        .texts(lock)
        .text(batch.task.as_str())
        .int(int(claim.epoch.0))
        .bytes(claim.token.hash().as_bytes().to_vec())
        .int(int(batch.after.0))
        .bytes(batch.after_hash.as_bytes().to_vec())
        .flag(batch.suspends_or_ends())
        .int(int(batch.seen.0))
        .ints(batch.consumed.iter().map(|position| int(position.0)).collect::<Vec<_>>());
    let call = with_row(call, &batch.row)?.flag(releases(batch)).int(not_before).smalls(owners);
    Ok(with_blobs(with_events(call, &events), &blobs).text(text_of(&children)?).text(text_of(&parcels)?))
}

/// Writes a batch, whole or not at all (ST-3, ST-4, ST-7, ST-8); `parcels` are its deliveries,
/// written down.
pub(crate) async fn append(
    store: &PostgresStore,
    claim: &Claim,
    batch: &Batch,
    parcels: &[Parcel],
) -> Result<Appended, AppendError> {
    let task = &batch.task;
    let invalid = |rule: String| AppendError::Invalid { task: task.clone(), rule };
    let call = append_call(claim, batch, parcels).map_err(invalid)?;
    let rows = store.write(Absent::Say, &call, None).await.map_err(|lost| lost.append(task))?;
    let Some(row) = rows.as_deref().and_then(<[Row]>::first) else {
        return Err(StoreError::UnknownTask(task.clone()).into());
    };
    match get::<&str>(row, "outcome")? {
        "written" => {
            let told = batch.deliveries.iter().map(|delivery| &delivery.task).chain([task]);
            store.pulse.tell(Beat::of(told, time_if(row, "due")?));
            let verdict = Verdict { now: time(row, "now")?, inbox_tail: Position(number(row, "inbox_tail")?) };
            Ok(Appended { verdict, held: !releases(batch) })
        }
        "refused" => {
            let refused = check_append(&locked(row)?, claim, batch, time(row, "now")?);
            Err(refused.err().map_or_else(|| disagreement(task), Into::into))
        }
        "taken" => Err(AppendError::Conflict(Conflict::RevisionConflict {
            task: id(row, "id", TaskId::new)?,
            expected: Seq(0),
            seq: Seq(number(row, "seq")?),
            hash: hash(row, "hash")?,
        })),
        "not_there" => Err(invalid("an item that it consumes is not in the inbox".into())),
        _ => Err(StoreError::UnknownTask(task.clone()).into()),
    }
}

/// The function refused what the rules allow: one of the two is wrong, and nothing was written.
pub(crate) fn disagreement(task: &TaskId) -> AppendError {
    StoreError::Unusable(format!("task {task}: the database refuses a write that no rule forbids: report this")).into()
}

/// Writes a new root task (ST-16).
pub(crate) async fn create(store: &PostgresStore, task: &NewTask) -> Result<Created, CreateError> {
    let invalid = |rule| CreateError::Invalid { task: task.id.clone(), rule };
    let columns = TaskColumns::of(task).and_then(|columns| text_of(&columns)).map_err(invalid)?;
    let call = with_events(Call::of("create_task").text(columns), &task.events.iter().collect::<Vec<_>>());
    let call = with_blobs(call, &task.blobs.iter().collect::<Vec<_>>());
    let news = Beat::of([&task.id], Some(task.facts.not_before.unwrap_or_default()));
    let rows = store.write(Absent::Create, &call, Some(&news)).await.map_err(|lost: Lost| lost.create(&task.id))?;
    let Some(row) = rows.as_deref().and_then(<[Row]>::first) else {
        return Err(StoreError::Unavailable("the store was not created".into()).into());
    };
    let there = id(row, "there", TaskId::new)?;
    match (get::<&str>(row, "outcome")?, &task.key) {
        ("fresh", _) => Ok(Created { id: there, fresh: true }),
        ("again", _) => Ok(Created { id: there, fresh: false }),
        ("conflict", Some((key, _))) => Err(CreateError::KeyConflict { key: key.clone(), task: there }),
        _ => Err(CreateError::Exists(there)),
    }
}
