//! `Grep`: lines by a regular expression.

mod sink;

use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;
use std::path::Path;

use async_trait::async_trait;
use cap_std::fs::{Dir, File, OpenOptions};
use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use plica_ports::{CallContext, Tool, ToolDeclaration, ToolError, ToolOutput};
use serde::Deserialize;

use crate::args::{parse, whole};
use crate::blocking::{Cancel, blocking};
use crate::fault::Fault;
use crate::limits::{BINARY_PROBE_BYTES, GREP_CONTEXT_MAX, GREP_LINE_BYTES_MAX, WHOLE_BYTES_MAX};
use crate::text::listing;
use crate::walk::{Walk, names_hidden};
use crate::workspace::{OpenError, Workspace, open_regular};
use sink::{Matches, Style};

const DESCRIPTION: &str = "Searches the files of the workspace for a regular expression (the syntax \
of ripgrep: escape braces that are meant literally). output_mode `files_with_matches`, the one \
unless given, gives the paths of the files that match, `content` the matching lines as \
path:number:text, `count` path:number of matching lines. Paths are sorted and relative to the \
workspace. `glob` limits the files, as `*.rs` or `src/**` does. Files that .gitignore or .ignore \
name, hidden and binary ones are not searched. Links are not followed.";

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "description": "The regular expression that lines have to match"},
    "path": {"type": "string", "minLength": 1, "description": "The file or folder to search; the workspace unless given"},
    "glob": {"type": "string", "minLength": 1, "description": "A pattern that the files' paths have to match; a leading ! turns it round"},
    "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"], "description": "What to give; files_with_matches unless given"},
    "case_insensitive": {"type": "boolean", "description": "Whether upper and lower case are the same; false unless given"},
    "line_numbers": {"type": "boolean", "description": "Whether content has line numbers; true unless given"},
    "context": {"type": "integer", "minimum": 0, "maximum": 1000, "description": "How many lines of content to give around each match"},
    "head_limit": {"type": "integer", "minimum": 1, "description": "How many lines of output to give at most"}
  },
  "required": ["pattern"],
  "additionalProperties": false
}"#;

/// Finds lines by a regular expression.
#[derive(Debug)]
pub struct Grep {
    declaration: ToolDeclaration,
}

impl Default for Grep {
    fn default() -> Self {
        Self { declaration: crate::looks("Grep", DESCRIPTION, SCHEMA) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    output_mode: Option<OutputMode>,
    #[serde(default)]
    case_insensitive: Option<bool>,
    #[serde(default)]
    line_numbers: Option<bool>,
    #[serde(default, deserialize_with = "whole")]
    context: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    head_limit: Option<u64>,
}

#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    Content,
    FilesWithMatches,
    Count,
}

#[async_trait]
impl Tool for Grep {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: Args = parse("Grep", args)?;
        let workspace = context.workspace.clone();
        Ok(blocking(context, move |cancel| grep(&Workspace::open(&workspace)?, &args, cancel)).await?)
    }
}

fn grep(workspace: &Workspace, args: &Args, cancel: &Cancel) -> Result<ToolOutput, Fault> {
    let given = args.path.as_deref().unwrap_or(".");
    let start = workspace.real(given)?;
    let mut search = Search::new(args, cancel)?;
    let metadata = workspace.root().metadata(&start).map_err(|source| workspace.explain(given, source))?;
    let mut notes = Vec::new();
    if metadata.is_dir() {
        let filter = args.glob.as_deref().map(Filter::new).transpose()?;
        let mut walk = Walk::new(workspace, cancel, args.glob.as_deref().is_some_and(names_hidden));
        let mut unreadable = 0_u64;
        walk.run(&start, &mut |found| {
            if filter.as_ref().is_some_and(|filter| !filter.takes(found.path, &start)) {
                return ControlFlow::Continue(());
            }
            match search.file(found.dir, Path::new(found.name), found.path) {
                Ok(flow) => flow,
                Err(_) => {
                    unreadable += 1;
                    ControlFlow::Continue(())
                }
            }
        })?;
        // A search that was told to end breaks off the walk as if it were done.
        cancel.check()?;
        walk.unreadable(unreadable);
        notes = walk.notes();
    } else {
        let _ = search.file(workspace.root(), &start, &start).map_err(|error| match error {
            SearchError::Open(error) => Fault::from(workspace.name(given, error)),
            SearchError::Search(source) => Fault::from(workspace.explain(given, source)),
        })?;
        cancel.check()?;
    }
    Ok(search.into_output(given, &args.pattern, notes))
}

/// Which files the `glob` of a call takes.
struct Filter {
    matcher: GlobMatcher,
    /// Whether it takes those that do not match.
    inverted: bool,
    /// Whether it is about the name alone, at any depth.
    name_only: bool,
}

