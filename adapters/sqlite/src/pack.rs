//! Bodies as they lie in the file: packed where that makes them shorter.
//!
//! Snapshots repeat the end of a conversation, and what agents read and write is text: packed,
//! they take a sixth of the space, and so much less has to be written and flushed.

use std::collections::BTreeMap;

use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::{Hash, content_hash};
use plica_kernel::limits::CONTENT_BYTES_MAX;
use zstd::bulk::{Compressor, decompress};

/// Bytes below which a body is kept as it is: it shares its page with others, and a frame costs
/// more to read than that saves.
const PACKED_BYTES_MIN: usize = 256;
/// The level of zstd that is read fastest and written as fast as those below; the next ones take
/// three times as long to save another twentieth.
const LEVEL: i32 = 3;

/// The frames of those bodies that are shorter by them, by hash.
#[derive(Debug, Default)]
pub(crate) struct Frames(BTreeMap<Hash, Vec<u8>>);

impl Frames {
    /// Packs bodies, before any lock is taken.
    pub(crate) fn of<'a>(blobs: impl IntoIterator<Item = &'a Blob>) -> Self {
        let mut compressor = None;
        let mut frames = BTreeMap::new();
        for blob in blobs.into_iter().filter(|blob| blob.bytes.len() >= PACKED_BYTES_MIN) {
            if compressor.is_none() {
                compressor = Compressor::new(LEVEL).ok();
            }
            // Whatever cannot be packed, as when memory is short, is kept as it is.
            let frame = compressor.as_mut().and_then(|packer| packer.compress(&blob.bytes).ok());
            if let Some(frame) = frame.filter(|frame| pays(frame.len(), blob.bytes.len())) {
                frames.insert(blob.reference.sha256, frame);
            }
        }
        Self(frames)
    }

    /// The frame of a body, unless it is kept as it is.
    pub(crate) fn get(&self, body: &Hash) -> Option<&[u8]> {
        self.0.get(body).map(Vec::as_slice)
    }
}

/// Whether a frame is worth being unpacked at every read: it saves an eighth.
fn pays(frame: usize, plain: usize) -> bool {
    frame <= plain - plain / 8
}

/// What the file holds of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Its bytes, or the frame of them.
    pub bytes: Vec<u8>,
    /// Whether it is a frame.
    pub packed: bool,
}

impl Kept {
    /// The plain bytes, if they are those of the reference (CO-1). A frame that says or holds more
    /// than those is not unpacked, so a damaged one takes no more memory than a sound one.
    pub(crate) fn open(self, reference: &ContentRef) -> Option<Vec<u8>> {
        let size = usize::try_from(reference.size).ok().filter(|size| *size <= CONTENT_BYTES_MAX)?;
        let bytes = if self.packed { decompress(&self.bytes, size).ok()? } else { self.bytes };
        (bytes.len() == size && content_hash(&bytes) == reference.sha256).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "text/plain";

    fn frame(bytes: &[u8]) -> Option<Vec<u8>> {
        let blob = Blob::new(TEXT, bytes.to_vec());
        Frames::of([&blob]).get(&blob.reference.sha256).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_body_is_packed_only_when_that_pays() {
        let text = "what the agent said ".repeat(100);
        assert!(frame(text.as_bytes()).is_some_and(|frame| frame.len() < text.len() / 8));
        assert_eq!(frame(&text.as_bytes()[..PACKED_BYTES_MIN - 1]), None);
        // Hashes of hashes hold nothing that repeats.
        let mut noise = Vec::new();
        while noise.len() < 10_000 {
            noise.extend_from_slice(content_hash(&noise).as_bytes());
        }
        assert_eq!(frame(&noise), None);
    }

    #[test]
    fn co_1_a_frame_opens_to_the_bytes_of_its_reference_alone() {
        let text = "what the agent said ".repeat(1_000).into_bytes();
        let packed = frame(&text).expect("it repeats");
        let open = |bytes: &[u8], reference: &ContentRef| Kept { bytes: bytes.to_vec(), packed: true }.open(reference);
        let reference = ContentRef::of(TEXT, &text);
        assert_eq!(open(&packed, &reference).as_deref(), Some(&text[..]));
        for size in [0, 1, reference.size - 1, reference.size + 1, u64::MAX] {
            assert_eq!(open(&packed, &ContentRef { size, ..reference.clone() }), None, "of {size} bytes");
        }
        let other = ContentRef { sha256: content_hash(b"another"), ..reference.clone() };
        assert_eq!(open(&packed, &other), None);
        assert_eq!(open(&text, &reference), None, "plain bytes are no frame");
        for cut in 0..packed.len() {
            assert_eq!(open(&packed[..cut], &reference), None, "cut after {cut} bytes");
            let mut flipped = packed.clone();
            flipped[cut] ^= 1;
            // Some bits of a frame mean nothing; the bytes are the same then, or none.
            assert!(open(&flipped, &reference).is_none_or(|bytes| bytes == text), "byte {cut} flipped");
        }
    }

    /// CO-1: a frame that would fill the memory is not unpacked beyond what its body has.
    #[test]
    fn co_1_a_frame_that_holds_more_than_its_body_is_not_unpacked() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], LEVEL).expect("zeroes pack well");
        assert!(bomb.len() < 16 << 10);
        let reference = ContentRef::of(TEXT, b"a short text");
        assert_eq!(Kept { bytes: bomb, packed: true }.open(&reference), None);
    }
}
