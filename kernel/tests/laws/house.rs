//! What the kernel is not allowed to be (HO-1).

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file that is not a test's, with its text up to the tests at its foot.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_string();
            found.push((path, code));
        }
    }
    found
}

#[test]
fn ho_1_the_dependencies_are_these() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let names: Vec<&str> = section
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split(['.', ' ', '=']).next().unwrap())
        .collect();
    assert_eq!(names, ["serde", "sha2", "thiserror"]);
    assert!(!manifest.contains("[target."), "no dependency by another door");
    assert!(!manifest.contains("[features]"), "no feature that changes what the kernel is");
}

#[test]
fn ho_1_no_std_and_no_unsafe_code() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    assert!(lib.contains("\n#![no_std]\n"));
    assert!(lib.contains("\n#![forbid(unsafe_code)]\n"));
    assert!(lib.contains("#[cfg(test)]\nextern crate std;"), "std is there for tests alone");
    assert_eq!(lib.matches("extern crate std").count(), 1);
}

#[test]
fn ho_1_no_floats_and_no_hash_maps() {
    let files = sources(&root().join("src"));
    assert!(files.len() > 30);
    for (path, code) in files {
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines {
            for word in ["HashMap", "HashSet", "async ", "std::"] {
                assert!(!line.contains(word), "{}: {line}", path.display());
            }
            // A serializer has to name the type to refuse it, and a deserializer to pass it on.
            let refuses = line.contains("fn serialize_f") || line.contains("bool i8 i16");
            assert!(refuses || !(line.contains("f32") || line.contains("f64")), "{}: {line}", path.display());
        }
    }
}

/// HO-2: the slices of a task are private, and the examples that must not compile stand guard.
#[test]
fn ho_2_the_slices_are_private() {
    let source = include_str!("../../src/state/mod.rs");
    let members = source.split_once("pub struct Task {").and_then(|(_, rest)| rest.split_once("\n}")).unwrap().0;
    for slice in ["runtime", "state", "context", "governance"] {
        assert!(members.contains(&format!("    {slice}: ")), "{slice}");
    }
    assert!(!members.contains("pub "), "a member of Task is open to all");
    assert!(source.contains("compile_fail,E0616") && source.contains("compile_fail,E0594"));
}

/// HO-4: what decides gets views; the examples that must not compile stand guard.
#[test]
fn ho_4_deciding_and_recording_are_two_rights() {
    for source in [include_str!("../../../ports/src/guard.rs"), include_str!("../../../ports/src/policy.rs")] {
        assert!(source.contains("compile_fail"), "{source}");
    }
}
