use plica_kernel::canonical::Domain;
use serde_json::json;

use super::*;
use crate::people::Sent;
use crate::plan::Kind;

const TASK: &str = "t";
const LEDGER: &str = "l";

fn genesis(task: &str) -> String {
    let (ledger, task) = (LedgerId::new(LEDGER).expect("an id"), TaskId::new(task).expect("an id"));
    genesis_hash(&ledger, &task).to_string()
}

/// A log in which everything is as it must be, as bodies without their links.
fn sound() -> Vec<Value> {
    vec![
        json!({"type": "TaskCreated", "epoch": 0, "run": "r0", "prev": genesis(TASK), "payload": {"ledger": LEDGER}}),
        json!({"type": "MessagesAppended", "epoch": 0, "run": "r0", "payload": {"messages": ["Do it."]}}),
        json!({"type": "LLMRequestStarted", "epoch": 1, "run": "r1", "payload": {"attempt": 1}}),
        json!({"type": "LLMRequestFinished", "epoch": 1, "run": "r1", "action": 3, "payload": {"status": "ok"}}),
        json!({"type": "ToolCallStarted", "epoch": 1, "run": "r1",
            "payload": {"args": "echo key >> effects", "call": "4.0", "tool": "Bash"}}),
        json!({"type": "ToolCallFinished", "epoch": 1, "run": "r1", "action": 5,
            "payload": {"call": "4.0", "status": "ok"}}),
        json!({"type": "TaskWoken", "epoch": 2, "run": "r2", "payload": {"item": {"position": 1}}}),
        json!({"type": "MessagesAppended", "epoch": 2, "run": "r2", "payload": {"messages": ["message-1."]}}),
        json!({"type": "BackgroundJobStarted", "epoch": 2, "run": "r2", "payload": {}}),
        json!({"type": "BackgroundJobEnded", "epoch": 2, "run": "r2", "action": 9, "payload": {"how": "lost"}}),
        json!({"type": "MessagesAppended", "epoch": 2, "run": "r2", "payload": {"jobs": [9], "messages": []}}),
        json!({"type": "ContextPlanComposed", "epoch": 2, "run": "r2", "payload": {}}),
        json!({"type": "ApprovalResolved", "epoch": 2, "run": "r2", "payload": {"call": "12.0"}}),
        json!({"type": "QuestionAnswered", "epoch": 2, "run": "r2", "payload": {"call": "12.1"}}),
        json!({"type": "LateResultRecorded", "epoch": 2, "run": "r2",
            "payload": {"answers": 5, "identity": {"fence": 1}}}),
        json!({"type": "TaskCompleted", "epoch": 2, "run": "r2", "payload": {}}),
    ]
}

/// Chains bodies up and makes the row that ends with them.
fn remains(bodies: Vec<Value>) -> Remains {
    let mut events: Vec<Event> = Vec::new();
    for (seq, mut body) in (1..).zip(bodies) {
        if let Some(before) = events.last() {
            body["prev"] = json!(Domain::Event.hash(&before.body).to_string());
        }
        let body = body.to_string().into_bytes();
        let hash = Domain::Event.hash(&body).as_bytes().to_vec();
        events.push(Event { task: TASK.into(), seq, hash, body });
    }
    let last = events.last().expect("a log has events");
    let row = Task {
        id: TASK.into(),
        key: Some("task-0".into()),
        status: "completed".into(),
        seq: last.seq,
        hash: last.hash.clone(),
        is_blocked: false,
        is_claimable: false,
        wants_message: false,
    };
    Remains { tasks: vec![row], events, untaken: Vec::new(), effects: vec!["t:4.0".into()] }
}

fn found(remains: &Remains) -> Vec<String> {
    let plan = [Planned { key: "task-0".into(), kind: Kind::Rounds, messages: 1 }];
    let mut done = Done::default();
    done.tasks.insert("task-0".into(), TASK.into());
    done.sent.push(Sent { task: TASK.into(), text: "message-1.".into(), is_acknowledged: Some(true) });
    violations(&plan, &done, remains)
}

