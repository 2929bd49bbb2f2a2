//! The way nearly every event takes: decoded in one pass, its payload where it stands.
//!
//! A payload comes before the `type` that says what it is, so the type is looked for at the
//! body's end, where the canonical order of the members puts it, and compared with the member
//! itself once that is read. Whatever is unusual (a newer envelope, an unknown type, members
//! after `v`, a body that may hold too large a payload, anything wrong at all) is left to the
//! other way, which reads the payload in a pass of its own and can say what is wrong.

use alloc::{collections::BTreeMap, string::String};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, Visitor},
};

use crate::canonical::{Hash, from_slice_with};
use crate::envelope::{Envelope, FORMAT, Links, Origin};
use crate::event::{EventType, Payload};
use crate::id::{Epoch, RunId, Seq, TaskId};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::time::Timestamp;

/// The event, if nothing about it is unusual.
pub(super) fn decode(body: &[u8]) -> Option<Envelope> {
    if body.len() > PAYLOAD_BYTES_MAX {
        return None;
    }
    let kind = kind_at_end(body).filter(|kind| kind.is_readable())?;
    from_slice_with(Event(kind), body).ok()
}

/// The type that a body ends with.
fn kind_at_end(body: &[u8]) -> Option<EventType> {
    let rest = body.strip_suffix(b"\",\"v\":1}")?;
    let start = rest.iter().rposition(|byte| *byte == b'"')?;
    rest[..start]
        .ends_with(b",\"type\":")
        .then(|| core::str::from_utf8(&rest[start + 1..]).ok())?
        .and_then(EventType::named)
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Member {
    Action,
    Actor,
    At,
    Decision,
    Epoch,
    Metrics,
    More,
    Origin,
    Parent,
    Payload,
    Prev,
    Run,
    Seq,
    Task,
    Trace,
    Type,
    V,
    #[serde(other)]
    Other,
}

/// An event of this type.
struct Event(EventType);

impl<'de> DeserializeSeed<'de> for Event {
    type Value = Envelope;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Envelope, D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// A payload of this type.
struct PayloadOf(EventType);

impl<'de> DeserializeSeed<'de> for PayloadOf {
    type Value = Option<Payload>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Payload>, D::Error> {
        Payload::read(self.0, deserializer)
    }
}

impl<'de> Visitor<'de> for Event {
    type Value = Envelope;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope, A::Error> {
        let mut links = Links::default();
        let (mut actor, mut at, mut epoch, mut origin, mut payload) = (None, None, None, None, None);
        let (mut prev, mut run, mut seq, mut task) = (None, None, None, None);
        let (mut metrics, mut more, mut trace) = (BTreeMap::new(), 0, None);
        let (mut kind, mut format) = (None, None);
        while let Some(member) = map.next_key()? {
            match member {
                Member::Action => links.action = map.next_value::<Option<Seq>>()?,
                Member::Actor => actor = Some(map.next_value::<String>()?),
                Member::At => at = Some(map.next_value::<Timestamp>()?),
                Member::Decision => links.decision = map.next_value::<Option<Seq>>()?,
                Member::Epoch => epoch = Some(map.next_value::<Epoch>()?),
                Member::Metrics => metrics = map.next_value::<BTreeMap<String, u64>>()?,
                Member::More => more = map.next_value::<u32>()?,
                Member::Origin => origin = Some(map.next_value::<Origin>()?),
                Member::Parent => links.parent = map.next_value::<Option<Seq>>()?,
                Member::Payload => payload = map.next_value_seed(PayloadOf(self.0))?,
                Member::Prev => prev = Some(map.next_value::<Hash>()?),
                Member::Run => run = Some(map.next_value::<RunId>()?),
                Member::Seq => seq = Some(map.next_value::<Seq>()?),
                Member::Task => task = Some(map.next_value::<TaskId>()?),
                Member::Trace => trace = map.next_value::<Option<String>>()?,
                Member::Type => kind = Some(map.next_value::<&str>()?),
                Member::V => format = Some(map.next_value::<u32>()?),
                Member::Other => drop(map.next_value::<de::IgnoredAny>()?),
            }
        }
        if (kind, format) != (Some(self.0.name()), Some(FORMAT)) {
            return Err(de::Error::custom("not the type that was looked for"));
        }
        let all = || {
            Some(Envelope {
                task: task?,
                seq: seq?,
                actor: actor?,
                origin: origin?,
                at: at?,
                epoch: epoch?,
                run: run?,
                links,
                more,
                trace,
                metrics,
                prev: prev?,
                payload: payload?,
            })
        };
        all().ok_or_else(|| de::Error::custom("a member is missing"))
    }
}

#[cfg(test)]
mod tests {
    use std::{borrow::ToOwned, vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;
    use crate::body::Body;
    use crate::decode::thorough;
    use crate::event::{Message, MessagesAppended, Role};

    fn body() -> Vec<u8> {
        event("says \"no\"\nnaïvely").seal().unwrap().body
    }

    fn event(said: &str) -> Envelope {
        let blocks = Body::Inline(said.to_owned());
        Envelope {
            task: TaskId::new("t").unwrap(),
            seq: Seq(7),
            actor: "user:ada".to_owned(),
            origin: Origin::System,
            at: Timestamp::from_micros(1),
            epoch: Epoch(2),
            run: RunId::new("r").unwrap(),
            links: Links { parent: Some(Seq(1)), decision: Some(Seq(1)), action: None },
            more: 1,
            trace: Some("trace".to_owned()),
            metrics: BTreeMap::from([("wait_ms".to_owned(), 4)]),
            prev: Hash::from_bytes([7; 32]),
            payload: MessagesAppended {
                jobs: vec![],
                messages: vec![Message { blocks, origin: None, role: Role::User }],
            }
            .into(),
        }
    }

    #[test]
    fn ev_8_what_this_version_writes_is_usual() {
        assert_eq!(thorough(&body()).ok(), decode(&body()));
        assert!(decode(&body()).is_some());
        assert_eq!(decode(&body()[1..]), None);
        // As large as a payload may be, and by a byte larger.
        let frame = event("").seal().unwrap().body.len();
        let of = |len: usize| event(&"x".repeat(len - frame)).seal().unwrap().body;
        assert!(decode(&of(PAYLOAD_BYTES_MAX)).is_some());
        let larger = of(PAYLOAD_BYTES_MAX + 1);
        assert_eq!((decode(&larger), thorough(&larger).is_ok()), (None, true));
    }

    /// Every member is looked for, and the type and format at the end are those of the event.
    #[test]
    fn ev_8_what_is_unusual_is_left_to_the_other_way() {
        let body = String::from_utf8(body()).unwrap();
        for (from, to, usual) in [
            ("\"v\":1}", "\"v\":1,\"w\":1}", false),
            ("\"v\":1}", "\"v\":2}", false),
            ("\"type\":\"MessagesAppended\"", "\"type\":\"Adjourned\"", false),
            ("\"type\":\"MessagesAppended\"", "\"type\":\"Compacted\"", false),
            ("\"type\":\"MessagesAppended\"", "\"type\":\"TaskCancelled\"", true),
            (",\"trace\":\"trace\"", "", true),
            (",\"more\":1", "", true),
            ("\"metrics\":{\"wait_ms\":4},", "", true),
            ("\"seq\":7,", "", false),
            ("\"actor\":\"user:ada\",", "", false),
            ("\"seq\":7,", "\"seq\":7,\"sequel\":[{}],", true),
        ] {
            assert!(body.contains(from), "{from} in {body}");
            let changed = body.replacen(from, to, 1);
            let decoded = decode(changed.as_bytes());
            assert_eq!(decoded.is_some(), usual, "{changed}");
            assert!(decoded.is_none_or(|event| thorough(changed.as_bytes()) == Ok(event)), "{changed}");
        }
    }

    proptest! {
        /// What is read in one pass is what is read in two.
        #[test]
        fn ev_8_both_ways_of_decoding_agree(at in any::<prop::sample::Index>(), cut in 0..3usize, with in "[ -~]{0,2}") {
            let mut body = body();
            let start = at.index(body.len());
            let end = (start + cut).min(body.len());
            body.splice(start..end, with.bytes());
            if let Some(event) = decode(&body) {
                prop_assert_eq!(thorough(&body), Ok(event));
            }
        }
    }
}
