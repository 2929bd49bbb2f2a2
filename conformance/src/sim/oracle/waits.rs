//! Calls that people, children, events or the time answer: each is asked about once, answered
//! once, and by the one that it waits for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::event::Event;
use super::log::Surroundings;
use super::rounds::{Call, answer};

/// Something that someone outside has to do before the task goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Answer a question of this call.
    Answer(String),
    /// Rule on this call.
    Verdict(String),
    /// Let an event of this kind happen.
    Event(String),
}

/// A call that a person rules on.
#[derive(Debug, Clone)]
pub struct Approval {
    digest: String,
    args: String,
    /// The verdict, and the event that records it.
    ruled: Option<(String, u64)>,
}

/// A child.
#[derive(Debug, Clone)]
pub struct Child {
    pub id: String,
    call: String,
    any: bool,
}

/// A child's end, as its parent's log tells it.
#[derive(Debug, Clone)]
pub struct ChildEnd {
    pub child: String,
    pub status: String,
    pub answer: Value,
    /// Whether the parent itself said so.
    pub by_parent: bool,
}

/// What the oracle knows of the waits of one task.
#[derive(Debug, Default)]
pub struct Waits {
    approvals: BTreeMap<String, Approval>,
    questions: BTreeMap<String, bool>,
    children: BTreeMap<u64, Child>,
    /// Model requests of children that ended.
    pub steps_of_children: u64,
    /// News for the world outside.
    pub needs: Vec<Need>,
    pub born: Vec<(String, String)>,
    pub ended: Vec<ChildEnd>,
}

type Calls = BTreeMap<String, Call>;

fn call_of<'a>(event: &Event, calls: &'a mut Calls) -> Result<(&'a String, &'a mut Call), String> {
    let id = event.text("call")?;
    let mut found = calls.range_mut(id.to_owned()..=id.to_owned());
    found.next().ok_or_else(|| format!("call {id} is of no decision"))
}

impl Waits {
    /// Takes an event that is about waiting; others change nothing.
    pub fn push(&mut self, event: &Event, calls: &mut Calls, around: &Surroundings<'_>) -> Result<(), String> {
        match event.kind.as_str() {
            "DecisionRecorded" => {
                let listed = event.payload["calls"].as_array().into_iter().flatten();
                let kinds = listed.filter_map(|call| call["wait"]["event"].as_str());
                self.needs.extend(kinds.map(|kind| Need::Event(kind.to_owned())));
                Ok(())
            }
            "ApprovalRequested" => self.approval_requested(event, calls, around),
            "ApprovalResolved" => self.approval_resolved(event),
            "QuestionAsked" => {
                let (id, _) = call_of(event, calls)?;
                self.needs.push(Need::Answer(id.clone()));
                match self.questions.insert(id.clone(), false) {
                    None => Ok(()),
                    Some(_) => Err(format!("call {id} asks twice")),
                }
            }
            "QuestionAnswered" => self.question_answered(event, calls, around),
            "SubtaskSpawned" => self.spawned(event, calls, around),
            "SubtaskCompleted" => self.completed(event, calls),
            "TaskStatePatched" if !event.payload["call"].is_null() => {
                let (id, call) = call_of(event, calls)?;
                answer(id, call, "done")
            }
            "TaskWoken" => woken(event, calls),
            _ => Ok(()),
        }
    }

    fn approval_requested(
        &mut self,
        event: &Event,
        calls: &mut Calls,
        around: &Surroundings<'_>,
    ) -> Result<(), String> {
        let (id, call) = call_of(event, calls)?;
        if !call.starts.is_empty() || call.answer.is_some() {
            return Err(format!("call {id} is asked about after it was begun"));
        }
        let approval = Approval {
            digest: event.text("digest")?.to_owned(),
            args: event.body("args", around.contents)?,
            ruled: None,
        };
        self.needs.push(Need::Verdict(id.clone()));
        match self.approvals.insert(id.clone(), approval) {
            None => Ok(()),
            Some(_) => Err(format!("call {id} is asked about twice")),
        }
    }

    fn approval_resolved(&mut self, event: &Event) -> Result<(), String> {
        let id = event.text("call")?;
        let approval = self.approvals.get_mut(id).ok_or_else(|| format!("nobody asked about call {id}"))?;
        if approval.digest != event.text("digest")? {
            return Err(format!("what was ruled on is not call {id}"));
        }
        match approval.ruled.replace((event.text("verdict")?.to_owned(), event.seq)) {
            None => Ok(()),
            Some(before) => Err(format!("call {id} is ruled on after {before:?}")),
        }
    }

