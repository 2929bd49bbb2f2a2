//! Where canonical text is put together.

use alloc::vec::Vec;
use core::fmt;

use super::scan::{WORD, has_special};

/// Text in progress. Its room is filled with zeros ahead of what is written, so that a word can be
/// stored whole, whatever part of it counts.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

/// Bytes that one byte of a string becomes at most.
const ESCAPED_MAX: usize = 6;
/// Room for a word of a string, whatever it holds, and for storing the last of it as a whole word.
const WORD_ROOM: usize = WORD * ESCAPED_MAX + WORD;

/// What each byte of a string is written as, from the lowest byte on; the highest byte of an entry
/// is how many bytes that is.
static ESCAPES: [u64; 256] = escapes();

const fn escapes() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let value = byte as u8;
        let short = match value {
            b'"' | b'\\' => value,
            0x08 => b'b',
            0x09 => b't',
            0x0a => b'n',
            0x0c => b'f',
            0x0d => b'r',
            _ => 0,
        };
        let written = if short != 0 {
            [b'\\', short, 0, 0, 0, 0, 0, 2]
        } else if value < 0x20 {
            let low = value & 15;
            let digit = if low < 10 { b'0' + low } else { b'a' + low - 10 };
            [b'\\', b'u', b'0', b'0', b'0' + (value >> 4), digit, 0, ESCAPED_MAX as u8]
        } else {
            [value, 0, 0, 0, 0, 0, 0, 1]
        };
        table[byte] = u64::from_le_bytes(written);
        byte += 1;
    }
    table
}

impl Buffer {
    /// An empty one with room for `size` bytes.
    #[expect(
        clippy::slow_vector_initialization,
        reason = "allocators keep freed pieces at hand, but not for memory that is asked for with zeros"
    )]
    pub(super) fn with_room(size: usize) -> Self {
        let mut bytes = Vec::with_capacity(size);
        bytes.resize(size, 0);
        Self { bytes, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn into_vec(mut self) -> Vec<u8> {
        self.bytes.truncate(self.len);
        self.bytes
    }

    /// Forgets what was written after the first `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    #[inline]
    fn make_room(&mut self, more: usize) {
        if self.bytes.len() - self.len < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let size = (self.len + more).max(self.bytes.len() * 2);
        self.bytes.resize(size, 0);
    }

    /// Appends a byte as it stands.
    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        self.make_room(1);
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Appends bytes as they stand.
    #[inline]
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends `text` as a string, quotes included.
    pub(super) fn string(&mut self, text: &str) {
        self.push(b'"');
        self.escaped(text);
        self.push(b'"');
    }

    /// Appends `text` as a part of a string.
    ///
    /// Nothing is decided byte by byte: agents' texts are full of quotes and line feeds at places
    /// that no processor guesses. A word without any goes over whole, else each of its bytes by the table.
    pub(super) fn escaped(&mut self, text: &str) {
        let (words, rest) = text.as_bytes().as_chunks::<WORD>();
        self.make_room(text.len() + WORD_ROOM);
        let mut len = self.len;
        for (index, word) in words.iter().enumerate() {
            if has_special(*word) {
                self.len = len;
                self.make_room(text.len() - index * WORD + WORD_ROOM);
                word.iter().for_each(|byte| put(&mut self.bytes, &mut len, *byte));
            } else {
                store(&mut self.bytes, len, *word);
                len += WORD;
            }
        }
        self.len = len;
        self.make_room(WORD_ROOM);
        rest.iter().for_each(|byte| put(&mut self.bytes, &mut len, *byte));
        self.len = len;
    }
}

/// Stores a whole word at `at`.
#[inline]
fn store(bytes: &mut [u8], at: usize, word: [u8; WORD]) {
    bytes[at..at + WORD].copy_from_slice(&word);
}

/// Stores what a byte is written as.
#[inline]
fn put(bytes: &mut [u8], len: &mut usize, byte: u8) {
    let escape = ESCAPES[byte as usize];
    store(bytes, *len, escape.to_le_bytes());
    *len += (escape >> 56) as usize;
}

/// Takes formatted text as part of a string.
impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.escaped(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String};

    use super::*;
    use proptest::prelude::*;

    /// A string as RFC 8785 section 3.2.2.2 writes it, character by character.
    fn slowly(text: &str) -> String {
        let written = text.chars().map(|character| match character {
            '"' => "\\\"".into(),
            '\\' => "\\\\".into(),
            '\u{8}' => "\\b".into(),
            '\t' => "\\t".into(),
            '\n' => "\\n".into(),
            '\u{c}' => "\\f".into(),
            '\r' => "\\r".into(),
            '\0'..' ' => format!("\\u{:04x}", character as u32),
            plain => plain.into(),
        });
        format!("\"{}\"", written.collect::<String>())
    }

    /// Every room meets every length of what takes the most of it.
    #[test]
    fn ev_1_a_string_finds_room_wherever_there_is_none() {
        for (count, room) in (0..=5 * WORD).flat_map(|count| (0..=count * ESCAPED_MAX).map(move |room| (count, room))) {
            for plain in ["", "plain text before it"] {
                let text = format!("{plain}{}", "\u{1}".repeat(count));
                let mut buffer = Buffer::with_room(room);
                buffer.string(&text);
                assert_eq!(buffer.as_bytes(), slowly(&text).as_bytes(), "{count} in {room}");
            }
        }
    }

    /// Every byte of a string at every place of a word, and every length of what follows.
    #[test]
    fn ev_1_a_string_is_escaped_wherever_in_a_word_it_needs_it() {
        for special in ('\0'..='\u{80}').chain(['é', '–', '\u{1f600}']) {
            for (before, after) in (0..=2 * WORD).flat_map(|before| (0..=WORD).map(move |after| (before, after))) {
                let text = format!("{}{special}{}", "b".repeat(before), "a".repeat(after));
                let mut buffer = Buffer::with_room(0);
                buffer.string(&text);
                assert_eq!(buffer.as_bytes(), slowly(&text).as_bytes());
            }
        }
    }

    proptest! {
        /// However much longer strings become by it, and whatever room there was.
        #[test]
        fn ev_1_a_buffer_holds_what_was_written_to_it(
            texts in prop::collection::vec("[\\x00-\\x22\\\\a-fé–]{0,80}", 1..6),
            room in 0..100usize,
        ) {
            let mut buffer = Buffer::with_room(room);
            let mut expected = String::new();
            for text in &texts {
                buffer.string(text);
                expected.push_str(&slowly(text));
                buffer.extend(text.as_bytes());
                expected.push_str(text);
                buffer.push(b',');
                expected.push(',');
            }
            prop_assert_eq!(buffer.len(), expected.len());
            let half = buffer.len() / 2;
            prop_assert_eq!(buffer.as_bytes(), expected.as_bytes());
            buffer.truncate(half);
            prop_assert_eq!(buffer.into_vec(), &expected.as_bytes()[..half]);
        }
    }
}
