//! Makes `first-hour.cast`, a recording of the real program on a real terminal, without a network:
//!
//! ```sh
//! cargo build -p plica && cargo run -p plica --example record
//! asciinema play adapters/cli/examples/first-hour.cast
//! ```
//!
//! The format is asciicast v2 (<https://docs.asciinema.org/manual/asciicast/v2/>). Commands are
//! typed at an even pace; what they print comes when they print it, pauses shortened.

use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

const COLUMNS: u16 = 92;
const ROWS: u16 = 30;
/// Between two keys.
const KEY: Duration = Duration::from_millis(35);
/// After a command's output, before the next prompt is typed at.
const REST: Duration = Duration::from_millis(1_500);
/// A longer pause is no longer in the recording.
const PAUSE_MAX: Duration = Duration::from_millis(1_200);

/// What is shown: a remark, or a command that is run.
const SCENES: &[&str] = &[
    "# An agent is a file. This one has a scripted model and real tools.",
    "cat notes.toml",
    "plica run --agent notes.toml \"Write the list, then count its lines.\"",
    "# Every step is in a log that is only ever appended to.",
    "plica events @last | cut -c 1-90",
    "# Now kill the workers, twenty times, while they work.",
    "plica demo",
    "plica verify --all",
];

const AGENT: &str = "\
name = \"notes\"
model = \"script:notes.json\"
tools = [\"Write\", \"Bash\"]
permission_mode = \"accept-edits\"    # Write without asking
allow = [\"Bash(wc:*)\"]              # and this one command
";

fn script() -> String {
    let write = json!({ "tool": "Write", "args": { "file_path": "list.txt", "content": "alpha\nbeta\n" } });
    let count = json!({ "tool": "Bash", "args": { "command": "wc -l list.txt" } });
    let replies = json!([
        { "text": "First the list.", "calls": [write], "delay_ms": 700 },
        { "text": "Now its lines.", "calls": [count], "delay_ms": 700 },
        { "text": "The list has two lines.", "delay_ms": 700,
          "usage": { "uncached": 412, "output": 24 } },
    ]);
    json!({ "replies": replies }).to_string()
}

/// The recording under way.
struct Cast {
    lines: String,
    at: Duration,
}

impl Cast {
    fn new() -> Self {
        let header = json!({ "version": 2, "width": COLUMNS, "height": ROWS,
            "title": "Plica: the first minutes", "env": { "TERM": "xterm-256color", "SHELL": "/bin/bash" } });
        Self { lines: format!("{header}\n"), at: Duration::ZERO }
    }

    fn shows(&mut self, after: Duration, text: &str) {
        self.at += after.min(PAUSE_MAX);
        // Microseconds are exact as a decimal text, and need no floats.
        let at = format!("{}.{:06}", self.at.as_secs(), self.at.subsec_micros());
        self.lines.push_str(&format!("[{at}, \"o\", {}]\n", json!(text)));
    }

    fn types(&mut self, line: &str) {
        self.shows(REST, "\x1b[32m$\x1b[0m ");
        for key in line.chars() {
            self.shows(KEY, &key.to_string());
        }
        self.shows(KEY, "\r\n");
    }

    /// Runs a command on a terminal and records what it shows.
    fn runs(&mut self, line: &str, folder: &Path, path: &str) -> Result<(), Box<dyn Error>> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        tcsetwinsize(&master, Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
        let name = ptsname(&master, Vec::new())?.into_string()?;
        let end = || File::options().read(true).write(true).open(&name);
        let mut command = Command::new("bash");
        command.args(["-c", line]).current_dir(folder).env_clear();
        command
            .env("PATH", path)
            .env("USER", "ada")
            .env("HOME", folder)
            .env("TERM", "xterm-256color")
            .env("TMPDIR", "/tmp");
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        let mut child = command.spawn()?;
        drop(command);
        let mut master = File::from(master);
        let (mut bytes, mut kept) = ([0; 4096], Vec::new());
        let mut last = Instant::now();
        // Reading ends with an error (EIO) when the last writer has gone.
        while let Ok(count @ 1..) = master.read(&mut bytes) {
            kept.extend_from_slice(&bytes[..count]);
            let whole = match std::str::from_utf8(&kept) {
                Ok(text) => text.len(),
                Err(error) => error.valid_up_to(),
            };
            let text: Vec<u8> = kept.drain(..whole).collect();
            self.shows(last.elapsed(), &String::from_utf8_lossy(&text));
            last = Instant::now();
        }
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("{line}: {status}").into()) }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let target = std::env::current_exe()?;
    let target = target.ancestors().nth(2).ok_or("an example lies in the folder of its profile")?.to_owned();
    if !target.join("plica").exists() {
        return Err("no program to record: `cargo build -p plica` builds it".into());
    }
    let path = format!("{}:{}", target.display(), std::env::var("PATH")?);
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("notes.toml"), AGENT)?;
    fs::write(folder.path().join("notes.json"), script())?;

    let mut cast = Cast::new();
    for scene in SCENES {
        cast.types(scene);
        if !scene.starts_with('#') {
            cast.runs(scene, folder.path(), &path)?;
        }
    }
    cast.shows(REST, "");
    let out: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/first-hour.cast");
    fs::write(&out, cast.lines)?;
    println!("{}", out.display());
    Ok(())
}
