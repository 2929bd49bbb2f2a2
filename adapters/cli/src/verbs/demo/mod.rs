//! `plica demo`: real workers with real tools, killed with SIGKILL while they work; then what came
//! of it, counted from the log and from the files that the tools wrote.
//!
//! It needs nothing: a temporary folder holds the store, the agent and the files, the model is
//! scripted, and the workers are this same program.

mod count;
mod crew;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plica_engine::{Client, Submission};
use plica_kernel::id::TaskId;
use plica_kernel::state::Phase;
use plica_ports::store::{Page, Row, TaskFilter};
use serde_json::json;

use self::count::Counted;
use self::crew::Crew;
use super::submit::prepare;
use super::{json_line, print};
use crate::args::Demo;
use crate::compose;
use crate::fault::Fault;
use crate::render::{counted, cut};
use crate::talk::{self, Style};

/// Workers at a time.
const WORKERS: usize = 3;
/// Tasks at the start; more are added when fewer than [`BUSY`] are left and kills are due.
const TASKS: usize = 6;
/// Tasks under way that make a kill worth while.
const BUSY: usize = 3;
/// Rounds of a task: each appends one line to a file, every third writes one as well.
const ROUNDS: usize = 12;
/// What the model and a command take, so that there is something to be killed in.
const REPLY_MS: u64 = 120;
const COMMAND_S: &str = "0.15";
/// From one kill to the next: long enough for a task to move on in between.
const PAUSE: Duration = Duration::from_millis(350);
/// How often the store is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);
/// How often it is shown how far it is.
const SHOWN: Duration = Duration::from_millis(100);
/// The work is a matter of seconds; a demo that takes this long shows a defect.
const PATIENCE: Duration = Duration::from_secs(180);
/// Tasks that are read at once: more than a demo ever has.
const PAGE: usize = 1_000;

pub async fn demo(arguments: Demo) -> Result<u8, Fault> {
    let no_folder = |error: std::io::Error| Fault::Config(format!("no folder for the demo: {error}"));
    let mut folder = tempfile::Builder::new().prefix("plica-demo-").tempdir().map_err(no_folder)?;
    folder.disable_cleanup(arguments.keep);
    let played = tokio::select! {
        played = Demonstration::play(folder.path(), arguments.kills) => played?,
        _ = tokio::signal::ctrl_c() => return Err(Fault::Interrupted),
    };
    if arguments.json {
        print(&json_line(&played.as_json()))?;
    } else {
        print(played.table().as_bytes())?;
    }
    if arguments.keep {
        let store = store_in(folder.path());
        talk::say(format!("kept: {}; `plica --store {store} list` shows the tasks", folder.path().display()));
    }
    Ok(u8::from(!played.is_right()))
}

fn store_in(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("plica.db").display())
}

/// A demo under way.
struct Demonstration {
    client: Client,
    folder: PathBuf,
    crew: Crew,
    kills: usize,
    killed: usize,
    began: Instant,
    /// When it was last shown how far it is.
    shown: Instant,
}

impl Demonstration {
    /// Plays a demo with so many kills to its end, and counts.
    async fn play(folder: &Path, kills: usize) -> Result<Counted, Fault> {
        let store = store_in(folder);
        let client = Client::new(compose::store(Some(&store))?);
        write_agent(folder).map_err(|error| Fault::Config(format!("{}: {error}", folder.display())))?;
        let crew = Crew::new(&store, folder);
        let mut demo = Self {
            client,
            folder: folder.to_owned(),
            crew,
            kills,
            killed: 0,
            began: Instant::now(),
            shown: Instant::now(),
        };
        for number in 1..=TASKS {
            demo.submit(number).await?;
        }
        talk::say(format!(
            "{WORKERS} workers, {TASKS} tasks, {} to come with SIGKILL, in {}",
            counted(kills as u64, "kill"),
            folder.display()
        ));
        demo.crew.fill(WORKERS)?;
        demo.kill_while_they_work().await?;
        demo.let_them_end().await?;
        demo.crew.end().await;
        let rows = demo.rows().await?;
        count::count(&demo.client, &rows, &demo.folder, (demo.kills, demo.killed), demo.began.elapsed()).await
    }

    async fn submit(&self, number: usize) -> Result<(), Fault> {
        let goal = format!("Work through list {number}.");
        let submission: Submission = prepare(&self.folder.join("demo.toml"), goal)?;
        self.client.submit(submission).await?;
        Ok(())
    }

    async fn rows(&self) -> Result<Vec<Row>, Fault> {
        Ok(self.client.list(&TaskFilter::default(), &Page::first(PAGE)).await?)
    }

    async fn unfinished(&self) -> Result<Vec<Row>, Fault> {
        let mut rows = self.rows().await?;
        rows.retain(|row| !row.projection.status.is_over());
        Ok(rows)
    }

