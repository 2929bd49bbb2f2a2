//! Calls that people, children, events or the time answer: each is asked about once, answered
//! once, and by the one that it waits for.

use std::collections::BTreeMap;

use plica_kernel::id::{CallId, TaskId};
use serde_json::Value;

use super::event::{Event, sha256};
use super::log::Surroundings;
use super::rounds::{Call, answer};

/// Something that someone outside has to do before the task goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Answer a question of this call.
    Answer(CallId),
    /// Rule on this call.
    Verdict(CallId),
    /// Say what became of this call, whose outcome is unknown.
    Settlement(CallId),
    /// Let an event of this kind happen, which this call waits for.
    Event(CallId, String),
    /// Say something, so that the turn goes on that was stopped at this event.
    Word(u64),
    /// Send this new child what it is to be sent.
    Company(TaskId),
}

/// A call that a person rules on.
#[derive(Debug, Clone)]
pub struct Approval {
    digest: String,
    args: String,
    pub expires: Option<String>,
    /// The verdict, and the event that records it.
    pub ruled: Option<(String, u64)>,
}

/// A child.
#[derive(Debug, Clone)]
pub struct Child {
    id: String,
    pub call: String,
    pub any: bool,
    /// Whether nothing waits for it, from the start or since another of its group ended.
    pub background: bool,
    pub ended: bool,
    /// Steps that were set aside for it.
    steps: u64,
    /// Whether it has said what it spent.
    settled: bool,
}

/// A child's end, as its parent's log tells it.
#[derive(Debug, Clone)]
pub struct ChildEnd {
    pub child: String,
    pub status: String,
    pub answer: Value,
    pub steps: u64,
    /// Whether the parent itself said so.
    pub by_parent: bool,
}

/// What the oracle knows of the waits of one task.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    pub approvals: BTreeMap<String, Approval>,
    /// Questions of the turn, and whether they are answered.
    pub questions: BTreeMap<String, bool>,
    /// Approvals of more budget: the steps they would grant, and whether they are ruled on.
    pub budgets: BTreeMap<String, (u64, bool)>,
    /// Steps that people granted.
    pub granted_steps: u64,
    /// Whether the last time somebody refused to grant any.
    pub budget_denied: bool,
    pub children: BTreeMap<u64, Child>,
    /// Model requests of children that ended.
    pub steps_of_children: u64,
    /// News for the world outside.
    pub needs: Vec<Need>,
    pub born: Vec<(TaskId, String)>,
    pub ended: Vec<ChildEnd>,
}

pub type Calls = BTreeMap<String, Call>;

