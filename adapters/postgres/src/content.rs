//! Bodies in the same database, so that an append writes those it cites in its own transaction
//! (CO-2); and their removal (CO-3).

use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::{Hash, content_hash};
use plica_kernel::time::Timestamp;
use plica_ports::store::StoreError;
use plica_ports::{ContentError, KeptBody, Removed};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::error::Lost;
use crate::rows::{get as column, hash, int, number};
use crate::writer::{Absent, Call, Query};

/// Keeps a body that was checked.
pub(crate) async fn put(store: &PostgresStore, blob: &Blob) -> Result<(), ContentError> {
    let reference = &blob.reference;
    let call = Call::of("keep")
        .repeatable()
        .bytes(&reference.sha256.as_bytes()[..])
        .int(int(reference.size))
        .bytes(&blob.bytes[..]);
    store.write(Absent::Create, &call, None).await.map_err(Lost::content).map(|_| ())
}

/// The stored bytes, unchecked.
pub(crate) async fn get(store: &PostgresStore, reference: &ContentRef) -> Result<Option<Vec<u8>>, ContentError> {
    let query = Query::of("SELECT bytes FROM plica.content WHERE sha256 = $1 AND size = $2")
        .with(&reference.sha256.as_bytes()[..], Type::BYTEA)
        .int(int(reference.size));
    let rows = store.view(&query).await.map_err(unavailable)?.unwrap_or_default();
    rows.first().map(|row| column::<Vec<u8>>(row, "bytes")).transpose().map_err(unavailable)
}

/// Whether these are the bytes of the reference.
pub(crate) fn is_sound(reference: &ContentRef, bytes: &[u8]) -> bool {
    bytes.len() as u64 == reference.size && content_hash(bytes) == reference.sha256
}

/// Bodies last put before `before`, by ascending hash.
pub(crate) async fn aged(
    store: &PostgresStore,
    before: Timestamp,
    after: Option<&Hash>,
    limit: usize,
) -> Result<Vec<KeptBody>, ContentError> {
    // No bytes come before all others.
    let after: &[u8] = after.map_or(&[], |hash| hash.as_bytes());
    let sql = "SELECT sha256, size FROM plica.content WHERE sha256 > $1 AND touched_at < $2 ORDER BY sha256 LIMIT $3";
    let query = Query::of(sql).with(after, Type::BYTEA).int(before.micros()).int(int(limit as u64));
    let rows = store.view(&query).await.map_err(unavailable)?.unwrap_or_default();
    let kept = |row| Ok(KeptBody { sha256: hash(row, "sha256")?, size: number(row, "size")? });
    rows.iter().map(kept).collect::<Result<_, _>>().map_err(unavailable)
}

/// Removes those last put before `before`.
pub(crate) async fn remove(store: &PostgresStore, bodies: &[Hash], before: Timestamp) -> Result<Removed, ContentError> {
    let named = bodies.iter().map(|hash| &hash.as_bytes()[..]).collect();
    let call = Call::of("remove").many_bytes(named).int(before.micros());
    let rows = store.write(Absent::Say, &call, None).await.map_err(Lost::content)?.unwrap_or_default();
    let Some(row) = rows.first() else { return Ok(Removed::default()) };
    let removed = || Ok(Removed { bodies: number(row, "bodies")?, bytes: number(row, "bytes")? });
    removed().map_err(unavailable)
}

pub(crate) fn unavailable(error: StoreError) -> ContentError {
    ContentError::Unavailable(error.to_string())
}
