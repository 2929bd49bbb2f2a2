//! The corpus, replayed on stable Rust: what a fuzzer once found stays found.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

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
