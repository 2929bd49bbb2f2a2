//! What an event cites (CO-3): content is kept as long as an event that names it.

use plica_kernel::body::ContentRef;
use plica_kernel::canonical::{from_slice, to_vec};
use plica_kernel::cited::cited;
use plica_kernel::event::Payload;
use serde_json::Value;

use super::golden::samples;

/// Where texts stand in a value, as JSON pointers.
fn texts(value: &Value, at: &str) -> Vec<String> {
    match value {
        Value::String(_) => vec![at.to_string()],
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(index, item)| texts(item, &format!("{at}/{index}"))).collect()
        }
        Value::Object(members) => {
            members.iter().flat_map(|(name, member)| texts(member, &format!("{at}/{name}"))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => vec![],
    }
}

fn sorted<'a>(references: impl IntoIterator<Item = &'a ContentRef>) -> Vec<ContentRef> {
    let mut references: Vec<ContentRef> = references.into_iter().cloned().collect();
    references.sort();
    references
}

fn check(payload: &Payload) {
    let found = cited(&to_vec(payload).unwrap()).unwrap();
    assert_eq!(sorted(payload.references()), sorted(&found), "{payload:?}");
}

/// Whatever looks like a reference in a payload is one that the event cites, and wherever a text
/// may lie in content instead, the event cites that content.
#[test]
fn co_3_an_event_cites_all_content_that_stands_in_it() {
    let other = ContentRef::of("text/plain; charset=utf-8", b"a text that lies in content");
    let mut moved = 0;
    for payload in samples().into_iter().flatten() {
        check(&payload);
        let value: Value = from_slice(&to_vec(&payload).unwrap()).unwrap();
        for place in texts(&value, "") {
            let mut edited = value.clone();
            *edited.pointer_mut(&place).unwrap() = from_slice(&to_vec(&other).unwrap()).unwrap();
            let Ok(payload) = Payload::decode(payload.kind(), &to_vec(&edited).unwrap()) else { continue };
            assert!(payload.references().contains(&&other), "{place} of {payload:?}");
            check(&payload);
            moved += 1;
        }
    }
    assert!(moved > 20, "texts that may lie in content: {moved}");
}
