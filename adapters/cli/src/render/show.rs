//! What a task is doing, or why it is not moving, with the next command to type (CL-8).

use plica_kernel::id::TaskId;
use plica_kernel::row::{Blocked, Status};
use plica_kernel::state::{ActionKind, Phase, Task, UnknownCall};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::WakeKey;
use plica_ports::store::{Row, WorkerRow};

use super::budget::more_budget;
use super::jobs::{job_lines, jobs_waited_for};
use super::text::{clean, cut};
use super::{counted, span};
use crate::commands::word;

/// Characters of the goal.
const GOAL_CHARS: usize = 200;
/// Characters of a call's arguments.
const ARGS_CHARS: usize = 200;

/// Who may work on a task.
pub struct Attendance<'a> {
    /// The workers that are alive.
    pub workers: &'a [WorkerRow],
    /// Whether the process of the task's holder is known to be gone.
    pub holder_is_gone: bool,
}

/// What is known of a task whose log cannot be read.
pub fn show_row(row: &Row) -> String {
    let mut text = format!(
        "task {}\nagent {}\ngoal {}\nstatus {}\n",
        row.id,
        clean(&row.facts.agent),
        cut(&row.facts.goal, GOAL_CHARS),
        row.projection.status,
    );
    if let Some(blocked) = &row.blocked {
        text.push_str(&blocked_line(row, blocked));
        text.push('\n');
    }
    text
}

fn blocked_line(row: &Row, blocked: &Blocked) -> String {
    let id = &row.id;
    format!("blocked: {blocked}; `plica verify {id}` says more, `plica doctor --unblock {id}` lets it go on")
}

/// An open subtask of a task, and what it is doing.
pub struct Subtask {
    /// The subtask.
    pub id: TaskId,
    /// What it is doing, as in `waits for …` or `is running`.
    pub doing: String,
}

/// A few lines about a task; `state` is its state, `subtasks` are those that have not ended,
/// `now` is the store's time.
pub fn show(row: &Row, state: &Task, attendance: &Attendance<'_>, subtasks: &[Subtask], now: Timestamp) -> String {
    let governance = state.governance();
    let spent = governance.spent();
    let mut text = format!(
        "task {}\nagent {}\ngoal {}\nstatus {}\n{}\n",
        row.id,
        clean(state.agent()),
        cut(&row.facts.goal, GOAL_CHARS),
        state.status(),
        why(row, state, attendance, subtasks, now),
    );
    text.push_str(&format!(
        "events {}, created {}, last event {} ago\n",
        state.head().seq,
        row.facts.created_at,
        span(now.millis_since(state.head().at)),
    ));
    text.push_str(&format!(
        "spent {}, {}, {}, {} working",
        counted(spent.steps, "step"),
        counted(governance.tool_calls, "call"),
        counted(spent.tokens, "token"),
        span(spent.wall_ms),
    ));
    if spent.nano_usd > 0 {
        text.push_str(&format!(", ${}.{:09}", spent.nano_usd / 1_000_000_000, spent.nano_usd % 1_000_000_000));
    }
    text.push('\n');
    text.push_str(&job_lines(state, now));
    text
}

/// What it is doing, or why it is not moving.
fn why(row: &Row, state: &Task, attendance: &Attendance<'_>, subtasks: &[Subtask], now: Timestamp) -> String {
    let id = &row.id;
    if let Some(blocked) = &row.blocked {
        return blocked_line(row, blocked);
    }
    if let (Some(holder), Some(until)) = (&row.holder, row.lease_until)
        && until > now
    {
        let since = row.acquired_at.map_or_else(String::new, |at| format!(" since {} ago", span(now.millis_since(at))));
        let holder = clean(holder.id.as_str());
        if attendance.holder_is_gone {
            return format!(
                "held by worker {holder}{since}, whose process is gone: the next worker takes it over at once, \
                 `plica worker --until-idle` is one"
            );
        }
        if state.status() == Status::Waiting && has_live_jobs(state) {
            let ways = ways_to_wake(state, subtasks, now).join("\n  or for ");
            return format!("held by worker {holder}{since}, which runs its background jobs; waits for {ways}");
        }
        return format!("held by worker {holder}{since}: {}", doing(state));
    }
    match state.status() {
        Status::Completed => format!("done; `plica messages {id}` shows the conversation"),
        Status::Failed => format!("failed; `plica events {id}` shows why"),
        Status::Cancelled => format!("cancelled; `plica events {id}` shows by whom"),
        Status::Waiting if has_live_jobs(state) => {
            "its background jobs are gone with the worker that ran them; the next worker records that, \
             `plica worker --until-idle` is one"
                .to_owned()
        }
        Status::Waiting => {
            let mut ways = ways_to_wake(state, subtasks, now).join("\n  or for ");
            for word in words_beside(state) {
                ways.push_str(&format!("\n  and takes beside that {word}"));
            }
            format!("waits for {ways}")
        }
        Status::Ready | Status::Running => match row.claimable_at.filter(|at| *at > now) {
            Some(at) => format!("not to be claimed before {at}, in {}", span(at.millis_since(now))),
            None if attendance.workers.is_empty() => {
                "claimable, and no worker is alive; `plica worker --until-idle` works on it".to_owned()
            }
            None => "claimable: the next free worker takes it".to_owned(),
        },
    }
}

