//! Arguments of the verbs that look at tasks.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use plica_kernel::envelope::Origin;
use plica_kernel::event::EventType;
use plica_kernel::id::Seq;
use plica_kernel::row::Status;

use super::{origin_name, values};

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct List {
    /// Print a JSON object a line, for every task unless --limit is given
    #[arg(long)]
    pub json: bool,
    /// Show subtasks below the task that spawned them
    #[arg(long, conflicts_with_all = ["json", "status"])]
    pub tree: bool,
    /// Only tasks with this status
    #[arg(long, value_name = "STATUS", value_parser = status_parser())]
    pub status: Option<Status>,
    /// At most so many tasks [default: 50, with --json all]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// Print the whole state as one JSON object
    #[arg(long)]
    pub json: bool,
    /// As of this event
    #[arg(long, value_name = "SEQ", value_parser = values::seq)]
    pub at: Option<Seq>,
    /// Fold the whole log instead of starting from a snapshot; the result is the same
    #[arg(long)]
    pub ignore_snapshots: bool,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
pub struct Events {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// Print the stored bytes, an event a line, each with its hash
    #[arg(long)]
    pub json: bool,
    /// Only events of this origin
    #[arg(long, value_name = "ORIGIN", value_parser = origin_parser())]
    pub origin: Option<Origin>,
    /// Only events of this actor, as in user:ada
    #[arg(long, value_name = "ACTOR")]
    pub actor: Option<String>,
    /// Only events of these types
    #[arg(long = "type", value_name = "TYPE,…", value_delimiter = ',', value_parser = type_parser(),
        hide_possible_values = true)]
    pub types: Vec<EventType>,
    /// Only events after this one
    #[arg(long, value_name = "SEQ", value_parser = values::seq)]
    pub after: Option<Seq>,
    /// Go on with new events as they come, until the task is over
    #[arg(long)]
    pub follow: bool,
}

/// Arguments of `messages`.
#[derive(Debug, Args)]
pub struct Messages {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", add = crate::complete::tasks())]
    pub task: String,
    /// Print a JSON object a message
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Its id, a unique beginning of it, or @last
    #[arg(value_name = "TASK", required_unless_present = "all", conflicts_with = "all", add = crate::complete::tasks())]
    pub task: Option<String>,
    /// Every task of the store
    #[arg(long)]
    pub all: bool,
    /// Print the verdict as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A parser that knows the names it takes, so help lists them and a typing error gets a hint.
fn named<T: Clone + Send + Sync + 'static>(
    all: impl Iterator<Item = (&'static str, T)> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.clone().map(|(name, _)| name)).try_map(move |text: String| {
        all.clone().find(|(name, _)| *name == text).map(|(_, value)| value).ok_or("no such name")
    })
}

fn status_parser() -> impl TypedValueParser<Value = Status> {
    let all = [Status::Ready, Status::Running, Status::Waiting, Status::Completed, Status::Failed, Status::Cancelled];
    named(all.into_iter().map(|status| (status.name(), status)))
}

fn origin_parser() -> impl TypedValueParser<Value = Origin> {
    let all = [Origin::Engine, Origin::Llm, Origin::Observer, Origin::Tool, Origin::System];
    named(all.into_iter().map(|origin| (origin_name(origin), origin)))
}

fn type_parser() -> impl TypedValueParser<Value = EventType> {
    named(EventType::ALL.iter().map(|kind| (kind.name(), *kind)))
}
