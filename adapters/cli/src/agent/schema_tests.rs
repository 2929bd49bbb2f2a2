//! The schema and the reader say the same of the same files.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::table::parse;
use super::{AgentReader, schema};

const KNOWN: &[&str] = &["Read", "Write", "Edit", "Glob", "Grep", "Bash", "Task"];

/// Whether the schema takes an agent file.
fn takes(text: &str) -> bool {
    let validator = jsonschema::validator_for(&schema()).expect("the schema is one");
    let table = parse(Path::new("a.toml"), text.as_bytes()).expect("TOML");
    validator.is_valid(&serde_json::to_value(table).expect("JSON"))
}

#[test]
fn the_schema_takes_what_the_reader_takes_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("s.json"), r#"{"replies":[{"text":"hi"}]}"#).expect("a file");
    let model = "model = \"script:s.json\"";
    let with = |more: &str| format!("name = \"a\"\n{model}\n{more}");
    let cases = [
        (with(""), true),
        (with("tools = [\"Read\", \"Bash\"]\nallow = [\"Bash(ls:*)\"]\ninteractive = true"), true),
        (with("permission_mode = \"accept-edits\"\non_crash = \"park\"\nqueue = \"q\"\nenv = [\"A\"]"), true),
        (with("[budget]\nsteps = 3\ntokens = 4\nnano_usd = 5\nwall_s = 6"), true),
        ("name = \"a\"\nmodel = \"ollama:m\"".into(), true),
        (
            "name = \"a\"\n[model]\nprovider = \"vllm\"\nname = \"m\"\nmax_tokens = 3\ntemperature = \"0.1\"\n\
          headers = { X-Title = \"t\" }"
                .into(),
            true,
        ),
        ("name = \"a\"".into(), false),
        (model.into(), false),
        ("name = \"a\"\nmodel = \"m\"".into(), false),
        ("name = \"a\"\nmodel = \"nobody:m\"".into(), false),
        ("name = \"a\"\n[model]\nprovider = \"vllm\"".into(), false),
        ("name = \"a\"\n[model]\nprovider = \"vllm\"\nname = \"m\"\ntemperature = 0.1".into(), false),
        (with("tool = []"), false),
        (with("tools = \"Read\""), false),
        (with("tools = [\"Raed\"]"), false),
        (with("mcp = []"), false),
        (with("permission_mode = \"yolo\""), false),
        (with("on_crash = \"panic\""), false),
        (with("interactive = 1"), false),
        (with("[budget]\nsteps = 0"), false),
        (with("[budget]\nstep = 1"), false),
    ];
    for (text, sound) in cases {
        fs::write(folder.path().join("a.toml"), &text).expect("a file");
        let read = AgentReader::new(KNOWN, folder.path()).read(&folder.path().join("a.toml"));
        assert_eq!((read.is_ok(), takes(&text)), (sound, sound), "{text}\n{:?}", read.err());
    }
}

#[test]
fn every_key_is_described() {
    let schema = schema();
    let tables = [
        &schema["properties"],
        &schema["properties"]["budget"]["properties"],
        &schema["properties"]["model"]["anyOf"][1]["properties"],
    ];
    for table in tables {
        let keys = table.as_object().expect("a table");
        assert!(!keys.is_empty());
        for (name, key) in keys {
            assert!(key["description"].as_str().is_some_and(|about| about.ends_with('.')), "{name}: {key}");
        }
    }
    assert!(schema["properties"].get("mcp").is_none_or(Value::is_null));
}
