//! Text and JSON that a server wrote, read without losing the rest when a part of it is odd.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

/// A JSON string. A lone surrogate escape in it, which no Rust text can hold, is read as
/// U+FFFD (EV-6).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// Whether something was replaced.
    pub(crate) replaced: bool,
}

impl Text {
    /// The string that stands there; `None` for anything else.
    pub(crate) fn of(raw: &RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }
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

/// The members of a JSON object, each as the text that stands there. Of a name that comes
/// twice the last is kept, as most readers do.
#[derive(Debug, Default)]
pub(crate) struct Members<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Members<'a> {
    /// The members of an object; `None` for anything else.
    pub(crate) fn of(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok().map(Self)
    }

    /// Takes a member out; a `null` counts as none.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name).filter(|raw| raw.get() != "null")
    }

    /// Takes an object out.
    pub(crate) fn take_object(&mut self, name: &str) -> Option<Self> {
        self.take(name).and_then(|raw| Self::of(raw.get()))
    }

    /// Takes a string out.
    pub(crate) fn take_text(&mut self, name: &str) -> Option<Text> {
        self.take(name).and_then(Text::of)
    }

    /// Takes a list out; empty when there is none.
    pub(crate) fn take_list(&mut self, name: &str) -> Vec<&'a RawValue> {
        self.take(name).map(list).unwrap_or_default()
    }

    /// What was not taken, but for what says nothing: `null`, `""`, `[]`, `{}`.
    pub(crate) fn rest(self) -> impl Iterator<Item = (String, &'a RawValue)> {
        self.0.into_iter().filter(|(_, raw)| !matches!(raw.get(), "null" | "\"\"" | "[]" | "{}"))
    }
}

/// The elements of a list; none of anything else.
pub(crate) fn list(raw: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// At most `max` bytes of `text`, cut between characters.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
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
            let raw: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(Text::of(raw), Some(Text { text: text.into(), replaced }));
        }
    }

    #[test]
    fn ev_5_members_are_the_very_text() {
        let mut members = Members::of(r#"{"b": 1.50 ,"a":{"z":1,"y":2},"n":null,"e":[]}"#).unwrap();
        assert_eq!(members.take("b").unwrap().get(), "1.50");
        assert!(members.take("n").is_none() && members.take("nothing").is_none());
        let rest: Vec<_> = members.rest().map(|(name, raw)| (name, raw.get())).collect();
        assert_eq!(rest, [("a".to_owned(), r#"{"z":1,"y":2}"#)]);
        assert!(Members::of("[1]").is_none() && Members::of("{").is_none());
    }

    #[test]
    fn ev_6_a_cut_never_splits_a_character() {
        assert_eq!((cut("aé", 2), cut("aé", 3), cut("aé", 9)), ("a", "aé", "aé"));
    }
}
