//! `Write`: a whole file.

use std::path::Path;

use async_trait::async_trait;
use plica_kernel::canonical::content_hash;
use plica_kernel::decide::Foreseen;
use plica_ports::{CallContext, Recovered, Tool, ToolDeclaration, ToolError, ToolOutput};
use serde::Deserialize;

use crate::args::parse;
use crate::blocking::{Cancel, blocking, foreseen};
use crate::change::{AtMost, Before, TempName, replace};
use crate::fault::Fault;
use crate::preimage;
use crate::turns::in_turn;
use crate::workspace::{Parents, PathError, Place, Workspace};
use plica_kernel::limits::PREIMAGE_BYTES_MAX;

const DESCRIPTION: &str = "Writes a file of the workspace, replacing it whole if it is there and \
making missing folders if it is not. The file_path may be absolute or relative to the workspace. \
To change a part of a file use Edit.";

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "file_path": {"type": "string", "minLength": 1, "description": "The file to write"},
    "content": {"type": "string", "description": "The whole new content of the file"}
  },
  "required": ["file_path", "content"],
  "additionalProperties": false
}"#;

/// Writes a whole file, atomically.
#[derive(Debug)]
pub struct Write {
    declaration: ToolDeclaration,
}

impl Default for Write {
    fn default() -> Self {
        Self { declaration: crate::changes("Write", DESCRIPTION, SCHEMA) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    file_path: String,
    content: String,
}

#[async_trait]
impl Tool for Write {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn foresee(&self, args: &str, workspace: &Path) -> Foreseen {
        let Ok(args) = parse::<Args>("Write", args) else { return Foreseen::default() };
        let workspace = workspace.to_path_buf();
        foreseen(move |cancel| foresee(&Workspace::open(&workspace)?, &args, cancel)).await
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: Args = parse("Write", args)?;
        let (path, temp) = (args.file_path.clone(), TempName::of(context));
        let find = move |workspace: &Workspace, cancel: &Cancel| {
            cancel.check()?;
            Ok(workspace.place(&path, Parents::Make)?)
        };
        let work = move |workspace: &Workspace, place, cancel: &Cancel| write(workspace, place, &args, &temp, cancel);
        Ok(in_turn(context, find, work).await?)
    }

    /// The call happened if the file holds exactly what it writes. Anything else says nothing:
    /// the file may have been changed again since.
    async fn recover(&self, args: &str, context: &CallContext) -> Recovered {
        let Ok(args) = parse::<Args>("Write", args) else {
            return Recovered::Unknown;
        };
        let (workspace, temp) = (context.workspace.clone(), TempName::of(context));
        let look = move |cancel: &Cancel| recover(&Workspace::open(&workspace)?, &args, &temp, cancel);
        match blocking(context, look).await {
            Ok(Some(output)) => Recovered::Found(output),
            Ok(None) | Err(_) => Recovered::Unknown,
        }
    }
}

fn foresee(workspace: &Workspace, args: &Args, cancel: &Cancel) -> Result<Foreseen, Fault> {
    let path = &args.file_path;
    let after = content_hash(args.content.as_bytes());
    let place = match workspace.place(path, Parents::Exist) {
        // Its folder will be made with it.
        Err(PathError::Missing { .. }) => return Ok(preimage::foreseen(&workspace.resolve(path)?, None, after)),
        place => place?,
    };
    let before = Before::read_at_most(&place, PREIMAGE_BYTES_MAX, cancel);
    Ok(match before.map_err(|error| error.into_fault(workspace, path))? {
        AtMost::Absent => preimage::foreseen(&place.path, None, after),
        AtMost::Read(before) => preimage::foreseen(&place.path, Some(before), after),
        // It could not be put back anyway, and a start does not wait for gigabytes.
        AtMost::Over(_) => preimage::foreseen_untold(&place.path, after),
    })
}

fn write(
    workspace: &Workspace,
    place: Place,
    args: &Args,
    temp: &TempName,
    cancel: &Cancel,
) -> Result<ToolOutput, Fault> {
    let path = &args.file_path;
    let before = Before::read(&place, PREIMAGE_BYTES_MAX, cancel).map_err(|error| error.into_fault(workspace, path))?;
    let content = args.content.as_bytes();
    replace(workspace, path, &place, content, before.as_ref(), temp, cancel)?;
    let size = content.len() as u64;
    let mut output = ToolOutput::text(match &before {
        None => format!("created {path} ({size} bytes)"),
        Some(before) => format!("replaced {path} ({size} bytes, before {})", before.size),
    });
    preimage::record(&mut output, &place.path, before, content_hash(content));
    Ok(output)
}

fn recover(workspace: &Workspace, args: &Args, temp: &TempName, cancel: &Cancel) -> Result<Option<ToolOutput>, Fault> {
    let path = &args.file_path;
    let place = workspace.place(path, Parents::Exist)?;
    if let Err(error) = temp.sweep(&place.parent) {
        tracing::warn!(path, %error, "what a call left beside a file could not be removed");
    }
    let Some(now) = Before::read(&place, 0, cancel).map_err(|error| error.into_fault(workspace, path))? else {
        return Ok(None);
    };
    let content = args.content.as_bytes();
    let sha256 = content_hash(content);
    if now.sha256 != sha256 {
        return Ok(None);
    }
    let mut output = ToolOutput::text(format!("{path} holds this content ({} bytes)", content.len()));
    preimage::record_recovered(&mut output, &place.path, sha256);
    Ok(Some(output))
}
