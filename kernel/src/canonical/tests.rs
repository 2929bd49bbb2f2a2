use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec,
    vec::Vec,
};

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

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Unit;

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Wrapped(u8);

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Pair(u8, String);

#[derive(Serialize, Deserialize, PartialEq, Debug)]
enum Shape {
    Plain,
    Holding(i64),
    Named(Backwards),
}

#[derive(Serialize)]
enum Unwritable {
    Tuple(u8, u8),
    Struct { a: u8 },
}

/// A value, its one text, and the value again.
fn check_text<T: Serialize + for<'de> Deserialize<'de> + PartialEq + core::fmt::Debug>(value: T, text: &str) {
    assert_eq!(String::from_utf8(to_vec(&value).unwrap()).unwrap(), text);
    assert_eq!(from_slice::<T>(text.as_bytes()).unwrap(), value, "{text}");
}

#[test]
fn ev_1_every_type_has_its_text() {
    check_text(true, "true");
    check_text(false, "false");
    check_text(-8i8, "-8");
    check_text(-16i16, "-16");
    check_text(-32i32, "-32");
    check_text(-INTEGER_MAX, "-9007199254740991");
    check_text(INTEGER_MAX, "9007199254740991");
    check_text(0i64, "0");
    check_text(8u8, "8");
    check_text(16u16, "16");
    check_text(32u32, "32");
    check_text(1_000_000_000_000_000u64, "1000000000000000");
    check_text('\u{e9}', "\"\u{e9}\"");
    check_text((), "null");
    check_text(Unit, "null");
    check_text(None::<u8>, "null");
    check_text(Some(7u8), "7");
    check_text(Wrapped(7), "7");
    check_text(Pair(7, "x".into()), r#"[7,"x"]"#);
    check_text((1u8, "a".to_string(), [0u8; 2]), r#"[1,"a",[0,0]]"#);
    check_text(Vec::<u8>::new(), "[]");
    check_text(BTreeMap::<String, u8>::new(), "{}");
    check_text(BTreeMap::from([('b', 1), ('a', 2)]), r#"{"a":2,"b":1}"#);
    check_text(vec![Shape::Plain, Shape::Holding(-1)], r#"["Plain",{"Holding":-1}]"#);
    let named = Shape::Named(Backwards { zebra: 1, middle: None, alpha: vec![] });
    check_text(named, r#"{"Named":{"alpha":[],"zebra":1}}"#);
    assert_eq!(to_vec(&i128::from(INTEGER_MAX)).unwrap(), to_vec(&INTEGER_MAX).unwrap());
    for other in [r#"{"Plain":null}"#, r#"{"Holding":null}"#, r#""Holding""#, r#"{"Holding":1,"Plain":1}"#, "{}", "7"] {
        assert!(from_slice::<Shape>(other.as_bytes()).is_err(), "{other}");
    }
}

#[test]
fn ev_1_what_is_refused_says_why() {
    let refused = |result: Result<Vec<u8>, CanonicalError>| match result {
        Err(CanonicalError::Unrepresentable(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(to_vec(&1.0f32)), "a floating-point number");
    assert_eq!(refused(to_vec(&1.0f64)), "a floating-point number");
    assert_eq!(refused(to_vec(&(INTEGER_MAX as u64 + 1))), "integer 9007199254740992 beyond 2^53-1");
    assert_eq!(refused(to_vec(&(-INTEGER_MAX - 1))), "integer 9007199254740992 beyond 2^53-1");
    assert_eq!(refused(to_vec(&i128::MAX)), std::format!("integer {} beyond 2^53-1", i128::MAX));
    assert_eq!(refused(to_vec(&Unwritable::Tuple(1, 2))), "tuple variant Tuple");
    assert_eq!(refused(to_vec(&Unwritable::Struct { a: 1 })), "struct variant Struct");
    assert_eq!(refused(to_vec(&BTreeMap::from([(vec![1], 2)]))), "map key [1] is not text");
    struct Bytes;
    impl Serialize for Bytes {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(b"raw")
        }
    }
    assert_eq!(refused(to_vec(&Bytes)), "raw bytes");
    struct Twice;
    impl Serialize for Twice {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([("b", 1), ("a", 2), ("b", 3)])
        }
    }
    assert_eq!(refused(to_vec(&Twice)), "duplicate name b");
}

/// Members come in their order whatever their values hold, and the order is that of UTF-16.
#[test]
fn ev_1_members_are_put_in_order() {
    struct Out(Vec<(&'static str, serde_json::Value)>);
    impl Serialize for Out {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter().map(|(name, value)| (*name, value)))
        }
    }
    let out = Out(vec![
        ("z", serde_json::json!({"b": [1, {"c": "},{"}], "a": "\"\\,"})),
        ("a\"b", serde_json::json!([[], {}, "[", "\\"])),
        ("\u{e000}", serde_json::json!(1)),
        ("\u{1f600}", serde_json::json!(2)),
        ("\u{ffff}", serde_json::json!(3)),
        ("\u{d7ff}", serde_json::json!(4)),
        ("aa", serde_json::json!(5)),
        ("ab\"c\\d", serde_json::json!(8)),
        ("abc\n", serde_json::json!(9)),
        ("a", serde_json::json!(6)),
        ("", serde_json::json!(7)),
    ]);
    let text = concat!(
        r#"{"":7,"a":6,"a\"b":[[],{},"[","\\"],"aa":5,"ab\"c\\d":8,"abc\n":9,"z":{"a":"\"\\,","b":[1,{"c":"},{"}]},"#,
        "\"\u{d7ff}\":4,\"\u{1f600}\":2,\"\u{e000}\":1,\"\u{ffff}\":3}"
    );
    assert_eq!(String::from_utf8(to_vec(&out).unwrap()).unwrap(), text);
    assert_eq!(check(text.as_bytes()), Ok(()));
}

#[test]
fn ev_1_every_character_below_a_space_has_its_escape() {
    let expected = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b", "\\t", "\\n",
        "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014",
        "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e",
        "\\u001f", " ", "!", "\\\"", "#",
    ];
    for (code, escaped) in (0u8..).zip(expected) {
        let text = String::from(char::from(code));
        // Alone, and among others, where a text with escapes is put together.
        for (around, before, after) in
            [("", "", ""), ("a long text before it ", "a long text before it ", "\u{e9} and on")]
        {
            let value = std::format!("{around}{text}{after}");
            check_text(value.clone(), &std::format!("\"{before}{escaped}{after}\""));
            assert_eq!(string_len(&value), before.len() + escaped.len() + after.len() + 2);
        }
        for other in [std::format!("\\u{code:04X}"), std::format!("\\u{code:04x}"), std::format!("\\{text}")] {
            let stands = other == escaped;
            let parsed = from_slice::<String>(std::format!("\"{other}\"").as_bytes());
            assert_eq!(parsed.is_ok(), stands, "{other}");
        }
    }
    check_text("\u{7f}\u{80}/".to_string(), "\"\u{7f}\u{80}/\"");
}

/// Where a text departs from the form, and what was expected there.
#[test]
fn ev_1_a_departure_is_named_with_its_place() {
    for (text, offset, rule) in [
        ("", 0, "a number is an integer within 2^53-1, without leading zero or minus zero"),
        (" 1", 0, "a number is"),
        ("1 ", 1, "nothing follows the value"),
        ("01", 0, "a number is"),
        ("-0", 0, "a number is"),
        ("[-]", 1, "a number is"),
        ("-01", 0, "a number is"),
        ("[1.0]", 1, "a number is"),
        ("1e0", 0, "a number is"),
        ("1E0", 0, "a number is"),
        ("9007199254740992", 0, "a number is"),
        ("-9007199254740992", 0, "a number is"),
        ("99999999999999999999999999", 0, "a number is"),
        ("[tru]", 1, "a value is a string"),
        ("nul", 0, "a value is a string"),
        ("[falsy]", 1, "a value is a string"),
        ("[1", 2, "an array or object is closed"),
        ("[1,]", 3, "a number is"),
        ("[,1]", 1, "a number is"),
        ("[1 ,2]", 2, "an array or object is closed"),
        ("{\"a\":1", 6, "members are separated by one comma"),
        ("{\"a\":1,}", 7, "a string is expected"),
        ("{\"a\" :1}", 4, "a name is followed by a colon and no space"),
        ("{\"a\":1 ,\"b\":2}", 6, "members are separated by one comma"),
        ("{\"a\":1,\"a\":2}", 7, "names are unique"),
        ("{\"b\":1,\"a\":2}", 7, "names are sorted by UTF-16 code units"),
        ("{\"aa\":1,\"a\":2}", 8, "names are sorted by UTF-16 code units"),
        ("{\"\u{e000}\":1,\"\u{1f600}\":2}", 9, "names are sorted by UTF-16 code units"),
        ("{1:2}", 1, "a string is expected"),
        ("\"abc", 4, "a string is closed, and control characters are escaped"),
        ("\"a\nb\"", 2, "a string is closed"),
        ("\"\\na\tb\"", 4, "a string is closed"),
        ("\"\\n", 3, "a string is closed"),
        ("\"\\x\"", 1, "only quote, backslash and"),
        ("\"\\/\"", 1, "only quote, backslash and"),
        ("\"ab\\u00\"", 3, "only quote, backslash and"),
        ("\"\\u0020\"", 1, "only quote, backslash and"),
        ("\"\\u0120\"", 1, "only quote, backslash and"),
        ("\"\\u1000\"", 1, "only quote, backslash and"),
        ("\"\\u000g\"", 1, "only quote, backslash and"),
        ("\"\\", 1, "only quote, backslash and"),
    ] {
        let found = |result: Result<(), CanonicalError>| match result {
            Err(CanonicalError::Form { offset, rule }) => (offset, rule),
            other => panic!("{text}: {other:?}"),
        };
        for result in [check(text.as_bytes()), from_slice::<serde_json::Value>(text.as_bytes()).map(drop)] {
            let (at, broken) = found(result);
            assert_eq!((at, broken.starts_with(rule)), (offset, true), "{text:?}: {broken}");
        }
    }
    let broken = check(b"\"ab\xff\"");
    assert_eq!(broken, Err(CanonicalError::Form { offset: 3, rule: "text is UTF-8" }));
    let shape = from_slice::<Vec<u8>>(b"[1,\"x\"]");
    assert!(matches!(shape, Err(CanonicalError::Shape { offset: 6, .. })), "{shape:?}");
}

#[test]
fn ev_1_nesting_is_at_most_32_both_ways() {
    for (open, inside, close) in [("[", "", "]"), ("{\"a\":", "{}", "}")] {
        let deep = |depth: usize| std::format!("{}{inside}{}", open.repeat(depth), close.repeat(depth));
        let most = DEPTH_MAX - usize::from(!inside.is_empty());
        for text in [deep(most), std::format!("[{0},{0}]", deep(most - 1))] {
            assert_eq!(check(text.as_bytes()), Ok(()));
            assert_eq!(to_vec(&from_slice::<serde_json::Value>(text.as_bytes()).unwrap()).unwrap(), text.as_bytes());
        }
        let refused = |result| matches!(result, Err(CanonicalError::Form { rule: "nesting is at most 32", .. }));
        assert!(refused(check(deep(most + 1).as_bytes())));
        assert!(refused(from_slice::<serde_json::Value>(deep(most + 1).as_bytes()).map(drop)));
    }
}

/// What is taken as it stands is checked all the same, and is what stands there.
#[test]
fn ev_5_raw_text_is_sliced_and_checked() {
    #[derive(Deserialize)]
    struct Around<'a> {
        #[serde(borrow)]
        raw: Raw<'a>,
    }
    for raw in ["[1,{\"a\":\"\\n\"}]", "null", "-7", "\"x\"", "true", "false", "{}", "[]", "[[],[1]]"] {
        let text = std::format!("{{\"a\":1,\"raw\":{raw},\"z\":[]}}");
        assert_eq!(from_slice::<Around>(text.as_bytes()).unwrap().raw, Raw(raw));
    }
    assert!(from_slice::<Around>(b"{\"raw\":[1, 2]}").is_err());
    assert!(serde_json::from_str::<Raw>("1").is_err(), "other formats refuse it");
}

#[test]
fn ev_4_hashes_are_64_lower_case_digits() {
    let digits = "0123456789abcdef".repeat(4);
    let hash = Hash::parse(&digits).unwrap();
    assert_eq!(hash.as_bytes()[..8], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
    assert_eq!((Hash::from_bytes(*hash.as_bytes()), hash.to_string()), (hash, digits.clone()));
    check_text(hash, &std::format!("\"{digits}\""));
    for at in 0..64 {
        for other in ['g', 'A', '/', ':', '`', ' ', '\u{7f}'] {
            let mut text: Vec<char> = digits.chars().collect();
            text[at] = other;
            assert_eq!(Hash::parse(&text.iter().collect::<String>()), None, "{other} at {at}");
            text[at ^ 1] = other;
            assert_eq!(Hash::parse(&text.iter().collect::<String>()), None, "{other} beside {at}");
        }
    }
    assert_eq!((Hash::parse(&digits[1..]), Hash::parse(&(digits.clone() + "0"))), (None, None));
    let domains = [Domain::Event, Domain::Genesis, Domain::Token, Domain::Request, Domain::Call];
    let mut hashes: Vec<Hash> = domains.iter().map(|domain| domain.hash(b"same")).collect();
    hashes.push(content_hash(b"same"));
    for (domain, tag) in domains.iter().zip(["event", "genesis", "token", "request", "call"]) {
        let plain = content_hash(std::format!("plica/{tag}/v1\nsame").as_bytes());
        assert_eq!(domain.hash(b"same"), plain);
        let mut hasher = Hasher::new(*domain);
        hasher.update(b"sa");
        hasher.update(b"me");
        assert_eq!(hasher.finish(), plain);
    }
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 6);
}
