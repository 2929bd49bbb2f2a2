//! Texts of any size: inline in an event while small, by reference to content otherwise.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor},
};

use crate::canonical::{Hash, content_hash, string_len};
use crate::limits::INLINE_BYTES_MAX;

/// Media type of plain text.
pub const MEDIA_TEXT: &str = "text/plain; charset=utf-8";
/// Media type of JSON that others wrote, carried as text (EV-5).
pub const MEDIA_JSON: &str = "application/json";
/// Media type of a message's blocks.
pub const MEDIA_BLOCKS: &str = "application/vnd.plica.blocks+json";
/// Media type of a snapshot's state.
pub const MEDIA_STATE: &str = "application/vnd.plica.state+json";
/// Media type of a sealed list segment.
pub const MEDIA_SEGMENT: &str = "application/vnd.plica.segment+json";
/// Media type of a plan of what a rewind puts back.
pub const MEDIA_RESTORE: &str = "application/vnd.plica.restore+json";
/// Media type of a file's bytes.
pub const MEDIA_BYTES: &str = "application/octet-stream";
/// Media type of an agent definition.
pub const MEDIA_DEFINITION: &str = "application/vnd.plica.definition+json";

/// Content addressed by its hash: `{media, sha256, size}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentRef {
    /// Media type, for readers; content is addressed by hash alone.
    pub media: String,
    /// SHA-256 of the bytes.
    pub sha256: Hash,
    /// Number of bytes.
    pub size: u64,
}

impl ContentRef {
    /// The reference of these bytes.
    pub fn of(media: &str, bytes: &[u8]) -> Self {
        Self { media: media.to_string(), sha256: content_hash(bytes), size: bytes.len() as u64 }
    }
}

impl fmt::Display for ContentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{} ({} bytes)", self.sha256, self.size)
    }
}

/// Content with its reference, on its way to a content store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Where it will be found.
    pub reference: ContentRef,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Blob {
    /// These bytes under their reference.
    pub fn new(media: &str, bytes: Vec<u8>) -> Self {
        Self { reference: ContentRef::of(media, &bytes), bytes }
    }
}

/// A text: inline while its canonical form, quotes and escapes included, is at most 1024
/// bytes, otherwise a reference (EV-7). The threshold is fixed, so the same text is always
/// the same body.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Body {
    /// The text itself.
    Inline(String),
    /// Where the text is.
    Ref(ContentRef),
}

impl Body {
    /// The body of `text`; what does not fit inline is pushed to `blobs` as `media`.
    pub fn of(text: &str, media: &str, blobs: &mut Vec<Blob>) -> Self {
        if string_len(text) <= INLINE_BYTES_MAX {
            return Self::Inline(text.to_string());
        }
        let blob = Blob::new(media, text.as_bytes().to_vec());
        let reference = blob.reference.clone();
        blobs.push(blob);
        Self::Ref(reference)
    }

    /// The body of plain text.
    pub fn text(text: &str, blobs: &mut Vec<Blob>) -> Self {
        Self::of(text, MEDIA_TEXT, blobs)
    }

    /// The text, if it is inline.
    pub fn inline(&self) -> Option<&str> {
        match self {
            Self::Inline(text) => Some(text),
            Self::Ref(_) => None,
        }
    }

    /// The reference, if the text is not inline.
    pub fn reference(&self) -> Option<&ContentRef> {
        match self {
            Self::Inline(_) => None,
            Self::Ref(reference) => Some(reference),
        }
    }

    /// Number of bytes of the text.
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(text) => text.len() as u64,
            Self::Ref(reference) => reference.size,
        }
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Inline(String::new())
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Inline(text) => serializer.serialize_str(text),
            Self::Ref(reference) => reference.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BodyVisitor;
        impl<'de> Visitor<'de> for BodyVisitor {
            type Value = Body;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a content reference")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Body, E> {
                Ok(Body::Inline(text.to_string()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Body, A::Error> {
                ContentRef::deserialize(de::value::MapAccessDeserializer::new(map)).map(Body::Ref)
            }
        }
        deserializer.deserialize_any(BodyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn ev_7_a_body_is_inline_up_to_1024_canonical_bytes() {
        let mut blobs = vec![];
        assert!(Body::text(&"x".repeat(1022), &mut blobs).inline().is_some());
        assert!(Body::text(&"\n".repeat(511), &mut blobs).inline().is_some());
        assert!(blobs.is_empty());
        let body = Body::text(&"x".repeat(1023), &mut blobs);
        assert_eq!(body.reference(), Some(&blobs[0].reference));
        assert!(Body::text(&"\n".repeat(512), &mut blobs).inline().is_none());
        assert_eq!(blobs[1].bytes, "\n".repeat(512).as_bytes());
    }

    #[test]
    fn ev_7_a_body_is_a_text_or_a_reference() {
        for body in [Body::Inline("text".into()), Body::default(), Body::Ref(ContentRef::of(MEDIA_TEXT, b"bytes"))] {
            let bytes = crate::canonical::to_vec(&body).unwrap();
            assert_eq!(crate::canonical::from_slice(&bytes), Ok(body));
        }
        let of = ContentRef::of(MEDIA_TEXT, b"bytes");
        assert_eq!((of.media.as_str(), of.sha256, of.size), (MEDIA_TEXT, content_hash(b"bytes"), 5));
        assert_eq!((Body::Ref(of.clone()).inline(), Body::Ref(of.clone()).reference()), (None, Some(&of)));
        assert_eq!((Body::default().inline(), Body::default().reference()), (Some(""), None));
        assert!(crate::canonical::from_slice::<Body>(b"7").is_err());
    }

    #[test]
    fn ev_7_a_body_knows_its_length_wherever_it_lies() {
        let mut blobs = vec![];
        for length in [0, 1, 3, 1022, 1023, 5_000] {
            let body = Body::text(&"x".repeat(length), &mut blobs);
            assert_eq!((body.len(), body.is_empty()), (length as u64, length == 0));
        }
    }
}
