//! What there is to do: tasks whose effects can be counted afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plica_conformance::sim::Prng;
use serde_json::{Value, json};

/// The file in which effects leave their keys; no other command names it.
pub const KEYS: &str = "effects";
/// Sends of a message that one task may get.
const MESSAGES_MAX: u64 = 2;

/// What a task does, and whom it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Rounds of one effect each.
    Rounds,
    /// Two effects in one reply, one of them slow, after a slow model.
    Pair,
    /// Waits for a timer between effects.
    Timer,
    /// Waits for an event from outside.
    Event,
    /// Every effect has to be approved by someone.
    Approval,
    /// Asks a question.
    Question,
    /// Waits for children, which have effects of their own.
    Parent,
    /// Leaves jobs running: one ends by itself while the task waits for the time, one with the task,
    /// and either is lost with its worker.
    Job,
}

impl Kind {
    const ALL: [Self; 8] =
        [Self::Rounds, Self::Pair, Self::Timer, Self::Event, Self::Approval, Self::Question, Self::Parent, Self::Job];

    /// The name of its agent.
    fn name(self) -> &'static str {
        match self {
            Self::Rounds => "rounds",
            Self::Pair => "pair",
            Self::Timer => "timer",
            Self::Event => "event",
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Parent => "parent",
            Self::Job => "job",
        }
    }

    fn replies(self) -> Vec<Value> {
        let effect = || calls(vec![bash("")]);
        match self {
            Self::Rounds => {
                // Slow enough to be sent something meanwhile.
                let mut rounds = vec![effect(), effect(), effect(), effect()];
                rounds.iter_mut().for_each(|round| round["delay_ms"] = json!(100));
                rounds
            }
            Self::Pair => {
                let mut pair = calls(vec![bash("sleep 0.2; "), bash("")]);
                pair["delay_ms"] = json!(150);
                vec![pair, effect()]
            }
            Self::Timer => vec![effect(), calls(vec![call("Wait", json!({"seconds": 1}))]), effect()],
            Self::Event => {
                vec![effect(), calls(vec![call("Wait", json!({"event": "go", "seconds": 3600}))]), effect()]
            }
            Self::Approval => vec![effect(), effect()],
            Self::Question => vec![calls(vec![call("AskUser", json!({"question": "Which?"}))]), effect()],
            Self::Parent => {
                let part = |number| call("Task", json!({"agent": "helper", "goal": format!("part {number}")}));
                vec![calls(vec![part(1), part(2), part(3)]), effect()]
            }
            Self::Job => {
                let job = |seconds: &str| {
                    calls(vec![call("Bash", json!({"command": format!("sleep {seconds}"), "run_in_background": true}))])
                };
                let wait = calls(vec![call("Wait", json!({"seconds": 1}))]);
                vec![job("0.5"), wait, job("600"), effect()]
            }
        }
    }
}

/// A command that leaves the key of its call where it can be counted: one line, appended by one
/// write.
fn bash(before: &str) -> Value {
    call("Bash", json!({"command": format!("{before}echo \"$PLICA_IDEMPOTENCY_KEY\" >> {KEYS}")}))
}

fn call(tool: &str, args: Value) -> Value {
    json!({"tool": tool, "args": args})
}

fn calls(calls: Vec<Value>) -> Value {
    json!({"text": "", "calls": calls})
}

/// A task to be submitted.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The caller's key: its place in the plan.
    pub key: String,
    /// What it does.
    pub kind: Kind,
    /// How many messages it is sent while it runs.
    pub messages: u64,
}

/// The tasks of a seed.
pub fn tasks(seed: u64, count: u64) -> Vec<Planned> {
    let dice = Prng::named(seed, "tasks");
    let plan = |number| {
        let kind = *dice.pick(&Kind::ALL);
        let messages = if kind == Kind::Rounds { dice.below(MESSAGES_MAX + 1) } else { 0 };
        Planned { key: format!("task-{number}"), kind, messages }
    };
    (0..count).map(plan).collect()
}

/// The folder with agents, scripts, the workspace and what happened.
#[derive(Debug, Clone)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Writes agents and scripts.
    pub fn write(&self) -> io::Result<()> {
        fs::create_dir_all(self.work())?;
        for kind in Kind::ALL {
            self.agent(kind.name(), kind.replies(), kind)?;
        }
        self.agent("helper", Kind::Pair.replies(), Kind::Pair)
    }

    fn agent(&self, name: &str, mut replies: Vec<Value>, kind: Kind) -> io::Result<()> {
        // A message that comes at the end makes for one more reply.
        replies.extend((0..=MESSAGES_MAX).map(|_| json!({"text": "done"})));
        let script = self.0.join(format!("{name}.json"));
        fs::write(&script, json!({"replies": replies}).to_string())?;
        let (tools, more) = match kind {
            Kind::Approval => ("\"Bash\"", "permission_mode = \"default\"\nask = [\"Bash\"]\n"),
            Kind::Parent => ("\"Bash\", \"Task\"", "permission_mode = \"bypass\"\nsubagents = [\"helper.toml\"]\n"),
            _ => ("\"Bash\", \"Wait\", \"AskUser\"", "permission_mode = \"bypass\"\n"),
        };
        let (script, work) = (script.display(), self.work());
        let text = format!(
            "name = \"{name}\"\nmodel = \"script:{script}\"\ninstructions = \"Do the work.\"\n\
             tools = [{tools}]\nworkspace = \"{}\"\n{more}",
            work.display()
        );
        fs::write(self.agent_file(name), text)
    }

    fn agent_file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.toml"))
    }

    /// The agent of a kind of task.
    pub fn agent_of(&self, kind: Kind) -> PathBuf {
        self.agent_file(kind.name())
    }

    /// Where commands run.
    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// The keys that effects left, in order.
    pub fn effects(&self) -> io::Result<Vec<String>> {
        match fs::read_to_string(self.work().join(KEYS)) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}