impl Filter {
    fn new(glob: &str) -> Result<Self, Fault> {
        let (pattern, inverted) = glob.strip_prefix('!').map_or((glob, false), |rest| (rest, true));
        let pattern = pattern.trim_start_matches("./");
        let matcher = GlobBuilder::new(pattern.trim_start_matches('/'))
            .literal_separator(true)
            .build()
            .map_err(|error| Fault::failed(format!("the glob cannot be used: {error}")))?
            .compile_matcher();
        Ok(Self { matcher, inverted, name_only: !pattern.contains('/') })
    }

    fn takes(&self, path: &Path, start: &Path) -> bool {
        let matches = if self.name_only {
            path.file_name().is_some_and(|name| self.matcher.is_match(name))
        } else {
            // Both places that a path is commonly thought to start from.
            self.matcher.is_match(path) || path.strip_prefix(start).is_ok_and(|below| self.matcher.is_match(below))
        };
        matches != self.inverted
    }
}

/// Why a file was not searched.
enum SearchError {
    Open(OpenError),
    Search(io::Error),
}

/// A file that is read until the search is told to end.
struct Input<'a> {
    file: File,
    cancel: &'a Cancel,
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.cancel.check().map_err(io::Error::other)?;
        self.file.read(buffer)
    }
}

/// A search under way.
struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    mode: OutputMode,
    style: Style,
    cancel: &'a Cancel,
    out: String,
    /// Whether bytes were replaced since they are not UTF-8.
    replaced: bool,
    /// Lines of output that may still be given.
    room: u64,
    head_limit: Option<u64>,
}

impl<'a> Search<'a> {
    fn new(args: &Args, cancel: &'a Cancel) -> Result<Self, Fault> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(args.case_insensitive.unwrap_or(false))
            .line_terminator(Some(b'\n'))
            .build(&args.pattern)
            .map_err(|error| Fault::failed(format!("the pattern cannot be used: {error}")))?;
        let mode = args.output_mode.unwrap_or(OutputMode::FilesWithMatches);
        let context = match mode {
            OutputMode::Content => args.context.unwrap_or(0).min(GREP_CONTEXT_MAX) as usize,
            OutputMode::FilesWithMatches | OutputMode::Count => 0,
        };
        let line_numbers = args.line_numbers.unwrap_or(true);
        let searcher = SearcherBuilder::new()
            .line_number(line_numbers)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(GREP_LINE_BYTES_MAX))
            .build();
        Ok(Self {
            matcher,
            searcher,
            mode,
            style: Style { separated: context > 0 },
            cancel,
            out: String::new(),
            replaced: false,
            room: args.head_limit.unwrap_or(u64::MAX),
            head_limit: args.head_limit,
        })
    }

    /// Searches the file `name` in `dir`, which the output calls `path`.
    fn file(&mut self, dir: &Dir, name: &Path, path: &Path) -> Result<ControlFlow<()>, SearchError> {
        let (file, _) = open_regular(dir, name, OpenOptions::new().read(true)).map_err(SearchError::Open)?;
        let mut input = Input { file, cancel: self.cancel };
        let mut probe = Vec::new();
        input.by_ref().take(BINARY_PROBE_BYTES as u64).read_to_end(&mut probe).map_err(SearchError::Search)?;
        // UTF-16 has zero bytes and is text all the same: the searcher reads it by its mark.
        if memchr::memchr(0, &probe).is_some() && !probe.starts_with(b"\xff\xfe") && !probe.starts_with(b"\xfe\xff") {
            return Ok(ControlFlow::Continue(()));
        }
        let label = path.to_string_lossy();
        let mut matches = match self.mode {
            OutputMode::Content => Matches::lines(&label, self.style, self.room, !self.out.is_empty(), self.cancel),
            OutputMode::FilesWithMatches => Matches::first(&label, self.cancel),
            OutputMode::Count => Matches::count(&label, self.cancel),
        };
        self.searcher
            .search_reader(&self.matcher, Cursor::new(probe).chain(input), &mut matches)
            .map_err(SearchError::Search)?;
        if matches.count > 0 {
            match self.mode {
                OutputMode::Content => self.out.push_str(&matches.text),
                OutputMode::FilesWithMatches => self.out.push_str(&format!("{label}\n")),
                OutputMode::Count => self.out.push_str(&format!("{label}:{}\n", matches.count)),
            }
            self.replaced |= matches.replaced;
            self.room -= if self.mode == OutputMode::Content { matches.given } else { 1 };
        }
        let full = self.room == 0 || self.out.len() >= WHOLE_BYTES_MAX || self.cancel.check().is_err();
        Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn into_output(self, given: &str, pattern: &str, mut notes: Vec<String>) -> ToolOutput {
        if self.out.is_empty() {
            notes.insert(0, format!("nothing in {given} matches {pattern}"));
        }
        if self.replaced {
            notes.push("bytes that are not UTF-8 are shown as U+FFFD".to_string());
        }
        if let (0, Some(limit)) = (self.room, self.head_limit) {
            notes.push(format!("the search ended at head_limit {limit}; there may be more"));
        }
        if self.out.len() >= WHOLE_BYTES_MAX {
            notes.push(format!("the search ended after {} bytes of output", self.out.len()));
        }
        listing(self.out, &notes)
    }
}
