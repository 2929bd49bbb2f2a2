//! Makes the fold version: a hash over the sources whose change may change what a log folds
//! to, so that a snapshot made by other code is recognised and passed over (SN-2).

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// Everything from bytes to state; what only decides or writes is not part of the fold.
const SOURCES: [&str; 8] = [
    "src/body.rs",
    "src/canonical",
    "src/decode",
    "src/event",
    "src/ledger",
    "src/snapshot.rs",
    "src/state",
    "src/wake",
];

#[expect(clippy::disallowed_methods, reason = "the build script reads sources; the kernel itself does no IO")]
fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        collect(Path::new(source), &mut files)?;
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
        let text = fs::read(file)?;
        hash.update(file.to_string_lossy().as_bytes());
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=PLICA_FOLD_VERSION={hex}");
    Ok(())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_file() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
