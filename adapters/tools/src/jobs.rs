//! `BashOutput` and `KillShell`: what background commands have said, and their end.

use async_trait::async_trait;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, sinks::Lossy};
use plica_kernel::event::JobEnd;
use plica_kernel::id::Seq;
use plica_ports::{CallContext, JobExit, JobState, KnownJob, Tool, ToolDeclaration, ToolError, ToolOutput};
use serde::Deserialize;

use crate::args::parse;
use crate::fault::Fault;
use crate::limits::TEXT_CHARS_MAX;

const OUTPUT_DESCRIPTION: &str = "Gives the output of a background command that Bash started, and says whether it \
still runs. The last 256 KiB of its output are kept, also once it has ended; of those the last 30000 characters are \
given, all of them at every call. With `filter` only the lines that match this regular expression.";

const OUTPUT_SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "bash_id": {"type": "string", "minLength": 1, "description": "The id of the background job"},
    "filter": {"type": "string", "minLength": 1, "description": "A regular expression; lines that do not match are left out"}
  },
  "required": ["bash_id"],
  "additionalProperties": false
}"#;

const KILL_DESCRIPTION: &str = "Ends a background command that Bash started, with the processes of its group: they are told to, \
and killed if they have not ended after 5 seconds. Its output can still be read with BashOutput.";

const KILL_SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "shell_id": {"type": "string", "minLength": 1, "description": "The id of the background job"}
  },
  "required": ["shell_id"],
  "additionalProperties": false
}"#;

/// Reads what a background command has said.
#[derive(Debug)]
pub struct BashOutput {
    declaration: ToolDeclaration,
}

impl Default for BashOutput {
    fn default() -> Self {
        Self { declaration: crate::looks("BashOutput", OUTPUT_DESCRIPTION, OUTPUT_SCHEMA) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputArgs {
    bash_id: String,
    #[serde(default)]
    filter: Option<String>,
}

#[async_trait]
impl Tool for BashOutput {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: OutputArgs = parse("BashOutput", args)?;
        let known = find(&args.bash_id, context).await?;
        let (stands, output) = match known.state {
            JobState::Running(job) => ("is running".to_owned(), job.output()),
            JobState::Ended(exit) => (in_words(&exit), exit.output),
        };
        let shown = match &args.filter {
            Some(filter) => matching(&output, filter)?,
            None => output,
        };
        let text = format!("Background job {} ({}) {stands}.\n{}", args.bash_id, known.what, end_of(&shown));
        Ok(ToolOutput::text(text))
    }
}

/// Ends a background command.
///
/// It touches nothing that was there before the agent itself began it by a call that was allowed,
/// so it is ruled on like a tool that only looks.
#[derive(Debug)]
pub struct KillShell {
    declaration: ToolDeclaration,
}

impl Default for KillShell {
    fn default() -> Self {
        Self { declaration: crate::looks("KillShell", KILL_DESCRIPTION, KILL_SCHEMA) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KillArgs {
    shell_id: String,
}

#[async_trait]
impl Tool for KillShell {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: KillArgs = parse("KillShell", args)?;
        let known = find(&args.shell_id, context).await?;
        let exit = match known.state {
            JobState::Running(job) => {
                job.kill().await;
                job.ended().await
            }
            JobState::Ended(exit) => exit,
        };
        let text = format!("Background job {} ({}) {}.\n", args.shell_id, known.what, in_words(&exit));
        Ok(ToolOutput::text(text))
    }
}

async fn find(id: &str, context: &CallContext) -> Result<KnownJob, Fault> {
    let number = id.trim().parse().map(Seq);
    let unknown = || {
        Fault::failed(format!(
            "there is no background job {id:?} of this task; its id is the number that Bash gave when it was started"
        ))
    };
    let found = context.jobs.job(number.map_err(|_| unknown())?).await;
    let found = found.map_err(|why| Fault::failed(format!("background job {id} cannot be looked up now: {why}")))?;
    found.ok_or_else(unknown)
}

fn in_words(exit: &JobExit) -> String {
    match (exit.how, exit.code) {
        (JobEnd::Exited, Some(code)) => format!("has ended with exit status {code}"),
        (JobEnd::Exited, None) => "has ended".into(),
        (JobEnd::Killed, _) => "was killed".into(),
        (JobEnd::Lost, _) => "was lost with the worker that ran it".into(),
    }
}

/// The lines that match.
fn matching(output: &str, filter: &str) -> Result<String, Fault> {
    let refuse = |error: &dyn std::fmt::Display| {
        Fault::failed(format!("`filter` is no regular expression that can be used: {error}"))
    };
    let matcher = RegexMatcher::new(filter).map_err(|error| refuse(&error))?;
    let mut lines = String::new();
    let sink = Lossy(|_, line| {
        lines.push_str(line);
        Ok(true)
    });
    Searcher::new().search_slice(&matcher, output.as_bytes(), sink).map_err(|error| refuse(&error))?;
    Ok(lines)
}

/// The last characters of a text, with a note on what is left out.
fn end_of(text: &str) -> String {
    if text.is_empty() {
        return "[no output]\n".into();
    }
    match text.char_indices().rev().nth(TEXT_CHARS_MAX) {
        None => text.to_owned(),
        Some((before, letter)) => {
            let start = before + letter.len_utf8();
            format!("[{start} bytes before this are left out]\n{}", &text[start..])
        }
    }
}
