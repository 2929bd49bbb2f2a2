//! The inbox: delivering, and waking whom it wakes under the same lock (ST-7).

use plica_kernel::canonical::{Hash, content_hash};
use plica_kernel::id::{DedupKey, Position, TaskId};
use plica_kernel::row::Status;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_ports::store::rules::item_bytes;
use plica_ports::store::{Batch, DeliverError, Delivered, Delivery, StoreError};
use serde::Serialize;
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::rows::{escaped, get, number};
use crate::watch::Beat;
use crate::writer::{Absent, Call};

/// An item in the form in which it is kept, with what the wake test looks at.
#[derive(Debug, Serialize)]
pub(crate) struct Packed {
    dedup: String,
    fingerprint: Hash,
    actor: String,
    item: String,
    wakes: Option<String>,
    steers: bool,
    stops: bool,
    outlives: bool,
}

/// A packed item and whom it is for, as an append takes it along.
#[derive(Debug, Serialize)]
pub(crate) struct Parcel {
    task: String,
    item: Packed,
}

/// Writes an item down, and hashes it before any lock is taken.
pub(crate) fn pack(task: &TaskId, actor: &str, item: &Item, dedup: &DedupKey) -> Result<Packed, DeliverError> {
    let bytes = item_bytes(task, item)?;
    let fingerprint = content_hash(&bytes);
    let invalid =
        |error: std::string::FromUtf8Error| DeliverError::Invalid { task: task.clone(), rule: error.to_string() };
    Ok(Packed {
        dedup: dedup.as_str().to_owned(),
        fingerprint,
        actor: escaped(actor).into_owned(),
        item: String::from_utf8(bytes).map_err(invalid)?,
        wakes: item.key().map(|key| escaped(&key.to_string()).into_owned()),
        steers: item.steers(),
        stops: item.stops(),
        outlives: item.outlives_the_task(),
    })
}

/// The same for what a batch delivers, addressed.
pub(crate) fn parcels(batch: &Batch) -> Result<Vec<Parcel>, String> {
    let parcel = |delivery: &Delivery| {
        let item = pack(&delivery.task, &delivery.actor, &delivery.item, &delivery.dedup)?;
        Ok(Parcel { task: delivery.task.as_str().to_owned(), item })
    };
    let parcels = batch.deliveries.iter().map(parcel);
    parcels.collect::<Result<_, DeliverError>>().map_err(|error| error.to_string())
}

/// Puts an item into a task's inbox.
pub(crate) async fn deliver(
    store: &PostgresStore,
    task: &TaskId,
    actor: &str,
    item: &Item,
    dedup: &DedupKey,
) -> Result<Delivered, DeliverError> {
    let packed = pack(task, actor, item, dedup)?;
    let unwritten = |error: serde_json::Error| DeliverError::Invalid { task: task.clone(), rule: error.to_string() };
    let call = Call::of("deliver").text(task.as_str()).text(serde_json::to_string(&packed).map_err(unwritten)?);
    // Whether it wakes the task is not known yet.
    let news = Beat::of([task], Some(Timestamp::default()));
    let rows = store.write(Absent::Say, &call, Some(&news)).await.map_err(|lost| lost.deliver(task))?;
    let Some(row) = rows.as_deref().and_then(<[Row]>::first) else {
        return Err(StoreError::UnknownTask(task.clone()).into());
    };
    match get::<&str>(row, "outcome")? {
        "fresh" => Ok(Delivered { position: Position(number(row, "place")?), fresh: true }),
        "again" => Ok(Delivered { position: Position(number(row, "place")?), fresh: false }),
        "conflict" => Err(DeliverError::KeyConflict { task: task.clone(), key: dedup.clone() }),
        "over" => {
            let status = Status::named(get(row, "there")?).unwrap_or(Status::Completed);
            Err(DeliverError::TaskOver { task: task.clone(), status, kind: item.kind() })
        }
        _ => Err(StoreError::UnknownTask(task.clone()).into()),
    }
}