#[test]
fn what_is_as_it_must_be_is_no_violation() {
    assert_eq!(found(&remains(sound())), Vec::<String>::new());
}

/// A log whose last event is a failure after so many requests that were cut off.
fn failed(cut_off: usize, reason: &str) -> Vec<Value> {
    let mut bodies = sound();
    bodies.pop();
    for _ in 0..cut_off {
        let started = bodies.len() + 1;
        bodies.push(json!({"type": "LLMRequestStarted", "epoch": 2, "run": "r2", "payload": {}}));
        bodies.push(json!({"type": "LLMRequestFinished", "epoch": 2, "run": "r2", "action": started,
            "payload": {"status": "interrupted"}}));
    }
    bodies.push(json!({"type": "TaskFailed", "epoch": 2, "run": "r2", "payload": {"reason": reason}}));
    bodies
}

#[test]
fn a_request_that_is_cut_off_three_times_in_a_row_may_fail_its_task() {
    assert_eq!(found(&remains(failed(3, "llm_error"))), Vec::<String>::new());
}

#[test]
fn every_false_log_is_found_out() {
    let changed = |at: usize, member: &str, value: Value| {
        let mut bodies = sound();
        bodies[at][member] = value;
        bodies
    };
    let without = |at: usize| {
        let mut bodies = sound();
        bodies.remove(at);
        bodies
    };
    let twice = |at: usize| {
        let mut bodies = sound();
        bodies.insert(at, bodies[at].clone());
        bodies
    };
    let table = [
        (changed(6, "epoch", json!(0)), "epoch 0 after 1"),
        (changed(5, "run", json!("r9")), "two holders"),
        (changed(3, "action", json!(99)), "which is no action"),
        (changed(5, "action", json!(3)), "has 2 outcomes"),
        (without(5), "has 0 outcomes"),
        (twice(6), "item 1 was taken before"),
        (twice(12), "the ruling on call 12.0 was taken before"),
        (twice(13), "the answer to call 12.1 was taken before"),
        (twice(14), "the evidence of epoch 1 for event 5 was taken before"),
        (changed(0, "prev", json!(genesis("another"))), "does not begin the chain"),
        (changed(0, "payload", json!({"ledger": "another"})), "does not begin the chain"),
        (without(7), "was taken 0 times"),
        (twice(7), "was taken 2 times"),
        (without(4), "its start is not on record"),
        (changed(9, "payload", json!({"how": "gone"})), "ended in no known way"),
        (without(10), "told of job 9 0 times"),
        (twice(10), "told of job 9 2 times"),
        (failed(0, "internal_error"), "failed by \"internal_error\""),
        (failed(2, "llm_error"), "failed by \"llm_error\""),
    ];
    for (bodies, rule) in table {
        let broken = found(&remains(bodies));
        assert!(broken.iter().any(|said| said.contains(rule)), "{rule}: {broken:?}");
    }
}

#[test]
fn every_false_row_effect_and_chain_is_found_out() {
    type Change = fn(&mut Remains);
    let table: [(Change, &str); 10] = [
        (|it| it.effects.clear(), "is on record and never happened"),
        (|it| it.effects.push("t:4.0".into()), "happened 2 times"),
        (|it| it.effects.push("t:9.0".into()), "its start is not on record"),
        (|it| it.tasks[0].status = "waiting".into(), "did not end"),
        (|it| it.tasks[0].is_blocked = true, "blocked"),
        (|it| it.tasks[0].seq = 3, "the row does not end"),
        (|it| it.tasks[0].key = None, "0 tasks were made"),
        (|it| it.events[3].body = it.events[2].body.clone(), "do not have its hash"),
        (|it| drop(it.events.remove(3)), "a gap"),
        (|it| it.untaken.push((TASK.into(), br#"{"kind":"message"}"#.to_vec())), "never taken"),
    ];
    for (change, rule) in table {
        let mut remains = remains(sound());
        change(&mut remains);
        let broken = found(&remains);
        assert!(broken.iter().any(|said| said.contains(rule)), "{rule}: {broken:?}");
    }
}
