//! Text and JSON that a server wrote, read without losing the rest when a part of it is odd.

use std::collections::BTreeMap;

pub(crate) use plica_ports::ForeignText as Text;
use serde_json::value::RawValue;

/// The string that stands there; `None` for anything else.
pub(crate) fn string(raw: &RawValue) -> Option<Text> {
    serde_json::from_str(raw.get()).ok()
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
        self.take(name).and_then(string)
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
