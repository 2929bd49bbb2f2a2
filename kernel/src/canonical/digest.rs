use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use super::buffer::Buffer;
use crate::id::{LedgerId, TaskId};

/// A SHA-256 value; as text, 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The value of these 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 lower-case hexadecimal digits; anything else is `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
        let mut bytes = [0; 32];
        let mut seen = 0;
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
            seen |= high | low;
            *byte = high.wrapping_mul(16).wrapping_add(low);
        }
        (seen != NO_DIGIT).then_some(Self(bytes))
    }
}

/// The value of a byte that is no digit: all bits, so that one among others shows.
const NO_DIGIT: u8 = u8::MAX;

/// The value of each hexadecimal digit.
const NIBBLES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        serializer.serialize_str(core::str::from_utf8(&text).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Hash;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 lower-case hexadecimal digits")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Hash, E> {
                Hash::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// What a hash is of: the tag and a line feed go in front of the bytes (EV-4), so a hash
/// of one kind can never pass for one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// An event body.
    Event,
    /// The `prev` of a task's first event.
    Genesis,
    /// A lease token, of which a store keeps the hash only.
    Token,
    /// One model request, as a chain over its messages.
    Request,
    /// The exact call an approval is bound to.
    Call,
}

impl Domain {
    const fn tag(self) -> &'static [u8] {
        match self {
            Self::Event => b"plica/event/v1\n",
            Self::Genesis => b"plica/genesis/v1\n",
            Self::Token => b"plica/token/v1\n",
            Self::Request => b"plica/request/v1\n",
            Self::Call => b"plica/call/v1\n",
        }
    }

    /// SHA-256 of the domain's tag and `bytes`.
    pub fn hash(self, bytes: &[u8]) -> Hash {
        let mut hasher = Hasher::new(self);
        hasher.update(bytes);
        hasher.finish()
    }
}

/// An incremental hash in a domain.
#[derive(Clone, Debug)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Starts a hash in `domain`.
    pub fn new(domain: Domain) -> Self {
        let mut sha = Sha256::new();
        sha.update(domain.tag());
        Self(sha)
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes added.
    pub fn finish(self) -> Hash {
        Hash(self.0.finalize().into())
    }
}

/// The hash by which content is addressed: plain SHA-256 of its bytes, no domain.
pub fn content_hash(bytes: &[u8]) -> Hash {
    Hash(Sha256::digest(bytes).into())
}

/// The `prev` of the first event of `task` in the store named `ledger` (EV-4).
pub fn genesis_hash(ledger: &LedgerId, task: &TaskId) -> Hash {
    let mut text = Buffer::with_room(128);
    text.extend(b"{\"ledger\":");
    text.string(ledger.as_str());
    text.extend(b",\"task\":");
    text.string(task.as_str());
    text.push(b'}');
    Domain::Genesis.hash(text.as_bytes())
}
