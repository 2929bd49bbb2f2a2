//! Bodies by their hash (CO-1, CO-2), and their removal (CO-3).

use std::collections::BTreeMap;
use std::ops::Bound;

use async_trait::async_trait;
use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::{Hash, content_hash};
use plica_kernel::time::Timestamp;
use plica_ports::store::StoreError;
use plica_ports::store::sound::check_blob;
use plica_ports::{ContentError, ContentStore, KeptBody, Removed};

use crate::store::MemoryStore;

/// A body and when it was last put.
#[derive(Debug)]
struct Stored {
    bytes: Vec<u8>,
    put_at: Timestamp,
}

/// All bodies.
#[derive(Debug, Default)]
pub(crate) struct Contents(BTreeMap<(Hash, u64), Stored>);

impl Contents {
    /// Keeps a body that was checked; what exists stays as it is and becomes young again.
    pub(crate) fn keep(&mut self, blob: &Blob, now: Timestamp) {
        self.0
            .entry(key(&blob.reference))
            .and_modify(|stored| stored.put_at = now)
            .or_insert_with(|| Stored { bytes: blob.bytes.clone(), put_at: now });
    }

    /// When a body was last put.
    pub(crate) fn put_at(&self, reference: &ContentRef) -> Option<Timestamp> {
        self.0.get(&key(reference)).map(|stored| stored.put_at)
    }

    fn aged(&self, before: Timestamp, after: Option<&Hash>, limit: usize) -> Vec<KeptBody> {
        let from = after.map_or(Bound::Unbounded, |hash| Bound::Excluded((*hash, u64::MAX)));
        let old = self.0.range((from, Bound::Unbounded)).filter(|(_, stored)| stored.put_at < before);
        old.map(|((sha256, size), _)| KeptBody { sha256: *sha256, size: *size }).take(limit).collect()
    }

    fn remove(&mut self, bodies: &[Hash], before: Timestamp) -> Removed {
        let mut removed = Removed::default();
        for hash in bodies {
            let old = self.0.range((*hash, 0)..=(*hash, u64::MAX)).find(|(_, stored)| stored.put_at < before);
            if let Some(key) = old.map(|(key, _)| *key) {
                self.0.remove(&key);
                removed.bodies += 1;
                removed.bytes += key.1;
            }
        }
        removed
    }

    /// Number of bodies.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn fetch(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError> {
        let stored = self.0.get(&key(reference)).ok_or_else(|| ContentError::Missing(reference.clone()))?;
        if content_hash(&stored.bytes) != reference.sha256 {
            return Err(ContentError::Corrupt(reference.clone()));
        }
        Ok(stored.bytes.clone())
    }

    pub(crate) fn damage(&mut self, reference: &ContentRef) -> bool {
        match self.0.get_mut(&key(reference)).and_then(|stored| stored.bytes.first_mut()) {
            Some(byte) => {
                *byte ^= 1;
                true
            }
            None => false,
        }
    }
}

fn key(reference: &ContentRef) -> (Hash, u64) {
    (reference.sha256, reference.size)
}

#[async_trait]
impl ContentStore for MemoryStore {
    async fn put(&self, blob: &Blob) -> Result<(), ContentError> {
        check_blob(blob).map_err(|rule| ContentError::Refused { reference: blob.reference.clone(), rule })?;
        self.write(|world, now| world.contents.keep(blob, now)).map_err(unavailable)
    }

    async fn get(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError> {
        self.look(|world, _| world.contents.fetch(reference)).map_err(unavailable)?
    }

    async fn clock(&self) -> Result<Timestamp, ContentError> {
        self.look(|_, now| now).map_err(unavailable)
    }

    async fn aged(&self, before: Timestamp, after: Option<&Hash>, limit: usize) -> Result<Vec<KeptBody>, ContentError> {
        self.look(|world, _| world.contents.aged(before, after, limit)).map_err(unavailable)
    }

    async fn remove(&self, bodies: &[Hash], before: Timestamp) -> Result<Removed, ContentError> {
        self.write(|world, _| world.contents.remove(bodies, before)).map_err(unavailable)
    }
}

fn unavailable(error: StoreError) -> ContentError {
    ContentError::Unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_1_putting_what_exists_renews_its_age() {
        let blob = Blob::new("text/plain", b"body".to_vec());
        let mut contents = Contents::default();
        contents.keep(&blob, Timestamp::from_micros(1));
        contents.keep(&blob, Timestamp::from_micros(9));
        assert_eq!(contents.put_at(&blob.reference), Some(Timestamp::from_micros(9)));
        assert_eq!(contents.len(), 1);
    }
}
