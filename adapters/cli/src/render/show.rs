//! What a task is doing, or why it is not moving, with the next command to type (CL-8).

use plica_kernel::event::Failure;
use plica_kernel::id::RunId;
use plica_kernel::row::{Blocked, Status};
use plica_kernel::state::{ActionKind, Phase, Task};
use plica_kernel::time::Timestamp;
use plica_ports::store::{Row, WorkerRow};

use super::jobs::job_lines;
use super::text::{clean, cut};
use super::ways::{Around, Way, asked_of_people, ways, ways_to_wake, words_beside};
use super::{counted, span};

/// Characters of the goal.
const GOAL_CHARS: usize = 200;
/// Characters of the last error.
const ERROR_CHARS: usize = 400;

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

/// A few lines about a task; `state` is its state, now or as of an earlier event; `failure` is how
/// its last turn failed, `now` is the store's time.
pub fn show(
    row: &Row,
    state: &Task,
    attendance: &Attendance<'_>,
    around: &Around,
    failure: Option<&Failure>,
    now: Timestamp,
) -> String {
    let governance = state.governance();
    let spent = governance.spent();
    let mut text = format!(
        "task {}\nagent {}\ngoal {}\nstatus {}\n{}\n",
        row.id,
        clean(state.agent()),
        cut(&row.facts.goal, GOAL_CHARS),
        state.status(),
        if state.head().seq < row.projection.seq {
            back_then(row, state, around)
        } else {
            why(row, state, attendance, around, now)
        },
    );
    if let Some(error) = last_error(state, failure) {
        text.push_str(&format!("last error: {}\n", cut(&error, ERROR_CHARS)));
    }
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
    let is_past = state.head().seq < row.projection.seq;
    let is_held = row.lease_until.is_some_and(|until| until > now) && !attendance.holder_is_gone;
    // Of the past the row says nothing.
    let lives = |run: &RunId| is_past || is_held && row.run.as_ref() == Some(run);
    text.push_str(&job_lines(state, lives, if is_past { state.head().at } else { now }));
    text
}

/// What it was doing as of an event that others followed. No command changes that, and the row
/// says nothing of it.
fn back_then(row: &Row, state: &Task, around: &Around) -> String {
    let was = match state.status() {
        Status::Completed => "was done".to_owned(),
        Status::Failed => "had failed".to_owned(),
        Status::Cancelled => "was cancelled".to_owned(),
        Status::Ready => "was ready for a worker".to_owned(),
        Status::Running => format!("was {}", doing(state)),
        Status::Waiting => {
            let ways = ways(state, around, state.head().at).into_iter().map(|way| way.what);
            format!("waited for {}", ways.collect::<Vec<_>>().join("\n  or for "))
        }
    };
    format!("as of event {} it {was}; `plica show {}` says what it does now", state.head().seq, row.id)
}

/// What it is doing, or why it is not moving.
fn why(row: &Row, state: &Task, attendance: &Attendance<'_>, around: &Around, now: Timestamp) -> String {
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
            let ways = ways_to_wake(state, around, now).join("\n  or for ");
            return format!("held by worker {holder}{since}, which runs its background jobs; waits for {ways}");
        }
        return format!("held by worker {holder}{since}: {}", doing(state));
    }
    let is_due = row.claimable_at.is_some_and(|at| at <= now);
    match state.status() {
        Status::Waiting if has_live_jobs(state) => {
            "its background jobs are gone with the worker that ran them; the next worker records that, \
             `plica worker --until-idle` is one"
                .to_owned()
        }
        Status::Completed | Status::Failed | Status::Cancelled | Status::Waiting if is_due => {
            woken(state, attendance, around, now)
        }
        Status::Completed => format!("done; `plica messages {id}` shows the conversation"),
        Status::Failed => format!("failed; `plica events {id}` shows why"),
        Status::Cancelled => format!("cancelled; `plica events {id}` shows by whom"),
        Status::Waiting => {
            let mut ways = ways_to_wake(state, around, now).join("\n  or for ");
            for word in words_beside(state, around) {
                ways.push_str(&format!("\n  and takes beside that {word}"));
            }
            format!("waits for {ways}")
        }
        Status::Ready | Status::Running => match row.claimable_at.filter(|at| *at > now) {
            Some(at) => format!("not to be claimed before {at}, in {}", span(at.millis_since(now))),
            None => claimable(attendance).to_owned(),
        },
    }
}

/// What went wrong last and has not been got over: with the request that is to be tried again, or
/// with the turn that has ended.
fn last_error(state: &Task, failure: Option<&Failure>) -> Option<String> {
    match &state.runtime().phase {
        Phase::Request(request) => request.failed.clone(),
        _ => failure.map(failure_words),
    }
}

/// How a turn or a task failed.
pub fn failure_words(failure: &Failure) -> String {
    match &failure.detail {
        None => failure.reason.to_string(),
        Some(detail) => format!("{}: {detail}", failure.reason),
    }
}

/// What came wakes it: no command of those that it waits for would do more. What else is asked of
/// people stays to be answered.
fn woken(state: &Task, attendance: &Attendance<'_>, around: &Around, now: Timestamp) -> String {
    let time_is_up = state.wake().at.is_some_and(|at| at <= now);
    let came = if time_is_up { "its time has come" } else { "something was delivered to it" };
    let mut text = format!("{came}, so it is {}", claimable(attendance));
    for asked in asked_of_people(state, around).into_iter().map(Way::line) {
        text.push_str(&format!("\n  and waits for {asked}"));
    }
    text
}

fn claimable(attendance: &Attendance<'_>) -> &'static str {
    if attendance.workers.is_empty() {
        return "claimable, and no worker is alive; `plica worker --until-idle` works on it";
    }
    "claimable: the next free worker takes it"
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
