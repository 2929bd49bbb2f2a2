//! Text that may not be Unicode, read without losing the rest (EV-6).

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A JSON string. A lone surrogate escape in it, which no Rust text can hold, is read as
/// U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// Whether something was replaced.
    pub(crate) replaced: bool,
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asked for bytes, serde_json hands out a lone surrogate in WTF-8 instead of failing.
        deserializer.deserialize_bytes(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Text, E> {
        Ok(from_wtf8(bytes))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text { text: text.to_owned(), replaced: false })
    }
}

/// Reads WTF-8 (<https://simonsapin.github.io/wtf-8/>): UTF-8 in which a surrogate without its
/// partner takes three bytes, `ED A0..BF 80..BF`; each becomes one U+FFFD.
fn from_wtf8(mut bytes: &[u8]) -> Text {
    let mut read = Text::default();
    while let Err(error) = std::str::from_utf8(bytes) {
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        read.text.push_str(&String::from_utf8_lossy(valid));
        read.text.push(char::REPLACEMENT_CHARACTER);
        read.replaced = true;
        let skip = match rest {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            _ => error.error_len().unwrap_or(rest.len()),
        };
        bytes = &rest[skip..];
    }
    read.text.push_str(&String::from_utf8_lossy(bytes));
    read
}
