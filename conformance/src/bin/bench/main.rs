//! Measures Plica against the limits of the machine it runs on.
//!
//! `cargo run --release -p plica-conformance --bin bench -- [--json] [names]`
//!
//! Every bar is a ratio of two things run alternately in one process, or a count; absolute
//! figures move with the disk and the load and are shown for orientation only. The raw loops
//! ([`raw`]) know nothing of Plica: they are what SQLite or a plain decoder can do at best.

#![expect(clippy::float_arithmetic, reason = "rates and ratios, shown and thrown away")]

mod appends;
mod back;
mod control;
mod drain;
mod engine;
mod family;
mod fold;
mod measure;
mod mix;
mod peers;
mod place;
mod postgres;
mod processes;
mod raw;
mod report;
mod rounds;
mod snapshots;
mod team;
mod timers;
mod waiting;
mod waking;

use std::path::PathBuf;
use std::process::ExitCode;

use report::Report;

/// What a measurement may use.
struct Bench {
    /// A folder on the disk to be measured; each case makes its own below it.
    folder: PathBuf,
    runtime: tokio::runtime::Runtime,
    /// Events of the long log of L4.
    events: u64,
    /// Tasks that wait while a worker idles.
    waiting: usize,
}

type Case = fn(&Bench, &mut Report);

/// Every case by name, in the order in which they run.
const CASES: [(&str, Case); 32] = [
    ("floor", raw::floor),
    ("L1", appends::one_event),
    ("L2", appends::eight_tasks),
    ("L3", processes::two_processes),
    ("L4", appends::long_log),
    ("L5", postgres::one_event),
    ("L6", processes::flushes),
    ("L6-pg", postgres::flushes),
    ("L7", waiting::claims),
    ("L7-pg", postgres::claims),
    ("L8", postgres::old_snapshot),
    ("F1", fold::whole),
    ("F2", control::fold),
    ("F3", fold::rates),
    ("F4", fold::verified),
    ("F5", fold::encode),
    ("S1", snapshots::load_state),
    ("S2", snapshots::write),
    ("E1", rounds::whole_tasks),
    ("E2", peers::steps),
    ("E5", peers::runs),
    ("E6", rounds::wake),
    ("B1", appends::bytes),
    ("B1-pg", appends::bytes_of_tables),
    ("flat", rounds::flat),
    ("back", back::all),
    ("idle", waiting::idle),
    ("wakes", waking::all),
    ("drain", drain::all),
    ("timers", timers::all),
    ("family", family::all),
    ("team", team::all),
    ("long", snapshots::long_task),
];

const USAGE: &str = "bench [--json] [--events N] [--waiting N] [--dir FOLDER] [NAME…]";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if let Some(role) = arguments.next_if(|first| first.starts_with("--child-")) {
        return processes::child(&role, &arguments.collect::<Vec<_>>());
    }
    match run(arguments) {
        Ok(met) => ExitCode::from(u8::from(!met)),
        Err(usage) => {
            let names: Vec<&str> = CASES.iter().map(|(name, _)| *name).collect();
            eprintln!("{usage}\n{USAGE}\nnames: {}", names.join(" "));
            ExitCode::from(2)
        }
    }
}

/// Runs what is asked for; says whether every bar was met.
fn run(mut arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let (mut json, mut events, mut waiting, mut folder) = (false, 100_000, 10_000, std::env::temp_dir());
    let mut names: Vec<String> = Vec::new();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
        match argument.as_str() {
            "--json" => json = true,
            "--events" => events = number(value()?)?,
            "--waiting" => waiting = number(value()?)? as usize,
            "--dir" => folder = value()?.into(),
            name if CASES.iter().any(|(known, _)| *known == name) => names.push(argument),
            other => return Err(format!("{other:?} is no option and no name")),
        }
    }
    let fail = |error: std::io::Error| format!("no folder to measure in: {error}");
    let own = tempfile::Builder::new().prefix("plica-bench").tempdir_in(&folder).map_err(fail)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(fail)?;
    let bench = Bench { folder: own.path().to_owned(), runtime, events, waiting };
    let mut report = Report::new(json);
    for (name, case) in CASES {
        // The floor comes first whatever is asked for: it says what the disk is like now.
        if names.is_empty() || name == "floor" || names.iter().any(|asked| asked == name) {
            case(&bench, &mut report);
        }
    }
    Ok(report.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases that the documents name are there.
    #[test]
    fn what_the_documents_ask_for_can_be_run() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(root.join("DEPLOYMENT.md")).expect("the document is there");
        let (_, rest) = text.split_once("--bin bench -- ").expect("it names a command");
        let (names, _) = rest.split_once('`').expect("the command ends");
        let names: Vec<&str> = names.split_whitespace().collect();
        assert!(names.len() >= 10, "{names:?}");
        for name in names {
            assert!(CASES.iter().any(|(known, _)| *known == name), "there is no case {name}");
        }
    }
}
