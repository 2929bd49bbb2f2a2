//! `Edit`: a part of a file, found by its text.

use std::path::Path;

use async_trait::async_trait;
use memchr::memmem::Finder;
use plica_kernel::canonical::content_hash;
use plica_kernel::decide::Foreseen;
use plica_ports::{CallContext, Recovered, Tool, ToolDeclaration, ToolError, ToolOutput};
use serde::Deserialize;

use crate::args::parse;
use crate::blocking::{Cancel, blocking, foreseen};
use crate::change::{AtMost, Before, TempName, replace};
use crate::fault::Fault;
use crate::limits::{EDIT_BYTES_MAX, EDIT_SNIPPET_LINES, READ_LINE_CHARS_MAX, TEXT_CHARS_MAX};
use crate::preimage;
use crate::text::cut_line;
use crate::turns::in_turn;
use crate::workspace::{Parents, Place, Workspace};

const DESCRIPTION: &str = "Replaces text in a file of the workspace. The old_string has to be in \
the file exactly once, white space included (without the line numbers that Read shows); give more \
of its surroundings to make it so, or set replace_all to replace every occurrence. The file_path \
may be absolute or relative to the workspace.";

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "file_path": {"type": "string", "minLength": 1, "description": "The file to change"},
    "old_string": {"type": "string", "minLength": 1, "description": "The text to replace"},
    "new_string": {"type": "string", "description": "The text to put in its place"},
    "replace_all": {"type": "boolean", "description": "Whether to replace every occurrence; false unless given"}
  },
  "required": ["file_path", "old_string", "new_string"],
  "additionalProperties": false
}"#;

/// Replaces text in a file, atomically.
#[derive(Debug)]
pub struct Edit {
    declaration: ToolDeclaration,
}

