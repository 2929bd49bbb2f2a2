//! Calls that steer the task itself, what children do, and what people send.

use plica_kernel::id::TaskId;
use plica_kernel::wake::Item;
use plica_ports::OnCrash;

use super::super::prng::Prng;
use super::{ASK, HURRY, Plan, PlannedCall, Sending, Sent, Step, call, round, takes};

/// Kinds of events that a task waits for, whether by the first call or by a later one.
const EVENT_KINDS: u64 = 3;

/// What a child does; `depth` is how far it is from a root.
pub(super) fn errand(prng: &Prng, id: TaskId, goal: &str, depth: usize) -> Plan {
    // Those farther down only work, so that trees end.
    let delegate = (depth == 1).then_some("chore");
    let mut steps = Vec::new();
    for at in 0..usize::try_from(prng.below(3)).unwrap_or(0) {
        let steers = delegate.is_some() && prng.chance(300);
        steps.push(if steers { steering_round(prng, id.as_str(), at, delegate) } else { round(prng) });
    }
    steps.push(Step { text: format!("done with {goal}"), takes_ms: takes(prng), ..Step::default() });
    let sendings = if prng.chance(250) { vec![order(prng, id.as_str())] } else { Vec::new() };
    Plan {
        id,
        goal: goal.into(),
        steps,
        interactive: false,
        steps_max: None,
        on_crash: OnCrash::Resolve,
        born_ms: 0,
        forked_ms: None,
        sendings,
    }
}

/// A reply with calls that steer the task itself, perhaps beside others; children are of the
/// agent `delegate`, if there is one.
pub(super) fn steering_round(prng: &Prng, task: &str, at: usize, delegate: Option<&str>) -> Step {
    let mut calls: Vec<PlannedCall> = Vec::new();
    let kinds = if prng.chance(250) { prng.between(2, 3) } else { 1 };
    for nth in 0..kinds {
        let name = format!("{task}-{at}-{nth}");
        match (prng.below(8), delegate) {
            (0..=1, _) => calls.push(planned("AskUser", format!(r#"{{"question":"which, {name}?"}}"#))),
            (2..=3, _) => calls.push(planned("Wait", wait(prng, task))),
            (4, _) | (_, None) => {
                let todos = r#"{"todos":[{"content":"go on","status":"pending"}]}"#;
                calls.push(planned("TodoWrite", todos.into()));
            }
            (_, Some(agent)) => children(prng, &name, agent, &mut calls),
        }
    }
    if prng.chance(300) {
        calls.push(call(prng));
    }
    Step { calls, takes_ms: takes(prng), ..Step::default() }
}

fn planned(tool: &str, args: String) -> PlannedCall {
    PlannedCall { tool: tool.into(), args }
}

fn event_kind(prng: &Prng, task: &str) -> String {
    format!("{task}-{}", prng.below(EVENT_KINDS))
}

fn wait(prng: &Prng, task: &str) -> String {
    let (event, seconds) = (event_kind(prng, task), prng.below(20));
    match prng.below(3) {
        0 => format!(r#"{{"seconds":{seconds}}}"#),
        1 => format!(r#"{{"event":"{event}"}}"#),
        _ => format!(r#"{{"event":"{event}","seconds":{seconds}}}"#),
    }
}

/// Calls for one to three children that form a group.
fn children(prng: &Prng, name: &str, agent: &str, calls: &mut Vec<PlannedCall>) {
    let (background, join) = (prng.chance(250), if prng.chance(250) { "any" } else { "all" });
    for nth in 0..prng.between(1, 3) {
        let word = match prng.below(100) {
            0..=9 => ASK,
            10..=14 => HURRY,
            _ => "run",
        };
        let goal = format!("{word} errand {nth} of {name}");
        let args = format!(r#"{{"agent":"{agent}","background":{background},"goal":"{goal}","join":"{join}"}}"#);
        calls.push(planned("Task", args));
    }
}

/// Something that is sent to a root.
pub(super) fn sending(prng: &Prng, task: &str, nth: u64) -> Sending {
    let filler = if prng.chance(80) { "a long story ".repeat(120) } else { String::new() };
    let reason = Some(format!("reason {nth}"));
    let item = match prng.below(100) {
        _ if prng.chance(120) => return at_some_time(prng, Sent::Back(prng.below(60)), 60_000),
        _ if prng.chance(100) => return at_some_time(prng, Sent::Another(prng.below(1_000)), 40_000),
        0..=9 => Item::Cancel { reason },
        10..=21 => Item::Interrupt { reason },
        22..=25 => Item::Close { reason },
        26..=29 => Item::Reopen { reason },
        // Most come before the wait for them, and some when nothing waits for them any more.
        30..=44 => Item::Event { data: Some(format!("data {nth}")), event: event_kind(prng, task) },
        _ => Item::Message { text: format!("message {nth} to {task} {filler}").trim_end().to_owned() },
    };
    at_some_time(prng, Sent::Item(item), 40_000)
}

/// Something that a person sends to a child, past its parent.
fn order(prng: &Prng, task: &str) -> Sending {
    let reason = Some("from above".to_owned());
    let item = match prng.below(4) {
        0 => return at_some_time(prng, Sent::Another(prng.below(1_000)), 8_000),
        1 => Item::Cancel { reason },
        2 => Item::Interrupt { reason },
        _ => Item::Message { text: format!("a word to {task}") },
    };
    at_some_time(prng, Sent::Item(item), 8_000)
}

/// Within so long, and now and then once more.
fn at_some_time(prng: &Prng, what: Sent, within_ms: u64) -> Sending {
    let again_ms = prng.chance(300).then(|| prng.below(within_ms / 2));
    Sending { at_ms: prng.below(within_ms), what, again_ms }
}
