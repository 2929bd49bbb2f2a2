//! A folder with a store, agents and scripts, and the program run in it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Longest wait for something that is sure to come: only a broken program lets it pass.
const PATIENCE: Duration = Duration::from_secs(60);

/// A reply that only speaks.
pub fn say(text: &str) -> Value {
    json!({ "text": text })
}

/// A reply that runs a command.
pub fn bash(command: &str) -> Value {
    json!({ "calls": [{ "tool": "Bash", "args": { "command": command } }] })
}

/// A reply that only speaks, after so long.
pub fn say_late(text: &str, delay_ms: u64) -> Value {
    json!({ "text": text, "delay_ms": delay_ms })
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit status.
    pub code: i32,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
    args: String,
}

impl Ran {
    fn of(args: String, status: ExitStatus, out: Vec<u8>, err: &[u8]) -> Self {
        let err = String::from_utf8_lossy(err).into_owned();
        assert!(!err.contains("panicked"), "plica {args}: a panic is a defect:\n{err}");
        Self { code: status.code().unwrap_or(-1), out, err, args }
    }

    /// How this ended.
    pub fn ended<A: AsRef<std::ffi::OsStr>>(args: &[A], ended: &std::process::Output) -> Self {
        Self::of(shown(args), ended.status, ended.stdout.clone(), &ended.stderr)
    }

    /// Checks the exit status.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "plica {}\nout: {}\nerr: {}", self.args, self.text(), self.err);
        self
    }

    /// Checks that standard error names these.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "plica {}: {word:?} is not said in: {}", self.args, self.err);
        }
        self
    }

    /// Standard output as text, without its last line feed.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).trim_end_matches('\n').to_owned()
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.out)
            .unwrap_or_else(|error| panic!("plica {}: {error}: {}", self.args, self.text()))
    }

    /// Standard output as a JSON value a line.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        let text = self.text();
        let value =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("plica {}: {error}: {line}", self.args));
        text.lines().map(value).collect()
    }

    /// The commands that standard error names, those with a placeholder left out.
    pub fn next_commands(&self) -> Vec<Vec<String>> {
        let spans = self.err.split('`').skip(1).step_by(2);
        let commands = spans.filter_map(|span| span.strip_prefix("plica "));
        let words = |command: &str| command.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let is_placeholder = |word: &String| word.chars().all(|c| c.is_ascii_uppercase()) && word != "TEXT";
        commands.map(words).filter(|words| !words.iter().any(is_placeholder)).collect()
    }
}

/// A program that runs meanwhile; killed when dropped.
pub struct Background {
    child: Child,
    lines: Receiver<String>,
    err: Receiver<Vec<u8>>,
    args: String,
}