fn has_live_jobs(state: &Task) -> bool {
    state.governance().open_jobs().next().is_some()
}

fn doing(state: &Task) -> String {
    let open = &state.governance().actions;
    let calls = open.iter().filter(|action| matches!(action.what, ActionKind::Call(_))).count();
    if open.iter().any(|action| action.what == ActionKind::Model) {
        return "asking the model".to_owned();
    }
    match &state.runtime().phase {
        Phase::Request(request) => match request.due {
            Some(due) => format!("waiting until {due} to ask the model again"),
            None => "asking the model".to_owned(),
        },
        _ if calls > 0 => format!("running {}", counted(calls as u64, "call")),
        _ => "between steps".to_owned(),
    }
}

/// What would wake a waiting task, each way with the command to type; `subtasks` are those that
/// have not ended.
pub fn ways_to_wake(state: &Task, subtasks: &[Subtask], now: Timestamp) -> Vec<String> {
    let id = state.id();
    let governance = state.governance();
    let mut ways = Vec::new();
    for (call, approval) in governance.approvals.iter().filter(|(_, approval)| approval.resolved.is_none()) {
        if let Some(grants) = approval.grants() {
            ways.push(more_budget(id, *call, grants, governance));
            continue;
        }
        let args = approval.args.inline().map_or_else(|| "(long arguments)".to_owned(), |args| cut(args, ARGS_CHARS));
        ways.push(format!(
            "a ruling on {} {args}: `plica approve {id} --call {call}` or `plica deny {id} --call {call}`",
            clean(&approval.tool)
        ));
    }
    for (call, question) in &governance.questions {
        let question = question.inline().map_or_else(|| "(a long question)".to_owned(), |text| cut(text, GOAL_CHARS));
        ways.push(format!("an answer to {question:?}: `plica answer {id} --question {call} TEXT`"));
    }
    for alternative in &state.wake().any {
        match &alternative.key {
            WakeKey::Message => {
                ways.push(format!("a message: `plica send {id} TEXT`"));
                ways.extend(state.runtime().unknown.iter().map(|unknown| word_on(id, unknown)));
            }
            WakeKey::Event(kind) => {
                ways.push(format!("the event {}: `plica signal {id} --kind {}`", clean(kind), word(kind)));
            }
            WakeKey::Background => {
                ways.extend(jobs_waited_for(state));
                if state.governance().children().any(|(_, child)| child.background && !child.any) {
                    ways.push(of_subtasks(alternative.need, subtasks));
                }
            }
            WakeKey::Group(_) => ways.push(of_subtasks(alternative.need, subtasks)),
            WakeKey::Answer(_) => {}
        }
    }
    if let Some(at) = state.wake().at {
        ways.push(format!("the time {at}, in {}", span(at.millis_since(now))));
    }
    ways
}

/// What a person may say of calls whose outcome is unknown while the task waits for something
/// else: it is taken with what ends the wait.
fn words_beside(state: &Task) -> Vec<String> {
    let is_opened_by_words = state.wake().any.iter().any(|one| one.key == WakeKey::Message);
    let unknown = state.runtime().unknown.iter().filter(|_| !is_opened_by_words);
    unknown.map(|unknown| word_on(state.id(), unknown)).collect()
}

/// How a person says what became of a call whose outcome is unknown.
fn word_on(task: &TaskId, unknown: &UnknownCall) -> String {
    let UnknownCall { call, tool, .. } = unknown;
    format!(
        "a word on call {call} ({}), whose outcome is unknown: `plica resolve {task} --call {call} --landed TEXT`, \
         or `--not-landed` to run it now, or `--skip`",
        clean(tool)
    )
}

/// The subtasks that are waited for, a line each.
fn of_subtasks(need: u32, subtasks: &[Subtask]) -> String {
    let mut text = format!("{need} of {}:", counted(subtasks.len() as u64, "subtask"));
    for subtask in subtasks {
        text.push_str(&format!("\n    {} {}", subtask.id, subtask.doing.replace('\n', "\n    ")));
    }
    text
}
