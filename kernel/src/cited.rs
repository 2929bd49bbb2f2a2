//! Which content some content cites, and which an inbox item does: what has to be kept as long
//! as they are (CO-3). What events cite says [`Payload::references`](crate::event::Payload::references).

use alloc::{string::String, vec::Vec};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

use crate::body::{ContentRef, MEDIA_DEFINITION, MEDIA_RESTORE, MEDIA_SEGMENT, MEDIA_STATE};
use crate::canonical::{CanonicalError, Hash, from_slice};
use crate::wake::Item;

/// Whether content of this media type may cite other content: a snapshot's state its sealed
/// segments, a segment the one before it, a definition its script and its subagents, a plan of
/// what a rewind puts back what files held. The bodies that stand in a state or a segment are
/// those of the events it was folded from, which cite them too.
pub fn may_cite(media: &str) -> bool {
    matches!(media, MEDIA_STATE | MEDIA_SEGMENT | MEDIA_DEFINITION | MEDIA_RESTORE)
}

/// Every content reference in canonical bytes: each object that has the members of a
/// [`ContentRef`], wherever it stands. No type is asked for, so that what another version wrote
/// is understood as well; an object that only looks like a reference keeps too much, never too
/// little.
///
/// # Errors
/// When the bytes are not canonical: they were not written by any version of this program.
pub fn cited(bytes: &[u8]) -> Result<Vec<ContentRef>, CanonicalError> {
    Ok(from_slice::<Node>(bytes)?.references)
}

impl Item {
    /// Every content reference of the item.
    pub fn references(&self) -> Vec<&ContentRef> {
        match self {
            Self::Child { answer, .. } => answer.reference().into_iter().collect(),
            Self::Revise { definition } => [definition].into(),
            Self::Message { .. }
            | Self::Cancel { .. }
            | Self::Interrupt { .. }
            | Self::Rewind { .. }
            | Self::Close { .. }
            | Self::Reopen { .. }
            | Self::Answer { .. }
            | Self::Verdict { .. }
            | Self::Resolve { .. }
            | Self::Event { .. }
            | Self::Job { .. }
            | Self::Evidence { .. } => Vec::new(),
        }
    }
}

/// A value of any shape, for the references in it.
#[derive(Default)]
struct Node {
    references: Vec<ContentRef>,
    scalar: Option<Scalar>,
}

/// What a member of a reference may be.
enum Scalar {
    Text(String),
    Number(u64),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Default::default())
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Default::default())
    }

    /// A negative number, which is no size; the others come as `u64`.
    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Default::default())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node { references: Vec::new(), scalar: Some(Scalar::Number(number)) })
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node { references: Vec::new(), scalar: Some(Scalar::Text(text.into())) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut references = Vec::new();
        while let Some(mut item) = items.next_element::<Node>()? {
            references.append(&mut item.references);
        }
        Ok(Node { references, scalar: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut references = Vec::new();
        let (mut media, mut sha256, mut size) = (None, None, None);
        while let Some((name, mut member)) = members.next_entry::<String, Node>()? {
            references.append(&mut member.references);
            match (name.as_str(), member.scalar) {
                ("media", Some(Scalar::Text(text))) => media = Some(text),
                ("sha256", Some(Scalar::Text(text))) => sha256 = Hash::parse(&text),
                ("size", Some(Scalar::Number(number))) => size = Some(number),
                _ => {}
            }
        }
        if let (Some(media), Some(sha256), Some(size)) = (media, sha256, size) {
            references.push(ContentRef { media, sha256, size });
        }
        Ok(Node { references, scalar: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Body, MEDIA_BYTES, MEDIA_TEXT};
    use crate::canonical::to_vec;
    use crate::event::{FileWas, PlannedFile, RestorePlan};
    use alloc::vec;

    #[test]
    fn co_3_references_are_found_wherever_they_stand() {
        let (one, other) = (ContentRef::of(MEDIA_TEXT, b"one"), ContentRef::of(MEDIA_SEGMENT, b"other"));
        let value = (vec![Body::Ref(one.clone()), Body::Inline("media".into())], Some(&other), -1, true, ());
        assert_eq!(cited(&to_vec(&value).unwrap()), Ok(vec![one, other]));
        assert_eq!(cited(br#"{"media":"text/plain","sha256":"ab","size":3}"#), Ok(vec![]));
        assert!(cited(b"{ }").is_err());
    }

    /// Whatever else stands around it, and whatever is almost one beside it.
    #[test]
    fn co_3_a_reference_is_an_object_with_its_three_members() {
        let hash = Hash::from_bytes([0xab; 32]);
        let reference = ContentRef { media: "m".into(), sha256: hash, size: 3 };
        let own = alloc::format!(r#""media":"m","sha256":"{hash}","size":3"#);
        for (text, found) in [
            (alloc::format!("{{{own}}}"), true),
            (alloc::format!(r#"{{"also":null,{own}}}"#), true),
            (alloc::format!(r#"[false,-3,{{"a":{{{own}}}}}]"#), true),
            (own.replace("\"size\":3", "\"size\":-3"), false),
            (own.replace("\"size\":3", "\"size\":\"3\""), false),
            (own.replace("\"m\"", "7"), false),
            (own.replace("\"media\":\"m\",", ""), false),
            (own.replace(",\"size\":3", ""), false),
            (own.replace("sha256", "sha512"), false),
        ] {
            let text = if text.starts_with(['{', '[']) { text } else { alloc::format!("{{{text}}}") };
            let expected: Vec<ContentRef> = found.then(|| reference.clone()).into_iter().collect();
            assert_eq!(cited(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn co_3_states_segments_definitions_and_plans_may_cite() {
        let media = [MEDIA_STATE, MEDIA_SEGMENT, MEDIA_DEFINITION, MEDIA_RESTORE, MEDIA_TEXT, MEDIA_BYTES, ""];
        assert_eq!(media.map(may_cite), [true, true, true, true, false, false, false]);
    }

    #[test]
    fn co_3_an_item_cites_what_it_names() {
        let of = ContentRef::of(MEDIA_DEFINITION, b"{}");
        let child = |answer| Item::Child {
            answer,
            background: false,
            call: crate::id::CallId { decision: crate::id::Seq(7), index: 0 },
            child: crate::id::TaskId::new("c").unwrap(),
            failure: None,
            spent: Default::default(),
            status: crate::event::SubtaskStatus::Completed,
        };
        assert_eq!(child(Body::Ref(of.clone())).references(), [&of]);
        assert_eq!(child(Body::default()).references(), Vec::<&ContentRef>::new());
        assert_eq!(Item::Revise { definition: of.clone() }.references(), [&of]);
        assert_eq!(Item::Message { text: "sha256".into() }.references(), Vec::<&ContentRef>::new());
    }

    #[test]
    fn co_3_a_plan_cites_what_files_held() {
        let (before, after) = (ContentRef::of(MEDIA_BYTES, b"now"), ContentRef::of(MEDIA_BYTES, b"then"));
        let file = PlannedFile {
            after: FileWas::Kept(after.clone()),
            before: FileWas::Kept(before.clone()),
            left: None,
            path: "a".into(),
            workspace: "/w".into(),
        };
        assert_eq!(cited(&to_vec(&RestorePlan { files: vec![file] }).unwrap()), Ok(vec![after, before]));
    }
}