impl Background {
    /// The next line that it prints.
    #[track_caller]
    pub fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("plica {} prints nothing", self.args))
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().expect("kill runs");
        assert!(sent.success(), "SIG{name} to plica {}", self.args);
    }

    /// Ends it with SIGKILL; it is gone when this returns.
    pub fn kill(mut self) {
        self.child.kill().expect("own children can be killed");
        self.child.wait().expect("it ends");
    }

    /// Waits for its end; what it printed and was not yet read.
    pub fn end(mut self) -> Ran {
        let lines: Vec<String> = self.lines.iter().collect();
        let out = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let err = self.err.recv_timeout(PATIENCE).unwrap_or_default();
        Ran::of(self.args.clone(), self.child.wait().expect("it ends"), out.into_bytes(), &err)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with a store, agents and scripts.
pub struct World {
    folder: tempfile::TempDir,
    store: String,
}

impl World {
    /// A fresh one; its store is not there yet.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("work")).expect("a folder");
        let store = format!("sqlite:{}", folder.path().join("plica.db").display());
        Self { folder, store }
    }

    /// A fresh one with its store elsewhere.
    pub fn on(store: String) -> Self {
        Self { store, ..Self::new() }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The store's file.
    pub fn db(&self) -> PathBuf {
        self.path("plica.db")
    }

    /// Writes a file of the folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file is written");
        path
    }

    /// An agent that may do everything, with these replies and further lines in its file.
    pub fn agent(&self, name: &str, replies: &[Value], lines: &str) -> PathBuf {
        self.write(&format!("{name}.json"), &json!({ "replies": replies }).to_string());
        let text = format!(
            "name = \"{name}\"\nmodel = \"script:{name}.json\"\nworkspace = \"work\"\n\
             tools = [\"Read\", \"Write\", \"Edit\", \"Glob\", \"Grep\", \"Bash\"]\npermission_mode = \"bypass\"\n{lines}"
        );
        self.write(&format!("{name}.toml"), &text)
    }

    /// The program, its environment clean but for what a user has.
    pub fn command<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plica"));
        command.args(args).current_dir(self.path("work"));
        command.env_clear().env("PATH", std::env::var_os("PATH").expect("a path"));
        command.env("HOME", self.folder.path()).env("USER", "ada").env("PLICA_STORE", &self.store);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub fn plica<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Ran {
        let ended = self.command(args).output().expect("the program runs");
        Ran::of(shown(args), ended.status, ended.stdout, &ended.stderr)
    }

    /// Runs it to its end with this on its standard input.
    pub fn plica_given<A: AsRef<std::ffi::OsStr>>(&self, args: &[A], input: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("the program runs");
        child.stdin.take().expect("it was asked for").write_all(input).expect("it reads");
        let ended = child.wait_with_output().expect("it ends");
        Ran::of(shown(args), ended.status, ended.stdout, &ended.stderr)
    }

    /// Starts it.
    pub fn spawn<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Background {
        let mut child = self.command(args).spawn().expect("the program runs");
        let (send_line, lines) = channel();
        let out = child.stdout.take().expect("it was asked for");
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if send_line.send(line).is_err() {
                    return;
                }
            }
        });
        let (send_err, err) = channel();
        let mut from = child.stderr.take().expect("it was asked for");
        std::thread::spawn(move || {
            let mut bytes = vec![];
            // What was read until an error is worth as much.
            let _ = from.read_to_end(&mut bytes);
            let _ = send_err.send(bytes);
        });
        Background { child, lines, err, args: shown(args) }
    }

    /// A named pipe in the workspace, by which a command and a test wait for each other.
    pub fn pipe(&self, name: &str) -> Pipe {
        let path = self.path("work").join(name);
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
        Pipe(path)
    }

    /// Submits a task; its id.
    pub fn submit(&self, agent: &Path, goal: &str) -> String {
        self.plica(&["submit", "--agent", text(agent), goal]).exits(0).text()
    }

    /// Works until nothing is left to do.
    pub fn work(&self) {
        self.plica(&["worker", "--until-idle"]).exits(0);
    }

    /// Waits until the task has its `count`-th event of this type.
    pub fn wait_for(&self, task: &str, kind: &str, count: usize) {
        let follower = self.spawn(&["events", task, "--json", "--follow", "--type", kind]);
        for _ in 0..count {
            follower.line();
        }
    }

    /// The task's events.
    pub fn events(&self, task: &str) -> Vec<Value> {
        let lines = self.plica(&["events", task, "--json"]).exits(0).lines();
        lines.into_iter().map(|line| line["event"].clone()).collect()
    }

    /// The payloads of the task's events of this type.
    pub fn payloads(&self, task: &str, kind: &str) -> Vec<Value> {
        let events = self.events(task);
        events.into_iter().filter(|event| event["type"] == kind).map(|event| event["payload"].clone()).collect()
    }

    /// The task's row.
    pub fn row(&self, task: &str) -> Value {
        let rows = self.plica(&["list", "--json"]).exits(0).lines();
        rows.into_iter().find(|row| row["task"] == task).unwrap_or_else(|| panic!("no row of {task}"))
    }

    /// The task's status.
    pub fn status(&self, task: &str) -> String {
        self.row(task)["status"].as_str().expect("a status").to_owned()
    }

    /// The task verifies, and both folds agree.
    pub fn is_sound(&self, task: &str) {
        let verdict = self.plica(&["verify", task, "--json"]).exits(0).json();
        assert_eq!(verdict["ok"], true, "{verdict}");
        let quick = self.plica(&["show", task, "--json"]).exits(0).out;
        let full = self.plica(&["show", task, "--json", "--ignore-snapshots"]).exits(0).out;
        assert_eq!(quick, full);
    }

    /// Runs statements on the store's file.
    pub fn sql(&self, statements: &str) {
        let file = rusqlite::Connection::open(self.db()).expect("the store is there");
        file.execute_batch(statements).expect("the statements run");
    }

    /// Runs a statement on the one body of this reference.
    pub fn content(&self, reference: &Value, statement: &str) {
        let hash = reference["sha256"].as_str().expect("a reference names a hash");
        let file = rusqlite::Connection::open(self.db()).expect("the store is there");
        let changed = file.execute(&format!("{statement} WHERE sha256 = x'{hash}'"), []).expect("the statement runs");
        assert_eq!(changed, 1, "bodies of {reference}");
    }

    /// Every command that a refusal names works as printed: it is understood and does something.
    pub fn next_commands_work(&self, refusal: &Ran) {
        let commands = refusal.next_commands();
        assert!(!commands.is_empty(), "no next command in: {}", refusal.err);
        for words in commands {
            let ran = self.plica(&words);
            assert!(![2, 4].contains(&ran.code), "plica {}: {}\n{}", words.join(" "), ran.code, ran.err);
        }
    }
}

/// A named pipe.
pub struct Pipe(PathBuf);

impl Pipe {
    /// Returns when a command wrote to it.
    pub fn wait(&self) {
        self.meet("cat \"$0\"");
    }

    /// Lets a command go on that reads from it.
    pub fn open(&self) {
        self.meet("echo > \"$0\"");
    }

    fn meet(&self, command: &str) {
        let limit = PATIENCE.as_secs().to_string();
        let met = Command::new("timeout").args([&limit, "sh", "-c", command]).arg(&self.0).output();
        assert!(met.expect("sh runs").status.success(), "nobody came to {}", self.0.display());
    }
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

fn shown<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> String {
    args.iter().map(|arg| arg.as_ref().to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