    async fn kill_while_they_work(&mut self) -> Result<(), Fault> {
        let mut next = Instant::now() + PAUSE;
        let mut number = TASKS;
        while self.killed < self.kills {
            self.look(next).await?;
            let rows = self.unfinished().await?;
            if rows.len() < BUSY {
                number += 1;
                self.submit(number).await?;
                continue;
            }
            if Instant::now() < next || !self.may_kill(&rows).await? {
                continue;
            }
            let Some(index) = self.crew.busy(&rows, self.killed) else { continue };
            let held = self.crew.held(index, &rows);
            let was = self.doing(&held).await?;
            self.crew.kill(index).await?;
            self.killed += 1;
            talk::say(format!("kill {:>2} of {}: worker {}, {was}", self.killed, self.kills, index + 1));
            self.crew.fill(WORKERS)?;
            next = Instant::now() + PAUSE;
        }
        Ok(())
    }

    async fn let_them_end(&mut self) -> Result<(), Fault> {
        loop {
            let left = self.unfinished().await?.len();
            if left == 0 {
                return Ok(());
            }
            if self.began.elapsed() > PATIENCE {
                talk::say(format!("{} not ended after {} s", counted(left as u64, "task"), PATIENCE.as_secs()));
                return Ok(());
            }
            self.look(Instant::now() + LOOK).await?;
        }
    }

    /// Waits a moment, and shows how far it is.
    async fn look(&mut self, next: Instant) -> Result<(), Fault> {
        if self.began.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(Fault::Config(format!("the demo has not come to its end after {seconds} s")));
        }
        if Style::of_stderr().escapes && self.shown.elapsed() >= SHOWN {
            self.shown = Instant::now();
            let rows = self.rows().await?;
            let over = rows.iter().filter(|row| row.projection.status.is_over()).count();
            let events: u64 = rows.iter().map(|row| row.projection.seq.0).sum();
            let far =
                format!("… {} of {} kills, {over} of {} tasks, {events} events", self.killed, self.kills, rows.len());
            talk::status(cut(&far, talk::columns().saturating_sub(1)));
        }
        let wait = next.saturating_duration_since(Instant::now()).clamp(LOOK, PAUSE);
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Three model requests cut off in a row rightly fail a turn (RC-1), so nobody is killed while
    /// any task is at its second try, or about to be.
    async fn may_kill(&self, rows: &[Row]) -> Result<bool, Fault> {
        for row in rows {
            let state = self.client.state(&row.id, None, false).await?;
            if let Phase::Request(request) = &state.runtime().phase
                && request.attempts > 1
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What the tasks of a worker are in the middle of, in words.
    async fn doing(&self, held: &[TaskId]) -> Result<String, Fault> {
        let (mut asking, mut running) = (0, 0);
        for task in held {
            let state = self.client.state(task, None, false).await?;
            let governance = state.governance();
            let open = u64::from(governance.model_action().is_some());
            asking += open;
            running += governance.actions.len() as u64 - open;
        }
        let mut parts = BTreeSet::new();
        if running > 0 {
            parts.insert(format!("running {}", counted(running, "call")));
        }
        if asking > 0 {
            parts.insert(format!("in {}", counted(asking, "model request")));
        }
        Ok(if parts.is_empty() { "between steps".into() } else { parts.into_iter().collect::<Vec<_>>().join(" and ") })
    }
}

/// Writes the agent and its script: each round leaves a line that says which call it was.
fn write_agent(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir(folder.join("work"))?;
    let mut replies = Vec::new();
    for round in 1..=ROUNDS {
        let command =
            format!("sleep {COMMAND_S}; echo \"$PLICA_IDEMPOTENCY_KEY\" >> \"effects-$PLICA_TASK\"; sleep {COMMAND_S}");
        let mut calls = vec![json!({ "tool": "Bash", "args": { "command": command } })];
        if round % 3 == 0 {
            let args = json!({ "file_path": format!("round-{round}.txt"), "content": format!("round {round}\n") });
            calls.push(json!({ "tool": "Write", "args": args }));
        }
        let text = format!("Round {round} of {ROUNDS}.");
        replies.push(json!({ "text": text, "calls": calls, "delay_ms": REPLY_MS }));
    }
    replies.push(json!({ "text": "All rounds are done.", "delay_ms": REPLY_MS }));
    std::fs::write(folder.join("demo.json"), json!({ "replies": replies }).to_string())?;
    let agent = "name = \"demo\"\nmodel = \"script:demo.json\"\nworkspace = \"work\"\n\
                 tools = [\"Bash\", \"Write\"]\npermission_mode = \"bypass\"\n";
    std::fs::write(folder.join("demo.toml"), agent)
}
