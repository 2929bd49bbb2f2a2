use alloc::{collections::BTreeMap, string::String, vec, vec::Vec};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
struct Backwards {
    zebra: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    middle: Option<String>,
    alpha: Vec<i64>,
}

#[test]
fn ev_2_field_order_has_no_influence_on_the_bytes() {
    let value = Backwards { zebra: 1, middle: Some("m".into()), alpha: vec![-1, 0] };
    let bytes = to_vec(&value).unwrap();
    assert_eq!(bytes, br#"{"alpha":[-1,0],"middle":"m","zebra":1}"#);
    assert_eq!(from_slice::<Backwards>(&bytes).unwrap(), value);
}

#[test]
fn ev_3_an_unset_omit_none_field_leaves_no_trace() {
    let value = Backwards { zebra: 1, middle: None, alpha: vec![] };
    assert_eq!(to_vec(&value).unwrap(), br#"{"alpha":[],"zebra":1}"#);
}

#[test]
fn ev_1_what_has_no_canonical_form_is_refused_by_the_writer() {
    assert!(to_vec(&1.0f64).is_err());
    assert!(to_vec(&(INTEGER_MAX + 1)).is_err());
    assert!(to_vec(&u64::MAX).is_err());
    assert!(to_vec(&BTreeMap::from([(1, 2)])).is_err());
    let mut deep = serde_json::json!([]);
    for _ in 1..DEPTH_MAX {
        deep = serde_json::json!([deep]);
    }
    assert!(to_vec(&deep).is_ok());
    assert!(to_vec(&serde_json::json!([deep])).is_err());
}

#[test]
fn ev_1_unknown_members_are_checked_too() {
    assert!(from_slice::<Backwards>(br#"{"alpha":[],"other":{"a":1,"b":2},"zebra":1}"#).is_ok());
    for bad in [
        &br#"{"alpha":[],"other":{"b":1,"a":2},"zebra":1}"#[..],
        br#"{"alpha":[],"other":{"a":1.5},"zebra":1}"#,
        br#"{"alpha":[],"other":"\u0041","zebra":1}"#,
        br#"{"alpha":[],"zebra":1,"zebra":1}"#,
        br#"{"alpha":[],"zebra":1} "#,
    ] {
        assert!(
            matches!(from_slice::<Backwards>(bad), Err(CanonicalError::Form { .. })),
            "{}",
            String::from_utf8_lossy(bad)
        );
    }
    assert!(matches!(from_slice::<Backwards>(br#"{"alpha":"x","zebra":1}"#), Err(CanonicalError::Shape { .. })));
}

fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (-INTEGER_MAX..=INTEGER_MAX).prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn ev_1_write_then_parse_is_identity(value in tree()) {
        let bytes = to_vec(&value).unwrap();
        prop_assert!(check(&bytes).is_ok());
        let again: serde_json::Value = from_slice(&bytes).unwrap();
        prop_assert_eq!(&again, &value);
        prop_assert_eq!(to_vec(&again).unwrap(), bytes);
    }

    #[test]
    fn ev_1_a_text_is_accepted_only_if_it_is_written_back_alike(bytes in prop::collection::vec(prop::sample::select(
        &b"{}[]\",:\\u0123456789abtnfr-e. \x1f\x7f\xc3\xa9"[..]), 0..24)) {
        if let Ok(value) = from_slice::<serde_json::Value>(&bytes) {
            prop_assert_eq!(to_vec(&value).unwrap(), bytes);
        }
    }

    #[test]
    fn ev_9_any_bytes_decode_or_fail_cleanly(bytes in any::<Vec<u8>>()) {
        let _ = check(&bytes);
        let _ = from_slice::<Backwards>(&bytes);
    }

    #[test]
    fn ev_1_the_length_of_a_string_is_known_without_writing_it(text in any::<String>()) {
        prop_assert_eq!(string_len(&text), to_vec(&text).unwrap().len());
    }
}
