//! The command line: verbs, their arguments, their help. Nothing is carried out here.

mod read;
mod steer;
mod values;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, value_parser};
use plica_kernel::id::{DedupKey, Queue};
use plica_kernel::time::Timestamp;

pub use read::{Events, List, Messages, Show, Verify};
pub use steer::{Answer, Cancel, Fork, Resolve, Rewind, Ruling, Send, Signal, Steer};
pub(crate) use values::origin_name;
pub use values::{Label, ReadText, Text};

/// Runs LLM agents that must not lose their place.
///
/// A task's log is its only truth: kill a worker at any moment and the next one carries on
/// from the log. Exit status: 0 done, 1 task failed or cancelled, 2 usage, 3 waiting for
/// someone, 4 store or configuration, 5 verification failed, 130 interrupted.
#[derive(Debug, Parser)]
#[command(
    name = "plica",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  plica run --agent coder.toml \"Make the tests pass\"
  plica submit --agent coder.toml \"Make the tests pass\" && plica worker --until-idle
  plica show @last"
)]
pub struct Arguments {
    /// Where tasks live: sqlite:PATH, postgres://… or memory: [default: a SQLite file in your data folder]
    #[arg(long, global = true, value_name = "STORE", env = "PLICA_STORE", hide_env_values = true)]
    pub store: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create a task and drive it here until it ends or waits for someone
    #[command(after_help = "\
Prints the answer, or each committed event with --json.

Examples:
  plica run --agent coder.toml \"Make the tests pass\"
  plica run --agent coder.toml - < goal.txt")]
    Run(Run),
    /// Create a task for a worker and print its id
    #[command(after_help = "\
Examples:
  plica submit --agent coder.toml \"Make the tests pass\"
  plica submit --agent report.toml --at \"2026-12-01 09:00\" --key daily-2026-12-01 \"Write the report\"")]
    Submit(Submit),
    /// Work on tasks as they become due
    #[command(after_help = "\
Ends on SIGTERM or Ctrl-C, handing its tasks back; its exit status says nothing of theirs.

Examples:
  plica worker
  plica worker --until-idle
  plica worker --queues main,reports --concurrency 8")]
    Worker(Worker),
    /// List tasks, newest first
    #[command(after_help = "\
Examples:
  plica list --status waiting
  plica list --tree
  plica list --json | head -n 1")]
    List(List),
    /// Say what a task is doing, or why it is not moving
    #[command(after_help = "\
Examples:
  plica show @last
  plica show 0198f3 --json --at 12")]
    Show(Show),
    /// Print a task's events
    #[command(after_help = "\
Examples:
  plica events @last --follow
  plica events @last --type ToolCallStarted,ToolCallFinished
  plica events @last --json > task.jsonl")]
    Events(Events),
    /// Print a task's conversation
    #[command(after_help = "Example:\n  plica messages @last")]
    Messages(Messages),
    /// Send a task a message
    #[command(after_help = "\
The message joins at the next safe point. With no worker alive the task is then driven here,
unless --detach is given.

Example:
  plica send @last \"Use the staging server\"")]
    Send(Send),
    /// Answer a question that a task asked
    #[command(after_help = "\
The first answer stands. Without --question the only pending one is meant.

Example:
  plica answer @last \"The red one\"")]
    Answer(Answer),
    /// Let a call run that a task asked about
    #[command(after_help = "\
The approval is good for this exact call, once. Without --call the only pending one is meant.

Example:
  plica approve @last --call 7.0")]
    Approve(Ruling),
    /// Refuse a call that a task asked about
    #[command(after_help = "\
The model is told, with the reason. Without --call the only pending one is meant.

Example:
  plica deny @last --reason \"not on production\"")]
    Deny(Ruling),
    /// Deliver an event that a task waits for, or will
    #[command(after_help = "\
An event that comes before it is waited for is kept. With --key it is delivered once however
often this is called.

