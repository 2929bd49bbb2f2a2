//! What a change of a file leaves on record: what the file was, so that it can be put back.

use std::path::Path;

use plica_kernel::body::{Blob, MEDIA_TEXT};
use plica_kernel::canonical::Hash;
use plica_ports::{Record, ToolOutput};
use serde::Serialize;

use crate::change::Before;
use crate::limits::{PREIMAGE_BYTES_MAX, RECORD_BYTES_MAX};

/// The plugin that the records are of.
const PLUGIN: &str = "files";
/// The kind of the records.
const KIND: &str = "preimage";
/// Media type of a file's bytes.
const MEDIA_BYTES: &str = "application/octet-stream";

#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    path: PathText<'a>,
    before: Was<'a>,
    after: Now<'a>,
}

/// A path that does not fit is content of its own, under this hash.
#[derive(Serialize)]
enum PathText<'a> {
    #[serde(rename = "path")]
    Inline(&'a str),
    #[serde(rename = "path_sha256")]
    Content(&'a Hash),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Was<'a> {
    /// There was no file: `null`.
    Absent(()),
    /// A recovered call cannot tell any more: `"unknown"`.
    Unknown(&'a str),
    /// There was this one, and `kept` says whether its bytes are content.
    Present { sha256: &'a Hash, size: u64, kept: bool },
}

#[derive(Serialize)]
struct Now<'a> {
    sha256: &'a Hash,
    size: u64,
}

/// Adds to `output` the record of a change of the file at `path`, and the bytes it had.
pub(crate) fn record(output: &mut ToolOutput, path: &Path, before: Option<Before>, after: (&Hash, u64)) {
    let Some(Before { size, sha256, bytes, .. }) = before else {
        return push(output, path, Was::Absent(()), after);
    };
    let kept = bytes.filter(|bytes| bytes.len() as u64 <= PREIMAGE_BYTES_MAX);
    let was = Was::Present { sha256: &sha256, size, kept: kept.is_some() };
    push(output, path, was, after);
    output.blobs.extend(kept.map(|bytes| Blob::new(MEDIA_BYTES, bytes)));
}

/// Adds to `output` the record of a change that a crash cut off from what was there before.
pub(crate) fn record_recovered(output: &mut ToolOutput, path: &Path, after: (&Hash, u64)) {
    push(output, path, Was::Unknown("unknown"), after);
}

fn push(output: &mut ToolOutput, path: &Path, before: Was<'_>, (sha256, size): (&Hash, u64)) {
    let path = path.to_string_lossy();
    let mut body = Body { path: PathText::Inline(&path), before, after: Now { sha256, size } };
    let mut text = write(&body);
    if text.len() >= RECORD_BYTES_MAX {
        let blob = Blob::new(MEDIA_TEXT, path.as_bytes().to_vec());
        body.path = PathText::Content(&blob.reference.sha256);
        text = write(&body);
        output.blobs.push(blob);
    }
    output.records.push(Record { plugin: PLUGIN.to_string(), kind: KIND.to_string(), body: text });
}

fn write(body: &Body<'_>) -> String {
    serde_json::to_string(body).expect("strings, numbers and hashes always have a JSON form")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plica_kernel::canonical::content_hash;

    #[test]
    fn to_5_a_record_stays_small_whatever_the_path() {
        let hash = content_hash(b"new");
        let mut output = ToolOutput::default();
        let long = "\u{1}".repeat(1000);
        record(&mut output, Path::new(&long), None, (&hash, 3));
        assert!(output.records[0].body.len() < RECORD_BYTES_MAX);
        assert_eq!(output.blobs[0].bytes, long.as_bytes());
        assert!(output.records[0].body.contains(&output.blobs[0].reference.sha256.to_string()));
    }

    #[test]
    fn to_5_a_record_names_the_file_before_and_after() {
        let hash = content_hash(b"new");
        let mut output = ToolOutput::default();
        record(&mut output, Path::new("a/b"), None, (&hash, 3));
        record_recovered(&mut output, Path::new("a/b"), (&hash, 3));
        let after = format!(r#""after":{{"sha256":"{hash}","size":3}}}}"#);
        assert_eq!(output.records[0].body, format!(r#"{{"path":"a/b","before":null,{after}"#));
        assert_eq!(output.records[1].body, format!(r#"{{"path":"a/b","before":"unknown",{after}"#));
    }
}
