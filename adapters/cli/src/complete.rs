//! Completions: the shell runs the program itself, with `COMPLETE` set, for the words that could
//! stand where the cursor is; so it offers the tasks that there are now.

use std::ffi::OsString;
use std::time::Duration;

use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use plica_engine::Client;
use plica_ports::store::{Page, Row, TaskFilter};

use crate::args::Arguments;
use crate::compose;
use crate::fault::Fault;
use crate::render::cut;

/// The shells that there are scripts for.
pub const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// Set by the scripts when they ask.
const VARIABLE: &str = "COMPLETE";
/// Tasks that are offered, the newest first.
const TASKS: usize = 50;
/// Characters of a goal beside its task.
const GOAL_CHARS: usize = 50;
/// Nobody waits longer for the words after a tab.
const PATIENCE: Duration = Duration::from_millis(500);

/// Answers a shell that asks for words, and ends; anybody else goes on.
pub fn answer_shell() {
    CompleteEnv::with_factory(Arguments::command).var(VARIABLE).complete();
}

/// The script that makes `shell` ask.
pub fn registration(shell: &str) -> Result<String, Fault> {
    let unknown = || Fault::Usage(format!("no completions for {shell:?}, but for {}", SHELLS.join(", ")));
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(unknown)?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "plica", "plica", "plica", &mut script)
        .map_err(|error| Fault::Config(format!("the script for {shell} cannot be written: {error}")))?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// The tasks of the store, for an argument that names one.
pub fn tasks() -> ArgValueCandidates {
    ArgValueCandidates::new(candidates)
}

/// Whatever goes wrong, there is nothing to offer: a shell shows no errors at a tab.
fn candidates() -> Vec<CompletionCandidate> {
    let newest = CompletionCandidate::new("@last").help(Some("the newest task".into()));
    let offered = |row: Row| {
        let help = format!("{} {}: {}", row.projection.status, row.facts.agent, row.facts.goal);
        CompletionCandidate::new(row.id.to_string()).help(Some(cut(&help, GOAL_CHARS).into()))
    };
    let rows = rows(std::env::args_os().collect()).unwrap_or_default();
    if rows.is_empty() { Vec::new() } else { std::iter::once(newest).chain(rows.into_iter().map(offered)).collect() }
}

fn rows(words: Vec<OsString>) -> Option<Vec<Row>> {
    let named = store_of(&words).or_else(|| std::env::var("PLICA_STORE").ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let client = Client::new(compose::store(named.as_deref()).ok()?);
        let (filter, page) = (TaskFilter::default(), Page::first(TASKS));
        tokio::time::timeout(PATIENCE, client.list(&filter, &page)).await.ok()?.ok()
    })
}

/// The store that the words of the unfinished command line name.
fn store_of(words: &[OsString]) -> Option<String> {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let after = words.windows(2).find(|pair| pair[0] == "--store").map(|pair| pair[1]);
    after.or_else(|| words.iter().find_map(|word| word.strip_prefix("--store="))).map(str::to_owned)
}
