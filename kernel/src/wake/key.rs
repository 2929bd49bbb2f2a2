use alloc::string::{String, ToString};
use core::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::id::Seq;

/// The identity that an item and a wait share. As text: `message`, `answer:<decision>`,
/// `group:<decision>`, `background`, `event:<kind>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeKey {
    /// The next message.
    Message,
    /// Approvals and questions of one reply.
    Answer(Seq),
    /// Children of one reply.
    Group(Seq),
    /// Children and jobs that go on by themselves.
    Background,
    /// An event from outside, by its kind.
    Event(String),
}

impl fmt::Display for WakeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message => f.write_str("message"),
            Self::Answer(decision) => write!(f, "answer:{decision}"),
            Self::Group(decision) => write!(f, "group:{decision}"),
            Self::Background => f.write_str("background"),
            Self::Event(kind) => write!(f, "event:{kind}"),
        }
    }
}

/// A text that is no wake key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no wake key")]
pub struct WakeKeyError(pub String);

impl FromStr for WakeKey {
    type Err = WakeKeyError;
    fn from_str(text: &str) -> Result<Self, WakeKeyError> {
        let key = match (text, text.split_once(':')) {
            ("message", _) => Some(Self::Message),
            ("background", _) => Some(Self::Background),
            (_, Some(("answer", decision))) => decision.parse().ok().map(|decision| Self::Answer(Seq(decision))),
            (_, Some(("group", decision))) => decision.parse().ok().map(|decision| Self::Group(Seq(decision))),
            (_, Some(("event", kind))) if !kind.is_empty() => Some(Self::Event(kind.to_string())),
            _ => None,
        };
        key.filter(|key| key.to_string() == text).ok_or_else(|| WakeKeyError(text.to_string()))
    }
}

impl Serialize for WakeKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WakeKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
