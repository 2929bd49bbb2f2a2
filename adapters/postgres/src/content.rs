//! Bodies in the same database, so that an append writes those it cites in its own transaction
//! (CO-2).

use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::content_hash;
use plica_kernel::limits::CONTENT_BYTES_MAX;
use plica_ports::ContentError;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::error::Lost;
use crate::rows::{get as column, int};
use crate::writer::{Absent, Call, Query};

/// Why a blob is refused, if it is: its size, or bytes that are not those of its reference.
pub(crate) fn check(blob: &Blob) -> Result<(), String> {
    let size = blob.bytes.len();
    if size > CONTENT_BYTES_MAX {
        return Err(format!("it has {size} bytes, more than {CONTENT_BYTES_MAX}"));
    }
    if size as u64 != blob.reference.size || content_hash(&blob.bytes) != blob.reference.sha256 {
        return Err("its bytes are not those of the reference".into());
    }
    Ok(())
}

/// Keeps a body that was [checked](check).
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
    let unavailable = |error: plica_ports::store::StoreError| ContentError::Unavailable(error.to_string());
    let rows = store.view(&query).await.map_err(unavailable)?.unwrap_or_default();
    rows.first().map(|row| column::<Vec<u8>>(row, "bytes")).transpose().map_err(unavailable)
}

/// Whether these are the bytes of the reference.
pub(crate) fn is_sound(reference: &ContentRef, bytes: &[u8]) -> bool {
    bytes.len() as u64 == reference.size && content_hash(bytes) == reference.sha256
}
