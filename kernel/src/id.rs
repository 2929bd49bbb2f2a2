//! Identifiers: one type each, so that no bare text or number crosses a boundary.

use alloc::{
    format,
    string::{String, ToString},
};
use core::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::ID_BYTES_MAX;

/// Why a text is no identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?}: {rule}")]
pub struct IdError {
    /// Which kind of identifier was asked for.
    pub kind: &'static str,
    /// The text, cut to what a message can hold.
    pub text: String,
    /// The rule it breaks.
    pub rule: &'static str,
}

fn text_id(kind: &'static str, text: &str) -> Result<(), IdError> {
    let error = |rule| Err(IdError { kind, text: text.chars().take(80).collect(), rule });
    if text.is_empty() {
        return error("is empty");
    }
    if text.len() > ID_BYTES_MAX {
        return error("is longer than 255 bytes");
    }
    // Nearly every id is graphic ASCII, which needs no look at characters.
    let is_graphic = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_graphic && text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return error("holds white space or control characters");
    }
    Ok(())
}

macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The identifier of this text: 1 to 255 bytes without white space or control
            /// characters.
            ///
            /// # Errors
            /// [`IdError`] naming the rule that is broken.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                text_id($kind, &text)?;
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }
    )*};
}

text_ids! {
    /// A task: UUIDv7 text for roots, `<parent>.<call>.<n>` for children.
    TaskId = "task id";
    /// A claim: one worker's hold of one task.
    RunId = "run id";
    /// A store's own name: made with the store, never changed.
    LedgerId = "ledger id";
    /// A worker process as it names itself in lists.
    WorkerId = "worker id";
    /// One start of one process; only the same instance may take its own claims up again.
    InstanceId = "instance id";
    /// A queue that workers serve.
    Queue = "queue";
    /// The key that makes a creation or a delivery idempotent.
    DedupKey = "key";
}

impl TaskId {
    /// The `n`-th child that `call` of this task spawns.
    pub fn child(&self, call: CallId, n: u32) -> Self {
        Self(format!("{self}.{call}.{n}"))
    }
}

impl Queue {
    /// The queue that a task joins unless told otherwise.
    pub fn main() -> Self {
        Self("main".to_string())
    }
}

macro_rules! number_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after this.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

number_ids! {
    /// An event's place in its task's log, from 1.
    Seq;
    /// The fencing epoch: raised by every claim, 0 for a task's first append.
    Epoch;
    /// An item's place in a task's inbox, from 1; 0 means none.
    Position;
}

/// A call: the seq of the `DecisionRecorded` that lists it and its index there, as text
/// `<decision>.<index>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The `DecisionRecorded` that lists the call.
    pub decision: Seq,
    /// Its place in that list, from 0.
    pub index: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.decision, self.index)
    }
}

impl FromStr for CallId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        // One spelling only: "+1.0" and "01.0" parse as numbers but are not ids.
        let is_plain = |digits: &str| digits == "0" || !digits.starts_with(['0', '+']);
        let parsed = text.split_once('.').and_then(|(decision, index)| {
            let call = Self { decision: Seq(decision.parse().ok()?), index: index.parse().ok()? };
            (is_plain(decision) && is_plain(index)).then_some(call)
        });
        match parsed {
            Some(call) => Ok(call),
            None => Err(IdError {
                kind: "call id",
                text: text.chars().take(80).collect(),
                rule: "is not <decision>.<index>",
            }),
        }
    }
}

impl Serialize for CallId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CallId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = CallId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a call id")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<CallId, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// The idempotency key of a call: `<task>:<call>`, the same on every worker and every try.
pub fn idempotency_key(task: &TaskId, call: CallId) -> String {
    format!("{task}:{call}")
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::canonical::{from_slice, to_vec};

    #[test]
    fn id_texts_are_short_and_hold_no_white_space() {
        let long = "x".repeat(ID_BYTES_MAX);
        for good in ["x", "0197a000-0000-7000-8000-000000000001", "p.7.1.2", "~!", "\u{e9}t\u{e9}", &long] {
            let id = TaskId::new(good).unwrap();
            assert_eq!((id.as_str(), id.to_string().as_str()), (good, good));
            assert_eq!(good.parse(), Ok(id.clone()));
            assert_eq!(from_slice(&to_vec(&id).unwrap()), Ok(id));
        }
        for (bad, rule) in [
            ("", "is empty"),
            (&*(long.clone() + "x"), "is longer than 255 bytes"),
            ("a b", "holds white space or control characters"),
            ("a\u{7f}", "holds white space or control characters"),
            ("\u{e9}\u{85}", "holds white space or control characters"),
            ("\u{e9}\u{2003}t", "holds white space or control characters"),
            ("\u{e9}\u{1b}", "holds white space or control characters"),
        ] {
            let error = TaskId::new(bad).unwrap_err();
            assert_eq!((error.kind, error.rule, error.text.len()), ("task id", rule, bad.len().min(80)), "{bad:?}");
            assert!(from_slice::<Queue>(&to_vec(bad).unwrap()).is_err());
        }
        assert_eq!(Queue::main().as_str(), "main");
    }

    #[test]
    fn id_numbers_are_written_as_numbers() {
        assert_eq!((Seq(7).next(), Epoch(0).next(), Position(41).next()), (Seq(8), Epoch(1), Position(42)));
        assert_eq!([Seq(7).to_string(), Epoch(12).to_string()], ["7", "12"]);
        assert_eq!(to_vec(&Seq(7)).unwrap(), b"7");
    }

    /// Section 2: ids that the kernel makes are functions of the log.
    #[test]
    fn to_2_a_call_names_its_child_and_its_key() {
        let call = CallId { decision: Seq(7), index: 1 };
        let task = TaskId::new("p").unwrap();
        assert_eq!(call.to_string(), "7.1");
        assert_eq!(task.child(call, 2).as_str(), "p.7.1.2");
        assert_eq!(idempotency_key(&task, call), "p:7.1");
    }

    #[test]
    fn ev_1_a_call_has_one_spelling() {
        for (text, decision, index) in [("7.1", 7, 1), ("0.0", 0, 0), ("10.31", 10, 31)] {
            let call = CallId { decision: Seq(decision), index };
            assert_eq!(text.parse(), Ok(call));
            assert_eq!(from_slice(&to_vec(&call).unwrap()), Ok(call));
        }
        let refused: Vec<&str> = ["", "7", "7.", ".1", "07.1", "7.01", "+7.1", "7.+1", "-7.1", "7.1.1", "7,1", "00.1"]
            .into_iter()
            .filter(|text| text.parse::<CallId>().is_ok())
            .collect();
        assert_eq!(refused, [""; 0]);
        let error = "x".repeat(100).parse::<CallId>().unwrap_err();
        assert_eq!((error.kind, error.text.len(), error.rule), ("call id", 80, "is not <decision>.<index>"));
        assert!(from_slice::<CallId>(b"7").is_err());
    }
}
