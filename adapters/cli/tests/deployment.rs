//! The examples for operators do what their comments say, as far as that shows without their
//! programs: a container engine and systemd.

use std::path::Path;
use std::process::Command;

/// Every instruction that a container file may hold, but for those that nobody uses any more.
const INSTRUCTIONS: [&str; 17] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The instructions of a container file and what follows each, lines joined.
fn instructions(file: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let filled = joined.lines().map(str::trim).filter(|line| !line.is_empty());
    filled
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
        .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
        .collect()
}

/// Whether the program takes these arguments.
fn is_taken(arguments: &[String]) -> bool {
    let mut plica = Command::new(env!("CARGO_BIN_EXE_plica"));
    plica.args(arguments).arg("--help").output().expect("the program starts").status.success()
}

#[test]
fn the_container_file_builds_this_program_and_runs_a_worker() {
    let file = text("examples/Containerfile");
    let found = instructions(&file);
    for (name, rest) in &found {
        assert!(INSTRUCTIONS.contains(&name.as_str()), "{name} is no instruction");
        assert!(!rest.is_empty(), "{name} says nothing");
    }
    let of =
        |name: &str| found.iter().filter(|(known, _)| known == name).map(|(_, rest)| rest.as_str()).collect::<Vec<_>>();
    let stages = of("FROM");
    assert_eq!(found.first().map(|(name, _)| name.as_str()), Some("FROM"));
    assert!(stages[0].contains(concat!("rust:", env!("CARGO_PKG_RUST_VERSION"))), "{} is not our Rust", stages[0]);
    assert!(stages[0].ends_with(" AS build") && of("COPY").iter().any(|copy| copy.starts_with("--from=build ")));
    let built = format!("cargo build --release --locked -p {}", env!("CARGO_PKG_NAME"));
    assert!(of("RUN").contains(&built.as_str()), "{built} is not run");
    // What runs is the program that was copied, with arguments that it takes.
    let words = |name: &str| serde_json::from_str::<Vec<String>>(of(name)[0]).expect("a list of words");
    assert_eq!(words("ENTRYPOINT"), ["plica"]);
    assert!(of("COPY").iter().any(|copy| copy.ends_with(" /usr/local/bin/plica")));
    assert!(is_taken(&words("CMD")), "plica does not take {:?}", words("CMD"));
    assert_eq!(of("STOPSIGNAL"), ["SIGTERM"]);
    // As its comment says how to build it; what was built here before is left out.
    assert!(file.contains("podman build -f adapters/cli/examples/Containerfile -t plica ."));
    assert!(text("../../.dockerignore").lines().any(|line| line == "target"));
}

#[test]
fn the_unit_starts_a_worker() {
    let unit = text("examples/plica-worker@.service");
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a unit starts something");
    let words: Vec<String> = started.split(' ').map(str::to_owned).collect();
    assert_eq!(words[0], "/usr/local/bin/plica");
    assert!(is_taken(&words[1..]), "plica does not take {started}");
    for section in ["[Unit]", "[Service]", "[Install]"] {
        assert!(unit.lines().any(|line| line == section), "no {section}");
    }
}
