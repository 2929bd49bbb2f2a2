//! Requests and calls of one task: starts and finishes pair, every call of a reply is answered
//! once, nothing is tried more often than the bounds allow, and what is said to have happened
//! did.

use std::collections::BTreeMap;

use plica_kernel::id::CallId;
use plica_kernel::time::Timestamp;
use serde_json::Value;

use super::event::Event;
use super::force::Force;
use super::log::Surroundings;
use super::waits::{Need, Waits, parsed};
use crate::sim::outside::Effect;
use crate::sim::tools::Kind;

/// Bounds of the design, written down once more (MO-3, RC-1, RC-2, RC-7).
const TRIES_MAX: u64 = 9;
const INTERRUPTIONS_MAX: u64 = 3;
const STARTS_MAX: u64 = 3;
const HOLLOW_MAX: u64 = 3;
const SEALS_MAX: u64 = 3;

/// How a call ended of which nobody knows what it did.
const UNKNOWN: &str = "unknown";

/// A start of a call: under which epoch, and what runs.
#[derive(Debug, Clone)]
pub struct Start {
    pub epoch: u64,
    pub args: String,
    /// The version of the tool.
    pub version: String,
}

/// A call that a decision lists.
#[derive(Debug, Clone, Default)]
pub struct Call {
    pub tool: String,
    pub starts: Vec<Start>,
    /// How it was answered.
    pub answer: Option<String>,
    /// What it waits for, if it waits.
    pub wait: Option<Value>,
    /// Whether it is to be started again.
    again: bool,
}

/// What the oracle knows of requests and calls.
#[derive(Debug, Clone, Default)]
pub struct Rounds {
    pub calls: BTreeMap<String, Call>,
    /// Attempts of the plan in force.
    attempts: u64,
    errors: u64,
    /// Requests in a row without any answer.
    interrupted: u64,
    refused_for_good: bool,
    truncated: u64,
    empty: u64,
    starts: u64,
    /// Steps that the task was given, and that its definition gives a root.
    allotted: Option<u64>,
    answers: u64,
    replies: u64,
    decisions: u64,
    /// Attempts in a row that were sealed.
    seals: u64,
    /// Whether the last attempt was sealed.
    sealed: bool,
    /// What was counted in a row when the attempt in progress was planned: interruptions, replies
    /// that were cut, replies that held nothing.
    before_attempt: (u64, u64, u64),
    /// Calls of the last reply, by tool and arguments.
    reply: Vec<(String, String)>,
    pub waits: Waits,
    pub force: Force,
    /// Whether the task has a parent, which gave it its steps.
    is_child: bool,
}

impl Rounds {
    /// Takes an event that is not of the task's own life.
    pub fn push(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        match event.kind.as_str() {
            "ContextPlanComposed" => {
                self.force.composed(event)?;
                self.composed()
            }
            "AgentRevised" => self.revised(event, around),
            "PluginsPinned" => self.force.pinned(event, around.has),
            "LLMRequestStarted" => self.request_started(event),
            "LLMRequestFinished" => self.request_finished(event),
            "DecisionRecorded" => self.decided(event),
            "SubtaskSpawned" => self.spawn_allowed(event),
            "ToolCallStarted" => self.call_started(event, around),
            "ToolCallFinished" => self.call_finished(event, around),
            "ToolCallDenied" => self.call_denied(event),
            "CallResolved" => self.resolved(event),
            "TaskCreated" => self.created(event, around),
            _ => Ok(()),
        }?;
        self.waits.push(event, &mut self.calls, around)
    }

    fn created(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        let plan = around.plan;
        self.force.begin(event, around.contents)?;
        self.allotted = event.payload["budget"]["steps"].as_u64();
        self.is_child = !event.payload["parent"].is_null();
        if !self.is_child && self.allotted != plan.steps_max {
            return Err(format!("the task was to have {:?} steps and has {:?}", plan.steps_max, self.allotted));
        }
        Ok(())
    }

    /// The definition in force changes, or not.
    fn revised(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        let calls = &self.calls;
        let asked = self.waits.to_be_ruled_on();
        let needed = asked.filter_map(|call| calls.get(call)).map(|call| call.tool.as_str());
        if let Some(steps) = self.force.revised(event, around.contents, needed)?
            && !self.is_child
        {
            self.allotted = steps;
        }
        Ok(())
    }

