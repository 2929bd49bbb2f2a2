//! What of a long output the model is told, and what is kept.

use plica_kernel::body::{Blob, MEDIA_TEXT};
use plica_ports::ToolOutput;

use crate::limits::TEXT_CHARS_MAX;

/// `line` cut to `chars_max` characters, with a mark where it was.
pub(crate) fn cut_line(line: &str, chars_max: usize) -> String {
    match line.char_indices().nth(chars_max) {
        None => line.to_string(),
        Some((end, _)) => {
            format!("{}… [cut: the line has {} bytes, the first {end} are shown]", &line[..end], line.len())
        }
    }
}

/// An output of lines: all of them if they are few, otherwise the first ones and the whole as
/// content. `notes` are sentences about the output, and follow it.
pub(crate) fn listing(lines: String, notes: &[String]) -> ToolOutput {
    let (mut text, whole) = match lines.char_indices().nth(TEXT_CHARS_MAX) {
        None => (lines, None),
        Some((end, _)) => {
            // Half a line would read as another path or another match.
            let end = lines[..end].rfind('\n').map_or(end, |line_end| line_end + 1);
            let blob = Blob::new(MEDIA_TEXT, lines.into_bytes());
            let mut text = String::from_utf8_lossy(&blob.bytes[..end]).into_owned();
            text.push_str(&format!(
                "[the rest is left out here; all {} bytes are kept as {}; narrow the search to see more]\n",
                blob.bytes.len(),
                blob.reference
            ));
            (text, Some(blob))
        }
    };
    for note in notes {
        text.push_str(&format!("[{note}]\n"));
    }
    ToolOutput { text, whole, ..ToolOutput::default() }
}
