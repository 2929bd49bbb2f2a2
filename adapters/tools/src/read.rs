//! `Read`: a file's lines, numbered.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Cursor, Read as _};

use async_trait::async_trait;
use plica_ports::{CallContext, Tool, ToolDeclaration, ToolError, ToolOutput};
use serde::Deserialize;

use crate::args::{parse, whole};
use crate::blocking::{Cancel, blocking};
use crate::fault::Fault;
use crate::limits::{BINARY_PROBE_BYTES, READ_LINE_CHARS_MAX, READ_LINES_DEFAULT, READ_TEXT_BYTES_MAX};
use crate::workspace::Workspace;

const DESCRIPTION: &str = "Reads a text file of the workspace. The file_path may be absolute or \
relative to the workspace. Up to 2000 lines are given from the start of the file, or `limit` lines \
from line `offset` on. Every line is given as its number, a tab and its text, as `cat -n` does; \
lines over 2000 characters are cut. Folders and binary files cannot be read.";

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "file_path": {"type": "string", "minLength": 1, "description": "The file to read"},
    "offset": {"type": "integer", "minimum": 1, "description": "The line to start at, from 1"},
    "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read"}
  },
  "required": ["file_path"],
  "additionalProperties": false
}"#;

/// Gives a file's lines with their numbers.
#[derive(Debug)]
pub struct Read {
    declaration: ToolDeclaration,
}

impl Default for Read {
    fn default() -> Self {
        Self { declaration: crate::looks("Read", DESCRIPTION, SCHEMA) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    file_path: String,
    #[serde(default, deserialize_with = "whole")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    limit: Option<u64>,
}

#[async_trait]
impl Tool for Read {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: Args = parse("Read", args)?;
        let workspace = context.workspace.clone();
        Ok(blocking(context, move |cancel| read(&Workspace::open(&workspace)?, &args, cancel)).await?)
    }
}

fn read(workspace: &Workspace, args: &Args, cancel: &Cancel) -> Result<ToolOutput, Fault> {
    let path = &args.file_path;
    let failed = |source| Fault::from(workspace.explain(path, source));
    let (file, metadata) = workspace.open_file(path)?;
    if metadata.len() == 0 {
        return Ok(ToolOutput::text(format!("[{path} is empty]\n")));
    }
    let (probe, rest) = probe(file).map_err(failed)?;
    if let Some(at) = memchr::memchr(0, &probe) {
        return Err(Fault::failed(format!(
            "{path} is a binary file (it has a NUL byte at offset {at}) of {} bytes; look at it with Bash",
            metadata.len()
        )));
    }
    let first = args.offset.unwrap_or(1).max(1);
    let mut page = Page::new(first, args.limit.unwrap_or(READ_LINES_DEFAULT));
    let mut lines = Lines { input: Cursor::new(probe).chain(rest), cancel };
    page.fill(&mut lines).map_err(|error| match error {
        ReadError::Io(source) => failed(source),
        ReadError::Stopped(stopped) => stopped,
    })?;
    page.into_output(path)
}

/// The first bytes of a file, and a reader of the others.
fn probe(file: cap_std::fs::File) -> io::Result<(Vec<u8>, BufReader<cap_std::fs::File>)> {
    let mut rest = BufReader::with_capacity(64 << 10, file);
    let mut probe = Vec::new();
    rest.by_ref().take(BINARY_PROBE_BYTES as u64).read_to_end(&mut probe)?;
    Ok((probe, rest))
}

enum ReadError {
    Io(io::Error),
    Stopped(Fault),
}

/// A file's lines, of which no more is held than is shown.
struct Lines<'a, R> {
    input: R,
    cancel: &'a Cancel,
}

/// One line without its line feed.
struct Line {
    /// Its first bytes: all of them, unless there are more than can be shown.
    start: Vec<u8>,
    /// How many bytes it has.
    bytes: u64,
}

impl<R: BufRead> Lines<'_, R> {
    fn next(&mut self) -> Result<Option<Line>, ReadError> {
        // A character has at most four bytes, so these hold every one that is shown.
        const KEPT_BYTES_MAX: usize = 4 * (READ_LINE_CHARS_MAX + 1);
        let mut line = Line { start: Vec::new(), bytes: 0 };
        let mut any = false;
        loop {
            self.cancel.check().map_err(ReadError::Stopped)?;
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ReadError::Io(error)),
            };
            if buffer.is_empty() {
                return Ok(any.then_some(line));
            }
            any = true;
            let end = memchr::memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let room = KEPT_BYTES_MAX - line.start.len();
            line.start.extend_from_slice(&part[..part.len().min(room)]);
            line.bytes += part.len() as u64;
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }
}

/// The lines that one call gives.
struct Page {
    text: String,
    first: u64,
    limit: u64,
    /// The number of the last line that was read.
    line: u64,
    /// Whether the file goes on after it.
    more: bool,
    /// Whether bytes were replaced since they are not UTF-8.
    replaced: bool,
}

impl Page {
    fn new(first: u64, limit: u64) -> Self {
        Self { text: String::new(), first, limit, line: 0, more: false, replaced: false }
    }

    fn fill(&mut self, lines: &mut Lines<'_, impl BufRead>) -> Result<(), ReadError> {
        while let Some(line) = lines.next()? {
            let number = self.line + 1;
            if number >= self.first && (number - self.first >= self.limit || self.text.len() >= READ_TEXT_BYTES_MAX) {
                self.more = true;
                return Ok(());
            }
            self.line = number;
            if number >= self.first {
                self.push(number, &line);
            }
        }
        Ok(())
    }

    fn push(&mut self, number: u64, line: &Line) {
        let text = String::from_utf8_lossy(&line.start);
        let shown = match text.char_indices().nth(READ_LINE_CHARS_MAX) {
            Some((end, _)) => &text[..end],
            None => &text,
        };
        // A character that was cut in two by the bound is not shown, so it does not count.
        self.replaced |= matches!(text, Cow::Owned(_)) && shown.contains(char::REPLACEMENT_CHARACTER);
        self.text.push_str(&format!("{number:>6}\t{shown}"));
        if shown.len() < text.len() {
            self.text.push_str(&format!("… [cut: the line has {} bytes]", line.bytes));
        }
        self.text.push('\n');
    }

    fn into_output(mut self, path: &str) -> Result<ToolOutput, Fault> {
        if self.line < self.first {
            return Err(Fault::failed(format!(
                "{path} has {} lines, so there is no line {}; ask for a smaller offset",
                self.line, self.first
            )));
        }
        if self.replaced {
            self.text.push_str("[bytes that are not UTF-8 are shown as U+FFFD]\n");
        }
        if self.more {
            let next = self.line + 1;
            self.text.push_str(&format!(
                "[lines {} to {} are shown and the file goes on; read on with offset {next}]\n",
                self.first, self.line
            ));
        }
        Ok(ToolOutput::text(self.text))
    }
}
