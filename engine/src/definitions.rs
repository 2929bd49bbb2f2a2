//! Definitions that this host has read, each by the hash that names it.
//!
//! A definition is content: what a hash names never changes, so it is read from the store and
//! worked out once for all claims of all tasks that cite it. The log stays the engine's only
//! memory (EN-1): whatever is forgotten here is read again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use plica_kernel::body::ContentRef;
use plica_kernel::canonical::Hash;
use plica_ports::{ContentStore, Definition};

use crate::govern::{RuleError, Rules};
use crate::setup::{SetupError, read_definition};

/// Definitions that are kept: more agents than a fleet has, a few kilobytes each.
const KEPT: usize = 64;

/// A definition, and its rules as they are applied.
pub(crate) struct Known {
    pub(crate) definition: Definition,
    pub(crate) rules: Result<Rules, RuleError>,
}

/// Those read last, the latest in front.
#[derive(Default)]
pub(crate) struct Definitions(Mutex<VecDeque<(Hash, Arc<Known>)>>);

impl Definitions {
    /// The definition that `reference` names.
    ///
    /// # Errors
    /// When it was not read before and cannot be read.
    pub(crate) async fn read(
        &self,
        content: &dyn ContentStore,
        reference: &ContentRef,
    ) -> Result<Arc<Known>, SetupError> {
        if let Some(known) = self.kept(&reference.sha256) {
            return Ok(known);
        }
        let definition = read_definition(content, reference).await?;
        let rules = Rules::of(&definition);
        let known = Arc::new(Known { definition, rules });
        self.keep(reference.sha256, known.clone());
        Ok(known)
    }

    fn kept(&self, sha256: &Hash) -> Option<Arc<Known>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(hash, _)| hash == sha256)?;
        let entry = kept.remove(found)?;
        let known = entry.1.clone();
        kept.push_front(entry);
        Some(known)
    }

    fn keep(&self, sha256: Hash, known: Arc<Known>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(hash, _)| *hash != sha256);
        kept.push_front((sha256, known));
        kept.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use plica_kernel::body::{Blob, MEDIA_DEFINITION};
    use plica_memory::MemoryStore;
    use plica_ports::ModelChoice;

    use super::*;

    fn blob(number: usize) -> Blob {
        let name = format!("agent-{number}");
        let definition = Definition::new(name.clone(), ModelChoice::new("script", name));
        Blob::new(MEDIA_DEFINITION, definition.to_bytes().unwrap())
    }

    /// The name that the definition is read with from a store which has it or has not.
    async fn read(known: &Definitions, blob: &Blob, stored: bool) -> Option<String> {
        let store = MemoryStore::new();
        if stored {
            store.put(blob).await.unwrap();
        }
        let read = known.read(&store, &blob.reference).await;
        read.ok().map(|known| known.definition.name.clone())
    }

    #[tokio::test]
    async fn en_8_a_definition_is_read_once_and_the_one_used_least_lately_is_forgotten() {
        let known = Definitions::default();
        let blobs: Vec<Blob> = (0..=KEPT).map(blob).collect();
        for blob in &blobs[..KEPT] {
            assert!(read(&known, blob, true).await.is_some());
        }
        assert_eq!(read(&known, &blobs[0], false).await.as_deref(), Some("agent-0"));
        assert_eq!(read(&known, &blobs[KEPT], false).await, None, "what was never read is not known");
        assert!(read(&known, &blobs[KEPT], true).await.is_some());
        assert_eq!(read(&known, &blobs[0], false).await.as_deref(), Some("agent-0"), "it was used since");
        assert_eq!(read(&known, &blobs[1], false).await, None, "this one was not");
    }
}
