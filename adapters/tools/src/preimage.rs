//! What a change of a file leaves on record: what the file was, so that it can be put back.

use std::path::Path;

use plica_kernel::body::{Blob, MEDIA_BYTES};
use plica_kernel::canonical::Hash;
use plica_kernel::decide::{ChangedFile, Foreseen};
use plica_kernel::event::FileWas;
use plica_ports::ToolOutput;

use crate::change::Before;
use plica_kernel::limits::PREIMAGE_BYTES_MAX;

/// The change of the file at `path`, and the bytes it has until then.
pub(crate) fn foreseen(path: &Path, before: Option<Before>, after: Hash) -> Foreseen {
    let mut blobs = Vec::new();
    let before = match before {
        None => FileWas::Absent,
        Some(Before { sha256, bytes, .. }) => match bytes.filter(|bytes| bytes.len() as u64 <= PREIMAGE_BYTES_MAX) {
            None => FileWas::Large(sha256),
            Some(bytes) => {
                let blob = Blob::new(MEDIA_BYTES, bytes);
                let was = FileWas::Kept(blob.reference.clone());
                blobs.push(blob);
                was
            }
        },
    };
    Foreseen { blobs, files: vec![change(path, before, after)] }
}

/// The change of the file at `path` from what is not told.
pub(crate) fn foreseen_untold(path: &Path, after: Hash) -> Foreseen {
    Foreseen { blobs: Vec::new(), files: vec![change(path, FileWas::Unknown, after)] }
}

/// Adds to `output` the change of the file at `path`, and the bytes it had.
pub(crate) fn record(output: &mut ToolOutput, path: &Path, before: Option<Before>, after: Hash) {
    let Foreseen { blobs, files } = foreseen(path, before, after);
    output.blobs.extend(blobs);
    output.files.extend(files);
}

/// Adds to `output` a change that a crash cut off from what was there before.
pub(crate) fn record_recovered(output: &mut ToolOutput, path: &Path, after: Hash) {
    output.files.push(change(path, FileWas::Unknown, after));
}

fn change(path: &Path, before: FileWas, after: Hash) -> ChangedFile {
    ChangedFile { after: Some(after), before, path: path.to_string_lossy().into_owned() }
}