    /// Whether the decision that a start cites allows it: the ruling, if someone was asked.
    pub fn allows(&self, id: &str, decision: u64, cited: Option<u64>, args: &str) -> Result<(), String> {
        let allowed = match self.approvals.get(id) {
            None => Some(decision),
            Some(Approval { ruled: Some((verdict, seq)), args: asked, .. })
                if verdict == "approve" && asked == args =>
            {
                Some(*seq)
            }
            Some(_) => None,
        };
        match cited {
            Some(cited) if allowed == Some(cited) => Ok(()),
            _ => Err(format!("call {id} runs under decision {cited:?}, it is allowed by {allowed:?}")),
        }
    }

    fn question_answered(&mut self, event: &Event, calls: &mut Calls, around: &Surroundings<'_>) -> Result<(), String> {
        let (id, call) = call_of(event, calls)?;
        match self.questions.get_mut(id) {
            Some(answered) if !*answered => *answered = true,
            _ => return Err(format!("call {id} has no pending question")),
        }
        let told = event.body("answer", around.contents)?;
        if told != answer_text(around.task, id) {
            return Err(format!("call {id} is told {told:?}, which nobody answered"));
        }
        answer(id, call, "answered")
    }

    fn spawned(&mut self, event: &Event, calls: &mut Calls, around: &Surroundings<'_>) -> Result<(), String> {
        let (id, call) = call_of(event, calls)?;
        let child = event.text("child")?.to_owned();
        self.born.push((child.clone(), event.body("goal", around.contents)?));
        if event.payload["background"] == true {
            answer(id, call, "started in the background")?;
        }
        let any = event.payload["any"] == true;
        self.children.insert(event.seq, Child { id: child, call: id.clone(), any });
        Ok(())
    }

    fn completed(&mut self, event: &Event, calls: &mut Calls) -> Result<(), String> {
        let child = event.action.and_then(|action| self.children.get(&action)).cloned();
        let child = child.ok_or("a child ended that was never spawned")?;
        if event.text("child")? != child.id || event.text("call")? != child.call {
            return Err(format!("the end of {} names another child", child.id));
        }
        self.steps_of_children += event.payload["spent"]["steps"].as_u64().unwrap_or(0);
        self.ended.push(ChildEnd {
            child: child.id.clone(),
            status: event.text("status")?.to_owned(),
            answer: event.payload["answer"].clone(),
            by_parent: event.actor == "engine",
        });
        let Some(call) = calls.get_mut(&child.call) else { return Ok(()) };
        if call.answer.is_none() {
            answer(&child.call, call, "the child's")?;
        }
        if child.any {
            // The first result of a group is enough for all of its calls.
            let group =
                self.children.values().filter(|other| other.any && round_of(&other.call) == round_of(&child.call));
            for call in group.map(|other| other.call.clone()).collect::<Vec<_>>() {
                if let Some(call) = calls.get_mut(&call) {
                    call.answer.get_or_insert_with(|| "still running".into());
                }
            }
        }
        Ok(())
    }
}

fn round_of(call: &str) -> Option<&str> {
    call.split_once('.').map(|(decision, _)| decision)
}

/// What wakes a task answers the waits for it.
fn woken(event: &Event, calls: &mut Calls) -> Result<(), String> {
    let item = &event.payload["item"];
    let event_kind = item["key"].as_str().and_then(|key| key.strip_prefix("event:"));
    for (id, call) in calls.iter_mut().filter(|(_, call)| call.answer.is_none()) {
        let Some(wait) = &call.wait else { continue };
        let came = event_kind.is_some() && wait["event"].as_str() == event_kind;
        let due = match (wait["due"].as_str(), item["due"].as_str()) {
            (Some(mine), Some(due)) => mine <= due,
            _ => false,
        };
        if came || due {
            answer(id, call, "woken")?;
        }
    }
    match item["due"].as_str() {
        Some(due) if event.at.as_str() < due => Err(format!("a timer due at {due} fired at {}", event.at)),
        _ => Ok(()),
    }
}

/// What a person answers to a question.
pub fn answer_text(task: &str, call: &str) -> String {
    format!("the answer to {call} of {task}")
}