Example:
  plica signal @last --kind deploy.done --data '{\"version\":3}' --key deploy-3")]
    Signal(Signal),
    /// Stop a task's turn; it then waits for its next message
    #[command(after_help = "Example:\n  plica interrupt @last")]
    Interrupt(Steer),
    /// Close a task's conversation: it takes no message until it is reopened
    #[command(after_help = "Example:\n  plica close @last")]
    Close(Steer),
    /// Open a conversation that is closed or over; it then waits for a message
    #[command(after_help = "Example:\n  plica reopen @last; plica send @last \"One more thing\"")]
    Reopen(Steer),
    /// Go back to where a turn ended: what was said since is left behind, files are put back
    #[command(after_help = "\
Nothing is deleted: a later rewind to a place before this one brings back what it left behind.
Files that Write and Edit changed since are put back unless someone else has changed them;
what commands did is not undone. The task then waits for a message.

Examples:
  plica events @last --type TaskSuspended
  plica rewind @last --to 12 --dry-run
  plica rewind @last --to 12")]
    Rewind(Rewind),
    /// Branch off a new task where a turn of this one ended
    #[command(after_help = "\
Prints the new task's id. It inherits the conversation, what was spent and the workspace, and
waits for a message. Without --at it branches off at the last end of a turn.

Example:
  plica fork @last --at 12")]
    Fork(Fork),
    /// Say what became of a call whose outcome is unknown
    #[command(after_help = "\
A call whose worker was lost may have happened or not. Look, and say which: the model is told, a
parked task goes on, and a call that did not happen runs now. Without --call the only one of
unknown outcome is meant. The first word stands.

Examples:
  plica resolve @last --landed \"deployed version 3\"
  plica resolve @last --call 7.0 --not-landed
  plica resolve @last --skip")]
    Resolve(Resolve),
    /// End a task
    #[command(after_help = "\
What is running is stopped and every open call gets an outcome. With no worker alive this is
done here, unless --detach is given; the exit status is then that of a cancelled task, 1.

Example:
  plica cancel @last --reason \"wrong branch\"")]
    Cancel(Cancel),
    /// Check that nothing in a task, or in the whole store, was changed or lost
    #[command(after_help = "\
Exit status 5 if anything is broken, naming the first break.

Examples:
  plica verify @last
  plica verify --all --json")]
    Verify(Verify),
    /// Free the room of content that nothing cites any more
    #[command(after_help = "\
Events are never removed, so whatever any task, snapshot, fork or inbox needs stays; what goes is
what was put and never cited, or cited by nothing that is on record. Workers may run meanwhile.
A SQLite file does not shrink: it uses the room again.

Examples:
  plica gc --dry-run
  plica gc --grace 7d")]
    Gc(Gc),
    /// Check agent files, describe them to an editor, or move a task to another agent
    #[command(after_help = "\
Examples:
  plica agent check coder.toml
  plica agent schema > agent.schema.json
  plica agent set @last coder.toml")]
    Agent(Agent),
    /// Check the store, its disk and workers, blocked tasks, models, and agent files
    #[command(after_help = "\
Examples:
  plica doctor
  plica doctor coder.toml
  plica doctor --models
  plica doctor --unblock 0198f3")]
    Doctor(Doctor),
    /// Kill workers while they work, and count what came of it
    #[command(after_help = "\
Needs nothing: a temporary folder, a scripted model, real tools, real worker processes. Exit
status 1 if any number is not as promised.

Examples:
  plica demo
  plica demo --kills 50 --keep")]
    Demo(Demo),
    /// Print what makes a shell complete plica's verbs, flags and tasks
    #[command(after_help = "\
Examples:
  echo 'source <(plica completions bash)' >> ~/.bashrc
  echo 'source <(plica completions zsh)' >> ~/.zshrc
  plica completions fish > ~/.config/fish/completions/plica.fish")]
    Completions(Completions),
    /// Write a man page for each verb
    #[command(after_help = "Example:\n  plica man /usr/local/share/man/man1")]
    Man(Man),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The agent's TOML file
    #[arg(long, value_name = "FILE")]
    pub agent: PathBuf,
    /// Print each committed event as a line of JSON
    #[arg(long)]
    pub json: bool,
    /// What the task is to do; `-` reads it from standard input
    #[arg(value_name = "GOAL")]
    pub goal: Text,
}

