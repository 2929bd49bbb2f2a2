//! What the tests of this crate share: stores in fresh folders, and this test binary run again
//! as another process.

#![expect(dead_code, reason = "each test binary uses its own part of this module")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;

use plica_conformance::{Bench, Capability, Subject};
use plica_kernel::canonical::content_hash;
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

/// Bytes that take as much room in the file as they are: nothing in them repeats.
pub fn noise(seed: u8, size: usize) -> Vec<u8> {
    let mut bytes = vec![seed];
    while bytes.len() < size {
        let more = content_hash(&bytes[bytes.len().saturating_sub(32)..]);
        bytes.extend_from_slice(more.as_bytes());
    }
    bytes
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

/// The same in namespaces of its own, where the mounts that `setup` makes are seen by nobody
/// else; `None`, which is said, where the machine lets nobody make any.
pub fn process_apart(flags: &str, setup: &str, name: &str, path: &Path) -> Option<Child> {
    let allowed = Command::new("unshare").args([flags, "true"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        passed_over(&format!("`unshare {flags}` is not allowed on this machine"));
        return None;
    }
    let mut shell = Command::new("unshare");
    shell.args([flags, "sh", "-c", &format!("{setup} && exec \"$0\" \"$@\"")]);
    shell.arg(std::env::current_exe().expect("a test is a file"));
    Some(spawn(shell, name, path))
}

/// The same, where the `nth` system call of this name on the store's files fails in each thread with
/// an error of the device; `None`, which is said, where the machine has no means to do that.
pub fn process_struck(system_call: &str, nth: usize, name: &str, path: &Path) -> Option<Child> {
    let allowed = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        passed_over("there is no `strace`, or it may trace nothing");
        return None;
    }
    let mut tracer = Command::new("strace");
    tracer.args(["-f", "-qq", "-o"]).arg(trace_of(path));
    tracer.args(["-e", &format!("trace=?{system_call}")]);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        tracer.arg("-P").arg(file);
    }
    tracer.args(["-e", &format!("inject=?{system_call}:error=EIO:when={nth}")]);
    tracer.arg(std::env::current_exe().expect("a test is a file"));
    Some(spawn(tracer, name, path))
}

/// Where the tracer of a process on `path` writes what it saw.
fn trace_of(path: &Path) -> PathBuf {
    path.with_file_name("trace")
}

/// Whether a process of [`process_struck`], which has ended, came as far as the call that was to fail.
pub fn was_struck(path: &Path) -> bool {
    std::fs::read_to_string(trace_of(path)).expect("the tracer wrote down what it saw").contains("(INJECTED)")
}

/// Says that what is tested here is not proved on this machine.
fn passed_over(why: &str) {
    let thread = std::thread::current();
    // Not by a macro: what those print is shown for failing tests alone.
    let _ = writeln!(std::io::stderr(), "not run: {}: {why}", thread.name().unwrap_or("a test"));
}

fn spawn(mut command: Command, name: &str, path: &Path) -> Child {
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(FILE, path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("this test runs again")
}

/// What precedes a line that another process says to the one that started it.
const SAYS: &str = "says: ";

/// Says a line to the process that started this one.
pub fn say(line: &str) {
    println!("\n{SAYS}{line}");
}

/// Waits until the process that started this one gives its word.
pub fn wait_for_word() {
    let read = std::io::stdin().read_line(&mut String::new()).expect("a pipe can be read");
    assert!(read > 0, "the process that started this one has ended");
}

/// Another process, and what it says.
pub struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// The other side of a process of [`process`] or [`process_under`].
    pub fn new(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        Self { child, lines }
    }

    /// The next line it says; none once it has ended.
    pub fn hear(&mut self) -> Option<String> {
        let mut said = self.lines.by_ref().map(|line| line.expect("it says text"));
        said.find_map(|line| line.strip_prefix(SAYS).map(str::to_owned))
    }

    /// Gives it the word that it waits for.
    pub fn give_word(&mut self) {
        self.child.stdin.as_mut().expect("its input is piped").write_all(b"go\n").expect("it listens");
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).expect("it is a child");
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, and the lines that were not heard before.
    pub fn end(mut self) -> (ExitStatus, Vec<String>) {
        let left = std::iter::from_fn(|| self.hear()).collect();
        (self.child.wait().expect("it ends"), left)
    }
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