    /// Steps that the task may take: what it was given, and what people granted on top.
    fn cap(&self) -> Option<u64> {
        Some(self.allotted?.saturating_add(self.waits.granted_steps))
    }

    /// Whether something is left of the steps.
    pub fn has_room(&self) -> bool {
        self.cap().is_none_or(|cap| self.spent() < cap)
    }

    fn composed(&mut self) -> Result<(), String> {
        if let Some((call, _)) = self.calls.iter().find(|(_, call)| call.answer.is_none()) {
            return Err(format!("the model is asked again while call {call} has no answer"));
        }
        if !std::mem::take(&mut self.sealed) {
            self.seals = 0;
        }
        self.before_attempt = (self.interrupted, self.truncated, self.empty);
        (self.attempts, self.errors, self.refused_for_good) = (0, 0, false);
        Ok(())
    }

    fn request_started(&mut self, event: &Event) -> Result<(), String> {
        let spent = self.spent();
        self.attempts += 1;
        self.starts += 1;
        self.waits.there_is_room();
        if event.number("attempt") != self.attempts {
            return Err(format!("request {} is attempt {}", event.seq, self.attempts));
        }
        match self.cap() {
            Some(most) if spent >= most => Err(format!("another request after {spent} of a budget of {most}")),
            _ => Ok(()),
        }
    }

    /// Model requests, with what children that ended spent and what is set aside for the others.
    pub fn spent(&self) -> u64 {
        self.starts + self.waits.steps_of_children + self.waits.reserved_steps()
    }

    fn request_finished(&mut self, event: &Event) -> Result<(), String> {
        match event.text("status")? {
            "ok" => {
                self.interrupted = 0;
                self.answers += 1;
            }
            "error" => {
                self.errors += 1;
                let kind = event.payload["error"]["kind"].as_str();
                self.refused_for_good = matches!(kind, Some("invalid" | "auth" | "context_overflow"));
            }
            "interrupted" => self.interrupted += 1,
            "cancelled" => {}
            status => return Err(format!("request status {status}")),
        }
        if self.errors > TRIES_MAX || self.interrupted > INTERRUPTIONS_MAX {
            return Err(format!("{} errors and {} interruptions in a row", self.errors, self.interrupted));
        }
        Ok(())
    }

    /// The model's reply is on record.
    pub fn replied(&mut self, blocks: &Value) -> Result<(), String> {
        self.replies += 1;
        let blocks = blocks.as_array().ok_or("blocks are no list")?;
        let call = |block: &Value| {
            let (tool, args) = (block["tool"].as_str()?, block["args"].as_str()?);
            Some((tool.to_owned(), args.to_owned()))
        };
        self.reply = blocks.iter().filter_map(call).collect();
        Ok(())
    }

    fn decided(&mut self, event: &Event) -> Result<(), String> {
        self.decisions += 1;
        let listed = event.payload["calls"].as_array().ok_or("calls are no list")?;
        let tools: Vec<&str> = listed.iter().filter_map(|call| call["tool"].as_str()).collect();
        if !tools.iter().copied().eq(self.reply.iter().map(|(tool, _)| tool.as_str())) {
            return Err(format!("decision {} lists {tools:?}, the reply calls {:?}", event.seq, self.reply));
        }
        for (index, tool) in tools.iter().enumerate() {
            let wait = Some(listed[index]["wait"].clone()).filter(|wait| !wait.is_null());
            if let Some(wait) = &wait {
                asks_for(wait, &self.reply[index].1, &event.at)?;
            }
            let call = Call { tool: (*tool).to_owned(), wait, ..Call::default() };
            self.calls.insert(format!("{}.{index}", event.seq), call);
        }
        let kind = event.text("kind")?;
        self.truncated = if kind == "truncated" { self.truncated + 1 } else { 0 };
        self.empty = if kind == "empty" { self.empty + 1 } else { 0 };
        if self.truncated > HOLLOW_MAX || self.empty >= HOLLOW_MAX {
            return Err(format!("{} truncated and {} empty replies in a row", self.truncated, self.empty));
        }
        Ok(())
    }

