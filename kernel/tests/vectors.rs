//! The vectors that were made from the design alone, independently of this code.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its vectors fails")]

use plica_kernel::canonical::{Domain, Hash, check, content_hash, genesis_hash};
use plica_kernel::envelope::read_line;
use plica_kernel::id::{LedgerId, TaskId};
use serde_json::Value;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("{member} in {value}"))
}

#[test]
fn ev_1_canonical_vectors() {
    let vectors: Value = serde_json::from_str(include_str!("vectors/canonical.json")).unwrap();
    let accept = vectors["accept"].as_array().unwrap();
    let refuse = vectors["refuse"].as_array().unwrap();
    assert!(accept.len() > 10 && refuse.len() > 15);
    for case in accept {
        assert_eq!(check(&bytes(text(case, "hex"))), Ok(()), "{}", text(case, "name"));
    }
    for case in refuse {
        assert!(check(&bytes(text(case, "hex"))).is_err(), "{}", text(case, "name"));
    }
}

#[test]
fn ev_4_hash_vectors() {
    let vectors: Value = serde_json::from_str(include_str!("vectors/hashes.json")).unwrap();
    let hash = |text: &str| Hash::parse(text).unwrap();
    for case in vectors["genesis"].as_array().unwrap() {
        let ledger = LedgerId::new(text(case, "ledger")).unwrap();
        let task = TaskId::new(text(case, "task")).unwrap();
        assert_eq!(genesis_hash(&ledger, &task), hash(text(case, "hash")));
    }
    let mut prev = None;
    for case in vectors["events"].as_array().unwrap() {
        let (body, stored) = read_line(text(case, "line").as_bytes()).unwrap();
        assert_eq!(stored, hash(text(case, "hash")));
        assert_eq!(Domain::Event.hash(body), stored);
        check(body).unwrap();
        if let Some(prev) = prev {
            let needle = format!("\"prev\":\"{prev}\"");
            assert!(std::str::from_utf8(body).unwrap().contains(&needle));
        }
        prev = Some(stored);
    }
    assert!(prev.is_some());
    assert_eq!(Domain::Token.hash(&bytes(text(&vectors["token"], "hex"))), hash(text(&vectors["token"], "hash")));
    let content = &vectors["content"];
    assert_eq!(content_hash(text(content, "text").as_bytes()), hash(text(content, "sha256")));
}
