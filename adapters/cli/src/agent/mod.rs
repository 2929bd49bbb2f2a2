//! Agent files: from TOML to the definition that a task cites.
//!
//! Reading an agent resolves everything its file names, the script of a scripted model and
//! the files of subagents, into content, so a task needs no file but its workspace
//! afterwards (EN-8). Whatever is wrong is told here, before a task exists.

mod error;
mod model;
mod schema;
mod table;
mod tools;

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plica_engine::govern::Rules;
use plica_kernel::body::{Blob, ContentRef, MEDIA_DEFINITION};
use plica_kernel::event::Budget;
use plica_kernel::id::Queue;
use plica_kernel::limits::{ID_BYTES_MAX, TASK_DEPTH_MAX};
use plica_ports::{Definition, OnCrash, PermissionMode};

pub use error::{AgentFileError, Shown};
pub use schema::schema;
use table::Section;

/// An agent as it is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// What the task will cite.
    pub definition: Definition,
    /// The content that the definition cites: its script, and the definitions of its
    /// subagents with whatever those cite. None twice.
    pub blobs: Vec<Blob>,
}

/// Reads agent files.
#[derive(Debug)]
pub struct AgentReader<'a> {
    /// The tools that this build has; `mcp__*` stands for those of MCP servers.
    known_tools: &'a [&'a str],
    /// The folder that paths on the command line, and agents without a workspace, are in.
    current: PathBuf,
}

impl<'a> AgentReader<'a> {
    /// A reader for a build that has `known_tools`, called in the folder `current`.
    pub fn new(known_tools: &'a [&'a str], current: &Path) -> Self {
        Self { known_tools, current: current.to_owned() }
    }

    /// Reads the agent of `file`.
    ///
    /// # Errors
    /// [`AgentFileError`], which names the file, what is wrong in it, and what to do.
    pub fn read(&self, file: &Path) -> Result<Agent, AgentFileError> {
        self.read_under(&self.current.join(file), &mut vec![], &self.current)
    }

    /// Reads an agent below those in `chain`; `default_workspace` is the folder it works in
    /// unless it says otherwise.
    fn read_under(
        &self,
        file: &Path,
        chain: &mut Vec<PathBuf>,
        default_workspace: &Path,
    ) -> Result<Agent, AgentFileError> {
        let read_error =
            |source: std::io::Error| AgentFileError::Read { file: Shown::of(file), why: source.to_string() };
        let bytes = std::fs::read(file).map_err(read_error)?;
        let identity = file.canonicalize().map_err(read_error)?;
        chain.push(identity);
        check_chain(chain)?;
        let table = table::parse(file, &bytes)?;
        let agent = self.resolve(&Section::top(file, &table, &schema::names(schema::KEYS))?, chain, default_workspace);
        chain.pop();
        agent
    }

    fn resolve(
        &self,
        section: &Section<'_>,
        chain: &mut Vec<PathBuf>,
        default_workspace: &Path,
    ) -> Result<Agent, AgentFileError> {
        if section.holds("mcp") {
            return Err(AgentFileError::Unsupported { file: section.file(), key: "mcp" });
        }
        let workspace = workspace(section, default_workspace)?;
        let mut blobs = vec![];
        let definition = Definition {
            allow: section.texts("allow")?,
            ask: section.texts("ask")?,
            budget: budget(section)?,
            deny: section.texts("deny")?,
            env: env(section)?,
            instructions: section.text("instructions")?.unwrap_or_default().to_owned(),
            interactive: section.flag("interactive")?,
            model: model::choice(section, &mut blobs)?,
            name: name(section)?,
            on_crash: section.one_of("on_crash", ON_CRASH)?,
            permission_mode: section.one_of("permission_mode", PERMISSION_MODES)?,
            queue: queue(section)?,
            subagents: self.subagents(section, chain, Path::new(&workspace), &mut blobs)?,
            tools: tools::listed(section, self.known_tools)?,
            workspace,
        };
        let rules = Rules::of(&definition).map_err(|source| AgentFileError::Rule { file: section.file(), source })?;
        tools::check_rules(section, &rules)?;
        Ok(Agent { definition, blobs })
    }

    /// Reads the subagents' files and puts their definitions, and what those cite, to `blobs`.
    fn subagents(
        &self,
        section: &Section<'_>,
        chain: &mut Vec<PathBuf>,
        workspace: &Path,
        blobs: &mut Vec<Blob>,
    ) -> Result<BTreeMap<String, ContentRef>, AgentFileError> {
        let mut subagents = BTreeMap::new();
        for path in section.texts("subagents")? {
            let file = section.folder().join(&path);
            if !file.exists() {
                return Err(AgentFileError::Cited { file: section.file(), what: "subagent", path: Shown::of(&file) });
            }
            let agent = self.read_under(&file, chain, workspace)?;
            let bytes = agent
                .definition
                .to_bytes()
                .map_err(|source| AgentFileError::Definition { file: Shown::of(&file), source })?;
            let blob = Blob::new(MEDIA_DEFINITION, bytes);
            if subagents.insert(agent.definition.name.clone(), blob.reference.clone()).is_some() {
                return Err(AgentFileError::SameName { file: section.file(), name: agent.definition.name });
            }
            for blob in agent.blobs.into_iter().chain([blob]) {
                add(blobs, blob);
            }
        }
        Ok(subagents)
    }
}