impl Default for Edit {
    fn default() -> Self {
        Self { declaration: crate::changes("Edit", DESCRIPTION, SCHEMA) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: Option<bool>,
}

#[async_trait]
impl Tool for Edit {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn foresee(&self, args: &str, workspace: &Path) -> Foreseen {
        let Ok(args) = parse::<Args>("Edit", args) else { return Foreseen::default() };
        let workspace = workspace.to_path_buf();
        foreseen(move |cancel| {
            let workspace = Workspace::open(&workspace)?;
            let place = workspace.place(&args.file_path, Parents::Exist)?;
            let Change { before, new, .. } = change(&workspace, &place, &args, cancel)?;
            Ok(preimage::foreseen(&place.path, Some(before), content_hash(&new)))
        })
        .await
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: Args = parse("Edit", args)?;
        let (path, temp) = (args.file_path.clone(), TempName::of(context));
        let find = move |workspace: &Workspace, _: &Cancel| Ok(workspace.place(&path, Parents::Exist)?);
        let work = move |workspace: &Workspace, place, cancel: &Cancel| edit(workspace, &place, &args, &temp, cancel);
        Ok(in_turn(context, find, work).await?)
    }

    /// Only cleans up. That the old text is gone and the new one there proves nothing: the file
    /// may have been so before, and others change files too.
    async fn recover(&self, args: &str, context: &CallContext) -> Recovered {
        let Ok(args) = parse::<Args>("Edit", args) else {
            return Recovered::Unknown;
        };
        let (workspace, temp) = (context.workspace.clone(), TempName::of(context));
        let swept = blocking(context, move |_| {
            let workspace = Workspace::open(&workspace)?;
            let place = workspace.place(&args.file_path, Parents::Exist)?;
            temp.sweep(&place.parent).map_err(|source| workspace.explain(&args.file_path, source).into())
        })
        .await;
        if let Err(error) = swept {
            tracing::warn!(%error, "what a call left beside a file could not be removed");
        }
        Recovered::Unknown
    }
}

/// What a call does to a file.
struct Change {
    before: Before,
    new: Vec<u8>,
    /// Where the old text starts.
    starts: Vec<usize>,
}

fn change(workspace: &Workspace, place: &Place, args: &Args, cancel: &Cancel) -> Result<Change, Fault> {
    let path = &args.file_path;
    let refuse = |reason: &str| Err(Fault::failed(format!("{path} was not changed: {reason}")));
    if args.old_string.is_empty() {
        return refuse("old_string is empty; use Write to write a whole file");
    }
    if args.old_string == args.new_string {
        return refuse("old_string and new_string are the same");
    }
    let over = |size| refuse(&format!("it has {size} bytes, more than Edit takes; use Bash"));
    let before = Before::read_at_most(place, EDIT_BYTES_MAX, cancel);
    let before = match before.map_err(|error| error.into_fault(workspace, path))? {
        AtMost::Absent => return Err(Fault::failed(format!("{path} does not exist; use Write to create it"))),
        AtMost::Over(size) => return over(size),
        AtMost::Read(before) => before,
    };
    let Some(old) = &before.bytes else { return over(before.size) };
    let places = find(old, args.old_string.as_bytes());
    match places.count {
        0 => return refuse("old_string was found 0 times; Read the file and copy the text exactly"),
        1 => {}
        _ if args.replace_all == Some(true) => {}
        n => {
            return refuse(&format!(
                "old_string was found {n} times; give more of its surroundings, or set replace_all"
            ));
        }
    }
    let new = splice(old, &places.starts, args.old_string.len(), args.new_string.as_bytes());
    Ok(Change { before, new, starts: places.starts })
}

fn edit(
    workspace: &Workspace,
    place: &Place,
    args: &Args,
    temp: &TempName,
    cancel: &Cancel,
) -> Result<ToolOutput, Fault> {
    let path = &args.file_path;
    let Change { before, new, starts } = change(workspace, place, args, cancel)?;
    replace(workspace, path, place, &new, Some(&before), temp, cancel)?;
    let replaced = starts.len();
    let plural = if replaced == 1 { "" } else { "s" };
    let mut output = ToolOutput::text(format!(
        "edited {path}: {replaced} replacement{plural}; it now reads\n{}",
        snippet(&new, starts[0], args.new_string.len())
    ));
    preimage::record(&mut output, &place.path, Some(before), content_hash(&new));
    Ok(output)
}

/// Where a text was found.
struct Places {
    /// The first bytes of those that do not overlap, from the front.
    starts: Vec<usize>,
    /// How many there are: when there is but one, an overlapping second one counts too, since
    /// then it is not clear which is meant.
    count: usize,
}

fn find(content: &[u8], old: &[u8]) -> Places {
    let finder = Finder::new(old);
    let starts: Vec<usize> = finder.find_iter(content).collect();
    let overlapping = match starts[..] {
        [only] => usize::from(finder.find(&content[only + 1..]).is_some()),
        _ => 0,
    };
    Places { count: starts.len() + overlapping, starts }
}

fn splice(content: &[u8], starts: &[usize], old_len: usize, new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(content.len());
    let mut from = 0;
    for &start in starts {
        result.extend_from_slice(&content[from..start]);
        result.extend_from_slice(new);
        from = start + old_len;
    }
    result.extend_from_slice(&content[from..]);
    result
}

/// The lines around the change at `start`, numbered as `Read` does.
fn snippet(content: &[u8], start: usize, len: usize) -> String {
    let line_of = |at: usize| memchr::memchr_iter(b'\n', &content[..at]).count();
    let first = line_of(start).saturating_sub(EDIT_SNIPPET_LINES);
    let last = line_of(start + len) + EDIT_SNIPPET_LINES;
    let mut text = String::new();
    for (index, line) in content.split_inclusive(|&byte| byte == b'\n').enumerate().take(last + 1).skip(first) {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
        text.push_str(&format!("{:>6}\t{}\n", index + 1, cut_line(&line, READ_LINE_CHARS_MAX)));
        if text.len() > TEXT_CHARS_MAX {
            text.push_str("[and so on]\n");
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlapping_second_occurrence_counts() {
        for (content, old, count, starts) in [
            ("abc", "b", 1, vec![1]),
            ("abcb", "b", 2, vec![1, 3]),
            ("aaa", "aa", 2, vec![0]),
            ("abc", "x", 0, vec![]),
            ("b", "b", 1, vec![0]),
        ] {
            let places = find(content.as_bytes(), old.as_bytes());
            assert_eq!((places.count, places.starts), (count, starts), "{old} in {content}");
        }
    }

    #[test]
    fn a_snippet_shows_the_lines_around_the_change() {
        let content = (1..=20).map(|n| format!("line {n}\n")).collect::<String>();
        let start = content.find("line 10").unwrap_or_default();
        let text = snippet(content.as_bytes(), start, "line 10\nline 11".len());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.first(), Some(&"     6\tline 6"));
        assert_eq!(lines.last(), Some(&"    15\tline 15"));
    }
}
