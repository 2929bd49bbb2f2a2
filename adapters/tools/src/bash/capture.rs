//! A command's output: a part for the model, the whole for the record, and a bound on memory
//! whatever the command writes.

use std::collections::VecDeque;

use plica_kernel::body::{Blob, MEDIA_TEXT};

use crate::limits::{TEXT_CHARS_MAX, WHOLE_BYTES_MAX};

/// Media type of output that is not UTF-8.
const MEDIA_BYTES: &str = "application/octet-stream";
/// Characters that are shown of each end of an output that is too long.
const END_CHARS: usize = TEXT_CHARS_MAX / 2;
/// Bytes that hold as many characters, whatever they are and wherever they are cut.
const END_BYTES: usize = 4 * (END_CHARS + 1);

/// What takes output in as it comes.
pub(super) trait Output: Default + Send {
    /// Takes the next bytes.
    fn push(&mut self, bytes: &[u8]);
}

/// Output as it comes in.
#[derive(Debug, Default)]
pub(super) struct Capture {
    /// The first bytes, up to the bound on what is kept.
    kept: Vec<u8>,
    /// The last bytes beyond that.
    tail: VecDeque<u8>,
    total: u64,
}

/// What became of an output.
#[derive(Debug)]
pub(super) struct Captured {
    /// What the model is told.
    pub(super) text: String,
    /// The whole, if the text is not.
    pub(super) whole: Option<Blob>,
}

impl Output for Capture {
    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (kept, beyond) = bytes.split_at(bytes.len().min(WHOLE_BYTES_MAX - self.kept.len()));
        self.kept.extend_from_slice(kept);
        self.tail.extend(beyond);
        let over = self.tail.len().saturating_sub(END_BYTES);
        self.tail.drain(..over);
    }
}

impl Capture {
    /// The output so far, in words.
    pub(super) fn finish(mut self) -> Captured {
        let utf8 = self.is_utf8();
        let text = if self.total == self.kept.len() as u64 { self.complete() } else { None };
        let (mut text, part) = match text {
            Some(text) => (text, false),
            None => (self.ends(), true),
        };
        if !utf8 {
            note(&mut text, "bytes that are not UTF-8 are shown as U+FFFD");
        }
        if !part && utf8 {
            return Captured { text, whole: None };
        }
        let whole = Blob::new(if utf8 { MEDIA_TEXT } else { MEDIA_BYTES }, std::mem::take(&mut self.kept));
        if self.total > whole.bytes.len() as u64 {
            let kept = whole.bytes.len();
            note(
                &mut text,
                &format!("of {} bytes of output the first {kept} are kept, as {}", self.total, whole.reference),
            );
        } else if part {
            note(&mut text, &format!("the whole output is kept as {}", whole.reference));
        }
        Captured { text, whole: Some(whole) }
    }

    /// Whether what is kept is UTF-8, a character that the bound cut in two aside.
    fn is_utf8(&self) -> bool {
        match std::str::from_utf8(&self.kept) {
            Ok(_) => true,
            Err(error) => error.error_len().is_none() && self.total > self.kept.len() as u64,
        }
    }

    /// All of the output as text, unless that is too long.
    fn complete(&self) -> Option<String> {
        if self.kept.len() > 4 * TEXT_CHARS_MAX {
            return None;
        }
        let text = String::from_utf8_lossy(&self.kept);
        text.char_indices().nth(TEXT_CHARS_MAX).is_none().then(|| text.into_owned())
    }

    /// The first and the last characters of an output that is too long.
    fn ends(&mut self) -> String {
        let head = String::from_utf8_lossy(&self.kept[..self.kept.len().min(END_BYTES)]);
        let head: String = head.chars().take(END_CHARS).collect();
        let missing = END_BYTES.saturating_sub(self.tail.len());
        let mut last = self.kept[self.kept.len().saturating_sub(missing)..].to_vec();
        last.extend(self.tail.make_contiguous().iter());
        let last = String::from_utf8_lossy(&last);
        let start = last.char_indices().nth_back(END_CHARS - 1).map_or(0, |(start, _)| start);
        let tail = &last[start..];
        let left_out = self.total.saturating_sub((head.len() + tail.len()) as u64);
        format!("{head}\n[{left_out} bytes are left out here]\n{tail}")
    }
}

/// Adds a sentence about a text on a line of its own.
pub(super) fn note(text: &mut String, sentence: &str) {
    end_line(text);
    text.push_str(&format!("[{sentence}]\n"));
}

/// Ends the last line, if it is not.
pub(super) fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests;
