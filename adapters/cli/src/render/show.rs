//! What a task is doing, or why it is not moving, with the next command to type (CL-8).

use plica_kernel::row::Status;
use plica_kernel::state::{ActionKind, Phase, Task};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{Wake, WakeKey};
use plica_ports::store::{Row, WorkerRow};

use super::span;
use super::text::{clean, cut};

/// Characters of the goal.
const GOAL_CHARS: usize = 200;

/// A few lines about a task; `state` is its state, `workers` those that are alive, `now` the
/// store's time.
pub fn show(row: &Row, state: &Task, workers: &[WorkerRow], now: Timestamp) -> String {
    let governance = state.governance();
    let spent = governance.spent();
    let mut text = format!(
        "task {}\nagent {}\ngoal {}\nstatus {}\n{}\n",
        row.id,
        clean(state.agent()),
        cut(&row.facts.goal, GOAL_CHARS),
        state.status(),
        why(row, state, workers, now),
    );
    text.push_str(&format!(
        "events {}, created {}, last event {} ago\n",
        state.head().seq,
        row.facts.created_at,
        span(now.millis_since(state.head().at)),
    ));
    text.push_str(&format!(
        "spent {} steps, {} calls, {} tokens, {} working",
        spent.steps,
        governance.tool_calls,
        spent.tokens,
        span(spent.wall_ms),
    ));
    if spent.nano_usd > 0 {
        text.push_str(&format!(", ${}.{:09}", spent.nano_usd / 1_000_000_000, spent.nano_usd % 1_000_000_000));
    }
    text.push('\n');
    text
}

/// What it is doing, or why it is not moving.
fn why(row: &Row, state: &Task, workers: &[WorkerRow], now: Timestamp) -> String {
    let id = &row.id;
    if let Some(blocked) = &row.blocked {
        return format!(
            "blocked: {blocked}; `plica verify {id}` says more, `plica doctor --unblock {id}` lets it go on"
        );
    }
    if let (Some(holder), Some(until)) = (&row.holder, row.lease_until)
        && until > now
    {
        let since = row.acquired_at.map_or_else(String::new, |at| format!(" since {} ago", span(now.millis_since(at))));
        return format!("held by worker {}{since}: {}", clean(holder.id.as_str()), doing(state));
    }
    match state.status() {
        Status::Completed => format!("done; `plica messages {id}` shows the conversation"),
        Status::Failed => format!("failed; `plica events {id}` shows why"),
        Status::Cancelled => format!("cancelled; `plica events {id}` shows by whom"),
        Status::Waiting => waits(row, state.wake(), now),
        Status::Ready | Status::Running => match row.claimable_at.filter(|at| *at > now) {
            Some(at) => format!("not to be claimed before {at}, in {}", span(at.millis_since(now))),
            None if workers.is_empty() => {
                "claimable, and no worker is alive; `plica worker --until-idle` works on it".to_owned()
            }
            None => "claimable: the next free worker takes it".to_owned(),
        },
    }
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
        _ if calls > 0 => format!("running {calls} calls"),
        _ => "between steps".to_owned(),
    }
}

fn waits(row: &Row, wake: &Wake, now: Timestamp) -> String {
    let id = &row.id;
    let mut ways: Vec<String> = wake
        .any
        .iter()
        .map(|alternative| match &alternative.key {
            WakeKey::Message => format!("a message: `plica send {id} TEXT`"),
            WakeKey::Answer(_) => format!("{} answers", alternative.need),
            WakeKey::Group(_) => format!("{} subtasks", alternative.need),
            WakeKey::Background => "background work".to_owned(),
            WakeKey::Event(kind) => format!("an event {}", clean(kind)),
        })
        .collect();
    if let Some(at) = wake.at {
        ways.push(format!("the time {at}, in {}", span(at.millis_since(now))));
    }
    format!("waits for {}", ways.join(" or "))
}
