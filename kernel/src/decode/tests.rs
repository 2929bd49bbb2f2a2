use std::{borrow::ToOwned, string::ToString, vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::event::{TaskCancelled, TaskStatePatch, TaskStatePatched};

fn envelope(payload: Payload) -> Envelope {
    Envelope {
        task: TaskId::new("t").unwrap(),
        seq: Seq(7),
        actor: "engine".to_owned(),
        origin: Origin::Engine,
        at: Timestamp::from_micros(0),
        epoch: Epoch(1),
        run: RunId::new("r").unwrap(),
        links: Links::default(),
        more: 0,
        trace: None,
        metrics: BTreeMap::new(),
        prev: Hash::from_bytes([0; 32]),
        payload,
    }
}

fn cancelled() -> Envelope {
    envelope(TaskCancelled { reason: Some("r".to_owned()) }.into())
}

/// The body of [`cancelled`] with one piece of text changed.
fn changed(from: &str, to: &str) -> Vec<u8> {
    let body = String::from_utf8(cancelled().seal().unwrap().body).unwrap();
    assert!(body.contains(from), "{from} in {body}");
    body.replacen(from, to, 1).into_bytes()
}

#[test]
fn ev_8_what_was_sealed_is_read_back() {
    let mut event = cancelled();
    event.more = 2;
    event.trace = Some("trace".to_owned());
    event.metrics.insert("wait_ms".to_owned(), 4);
    event.links = Links { parent: Some(Seq(1)), decision: Some(Seq(2)), action: Some(Seq(3)) };
    let sealed = event.seal().unwrap();
    assert_eq!(decode(&sealed.body, &sealed.hash), Ok(event));
}

#[test]
fn ev_8_what_a_newer_version_wrote_is_never_called_corrupt() {
    for (from, to, what) in [
        ("TaskCancelled", "TaskAdjourned", "event type TaskAdjourned"),
        ("TaskCancelled", "RetentionChanged", "event type RetentionChanged"),
        ("\"v\":1", "\"v\":2", "envelope format 2"),
        ("\"seq\":7,", "\"seq\":\"7th\",", ""),
    ] {
        let error = decode_trusted(&changed(from, to)).unwrap_err();
        if what.is_empty() {
            assert!(matches!(error, DecodeError::Corrupt { .. }), "{error}");
        } else {
            assert_eq!(error, DecodeError::NewerVersion { seq: Some(Seq(7)), what: what.to_string() });
        }
    }
    // A newer envelope may have other members altogether.
    let error = decode_trusted(br#"{"place":[7],"seq":7,"v":2}"#).unwrap_err();
    assert_eq!(error, DecodeError::NewerVersion { seq: Some(Seq(7)), what: "envelope format 2".to_string() });
}

#[test]
fn ev_8_what_is_not_what_was_written_is_corrupt() {
    let long = "x".repeat(PAYLOAD_BYTES_MAX);
    for (from, to, rule) in [
        ("\"v\":1", "\"v\":0", "envelope format 0 never was"),
        ("\"v\":1", "\"v\": 1", "not canonical at byte"),
        ("\"actor\":\"engine\",", "", "missing field `actor`"),
        ("\"seq\":7", "\"seq\":-7", "invalid value"),
        ("\"engine\"", "\"elsewhere\"", ""),
        ("\"origin\":\"engine\"", "\"origin\":\"elsewhere\"", "unknown variant"),
        ("1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00Z", "is not a time"),
        ("\"reason\":\"r\"", "\"reason\":7", "payload of TaskCancelled: wrong shape"),
        ("\"task\":\"t\"", "\"task\":\"\"", "is empty"),
        ("\"reason\":\"r\"", &std::format!("\"reason\":\"{long}\""), "payload of 4109 bytes is over 4096"),
        ("\"actor\":\"engine\"", &std::format!("\"actor\":\"{long}{long}\""), "body of"),
    ] {
        match decode_trusted(&changed(from, to)) {
            Ok(event) => assert!(rule.is_empty(), "{to}: {event:?}"),
            Err(DecodeError::Corrupt { rule: found, .. }) => {
                assert!(!rule.is_empty() && found.contains(rule), "{to}: {found}");
            }
            Err(error) => panic!("{to}: {error}"),
        }
    }
    let sealed = cancelled().seal().unwrap();
    let error = decode(&sealed.body, &Hash::from_bytes([1; 32])).unwrap_err();
    assert_eq!(error, DecodeError::Corrupt { seq: Some(Seq(7)), rule: "hash differs from the body".to_string() });
}

#[test]
fn ev_8_missing_members_with_a_default_take_it() {
    let event = decode_trusted(&changed("{\"reason\":\"r\"}", "{}")).unwrap();
    assert_eq!(event.payload, TaskCancelled { reason: None }.into());
}

#[test]
fn fo_3_an_unknown_member_of_a_patch_is_an_error() {
    let patch = TaskStatePatch { phase: Some("p".to_owned()), ..TaskStatePatch::default() };
    let body = envelope(TaskStatePatched { call: None, patch }.into()).seal().unwrap().body;
    let body = String::from_utf8(body).unwrap();
    let outside = body.replace("{\"patch\":", "{\"other\":1,\"patch\":");
    assert!(decode_trusted(outside.as_bytes()).is_ok(), "beside the patch it is tolerated");
    let inside = body.replace("\"phase\":\"p\"", "\"phase\":\"p\",\"pulse\":1");
    let error = decode_trusted(inside.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("unknown field `pulse`"), "{error}");
}

#[test]
fn ev_7_a_payload_or_body_that_is_too_large_is_not_sealed() {
    let of = |size: usize| envelope(TaskCancelled { reason: Some("x".repeat(size)) }.into()).seal();
    let frame = "{\"reason\":\"\"}".len();
    assert!(of(PAYLOAD_BYTES_MAX - frame).is_ok());
    let error = of(PAYLOAD_BYTES_MAX - frame + 1).unwrap_err().to_string();
    assert!(error.starts_with("payload too large: TaskCancelled at seq 7 of task t has 4097 bytes"), "{error}");
    let mut event = envelope(TaskCancelled { reason: Some("x".repeat(PAYLOAD_BYTES_MAX - frame)) }.into());
    let rest = event.seal().unwrap().body.len() - event.actor.len();
    event.actor = "x".repeat(EVENT_BYTES_MAX - rest);
    assert_eq!(decode_trusted(&event.seal().unwrap().body), Ok(event.clone()), "both are as large as they may be");
    event.actor.push('x');
    assert!(event.seal().is_err());
}

proptest! {
    #[test]
    fn ev_9_any_bytes_decode_or_fail_cleanly(bytes in any::<Vec<u8>>()) {
        prop_assert!(decode_trusted(&bytes).is_err());
        prop_assert!(decode(&bytes, &Hash::from_bytes([0; 32])).is_err());
    }

    #[test]
    fn ev_9_any_members_decode_or_fail_cleanly(values in prop::collection::vec(prop_oneof![
        Just("null"), Just("1"), Just("-1"), Just("\"t\""), Just("[]"), Just("{}"), Just("[[],{}]"),
        Just("9007199254740991"), Just("\"TaskCancelled\""), Just("\"engine\""), Just("\"1970-01-01T00:00:00.000000Z\""),
    ], 12)) {
        let names = vec!["actor", "at", "epoch", "origin", "payload", "prev", "run", "seq", "task", "type", "v", "zz"];
        let members: Vec<String> =
            names.iter().zip(&values).map(|(name, value)| std::format!("\"{name}\":{value}")).collect();
        let _ = decode_trusted(std::format!("{{{}}}", members.join(",")).as_bytes());
    }
}