/// Adds a blob unless it is there.
fn add(blobs: &mut Vec<Blob>, blob: Blob) {
    if blobs.iter().all(|known| known.reference != blob.reference) {
        blobs.push(blob);
    }
}

const PERMISSION_MODES: &[(&str, PermissionMode)] = &[
    ("default", PermissionMode::Default),
    ("accept-edits", PermissionMode::AcceptEdits),
    ("bypass", PermissionMode::Bypass),
    ("plan", PermissionMode::Plan),
];

const ON_CRASH: &[(&str, OnCrash)] =
    &[("resolve", OnCrash::Resolve), ("redrive", OnCrash::Redrive), ("park", OnCrash::Park)];

/// Whether the last file of the chain is in it before, or lies deeper than tasks can.
fn check_chain(chain: &[PathBuf]) -> Result<(), AgentFileError> {
    let Some((last, above)) = chain.split_last() else { return Ok(()) };
    let names = || chain.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" -> ");
    if above.contains(last) {
        return Err(AgentFileError::Cycle { chain: names() });
    }
    if above.len() > TASK_DEPTH_MAX as usize {
        return Err(AgentFileError::TooDeep { chain: names() });
    }
    Ok(())
}

fn name(section: &Section<'_>) -> Result<String, AgentFileError> {
    let name = section.required_text("name", "name = \"coder\"")?;
    if name.trim().is_empty() || name.len() > ID_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(section.wrong("name", "expected 1 to 255 bytes without control characters"));
    }
    Ok(name.to_owned())
}

fn queue(section: &Section<'_>) -> Result<Option<Queue>, AgentFileError> {
    section
        .text("queue")?
        .map(|queue| Queue::new(queue).map_err(|error| section.wrong("queue", error.to_string())))
        .transpose()
}

fn env(section: &Section<'_>) -> Result<Vec<String>, AgentFileError> {
    let names = section.texts("env")?;
    match names.iter().position(|name| !model::is_variable(name)) {
        // What stands there is not shown: it may be a secret's value.
        Some(at) => Err(section.wrong(
            "env",
            format!("entry {} is not a variable's name; values are taken from the worker's environment", at + 1),
        )),
        None => Ok(names),
    }
}

fn budget(section: &Section<'_>) -> Result<Budget, AgentFileError> {
    let Some(budget) = section.section("budget", &schema::names(schema::BUDGET_KEYS))? else {
        return Ok(Budget::default());
    };
    let wall_ms = match budget.count("wall_s")? {
        Some(seconds) => {
            let millis = seconds.checked_mul(1000).filter(|millis| *millis <= table::COUNT_MAX);
            Some(millis.ok_or_else(|| budget.wrong("wall_s", "it is longer than can be counted in milliseconds"))?)
        }
        None => None,
    };
    Ok(Budget {
        nano_usd: budget.count("nano_usd")?,
        steps: budget.count("steps")?,
        tokens: budget.count("tokens")?,
        wall_ms,
    })
}

/// The workspace as an absolute path without links, so it has one spelling.
fn workspace(section: &Section<'_>, default: &Path) -> Result<String, AgentFileError> {
    let path = match section.text("workspace")? {
        Some("") => return Err(section.wrong("workspace", "expected the path of a folder")),
        Some(path) => section.folder().join(path),
        None => default.to_owned(),
    };
    let fail = |why: String| AgentFileError::Workspace { file: section.file(), path: Shown::of(&path), why };
    let whole = path.canonicalize().map_err(|error| fail(error.to_string()))?;
    if !whole.is_dir() {
        return Err(fail("it is not a folder".to_owned()));
    }
    whole.into_os_string().into_string().map_err(|_| fail("its path is not UTF-8".to_owned()))
}
