//! Batches that say something else than what was decided.

use plica_kernel::body::Body;
use plica_kernel::canonical::{Domain, Hash};
use plica_kernel::id::{DedupKey, Seq};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_ports::store::Batch;
use serde_json::{Value, json};

use super::PlantedBug;

/// How much too early an early timer is set.
const EARLY_MS: i64 = 5_000;

/// The batch as if it continued another head.
pub(super) fn rebased(batch: &Batch, (after, after_hash): (Seq, Hash)) -> Batch {
    let mut batch = batch.clone();
    let (former, shift) = (batch.after.0, after.0 - batch.after.0);
    (batch.after, batch.after_hash) = (after, after_hash);
    rechain(&mut batch, |body| {
        for name in ["seq", "parent", "decision", "action"] {
            if let Some(seq) = body[name].as_u64().filter(|seq| *seq > former) {
                body[name] = Value::from(seq + shift);
            }
        }
    });
    batch
}

/// Edits every event, and makes a chain of them again.
fn rechain(batch: &mut Batch, mut edit: impl FnMut(&mut Value)) {
    let mut prev = batch.after_hash;
    for (seq, event) in (batch.after.0 + 1..).zip(&mut batch.events) {
        let mut body: Value = serde_json::from_slice(&event.body).unwrap_or_default();
        edit(&mut body);
        body["prev"] = Value::from(prev.to_string());
        event.seq = Seq(seq);
        event.body = body.to_string().into_bytes();
        event.hash = Domain::Event.hash(&event.body);
        prev = event.hash;
    }
    (batch.row.seq, batch.row.hash) = (Seq(batch.after.0 + batch.events.len() as u64), prev);
}

/// What a bug does to the news that an append sends to other tasks.
pub(super) fn deliveries(bug: PlantedBug, batch: &mut Batch) {
    for sent in &mut batch.deliveries {
        let Item::Child { answer, spent, .. } = &mut sent.item else { continue };
        match bug {
            PlantedBug::ChildsAnswersMixedUp => *answer = Body::Inline("what another child said".into()),
            PlantedBug::SpendingForgotten => spent.steps = 0,
            _ => {}
        }
    }
    if bug == PlantedBug::BackgroundToldTwice {
        let told = batch.deliveries.iter().filter(|sent| matches!(sent.item, Item::Child { background: true, .. }));
        let again = told.cloned().map(|mut sent| {
            sent.dedup = DedupKey::new(format!("{}-again", sent.dedup)).unwrap_or(sent.dedup);
            sent
        });
        let again: Vec<_> = again.collect();
        batch.deliveries.extend(again);
    }
}

/// What a bug does to the events of an append; `remembered` is what it remembers of the task: the
/// last ruling that let a call run, or the last job that the model was told of.
pub(super) fn events(bug: PlantedBug, batch: &mut Batch, remembered: &mut u64) {
    match bug {
        PlantedBug::NeedCountedTwice => {
            batch.row.wake.any.iter_mut().for_each(|one| one.need = one.need.div_ceil(2));
            rechain(batch, halve_needs);
        }
        PlantedBug::TimerEarly => {
            batch.row.wake.at = batch.row.wake.at.map(earlier);
            rechain(batch, |body| {
                if let Some(at) = body.pointer_mut("/payload/wake/at") {
                    let time = at.as_str().and_then(Timestamp::parse);
                    *at = time.map_or(Value::Null, |time| Value::from(earlier(time).to_string()));
                }
            });
        }
        PlantedBug::ApprovalReused => rechain(batch, |body| reuse_approval(body, remembered)),
        PlantedBug::JobLossForgotten => rechain(batch, forget_loss),
        PlantedBug::JobToldTwice => rechain(batch, |body| tell_twice(body, remembered)),
        PlantedBug::DigestUnbound => rechain(batch, |body| {
            if let Some(digest) = body["payload"]["digest"].as_str() {
                body["payload"]["digest"] = Value::from(digest.chars().rev().collect::<String>());
            }
        }),
        PlantedBug::RewoundTooFar => rechain(batch, |body| {
            if let Some(to) = body["payload"]["to_seq"].as_u64() {
                body["payload"]["to_seq"] = Value::from(to - 1);
            }
        }),
        PlantedBug::ParkedIsRedriven => rechain(batch, |body| {
            if body["payload"]["verdict"] == "park" {
                body["payload"]["verdict"] = Value::from("redrive");
            }
        }),
        PlantedBug::RevisionRefused => rechain(batch, |body| {
            if body["type"] == "AgentRevised" {
                body["payload"]["refused"] = Value::from("not now");
            }
        }),
        PlantedBug::PlaceTooFar => rechain(batch, |body| {
            if body["payload"]["kind"] == "delivered_through" {
                let place = body["payload"]["body"].as_str().and_then(|place| serde_json::from_str(place).ok());
                let mut place: Value = place.unwrap_or_default();
                place["seq"] = Value::from(place["seq"].as_u64().unwrap_or(0) + 1);
                body["payload"]["body"] = Value::from(place.to_string());
            }
        }),
        PlantedBug::QuestionAnsweredTwice => rechain(batch, |body| {
            if body["type"] == "LateResultRecorded" && body["payload"]["status"].is_null() {
                body["type"] = Value::from("QuestionAnswered");
                let payload = &body["payload"];
                body["payload"] = json!({"answer": payload["output"], "call": payload["call"]});
            }
        }),
        _ => {}
    }
}

fn earlier(time: Timestamp) -> Timestamp {
    Timestamp::from_micros(time.micros() - EARLY_MS * 1000)
}

fn halve_needs(body: &mut Value) {
    for one in body.pointer_mut("/payload/wake/any").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(need) = one["need"].as_u64() {
            one["need"] = Value::from(need.div_ceil(2));
        }
    }
}

/// Takes a timer away that has gone off when its task begins to wait.
pub(super) fn row_not_due(batch: &mut Batch) {
    let last = batch.events.last().and_then(|event| serde_json::from_slice::<Value>(&event.body).ok());
    let now = last.and_then(|last| last["at"].as_str().and_then(Timestamp::parse));
    batch.row.wake.at = batch.row.wake.at.filter(|at| now.is_none_or(|now| *at > now));
}

fn forget_loss(body: &mut Value) {
    if body["payload"]["how"] == "lost"
        && let Some(members) = body.as_object_mut()
    {
        members.retain(|name, _| name != "action" && name != "parent");
        body["type"] = Value::from("ExtensionRecorded");
        body["payload"] = json!({"body": "", "kind": "lost", "plugin": "sim"});
    }
}

fn tell_twice(body: &mut Value, told: &mut u64) {
    if body["type"] != "MessagesAppended" {
        return;
    }
    match body["payload"]["jobs"][0].as_u64() {
        Some(job) => *told = job,
        None if *told > 0 => body["payload"]["jobs"] = json!([*told]),
        None => {}
    }
}

fn reuse_approval(body: &mut Value, approved: &mut u64) {
    let kind = body["type"].clone();
    if kind == "ApprovalResolved" && body["payload"]["verdict"] == "approve" {
        *approved = body["seq"].as_u64().unwrap_or(0);
    } else if kind == "ToolCallStarted" && *approved > 0 {
        (body["parent"], body["decision"]) = (Value::from(*approved), Value::from(*approved));
    }
}
