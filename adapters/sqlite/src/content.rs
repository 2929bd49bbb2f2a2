//! Bodies in the same file, so that an append writes those it cites in its own transaction
//! (CO-2).

use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::content_hash;
use plica_kernel::limits::CONTENT_BYTES_MAX;
use rusqlite::{Connection, OptionalExtension};

use crate::rows::int;
use crate::writer::Tx;

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

/// Keeps a body that was [checked](check); one that is there already only gets a new age.
pub(crate) fn put(tx: &Tx<'_>, blob: &Blob) -> rusqlite::Result<()> {
    let reference = &blob.reference;
    let touched = tx
        .conn
        .prepare_cached("UPDATE content SET touched_at = ?2 WHERE sha256 = ?1")?
        .execute((reference.sha256.as_bytes(), tx.now.micros()))?;
    if touched == 0 {
        let sql = "INSERT INTO content (sha256, size, touched_at, bytes) VALUES (?1, ?2, ?3, ?4)";
        tx.conn.prepare_cached(sql)?.execute((
            reference.sha256.as_bytes(),
            int(reference.size),
            tx.now.micros(),
            &blob.bytes,
        ))?;
    }
    Ok(())
}

/// The stored bytes, unchecked.
pub(crate) fn get(conn: &Connection, reference: &ContentRef) -> rusqlite::Result<Option<Vec<u8>>> {
    conn.prepare_cached("SELECT bytes FROM content WHERE sha256 = ?1 AND size = ?2")?
        .query_row((reference.sha256.as_bytes(), int(reference.size)), |row| row.get(0))
        .optional()
}

/// Whether these are the bytes of the reference.
pub(crate) fn is_sound(reference: &ContentRef, bytes: &[u8]) -> bool {
    bytes.len() as u64 == reference.size && content_hash(bytes) == reference.sha256
}
