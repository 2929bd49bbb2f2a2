//! `Glob`: files by their path.

use std::ops::ControlFlow;
use std::path::Path;

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use plica_ports::{CallContext, Tool, ToolDeclaration, ToolError, ToolOutput};
use serde::Deserialize;

use crate::args::parse;
use crate::blocking::{Cancel, blocking};
use crate::fault::Fault;
use crate::limits::GLOB_PATHS_MAX;
use crate::text::listing;
use crate::walk::{Walk, names_hidden};
use crate::workspace::Workspace;

const DESCRIPTION: &str = "Finds files of the workspace by a glob pattern such as `*.txt` (in the \
folder itself), `**/*.rs` (at any depth) or `src/**/*.{ts,tsx}`. Gives one path a line, sorted and \
relative to the workspace. Files that .gitignore or .ignore name are left out, and so are hidden \
ones unless the pattern names them. Links are not followed.";

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "description": "The glob pattern that paths have to match"},
    "path": {"type": "string", "minLength": 1, "description": "The folder to search, which the pattern starts from; the workspace unless given"}
  },
  "required": ["pattern"],
  "additionalProperties": false
}"#;

/// Finds files by a pattern of their path.
#[derive(Debug)]
pub struct Glob {
    declaration: ToolDeclaration,
}

impl Default for Glob {
    fn default() -> Self {
        Self { declaration: crate::looks("Glob", DESCRIPTION, SCHEMA) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
}

#[async_trait]
impl Tool for Glob {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: Args = parse("Glob", args)?;
        let workspace = context.workspace.clone();
        Ok(blocking(context, move |cancel| glob(&Workspace::open(&workspace)?, &args, cancel)).await?)
    }
}

fn glob(workspace: &Workspace, args: &Args, cancel: &Cancel) -> Result<ToolOutput, Fault> {
    let given = args.path.as_deref().unwrap_or(".");
    let start = workspace.real(given)?;
    let pattern = anchored(workspace, &args.pattern)?;
    let matcher = matcher(&pattern)?;
    let mut paths = String::new();
    let mut count = 0_usize;
    let mut walk = Walk::new(workspace, cancel, names_hidden(&pattern));
    walk.run(&start, &mut |found| {
        let below = found.path.strip_prefix(&start).unwrap_or(found.path);
        if matcher.is_match(below) {
            paths.push_str(&found.path.to_string_lossy());
            paths.push('\n');
            count += 1;
        }
        if count < GLOB_PATHS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let mut notes = walk.notes();
    if count == 0 {
        notes.insert(0, format!("no file in {given} matches {}", args.pattern));
    }
    if count >= GLOB_PATHS_MAX {
        notes.push(format!("the search ended at {GLOB_PATHS_MAX} files; narrow the pattern to see the others"));
    }
    Ok(listing(paths, &notes))
}

/// The pattern without what only names the place that it starts from anyway.
fn anchored(workspace: &Workspace, pattern: &str) -> Result<String, Fault> {
    if pattern.split('/').any(|part| part == "..") {
        return Err(Fault::failed(format!("the pattern {pattern} has a `..`; name the folder to search as path")));
    }
    if Path::new(pattern).is_absolute() {
        return Ok(workspace.relative(pattern)?.to_string_lossy().into_owned());
    }
    Ok(pattern.trim_start_matches("./").to_string())
}

fn matcher(pattern: &str) -> Result<GlobMatcher, Fault> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| Fault::failed(format!("the pattern cannot be used: {error}")))
}
