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
        // What is shared with a clone is copied only if something is new.
        if !self.segments[written..].is_empty() {
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
    use alloc::{string::String, vec};

    use super::*;

    fn of(count: u64) -> List<u64> {
        let mut list = List::default();
        (0..count).for_each(|item| list.push(item));
        list
    }

    /// What a snapshot holds of the list, and the segments written for it.
    fn sealed(list: &mut List<u64>) -> (Option<Sealed>, List<u64>, Vec<Blob>) {
        let mut blobs = vec![];
        let (sealed, tail) = list.seal(&mut blobs).unwrap();
        (sealed, tail, blobs)
    }

    fn segment(items: u64, prev: Option<&ContentRef>) -> Vec<u8> {
        let items: Vec<Arc<u64>> = (0..items).map(Arc::new).collect();
        to_vec(&SegmentOut { items: &items, prev }).unwrap()
    }

    #[test]
    fn sn_7_entries_after_a_place_are_those_that_follow_it() {
        let list = of(400);
        for count in [0, 1, 127, 128, 129, 256, 383, 384, 385, 399, 400, 401, 1_000] {
            assert!(list.after(count).eq(list.iter().skip(count as usize)), "after {count}");
        }
    }

    /// The lengths around a full segment: the last entry is in the tail, the full segments before
    /// it are sealed once, and a list that is read back from them is the same list.
    #[test]
    fn sn_7_a_list_is_read_back_from_its_segments() {
        for (count, segments) in [(0, 0), (1, 0), (128, 0), (129, 1), (256, 1), (257, 2), (300, 2), (400, 3)] {
            let mut list = of(count);
            assert_eq!((list.len(), list.is_empty()), (count, count == 0));
            assert_eq!(list.last().copied(), count.checked_sub(1));
            let (run, mut again, blobs) = sealed(&mut list);
            assert_eq!(blobs.len(), segments, "of {count}");
            let expected = blobs.last().map(|last| (segments as u64 * 128, last.reference.clone()));
            assert_eq!(run.clone().map(|run| (run.count, run.last)), expected);
            assert!(blobs.iter().all(|blob| blob.reference.media == MEDIA_SEGMENT));
            assert_eq!(again.len(), count - segments as u64 * 128);
            again.precede(run);
            assert_eq!((again.len(), again.is_empty()), (count, count == 0));
            for blob in blobs.iter().rev() {
                assert_eq!(again.unread().map(|unread| &unread.last), Some(&blob.reference));
                assert!(to_vec(&again).is_err(), "not all of it is in memory");
                again.supply(&blob.bytes).unwrap();
                assert_eq!(again.len(), count);
            }
            assert_eq!(again.unread(), None);
            assert!(again.iter().eq(list.iter()), "of {count}");
            assert_eq!(to_vec(&again).unwrap(), to_vec(&list).unwrap());
        }
    }

    #[test]
    fn sn_7_a_segment_is_written_once() {
        let mut list = of(300);
        let (first, _, blobs) = sealed(&mut list);
        assert_eq!(blobs.len(), 2);
        let (second, tail, blobs) = sealed(&mut list);
        assert_eq!((second, blobs.len(), tail.len()), (first.clone(), 0, 44));
        (300..400).for_each(|item| list.push(item));
        let (third, tail, blobs) = sealed(&mut list);
        let [blob] = blobs.as_slice() else { panic!("{} segments", blobs.len()) };
        let read: SegmentIn<u64> = from_slice(&blob.bytes).unwrap();
        assert_eq!((read.items.first(), read.items.last()), (Some(&256), Some(&383)));
        assert_eq!(read.prev, first.map(|first| first.last), "each names the one before");
        assert_eq!(third, Some(Sealed { count: 384, last: blob.reference.clone() }));
        assert!(tail.iter().copied().eq(384..400));
    }

    /// A fold that goes on from a snapshot seals what is new behind what it never read.
    #[test]
    fn sn_7_segments_that_nobody_read_are_cited_as_they_are() {
        let mut list = of(300);
        let (run, mut again, mut blobs) = sealed(&mut list);
        again.precede(run.clone());
        assert_eq!(sealed(&mut again).0, run);
        (300..400).for_each(|item| again.push(item));
        let (longer, mut whole, more) = sealed(&mut again);
        assert_eq!((longer.as_ref().map(|run| run.count), more.len()), (Some(384), 1));
        blobs.extend(more);
        whole.precede(longer);
        blobs.iter().rev().for_each(|blob| whole.supply(&blob.bytes).unwrap());
        assert!(whole.iter().copied().eq(0..400));
    }

    /// Bytes that are no segment of the list are refused and change nothing.
    #[test]
    fn sn_2_a_segment_that_does_not_fit_its_list_is_refused() {
        let other = ContentRef::of(MEDIA_SEGMENT, b"other");
        let run = |count| Some(Sealed { count, last: other.clone() });
        for (count, bytes, fits) in [
            (128, segment(128, None), true),
            (256, segment(128, Some(&other)), true),
            (128, segment(128, Some(&other)), false),
            (256, segment(128, None), false),
            (128, segment(127, None), false),
            (128, segment(129, None), false),
            (256, segment(127, Some(&other)), false),
            (127, segment(128, None), false),
            (0, segment(128, None), false),
            (128, b"[]".to_vec(), false),
        ] {
            let mut list = of(3);
            list.precede(run(count));
            let before = list.clone();
            let supplied = list.supply(&bytes);
            let text = String::from_utf8_lossy(&bytes);
            assert_eq!(supplied.is_ok(), fits, "{count}: {text}");
            assert_eq!(list == before, !fits, "{count}: {text}");
        }
        let mut whole = of(3);
        whole.supply(&segment(128, None)).unwrap();
        assert_eq!(whole, of(3), "nothing is missing, so nothing is taken in");
    }
}