/// A call id, read.
pub fn parsed(call: &str) -> Result<CallId, String> {
    call.parse().map_err(|_| format!("{call:?} is no call"))
}

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
                for (index, call) in listed.enumerate() {
                    if let Some(kind) = call["wait"]["event"].as_str() {
                        let call = parsed(&format!("{}.{index}", event.seq))?;
                        self.needs.push(Need::Event(call, kind.to_owned()));
                    }
                }
                Ok(())
            }
            "ApprovalRequested" if event.payload["subject"] == "budget" => self.budget_requested(event, around),
            "ApprovalResolved" if self.budgets.contains_key(event.text("call")?) => self.budget_resolved(event),
            "ApprovalRequested" => self.approval_requested(event, calls, around),
            "ApprovalResolved" => self.approval_resolved(event),
            "QuestionAsked" => {
                let (id, _) = call_of(event, calls)?;
                self.needs.push(Need::Answer(parsed(id)?));
                match self.questions.insert(id.clone(), false) {
                    None => Ok(()),
                    Some(_) => Err(format!("call {id} asks twice")),
                }
            }
            "QuestionAnswered" => self.question_answered(event, calls),
            "SubtaskSpawned" => self.spawned(event, calls, around),
            "SubtaskCompleted" => self.completed(event, calls),
            "TaskStatePatched" if !event.payload["call"].is_null() => {
                let (id, call) = call_of(event, calls)?;
                answer(id, call, "done")
            }
            "LateResultRecorded" => {
                self.settled(event);
                Ok(())
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
            expires: event.payload["expires"].as_str().map(str::to_owned),
            ruled: None,
        };
        let exact = digest(around.task, id, event.text("tool")?, &approval.args);
        if approval.digest != exact || event.payload["tool"] != call.tool.as_str() {
            return Err(format!("a person is asked about {}, call {id} is {exact}", approval.digest));
        }
        self.needs.push(Need::Verdict(parsed(id)?));
        match self.approvals.insert(id.clone(), approval) {
            None => Ok(()),
            Some(_) => Err(format!("call {id} is asked about twice")),
        }
    }

    fn budget_requested(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        let id = event.text("call")?;
        if id != format!("{}.0", event.seq) || self.budgets.values().any(|(_, ruled)| !ruled) {
            return Err(format!("more budget is asked for as {id}"));
        }
        let grants = event.body("args", around.contents)?;
        let grants: Value = serde_json::from_str(&grants).map_err(|error| error.to_string())?;
        let steps = grants["steps"].as_u64().unwrap_or(0);
        self.needs.push(Need::Verdict(parsed(id)?));
        self.budgets.insert(id.to_owned(), (steps, false));
        Ok(())
    }

    fn budget_resolved(&mut self, event: &Event) -> Result<(), String> {
        let id = event.text("call")?;
        let Some((steps, ruled)) = self.budgets.get_mut(id) else { return Err(format!("nobody asked for {id}")) };
        if core::mem::replace(ruled, true) {
            return Err(format!("the budget of {id} is ruled on twice"));
        }
        let granted = event.text("verdict")? == "approve";
        self.budget_denied = !granted;
        self.granted_steps += if granted { *steps } else { 0 };
        Ok(())
    }

    /// A request starts: what was asked of the budget needs no answer any more.
    pub fn there_is_room(&mut self) {
        self.budgets.values_mut().for_each(|(_, ruled)| *ruled = true);
    }

    /// Steps that are set aside for children that have not said what they spent.
    pub fn reserved_steps(&self) -> u64 {
        self.children.values().filter(|child| !child.settled).map(|child| child.steps).sum()
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

    fn question_answered(&mut self, event: &Event, calls: &mut Calls) -> Result<(), String> {
        let (id, call) = call_of(event, calls)?;
        match self.questions.get_mut(id) {
            Some(answered) if !*answered => *answered = true,
            _ => return Err(format!("call {id} has no pending question")),
        }
        answer(id, call, "answered")
    }

    fn spawned(&mut self, event: &Event, calls: &mut Calls, around: &Surroundings<'_>) -> Result<(), String> {
        let (id, call) = call_of(event, calls)?;
        let child = TaskId::new(event.text("child")?).map_err(|error| error.to_string())?;
        if child.as_str() != format!("{}.{id}.1", around.task) {
            return Err(format!("the child of call {id} is called {child}"));
        }
        self.needs.push(Need::Company(child.clone()));
        self.born.push((child.clone(), event.body("goal", around.contents)?));
        let background = event.payload["background"] == true;
        if background {
            answer(id, call, "started in the background")?;
        }
        let any = event.payload["any"] == true;
        let steps = event.payload["budget"]["steps"].as_u64().unwrap_or(0);
        let child =
            Child { id: child.to_string(), call: id.clone(), any, background, ended: false, steps, settled: false };
        self.children.insert(event.seq, child);
        Ok(())
    }

    fn completed(&mut self, event: &Event, calls: &mut Calls) -> Result<(), String> {
        let child = event.action.and_then(|action| self.children.get_mut(&action));
        let child = child.ok_or("a child ended that was never spawned")?;
        if event.text("child")? != child.id || event.text("call")? != child.call {
            return Err(format!("the end of {} names another child", child.id));
        }
        child.ended = true;
        child.settled = event.payload["unsettled"] != true;
        let child = child.clone();
        let steps = event.payload["spent"]["steps"].as_u64().unwrap_or(0);
        self.steps_of_children += steps;
        self.ended.push(ChildEnd {
            child: child.id.clone(),
            status: event.text("status")?.to_owned(),
            answer: event.payload["answer"].clone(),
            steps,
            by_parent: event.actor == "engine",
        });
        if let Some(call) = calls.get_mut(&child.call)
            && call.answer.is_none()
        {
            answer(&child.call, call, "the child's")?;
        }
        if child.any {
            self.leave_to_themselves(&child, calls);
        }
        Ok(())
    }

    /// The first result of a group is enough for all of its calls.
    fn leave_to_themselves(&mut self, ended: &Child, calls: &mut Calls) {
        let round = round_of(&ended.call);
        for child in self.children.values_mut().filter(|child| child.any && round_of(&child.call) == round) {
            child.background = true;
            if let Some(call) = calls.get_mut(&child.call) {
                call.answer.get_or_insert_with(|| "still running".into());
            }
        }
    }

    /// Whether a ruling on a call that came at this time came before the approval expired.
    pub fn is_in_time(&self, call: &str, at: &str) -> bool {
        let expires = self.approvals.get(call).and_then(|approval| approval.expires.as_deref());
        expires.is_none_or(|expires| at <= expires)
    }

    /// Calls that people have yet to rule on.
    pub fn to_be_ruled_on(&self) -> impl Iterator<Item = &str> {
        self.approvals.iter().filter(|(_, approval)| approval.ruled.is_none()).map(|(call, _)| call.as_str())
    }

    /// Whether a person was asked about a call of these, or one of them spawned a child.
    pub fn was_asked_or_spawned(&self, of_it: &dyn Fn(&str) -> bool) -> bool {
        self.approvals.keys().any(|call| of_it(call)) || self.children.values().any(|child| of_it(&child.call))
    }

    /// Nothing that was asked of people outlives a turn.
    pub fn lapse(&mut self) {
        self.questions.clear();
        self.budgets.values_mut().for_each(|(_, ruled)| *ruled = true);
        self.approvals.retain(|_, approval| approval.ruled.is_some());
    }

    /// A child that was told to stop says what it had spent.
    fn settled(&mut self, event: &Event) {
        let (Some(steps), Some(call)) = (event.payload["spent"]["steps"].as_u64(), event.payload["call"].as_str())
        else {
            return;
        };
        if let Some(child) = self.children.values_mut().find(|child| child.call == call && !child.settled) {
            child.settled = true;
            self.steps_of_children += steps;
        }
    }
}

/// The digest that binds an approval to the exact call (EN-3).
fn digest(task: &str, call: &str, tool: &str, args: &str) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let exact = format!(
        "{{\"args\":{},\"call\":{},\"task\":{},\"tool\":{}}}",
        quoted(args),
        quoted(call),
        quoted(task),
        quoted(tool)
    );
    sha256(&[b"plica/call/v1\n", exact.as_bytes()])
}

pub fn round_of(call: &str) -> Option<&str> {
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
