//! What the tests of this crate share: stores in fresh folders, and this test binary run again
//! as another process.

#![expect(dead_code, reason = "each test binary uses its own part of this module")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use plica_conformance::{Bench, Capability, Subject};
use plica_sqlite::{OpenOptions, SqliteStore};
use tempfile::TempDir;

/// Names the file to a test that is run again as another process.
const FILE: &str = "PLICA_SQLITE_TEST_FILE";

/// A fresh folder and the path of a store in it that is not there yet.
pub fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("plica.db");
    (folder, path)
}

/// A handle on a file.
pub fn open(path: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(path, OpenOptions::default()).expect("a path is a path"))
}

/// A bench on a file.
pub async fn bench(path: &Path) -> Bench {
    bench_on(open(path)).await
}

/// A bench on a handle.
pub async fn bench_on(store: Arc<SqliteStore>) -> Bench {
    let subject = Subject::new(store).lacking(Capability::SecondHandle).lacking(Capability::Time);
    Bench::new(subject).await
}

/// The file handed to this test, if it runs as another process; otherwise it has nothing to do.
pub fn handed() -> Option<PathBuf> {
    std::env::var_os(FILE).map(PathBuf::from)
}

/// Runs the test `name` of this binary as another process on `path`.
pub fn process(name: &str, path: &Path) -> Child {
    spawn(Command::new(std::env::current_exe().expect("a test is a file")), name, path)
}

/// The same under a shell that first runs `setup`.
pub fn process_under(setup: &str, name: &str, path: &Path) -> Child {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{setup}; exec \"$0\" \"$@\"")]);
    shell.arg(std::env::current_exe().expect("a test is a file"));
    spawn(shell, name, path)
}

fn spawn(mut command: Command, name: &str, path: &Path) -> Child {
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(FILE, path);
    command.stdout(Stdio::null()).spawn().expect("this test runs again")
}

/// How many commits lie in the write-ahead log of a store: frames that say how large the
/// database is afterwards (sqlite.org/fileformat2.html, 4.1).
pub fn commits(path: &Path) -> usize {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let bytes = std::fs::read(log).expect("the write-ahead log is there");
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let frame = 24 + word(8) as usize;
    let salt = &bytes[16..24];
    let frames = (32..).step_by(frame).take_while(|at| at + frame <= bytes.len());
    frames.filter(|at| &bytes[at + 8..at + 16] == salt && word(at + 4) != 0).count()
}