    fn call_started(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        let id = event.text("call")?;
        let args = event.body("args", around.contents)?;
        let CallId { decision, index } = parsed(id)?;
        self.waits.allows(id, decision.0, event.decision, &args)?;
        let call = self.calls.get_mut(id).ok_or_else(|| format!("call {id} is of no decision"))?;
        let asked = self.reply.get(index as usize);
        if asked.is_none_or(|(tool, asked)| *tool != event.payload["tool"] || *asked != args) {
            return Err(format!("call {id} runs {args}, which the reply does not ask for"));
        }
        let attempt = event.number("attempt");
        if attempt != call.starts.len() as u64 + 1 || attempt > STARTS_MAX {
            return Err(format!("call {id} starts for the {}th time as attempt {attempt}", call.starts.len() + 1));
        }
        if attempt > 1 && !(call.again && Kind::named(&call.tool).is_some_and(Kind::is_retry_safe)) {
            return Err(format!("call {id} of {} is run again", call.tool));
        }
        if call.answer.is_some() {
            return Err(format!("call {id} is run after it was answered"));
        }
        let version = self.force.starts(&call.tool, around.has)?;
        call.again = false;
        call.starts.push(Start { epoch: event.epoch, args, version });
        Ok(())
    }

    /// A child is what its call asks for, and allowed by who had to allow it.
    fn spawn_allowed(&self, event: &Event) -> Result<(), String> {
        let id = event.text("call")?;
        let call = parsed(id)?;
        let (_, args) = self.reply.get(call.index as usize).ok_or_else(|| format!("call {id} is of no reply"))?;
        self.waits.allows(id, call.decision.0, event.decision, args)
    }

    fn call_finished(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        let id = event.text("call")?;
        let status = event.text("status")?;
        let call = self.calls.get_mut(id).ok_or_else(|| format!("call {id} is of no decision"))?;
        if event.payload["again"] == true {
            call.again = true;
            return if status == "interrupted" { Ok(()) } else { Err(format!("call {id} is {status} and runs again")) };
        }
        let output = event.body("output", around.contents)?;
        let key = format!("{}:{id}", around.task);
        settled(&call.tool, &key, status, &output, &around.outside.effect(&key))?;
        if status == UNKNOWN {
            self.waits.needs.push(Need::Settlement(parsed(id)?));
        }
        answer(id, call, status)
    }

    /// A person says what became of a call whose outcome is unknown, once. Nobody says that it did not
    /// happen: its worker may have done it since.
    fn resolved(&mut self, event: &Event) -> Result<(), String> {
        let (id, verdict) = (event.text("call")?, event.text("verdict")?);
        let call = self.calls.get_mut(id).ok_or_else(|| format!("call {id} is of no decision"))?;
        match call.answer.as_deref() {
            Some(UNKNOWN) if matches!(verdict, "landed" | "skip") => call.answer = Some(verdict.to_owned()),
            answer => return Err(format!("a person says {verdict} of call {id}, which is {answer:?}")),
        }
        Ok(())
    }

    fn call_denied(&mut self, event: &Event) -> Result<(), String> {
        let id = event.text("call")?;
        let call = self.calls.get_mut(id).ok_or_else(|| format!("call {id} is of no decision"))?;
        if !call.starts.is_empty() {
            return Err(format!("call {id} was started and is denied"));
        }
        answer(id, call, "denied")
    }

    /// A turn failed; there is a reason why it may.
    pub fn failed(&mut self, reason: &str, around: &Surroundings<'_>) -> Result<(), String> {
        let may = match reason {
            "llm_error" => self.errors >= TRIES_MAX || self.refused_for_good || self.interrupted >= INTERRUPTIONS_MAX,
            "llm_truncated" => self.truncated >= HOLLOW_MAX,
            "budget" => self.waits.budget_denied || self.cap().is_some_and(|most| self.spent() >= most),
            "internal_error" => around.plan.calls(Kind::Burst),
            "plugin_missing" => around.lacks,
            _ => false,
        };
        if may { Ok(()) } else { Err(format!("a turn failed with {reason} for no reason")) }
    }

