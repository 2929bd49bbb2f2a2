use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A JSON string that others wrote. A lone surrogate escape in it, which no Rust text can hold, is
/// read as U+FFFD (EV-6), whoever reads it; the adapter records that something was replaced.
///
/// It is read by `serde_json`, which hands out such strings in WTF-8 when asked for bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForeignText {
    /// The text.
    pub text: String,
    /// Whether something was replaced.
    pub replaced: bool,
}

impl<'de> Deserialize<'de> for ForeignText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asked for bytes, serde_json hands out a lone surrogate in WTF-8 instead of failing.
        deserializer.deserialize_bytes(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = ForeignText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<ForeignText, E> {
        Ok(from_wtf8(bytes))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ForeignText, E> {
        Ok(ForeignText { text: text.to_owned(), replaced: false })
    }
}

/// Reads WTF-8 (<https://simonsapin.github.io/wtf-8/>): UTF-8 in which a surrogate without its
/// partner takes three bytes, `ED A0..BF 80..BF`; each becomes one U+FFFD.
fn from_wtf8(mut bytes: &[u8]) -> ForeignText {
    let mut read = ForeignText::default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ev_6_what_is_no_unicode_is_replaced() {
        for (json, text, replaced) in [
            (r#""a\u0000\ud83d\ude00""#, "a\0\u{1f600}", false),
            (r#""a\ud83db""#, "a\u{fffd}b", true),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}", true),
        ] {
            let read: ForeignText = serde_json::from_str(json).unwrap();
            assert_eq!(read, ForeignText { text: text.into(), replaced });
        }
        assert!(serde_json::from_str::<ForeignText>("1").is_err());
    }
}
