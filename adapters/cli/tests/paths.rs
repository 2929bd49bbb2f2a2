//! Every path that README.md and ARCHITECTURE.md name exists, and no room is missing on the map.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What stands between backticks outside fenced blocks, and where links lead.
fn spans(markdown: &str) -> Vec<String> {
    let mut spans = vec![];
    let mut fenced = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        spans.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        spans.extend(line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
    }
    spans
}

/// Whether a span names a path of the repository: its top has what the span begins with, or
/// the span looks like a file.
fn is_path(span: &str) -> bool {
    let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "_-./@{},".contains(c));
    let first = span.split('/').next().unwrap_or_default();
    let is_rooted = !first.is_empty() && root().join(first).exists();
    let is_file = [".rs", ".toml", ".md"].iter().any(|end| span.ends_with(end)) || span.contains('/');
    plain && !span.starts_with('/') && (is_rooted || is_file)
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn expanded(span: &str) -> Vec<String> {
    match span.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        None => vec![span.to_owned()],
        Some((before, (names, after))) => {
            names.split(',').flat_map(|name| expanded(&format!("{before}{name}{after}"))).collect()
        }
    }
}

#[test]
fn every_path_that_the_maps_name_exists() {
    // Files that the README makes, and one outside the repository.
    let elsewhere = ["list.txt", "notes.toml", "plica/plica.db"];
    for map in ["README.md", "ARCHITECTURE.md"] {
        let text = fs::read_to_string(root().join(map)).expect("the map is there");
        let paths: Vec<String> = spans(&text).into_iter().filter(|span| is_path(span)).collect();
        assert!(paths.len() >= 10, "{map}: only {} paths were found", paths.len());
        for path in paths.iter().filter(|path| !elsewhere.contains(&path.as_str())).flat_map(|path| expanded(path)) {
            assert!(root().join(&path).exists(), "{map} names {path}, which is not there");
        }
    }
}

/// PR-6: the table of operations names the test that cuts each, and the file it is in.
#[test]
fn every_test_that_the_table_of_operations_names_is_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map is there");
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with("| ") && line.matches('|').count() == 8).collect();
    let (head, rows) = rows.split_first().expect("a table");
    assert!(head.ends_with("test that cuts it |"));
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit("| ").next().expect("a cell");
        let named = spans(cell);
        assert!(!named.is_empty() && named.len().is_multiple_of(2), "no test in: {row}");
        for pair in named.chunks(2) {
            let file = fs::read_to_string(root().join(&pair[1])).expect("the file is there");
            assert!(file.contains(&format!("fn {}(", pair[0])), "{} has no test {}", pair[1], pair[0]);
        }
    }
}

#[test]
fn every_crate_and_every_room_of_kernel_ports_and_engine_is_on_the_map() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map is there");
    let named: Vec<String> = spans(&text).iter().flat_map(|span| expanded(span)).collect();
    let is_named = |path: &str| named.iter().any(|name| name == path);

    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest is there");
    let (_, members) = manifest.split_once("members = [").expect("it lists its members");
    let (members, _) = members.split_once(']').expect("the list ends");
    for member in members.split('"').skip(1).step_by(2) {
        assert!(is_named(member), "ARCHITECTURE.md says nothing of {member}: add a paragraph");
    }
    for room in ["kernel/src", "ports/src", "engine/src"] {
        for entry in fs::read_dir(root().join(room)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name");
            let path = format!("{room}/{name}");
            assert!(name == "lib.rs" || is_named(&path), "ARCHITECTURE.md says nothing of {path}: add a line");
        }
    }
}