/// Arguments of `submit`.
#[derive(Debug, Args)]
pub struct Submit {
    /// The agent's TOML file
    #[arg(long, value_name = "FILE")]
    pub agent: PathBuf,
    /// Not before so long from now: 90s, 15m, 2h, 3d, 1h30m
    #[arg(long = "in", value_name = "DURATION", value_parser = values::duration, conflicts_with = "at")]
    pub delay: Option<Duration>,
    /// Not before this time: 2026-12-01T09:00:00Z, or local time as "2026-12-01 09:00"
    #[arg(long, value_name = "TIME", value_parser = values::local_time)]
    pub at: Option<Timestamp>,
    /// Create the task once however often this is called with the same key
    #[arg(long, value_name = "KEY")]
    pub key: Option<DedupKey>,
    /// The queue it waits in [default: the agent's, or main]
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<Queue>,
    /// 0 goes first, 3 last
    #[arg(long, value_name = "0-3", default_value_t = 2, value_parser = value_parser!(u8).range(0..=3))]
    pub priority: u8,
    /// A label of your own; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<Label>,
    /// Print the id, and whether the task is new, as one JSON object
    #[arg(long)]
    pub json: bool,
    /// What the task is to do; `-` reads it from standard input
    #[arg(value_name = "GOAL")]
    pub goal: Text,
}

/// Arguments of `worker`.
#[derive(Debug, Args)]
pub struct Worker {
    /// End when nothing runs and nothing will become due by itself
    #[arg(long)]
    pub until_idle: bool,
    /// How long a task stays ours without a sign of life; fractions are allowed
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = values::lease)]
    pub lease: Duration,
    /// Tasks at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
    /// Serve these queues only
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub queues: Vec<Queue>,
    /// Print each committed event as a line of JSON, and last who worked and what ended it
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
pub struct Gc {
    /// Leave what was put so recently; 2h at least, unless nothing is removed
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::duration)]
    pub grace: Duration,
    /// Remove nothing, and say what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Print the numbers as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `agent`.
#[derive(Debug, Args)]
pub struct Agent {
    /// What is wanted of agent files
    #[command(subcommand)]
    pub wanted: AgentVerb,
}

/// What `agent` does.
#[derive(Debug, Subcommand)]
pub enum AgentVerb {
    /// Read agent files and all that they name, and say what is wrong
    #[command(after_help = "Example:\n  plica agent check coder.toml reviewer.toml")]
    Check(AgentCheck),
    /// Print the JSON Schema of agent files
    #[command(after_help = "\
Example:
  plica agent schema > agent.schema.json

Editors with a TOML language server find it by a first line in the agent file:
  #:schema ./agent.schema.json")]
    Schema(AgentSchema),
    /// Move a task to another agent from its next step on
    #[command(after_help = "\
What the task has done means what it meant; the workspace stays, and so does what was spent and
granted.

Example:
  plica agent set @last coder.toml")]
    Set(AgentSet),
}

/// Arguments of `agent set`.
#[derive(Debug, Args)]
pub struct AgentSet {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// The agent's TOML file
    #[arg(value_name = "FILE")]
    pub agent: PathBuf,
    /// Print the task and the agent as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `agent check`.
#[derive(Debug, Args)]
pub struct AgentCheck {
    /// The agents' TOML files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Print a JSON object a file
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `agent schema`.
#[derive(Debug, Args)]
pub struct AgentSchema {
    /// Print it on one line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Agent files to check too, and whether their models can be reached
    #[arg(value_name = "FILE", conflicts_with = "unblock")]
    pub agents: Vec<PathBuf>,
    /// Ask the servers that can be reached which models they have
    #[arg(long, conflicts_with = "unblock")]
    pub models: bool,
    /// Let a blocked task be claimed again
    #[arg(long, value_name = "TASK", add = crate::complete::tasks())]
    pub unblock: Option<String>,
    /// Print the findings as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Workers to kill with SIGKILL
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = values::kills)]
    pub kills: usize,
    /// Leave the folder with store, files and logs where it is
    #[arg(long)]
    pub keep: bool,
    /// Print the numbers as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = PossibleValuesParser::new(crate::complete::SHELLS))]
    pub shell: String,
    /// Print it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The folder that the pages go to
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
