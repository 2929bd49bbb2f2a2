use plica_kernel::decide::RecordError;
use plica_kernel::id::{CallId, Seq, TaskId};
use plica_ports::store::{AppendError, ClaimError, CreateError, DeliverError, StoreError};
use plica_ports::{ContentError, DefinitionError};

/// Why a task's state cannot be folded from its log.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No such task.
    #[error("no task {0}")]
    UnknownTask(TaskId),
    /// The log holds what only a newer version can read (RC-9).
    #[error("task {task}: event {seq} was written by a newer version ({what}); use that version")]
    NewerVersion {
        /// The task.
        task: TaskId,
        /// The event.
        seq: Seq,
        /// What this version does not know.
        what: String,
    },
    /// The log does not verify.
    #[error("task {task}: the log cannot be read: event {seq}: {rule}; see `plica verify {task}`")]
    Unreadable {
        /// The task.
        task: TaskId,
        /// The event.
        seq: Seq,
        /// The rule that is broken.
        rule: String,
    },
    /// Content that the log cites cannot be had.
    #[error("task {task}: {source}")]
    Content {
        /// The task.
        task: TaskId,
        /// What is wrong with it.
        source: ContentError,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where a task can go, and the command that shows what going there would do.
fn way_back(task: &TaskId, ends: &[Seq]) -> String {
    let Some(last) = ends.last() else { return format!("; `plica show {task}` says what it is doing") };
    let listed: Vec<String> = ends.iter().map(ToString::to_string).collect();
    let listed = listed.join(", ");
    format!("; turns ended at {listed}: `plica rewind {task} --to {last} --dry-run` shows what going there would do")
}

/// Why something that was asked of a task was not done.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The task's state cannot be had.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store refused or cannot be reached.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The task was not created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The item was not delivered.
    #[error(transparent)]
    Deliver(#[from] DeliverError),
    /// The conversation is closed: it takes no message. Nothing was delivered.
    #[error("task {0} is closed; `plica reopen {0}` opens it")]
    Closed(TaskId),
    /// No turn has ended there: nothing lands or branches off there. Nothing was written.
    #[error("task {task}: event {seq} is no place to go to: {why}{}", way_back(task, ends))]
    NoBoundary {
        /// The task.
        task: TaskId,
        /// The event.
        seq: Seq,
        /// What is under way there.
        why: String,
        /// Events at which turns ended, the newest last.
        ends: Vec<Seq>,
    },
    /// A subtask that is over has told its parent how it ended. Nothing was written.
    #[error(
        "task {task} is a subtask that has told its parent how it ended; \
         `plica show {above}` says how the task that it worked for goes on"
    )]
    Reported {
        /// The task.
        task: TaskId,
        /// The nearest task above it that can be steered: one that is not over, or the root.
        above: TaskId,
    },
    /// No such call is of unknown outcome. Nothing was written.
    #[error("task {task}: call {call} is not of unknown outcome; `plica show {task}` lists those that are")]
    NotUnknown {
        /// The task.
        task: TaskId,
        /// The call.
        call: CallId,
    },
    /// Only root tasks fork (SN-4). Nothing was written.
    #[error("task {task} is a subtask, and only root tasks fork: `plica fork {root}` forks the task it belongs to")]
    NoRoot {
        /// The task.
        task: TaskId,
        /// The root that it descends from.
        root: TaskId,
    },
    /// The task cannot move to the definition. Nothing was delivered.
    #[error("task {task} cannot move to this definition: {why}; `plica show {task}` says what it is doing")]
    Revision {
        /// The task.
        task: TaskId,
        /// Why.
        why: String,
    },
    /// Content that was put so recently may be about to be cited (CO-3). Nothing was removed.
    #[error("content is removed once it is {} min old at least: writers may be about to cite what is younger; `plica gc --grace {}m` is the least", .min.as_secs() / 60, .min.as_secs() / 60)]
    Grace {
        /// The shortest grace.
        min: std::time::Duration,
    },
    /// Something that may cite content cannot be read, so it is not known what is cited (CO-3).
    /// Nothing was removed.
    #[error("nothing was removed, since what is still cited cannot be told: {0}")]
    Unreached(#[source] LoadError),
    /// Content cannot be had or kept.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The definition cannot be written or read.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// Something does not fit an event.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A text that the log cites cannot be had or read.
    #[error("task {task}: {rule}; see `plica verify {task}`")]
    Text {
        /// The task.
        task: TaskId,
        /// What is wrong.
        rule: String,
    },
}

/// Why a worker ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The store could not be reached for 30 s (ST-10).
    #[error("the store could not be reached for {seconds} s: {last}")]
    Unavailable {
        /// Seconds without a committed append.
        seconds: u64,
        /// What the store said last.
        last: String,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A claim failed.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// An append failed for a reason that no retry can mend.
    #[error(transparent)]
    Append(#[from] AppendError),
}
