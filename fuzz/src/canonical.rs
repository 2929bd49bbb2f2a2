//! Any bytes as canonical text.

use std::fmt;

use plica_kernel::canonical::{check, from_slice, string_len, to_vec};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// EV-1, EV-9: bytes are accepted if and only if they would be written back alike, whether or
/// not what they hold is kept; any text can be written, at the length foretold.
pub fn canonical(bytes: &[u8]) {
    let tree = from_slice::<Tree>(bytes);
    assert_eq!(tree.is_ok(), check(bytes).is_ok(), "what is skipped is checked as what is kept");
    if let Ok(tree) = tree {
        assert_eq!(to_vec(&tree).as_deref(), Ok(bytes), "what is accepted is written back alike");
    }
    let text = String::from_utf8_lossy(bytes);
    let written = to_vec(&*text).expect("any text has a canonical form");
    assert_eq!(written.len(), string_len(&text));
    assert_eq!(from_slice::<String>(&written).as_deref(), Ok(&*text));
}

/// Whatever canonical text can hold, in the order in which it holds it.
#[derive(Debug)]
enum Tree {
    Null,
    Bool(bool),
    Integer(i64),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(members) => {
                let mut map = serializer.serialize_map(None)?;
                // Backwards, so that the order of the bytes is the writer's work.
                for (name, value) in members.iter().rev() {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Integer(i64::try_from(value).expect("integers are within 2^53-1")))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Tree::Object(members))
    }
}
