//! The README does what it says: its shell blocks are run, one after the other, in a fresh
//! folder with a fresh store, and what it shows of their output is what they print.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plica_conformance::model::chat::Chat;
use plica_conformance::model::server::{Act, Framing, Server, response, stream};
use plica_conformance::model::{Protocol, Said};

/// Seconds that one block may take: long enough for a busy machine, short enough to end.
const BLOCK_S_MAX: &str = "120";

/// Stands for cargo, which the tests of a build must not start again: what it would build is
/// there, and what it would test runs.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
    "run --locked -p plica -- "*) shift 5; exec plica "$@" ;;
    "test --workspace --locked" | "install --locked --path adapters/cli") ;;
    *) echo "unexpected: cargo $*" >&2; exit 1 ;;
esac
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A fenced block: its language, its lines, and the line it begins on.
struct Block {
    language: String,
    text: String,
    line: usize,
}

fn blocks(markdown: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = vec![];
    let mut open = false;
    for (line, text) in (1..).zip(markdown.lines()) {
        match (text.strip_prefix("```"), open) {
            (Some(language), false) => {
                blocks.push(Block { language: language.to_owned(), text: String::new(), line });
                open = true;
            }
            (Some(_), true) => open = false,
            (None, true) => {
                let block = blocks.last_mut().expect("a fence opened it");
                block.text.push_str(text);
                block.text.push('\n');
            }
            (None, false) => {}
        }
    }
    blocks
}

/// Whether `output` is `expected`, in which `…` stands for anything.
fn is_like(output: &str, expected: &str) -> bool {
    let mut pieces = expected.trim().split('…');
    let Some(mut rest) = pieces.next().and_then(|first| output.trim().strip_prefix(first)) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, between)) = pieces.split_last() else { return rest.is_empty() };
    for piece in between {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn the_check_of_outputs_knows_its_ellipsis() {
    assert!(is_like("a b c\n", "a b c"));
    assert!(is_like("a 17 c\nend\n", "a … c\n…"));
    assert!(is_like("x\na\ny\n", "…\na\n…"));
    assert!(!is_like("a b c", "a b"));
    assert!(!is_like("a b c", "a … d"));
    assert!(!is_like("a b c", "b …"));
    assert!(!is_like("a c b", "a … b … c"));
}

/// The address of the local model server that the README asks.
const SERVER: &str = "http://localhost:11434/v1";

/// Stands in the place of that server: it lists its model, asks for one call, and answers.
fn model_server(runtime: &tokio::runtime::Runtime) -> Server {
    let listed = vec![Act::Send(response(200, &[], r#"{"data": [{"id": "qwen3:8b"}]}"#))];
    let says = |said: &Said| {
        let events = Chat.events(said);
        let pieces: Vec<&[u8]> = events.iter().map(String::as_bytes).collect();
        vec![Act::Send(stream(Framing::Chunked, &pieces))]
    };
    let calls = vec![("", "Glob", vec![r#"{"pattern": "#, r#""*.toml"}"#])];
    let looks = Said { text: vec!["I ", "look."], calls, ..Said::default() };
    let answers = Said { text: vec!["One agent ", "file, reader.toml."], ..Said::default() };
    runtime.block_on(Server::start([listed, says(&looks), says(&answers)]))
}

/// LI-1, CL-1, CL-2, CL-4, CL-6, ST-16, RC-2: every command of the README, in order.
#[test]
fn cl_4_every_shell_block_of_the_readme_runs_and_prints_what_it_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    fs::write(bin.join("cargo"), CARGO).expect("a script");
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).expect("it can be run");
    symlink(env!("CARGO_BIN_EXE_plica"), bin.join("plica")).expect("a link");
    symlink(root().join("adapters"), folder.path().join("adapters")).expect("a link");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a test machine can start a runtime");
    let server = model_server(&runtime);

    let readme = fs::read_to_string(root().join("README.md")).expect("there is a README");
    let blocks = blocks(&readme);
    let mut run = 0;
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "sh") {
        let ended = Command::new("timeout")
            .args([BLOCK_S_MAX, "bash", "-eu", "-o", "pipefail", "-c"])
            .arg(format!("exec 2>&1\n{}", block.text.replace(SERVER, &server.base_url())))
            .current_dir(folder.path())
            .env_remove("PLICA_STORE")
            .env("PATH", &path)
            .env("HOME", folder.path())
            .env("XDG_DATA_HOME", folder.path().join("data"))
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        let output = String::from_utf8_lossy(&ended.stdout);
        let line = block.line;
        assert!(ended.status.success(), "README.md line {line}: {}\n{output}", ended.status);
        assert!(!output.contains("panicked"), "README.md line {line}:\n{output}");
        if let Some(shown) = blocks.get(index + 1).filter(|next| next.language == "text") {
            assert!(is_like(&output, &shown.text), "README.md line {}: this was printed:\n{output}", shown.line);
        }
        run += 1;
    }
    assert!(run >= 8, "only {run} shell blocks were found");
    assert_eq!(server.received().len(), 3, "the model server was asked");
    assert!(folder.path().join("data/plica/plica.db").is_file(), "CL-3: the store is in the user's data folder");
    let effects = fs::read_to_string(folder.path().join("effects")).expect("the command ran");
    assert_eq!(effects, "once\n", "the killed command ran once");
}

/// Every model that the table of servers names is one that agent files take.
#[test]
fn ho_3_the_models_that_the_readme_names_can_be_used() {
    let readme = fs::read_to_string(root().join("README.md")).expect("there is a README");
    let models: Vec<&str> =
        readme.lines().filter_map(|line| line.strip_prefix("| `model = ")?.split('`').next()).collect();
    assert_eq!(models.len(), 5);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.toml");
    for model in models {
        fs::write(&file, format!("name = \"a\"\nmodel = {model}\n")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_plica"));
        let checked = command.args(["agent", "check"]).arg(&file).output().expect("the program runs");
        assert!(checked.status.success(), "{model}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

/// The recording that the README names is one (asciicast v2), and shows what the README says.
#[test]
fn the_recording_is_sound() {
    let cast = fs::read_to_string(root().join("adapters/cli/examples/first-hour.cast")).expect("it is there");
    let mut lines = cast.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    assert_eq!(lines.next().expect("a head")["version"], 2);
    let mut shown = String::new();
    for event in lines {
        assert!(event[0].is_number() && event[1] == "o", "{event}");
        shown.push_str(event[2].as_str().expect("text"));
    }
    for words in ["The list has two lines.", "effects recorded twice            0", "integrity     ok"] {
        assert!(shown.contains(words), "{words:?} is not in the recording");
    }
}

/// The README begins with the two commands, and the gate runs the second of them.
#[test]
fn the_readme_begins_with_two_commands_and_the_gate_runs_the_tests() {
    let readme = fs::read_to_string(root().join("README.md")).expect("there is a README");
    let first = blocks(&readme).into_iter().next().expect("a block");
    assert_eq!((first.language.as_str(), first.line), ("sh", 3));
    let commands: Vec<&str> = first.text.lines().collect();
    assert_eq!(commands.len(), 2);
    let gate = fs::read_to_string(root().join(".ci/run")).expect("there is a gate");
    assert!(gate.lines().any(|line| line == commands[1]), "{} is not in .ci/run", commands[1]);
}
