//! The corpus, replayed on stable Rust: what a fuzzer once found stays found.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use plica_kernel::decode::{decode, decode_trusted};
use plica_kernel::envelope::read_line;
use plica_kernel::event::EventType;

fn replay(name: &str) {
    let (_, target) = plica_fuzz::TARGETS.into_iter().find(|(known, _)| *known == name).expect("a target of this name");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder).expect("a corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 8, "{} holds {} inputs", folder.display(), files.len());
    for file in files {
        let bytes = fs::read(&file).expect("an input can be read");
        assert!(catch_unwind(|| target(&bytes)).is_ok(), "{} breaks a promise", file.display());
    }
}

/// EV-1, EV-9.
#[test]
fn ev_1_canonical_text_of_the_corpus() {
    replay("canonical");
}

/// EV-4, EV-8, EV-9.
#[test]
fn ev_9_events_of_the_corpus() {
    replay("event");
}

/// FO-1, FO-4, SN-1.
#[test]
fn fo_4_logs_of_the_corpus() {
    replay("fold");
}

/// ST-1 to ST-8.
#[test]
fn st_3_operations_of_the_corpus() {
    replay("operations");
}

/// SN-2, SN-7.
#[test]
fn sn_2_snapshots_of_the_corpus() {
    replay("snapshot");
}

/// MO-1, MO-3, EV-6.
#[test]
fn mo_3_streams_of_the_corpus() {
    replay("stream");
}

/// EV-9, FO-4: every type that this version reads is among the events and in some log that folds, so
/// that a fuzzer begins with it instead of having to guess its name.
#[test]
fn ev_9_every_type_of_event_is_in_the_corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let files = |target: &str| -> Vec<Vec<u8>> {
        let files = fs::read_dir(root.join(target)).expect("a corpus").map(|file| file.expect("a file").path());
        files.map(|file| fs::read(file).expect("an input can be read")).collect()
    };
    let events: BTreeSet<EventType> =
        files("event").iter().filter_map(|body| Some(decode_trusted(body).ok()?.kind())).collect();
    let mut logged = BTreeSet::new();
    for log in files("fold") {
        let lines = log.split(|byte| *byte == b'\n').filter_map(read_line);
        logged.extend(lines.filter_map(|(body, hash)| Some(decode(body, &hash).ok()?.kind())));
    }
    for kind in EventType::ALL.iter().filter(|kind| kind.is_readable()) {
        assert!(events.contains(kind), "no event is a {kind:?}: cargo run -p plica-fuzz --example seed");
        assert!(logged.contains(kind), "no log has a {kind:?}: cargo run -p plica-fuzz --example seed");
    }
}

/// Each target has a wrapper, a binary for the fuzzer and a corpus.
#[test]
fn every_target_can_be_fuzzed_and_replayed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("cargo-fuzz/Cargo.toml")).expect("the fuzzer's manifest");
    for (name, _) in plica_fuzz::TARGETS {
        assert!(root.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name} has no wrapper");
        assert!(manifest.contains(&format!("\"../fuzz_targets/{name}.rs\"")), "{name} has no binary");
        assert!(root.join("corpus").join(name).is_dir(), "{name} has no corpus");
    }
    let wrappers = fs::read_dir(root.join("fuzz_targets")).expect("wrappers").count();
    assert_eq!(wrappers, plica_fuzz::TARGETS.len());
}
