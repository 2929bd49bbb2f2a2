//! Bodies in the same file, so that an append writes those it cites in its own transaction
//! (CO-2); and their removal, under the same lock (CO-3).

use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::Hash;
use plica_kernel::time::Timestamp;
use plica_ports::{KeptBody, Removed};
use rusqlite::{Connection, OptionalExtension};

use crate::pack::{Frames, Kept};
use crate::rows::{hash, int, limit, number};
use crate::writer::Tx;

/// Keeps a body that was checked, as its frame if it has one; a body that is there already
/// only gets a new age.
pub(crate) fn put(tx: &Tx<'_>, blob: &Blob, frames: &Frames) -> rusqlite::Result<()> {
    let reference = &blob.reference;
    let touched = tx
        .conn
        .prepare_cached("UPDATE content SET touched_at = ?2 WHERE sha256 = ?1")?
        .execute((reference.sha256.as_bytes(), tx.now.micros()))?;
    if touched == 0 {
        let frame = frames.get(&reference.sha256);
        let sql = "INSERT INTO content (sha256, size, touched_at, bytes, packed) VALUES (?1, ?2, ?3, ?4, ?5)";
        tx.conn.prepare_cached(sql)?.execute((
            reference.sha256.as_bytes(),
            int(reference.size),
            tx.now.micros(),
            frame.unwrap_or(&blob.bytes),
            frame.map(|_| 1),
        ))?;
    }
    Ok(())
}

/// What is kept under a reference, unchecked.
pub(crate) fn get(conn: &Connection, reference: &ContentRef) -> rusqlite::Result<Option<Kept>> {
    conn.prepare_cached("SELECT packed IS NOT NULL, bytes FROM content WHERE sha256 = ?1 AND size = ?2")?
        .query_row((reference.sha256.as_bytes(), int(reference.size)), |row| {
            Ok(Kept { packed: row.get(0)?, bytes: row.get(1)? })
        })
        .optional()
}

/// Bodies last put before `before`, by ascending hash.
pub(crate) fn aged(
    conn: &Connection,
    before: Timestamp,
    after: Option<&Hash>,
    most: usize,
) -> rusqlite::Result<Vec<KeptBody>> {
    let sql = "SELECT sha256, size FROM content WHERE sha256 > ?1 AND touched_at < ?2 ORDER BY sha256 LIMIT ?3";
    // An empty BLOB comes before every other.
    let after: &[u8] = after.map_or(&[], |hash| hash.as_bytes());
    conn.prepare_cached(sql)?
        .query_map((after, before.micros(), limit(most)), |row| {
            Ok(KeptBody { sha256: hash(row, 0)?, size: number(row, 1)? })
        })?
        .collect()
}

/// Removes those last put before `before`; the write lock keeps others from putting them
/// meanwhile.
pub(crate) fn remove(tx: &Tx<'_>, bodies: &[Hash], before: Timestamp) -> rusqlite::Result<Removed> {
    let sql = "DELETE FROM content WHERE sha256 = ?1 AND touched_at < ?2 RETURNING size";
    let mut statement = tx.conn.prepare_cached(sql)?;
    let mut removed = Removed::default();
    for body in bodies {
        let size = statement.query_row((body.as_bytes(), before.micros()), |row| number(row, 0)).optional()?;
        removed.bodies += u64::from(size.is_some());
        removed.bytes += size.unwrap_or(0);
    }
    Ok(removed)
}