    /// An attempt was sealed as its agent chooses, or because it could not be redriven (RC-3).
    pub fn broken_off(&mut self, verdict: &str) -> Result<(), String> {
        (self.seals, self.sealed) = (self.seals + 1, true);
        if verdict != "redrive" {
            return Ok(());
        }
        let decision = self.calls.keys().filter_map(|id| parsed(id).ok()).map(|id| id.decision).max();
        let of_it = |id: &str| parsed(id).is_ok_and(|id| Some(id.decision) == decision);
        let asked = self.waits.was_asked_or_spawned(&of_it);
        let chosen = &self.force.now.on_crash;
        if chosen != "redrive" || asked || self.seals >= SEALS_MAX {
            return Err(format!("an attempt is redriven, {chosen:?} after {} seals, asked: {asked}", self.seals));
        }
        Ok(())
    }

    /// What is left behind by an attempt that is run again never happened.
    pub fn run_again(&mut self) {
        (self.interrupted, self.truncated, self.empty) = self.before_attempt;
    }

    /// A fork has no calls of its own yet, and nobody to hear from.
    pub fn branch(&mut self) {
        self.calls.clear();
        self.waits = Waits {
            granted_steps: self.waits.granted_steps,
            steps_of_children: self.waits.steps_of_children,
            ..Waits::default()
        };
        self.went_back();
    }

    /// The task went back, and with it what was in a row.
    pub fn went_back(&mut self) {
        (self.seals, self.sealed) = (0, false);
    }

    /// Whatever of the turn was in progress is over.
    pub fn turn_ended(&mut self) {
        for call in self.calls.values_mut().filter(|call| call.answer.is_none()) {
            call.answer = Some("not run".into());
        }
        self.waits.lapse();
        (self.interrupted, self.truncated, self.empty) = (0, 0, 0);
    }

    /// An answer of the model, its message and the decision on it are one append.
    pub fn append_ends(&self) -> Result<(), String> {
        if self.answers == self.replies && self.replies == self.decisions {
            return Ok(());
        }
        Err(format!("{} answers, {} replies and {} decisions", self.answers, self.replies, self.decisions))
    }
}

/// A wait is for what the model asked to wait for; its time counts from the decision (WA-6).
fn asks_for(wait: &Value, args: &str, decided: &str) -> Result<(), String> {
    let args: Value = serde_json::from_str(args).map_err(|error| error.to_string())?;
    let due = match args["seconds"].as_u64() {
        Some(seconds) => {
            let decided = Timestamp::parse(decided).ok_or("a decision at no time")?;
            Value::from(decided.plus_millis(seconds * 1000).to_string())
        }
        None => Value::Null,
    };
    if wait["event"] == args["event"] && wait["due"] == due {
        return Ok(());
    }
    Err(format!("a call to wait for {args}, decided at {decided}, waits for {wait}"))
}

/// A call gets one answer.
pub fn answer(id: &str, call: &mut Call, how: &str) -> Result<(), String> {
    match call.answer.replace(how.to_owned()) {
        None => Ok(()),
        Some(before) => Err(format!("call {id} is answered {how} after {before}")),
    }
}

/// What the log says of a call against what it did outside.
fn settled(tool: &str, key: &str, status: &str, output: &str, effect: &Effect) -> Result<(), String> {
    let Some(kind) = Kind::named(tool) else { return Err(format!("call of unknown tool {tool} ended")) };
    let did = match status {
        "ok" => effect.done > 0 && (effect.landed == 1 || !kind.lands()) && output.contains(key),
        // Found by the tool, or handed in by the holder that ran it and had lost its claim.
        "recovered" if kind == Kind::Fail => effect.landed == 0,
        "recovered" if kind == Kind::Mail || effect.done > 0 => {
            (effect.landed == 1 || !kind.lands()) && output.contains(key)
        }
        "error" => kind == Kind::Fail && effect.landed == 0,
        "unknown" | "interrupted" | "cancelled" => effect.landed <= 1,
        _ => false,
    };
    if did { Ok(()) } else { Err(format!("{tool} {key} is {status} ({output:.60}), outside it is {effect:?}")) }
}
