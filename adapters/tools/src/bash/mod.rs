//! `Bash`: a command of a shell.

mod capture;
mod environment;
mod group;
mod job;

use std::process::ExitStatus;
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::limits::JOBS_MAX;
use plica_ports::{CallContext, RunningJob, StartedJob, Tool, ToolDeclaration, ToolError, ToolOutput};
use serde::Deserialize;

use crate::args::{parse, whole};
use crate::fault::Fault;
use crate::limits::{BASH_COMMAND_BYTES_MAX, BASH_GRACE, BASH_TIMEOUT_DEFAULT_MS, BASH_TIMEOUT_MAX_MS};
use capture::{Capture, Captured, end_line};
use group::Group;
use job::{BashJob, Rolling};

const DESCRIPTION: &str = "Runs a command with `bash -c` in the workspace and gives its output, \
standard output and standard error as they come. Every call is a new shell: neither its folder nor \
its variables outlive it, and neither do processes that it leaves behind. Standard input is empty. \
The command is killed after `timeout` milliseconds, 120000 unless given. An output of more than \
30000 characters is given by its beginning and its end. With `run_in_background` the call returns at \
once with the id of a background job, which has no timeout: read its output with BashOutput, end it with KillShell. \
You are told when it ends. It ends with the task, and when the worker that runs it does.";

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "command": {"type": "string", "minLength": 1, "description": "The command to run"},
    "timeout": {"type": "integer", "minimum": 1, "maximum": 3600000, "description": "How long it may run, in milliseconds; 120000 unless given"},
    "description": {"type": "string", "description": "What the command does, in a few words"},
    "run_in_background": {"type": "boolean", "description": "Return at once and let the command go on"}
  },
  "required": ["command"],
  "additionalProperties": false
}"#;

/// Runs a command in a process group of its own.
#[derive(Debug)]
pub struct Bash {
    declaration: ToolDeclaration,
}

impl Default for Bash {
    fn default() -> Self {
        Self { declaration: crate::changes("Bash", DESCRIPTION, SCHEMA) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    command: String,
    #[serde(default, deserialize_with = "whole")]
    timeout: Option<u64>,
    /// For whoever reads the call; it changes nothing.
    #[serde(default, rename = "description")]
    _description: Option<String>,
    #[serde(default)]
    run_in_background: Option<bool>,
}

/// Why a command is over.
enum End {
    Exited(std::io::Result<ExitStatus>),
    TimedOut,
    Stopped,
}

#[async_trait]
impl Tool for Bash {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: Args = parse("Bash", args)?;
        check(&args.command)?;
        let limit_ms = args.timeout.unwrap_or(BASH_TIMEOUT_DEFAULT_MS).clamp(1, BASH_TIMEOUT_MAX_MS);
        if context.stop.is_stopped() {
            return Err(ToolError::stopped("the call was stopped before the command was started"));
        }
        if args.run_in_background == Some(true) {
            return Ok(in_background(&args.command, context)?);
        }
        let mut group = start(&args.command, context, Capture::default())?;
        let end = tokio::select! {
            exited = group.follow() => End::Exited(exited),
            () = tokio::time::sleep(Duration::from_millis(limit_ms)) => End::TimedOut,
            () = context.stop.stopped() => End::Stopped,
        };
        if !matches!(end, End::Exited(_)) {
            group.terminate(BASH_GRACE).await;
        }
        let captured = group.end().await.finish();
        match end {
            End::Exited(Ok(status)) if status.success() => Ok(succeeded(captured)),
            End::Exited(Ok(status)) => Err(ToolError::Failed(failed(status, captured))),
            End::Exited(Err(error)) => {
                Err(ToolError::Unknown(cut_off(&format!("was lost sight of ({error})"), captured)))
            }
            End::TimedOut => {
                Err(ToolError::Unknown(cut_off(&format!("did not end within {limit_ms} ms and was killed"), captured)))
            }
            End::Stopped => Err(ToolError::Stopped(cut_off("was stopped", captured))),
        }
    }
}

fn start<O: capture::Output>(command: &str, context: &CallContext, taken: O) -> Result<Group<O>, Fault> {
    Group::start(command, context, taken).map_err(|error| {
        Fault::failed(format!("the command could not be started in {}: {error}", context.workspace.display()))
    })
}

/// Starts a command that goes on once the call is answered.
fn in_background(command: &str, context: &CallContext) -> Result<ToolOutput, Fault> {
    let slot = context.jobs.slot().ok_or_else(|| {
        Fault::failed(format!(
            "the command was not started: {JOBS_MAX} background jobs may run at once; end one with KillShell first"
        ))
    })?;
    let output = Rolling::default();
    let group = start(command, context, output.clone())?;
    let job = StartedJob { job: RunningJob::new(BashJob::follow(group, output, slot)), what: command.to_owned() };
    let text = "Read its output with BashOutput and end it with KillShell, both by this id.";
    Ok(ToolOutput { job: Some(job), ..ToolOutput::text(text) })
}

/// What the system would refuse with words that help nobody.
fn check(command: &str) -> Result<(), Fault> {
    if command.contains('\0') {
        return Err(Fault::failed("the command has a NUL character, which no command can have; leave it out"));
    }
    if command.len() > BASH_COMMAND_BYTES_MAX {
        return Err(Fault::failed(format!(
            "the command has {} bytes, at most {BASH_COMMAND_BYTES_MAX} can be run; Write it to a file and run that",
            command.len()
        )));
    }
    Ok(())
}

fn succeeded(Captured { mut text, whole }: Captured) -> ToolOutput {
    if text.is_empty() {
        text.push_str("[no output]\n");
    }
    ToolOutput { text, whole, ..ToolOutput::default() }
}

fn failed(status: ExitStatus, Captured { mut text, whole }: Captured) -> ToolOutput {
    end_line(&mut text);
    match status.code() {
        Some(code) => text.push_str(&format!("exit status {code}")),
        None => text.push_str(&format!("ended by a signal ({status})")),
    }
    ToolOutput { text, whole, ..ToolOutput::default() }
}

/// What is known of a command that did not end by itself.
fn cut_off(what: &str, Captured { text, whole }: Captured) -> ToolOutput {
    let output = if text.is_empty() { "[no output]\n" } else { &text };
    let text = format!("the command {what}; what it did until then may have happened. Its output so far:\n{output}");
    ToolOutput { text, whole, ..ToolOutput::default() }
}
