//! What a search keeps of one file.

use std::borrow::Cow;
use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use crate::blocking::Cancel;
use crate::limits::{GREP_LINE_CHARS_MAX, WHOLE_BYTES_MAX};
use crate::text::cut_line;

/// How lines are given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// Whether a line of `--` stands between groups that do not touch.
    pub(super) separated: bool,
}

/// The matches in one file.
pub(super) struct Matches<'a> {
    label: &'a str,
    cancel: &'a Cancel,
    keep: Keep,
    /// The lines, if they are kept.
    pub(super) text: String,
    /// How many lines match.
    pub(super) count: u64,
    /// How many lines `text` has.
    pub(super) given: u64,
    /// Whether bytes were replaced since they are not UTF-8.
    pub(super) replaced: bool,
}

enum Keep {
    /// Lines with their context, so many at most.
    Lines { style: Style, room: u64, follows: bool },
    /// Whether there is one.
    First,
    /// How many there are.
    Count,
}

impl<'a> Matches<'a> {
    /// Keeps up to `room` lines; `follows` says that others stand before them.
    pub(super) fn lines(label: &'a str, style: Style, room: u64, follows: bool, cancel: &'a Cancel) -> Self {
        Self::new(label, Keep::Lines { style, room, follows }, cancel)
    }

    /// Ends at the first match.
    pub(super) fn first(label: &'a str, cancel: &'a Cancel) -> Self {
        Self::new(label, Keep::First, cancel)
    }

    /// Counts only.
    pub(super) fn count(label: &'a str, cancel: &'a Cancel) -> Self {
        Self::new(label, Keep::Count, cancel)
    }

    fn new(label: &'a str, keep: Keep, cancel: &'a Cancel) -> Self {
        Self { label, cancel, keep, text: String::new(), count: 0, given: 0, replaced: false }
    }

    /// Keeps a line, and says whether to go on.
    fn line(&mut self, bytes: &[u8], number: Option<u64>, mark: char) -> bool {
        let Keep::Lines { style, room, follows } = self.keep else {
            return true;
        };
        if self.given >= room || self.text.len() >= WHOLE_BYTES_MAX {
            return false;
        }
        if self.given == 0 && follows && style.separated {
            self.text.push_str("--\n");
        }
        let line = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(bytes));
        self.replaced |= matches!(line, Cow::Owned(_));
        let label = self.label;
        match number {
            Some(number) => self.text.push_str(&format!("{label}{mark}{number}{mark}")),
            None => self.text.push_str(&format!("{label}{mark}")),
        }
        self.text.push_str(&cut_line(&line, GREP_LINE_CHARS_MAX));
        self.text.push('\n');
        self.given += 1;
        true
    }
}

impl Sink for &mut Matches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.cancel.check().is_err() {
            return Ok(false);
        }
        self.count += 1;
        match self.keep {
            Keep::Lines { .. } => Ok(self.line(found.bytes(), found.line_number(), ':')),
            Keep::First => Ok(false),
            Keep::Count => Ok(true),
        }
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.line(context.bytes(), context.line_number(), '-'))
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        // Nothing follows a break that the bound would leave at the end.
        if matches!(self.keep, Keep::Lines { room, .. } if self.given < room) {
            self.text.push_str("--\n");
        }
        Ok(true)
    }
}
