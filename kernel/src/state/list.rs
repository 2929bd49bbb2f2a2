//! A list that only grows: sealed in content-addressed segments, so that a snapshot of it
//! costs the same at any length (SN-7).

use alloc::{string::ToString, sync::Arc, vec::Vec};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, ser};

use crate::body::{Blob, ContentRef, MEDIA_SEGMENT};
use crate::canonical::{CanonicalError, from_slice, to_vec};
use crate::limits::SEGMENT_ITEMS;

/// Entries in order. The first come in full segments of 128, each of which names the one
/// before it once sealed; the rest is the open tail, which holds the last entry at least, so
/// that a fold from a snapshot knows it. Cloning is cheap: entries are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T> {
    /// Segments that a snapshot cited and nobody has read yet.
    unread: Option<Sealed>,
    /// Full segments in memory; shared, so that a clone costs the same at any length.
    segments: Arc<Vec<Segment<T>>>,
    tail: Vec<Arc<T>>,
}

/// A run of sealed segments, named by its last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Entries in all of them.
    pub count: u64,
    /// The last one; it names the one before.
    pub last: ContentRef,
}

#[derive(Debug, PartialEq, Eq)]
struct Segment<T> {
    items: Arc<Vec<Arc<T>>>,
    /// Its reference, once it was written or read.
    reference: Option<ContentRef>,
}

impl<T> Clone for Segment<T> {
    fn clone(&self) -> Self {
        Self { items: self.items.clone(), reference: self.reference.clone() }
    }
}

#[derive(Serialize)]
struct SegmentOut<'a, T> {
    items: &'a [Arc<T>],
    #[serde(skip_serializing_if = "Option::is_none")]
    prev: Option<&'a ContentRef>,
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct SegmentIn<T> {
    items: Vec<T>,
    #[serde(default)]
    prev: Option<ContentRef>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { unread: None, segments: Arc::default(), tail: Vec::new() }
    }
}

impl<T> List<T> {
    /// Number of entries, read or not.
    pub fn len(&self) -> u64 {
        let unread = self.unread.as_ref().map_or(0, |sealed| sealed.count);
        unread + (self.segments.len() * SEGMENT_ITEMS + self.tail.len()) as u64
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sealed segments that have to be read before all entries can be seen.
    pub fn unread(&self) -> Option<&Sealed> {
        self.unread.as_ref()
    }

    /// The entries in memory, in order: all of them when nothing is [unread](Self::unread).
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.segments.iter().flat_map(|segment| segment.items.iter()).chain(&self.tail).map(|item| &**item)
    }

    /// The entries in memory but for the first `count`, which are not looked at.
    pub fn after(&self, count: u64) -> impl Iterator<Item = &T> {
        let full = (count / SEGMENT_ITEMS as u64).min(self.segments.len() as u64) as usize;
        let left = count.saturating_sub((full * SEGMENT_ITEMS) as u64) as usize;
        let segments = self.segments[full..].iter().flat_map(|segment| segment.items.iter());
        segments.chain(&self.tail).skip(left).map(|item| &**item)
    }

    /// The last entry: always in memory, since a full tail becomes a segment only when the
    /// next entry comes.
    pub fn last(&self) -> Option<&T> {
        self.iter().next_back()
    }

    pub(super) fn push(&mut self, item: T) {
        if self.tail.len() == SEGMENT_ITEMS {
            let items = Arc::new(core::mem::take(&mut self.tail));
            Arc::make_mut(&mut self.segments).push(Segment { items, reference: None });
        }
        self.tail.push(Arc::new(item));
    }
}

impl<T: Serialize + DeserializeOwned> List<T> {
    /// Seals all full segments and returns the list as a snapshot holds it: the run of
    /// sealed segments, apart from the open tail. Segments written for the first time are
    /// pushed to `blobs`.
    pub(crate) fn seal(&mut self, blobs: &mut Vec<Blob>) -> Result<(Option<Sealed>, Self), CanonicalError> {
        let written = self.segments.iter().rposition(|segment| segment.reference.is_some()).map_or(0, |at| at + 1);
        let mut last = match written.checked_sub(1) {
            Some(at) => self.segments[at].reference.clone(),
            None => self.unread.as_ref().map(|sealed| sealed.last.clone()),
        };
        if written < self.segments.len() {
            for segment in &mut Arc::make_mut(&mut self.segments)[written..] {
                let bytes = to_vec(&SegmentOut { items: &segment.items, prev: last.as_ref() })?;
                let blob = Blob::new(MEDIA_SEGMENT, bytes);
                segment.reference = Some(blob.reference.clone());
                last.clone_from(&segment.reference);
                blobs.push(blob);
            }
        }
        let count = self.len() - self.tail.len() as u64;
        let tail = Self { unread: None, segments: Arc::default(), tail: self.tail.clone() };
        Ok((last.map(|last| Sealed { count, last }), tail))
    }

    /// Puts a run of sealed segments before the tail that a snapshot held.
    pub(crate) fn precede(&mut self, sealed: Option<Sealed>) {
        self.unread = sealed;
    }

    /// Takes in the last unread segment; the one before it, if any, is then unread.
    ///
    /// # Errors
    /// When the bytes are no segment of this list.
    pub(crate) fn supply(&mut self, bytes: &[u8]) -> Result<(), CanonicalError> {
        let Some(sealed) = &self.unread else { return Ok(()) };
        let segment: SegmentIn<T> = from_slice(bytes)?;
        let before = sealed.count.checked_sub(SEGMENT_ITEMS as u64);
        let whole =
            segment.items.len() == SEGMENT_ITEMS && before.is_some_and(|count| (count == 0) == segment.prev.is_none());
        if !whole {
            return Err(CanonicalError::Unrepresentable("a segment that does not fit its list".to_string()));
        }
        let items = Arc::new(segment.items.into_iter().map(Arc::new).collect());
        let taken = Segment { items, reference: Some(sealed.last.clone()) };
        Arc::make_mut(&mut self.segments).insert(0, taken);
        self.unread = before.zip(segment.prev).map(|(count, last)| Sealed { count, last });
        Ok(())
    }
}

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.unread.is_some() {
            return Err(ser::Error::custom("a list with unread segments"));
        }
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut list = Self::default();
        for item in Vec::<T>::deserialize(deserializer)? {
            list.push(item);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sn_7_entries_after_a_place_are_those_that_follow_it() {
        let mut list = List::default();
        for item in 0..400u64 {
            list.push(item);
        }
        for count in [0, 1, 127, 128, 129, 256, 383, 384, 385, 399, 400, 401, 1_000] {
            assert!(list.after(count).eq(list.iter().skip(count as usize)), "after {count}");
        }
    }
}
