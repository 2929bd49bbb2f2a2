//! Arguments of the verbs that steer a task.

use clap::Args;
use plica_kernel::id::{CallId, DedupKey, Seq};

use super::{Text, values};

/// Arguments of `rewind`.
#[derive(Debug, Args)]
pub struct Rewind {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// The event to land on: the one that ended a turn, or one after it and before the next
    #[arg(long, value_name = "SEQ", value_parser = values::seq)]
    pub to: Seq,
    /// Only list what would become of files
    #[arg(long, conflicts_with = "detach")]
    pub dry_run: bool,
    /// Return once the order is safe, whether or not a worker is alive
    #[arg(long)]
    pub detach: bool,
    /// Print what became of it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `resolve`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("became").required(true)))]
pub struct Resolve {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK")]
    pub task: String,
    /// The call, as in 7.0
    #[arg(long, value_name = "ID")]
    pub call: Option<CallId>,
    /// It happened, with this output; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", group = "became")]
    pub landed: Option<Text>,
    /// It did not happen: run it now
    #[arg(long, group = "became")]
    pub not_landed: bool,
    /// Go on without it
    #[arg(long, group = "became")]
    pub skip: bool,
    /// Return once the word is safe, whether or not a worker is alive
    #[arg(long)]
    pub detach: bool,
    /// Print what became of it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `fork`.
#[derive(Debug, Args)]
pub struct Fork {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// The event to branch off at: the one that ended a turn, or one after it and before the next
    #[arg(long, value_name = "SEQ", value_parser = values::seq)]
    pub at: Option<Seq>,
    /// Print the new task as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `send`.
#[derive(Debug, Args)]
pub struct Send {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// What to say; `-` reads it from standard input
    #[arg(value_name = "TEXT")]
    pub text: Text,
    /// Return once the message is safe, whether or not a worker is alive
    #[arg(long)]
    pub detach: bool,
    /// Print what became of it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `answer`.
#[derive(Debug, Args)]
pub struct Answer {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// The answer; `-` reads it from standard input
    #[arg(value_name = "TEXT")]
    pub text: Text,
    /// The call that asks, as in 7.0
    #[arg(long, value_name = "ID")]
    pub question: Option<CallId>,
    /// Return once the answer is safe, whether or not a worker is alive
    #[arg(long)]
    pub detach: bool,
    /// Print what became of it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `approve` and `deny`.
#[derive(Debug, Args)]
pub struct Ruling {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// The call, as in 7.0
    #[arg(long, value_name = "ID")]
    pub call: Option<CallId>,
    /// Why, for the record and the model
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Return once the ruling is safe, whether or not a worker is alive
    #[arg(long)]
    pub detach: bool,
    /// Print what became of it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `signal`.
#[derive(Debug, Args)]
pub struct Signal {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// The event's kind
    #[arg(long, value_name = "KIND")]
    pub kind: String,
    /// What it carries
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// Deliver it once however often this is called with the same key
    #[arg(long, value_name = "KEY")]
    pub key: Option<DedupKey>,
    /// Return once the event is safe, whether or not a worker is alive
    #[arg(long)]
    pub detach: bool,
    /// Print what became of it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `interrupt`, `close` and `reopen`.
#[derive(Debug, Args)]
pub struct Steer {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Return once the order is safe, whether or not a worker is alive
    #[arg(long)]
    pub detach: bool,
    /// Print what became of it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub struct Cancel {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Return once the order is safe, whether or not a worker is alive
    #[arg(long)]
    pub detach: bool,
    /// Print what became of it as one JSON object
    #[arg(long)]
    pub json: bool,
}
