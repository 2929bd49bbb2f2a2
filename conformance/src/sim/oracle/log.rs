//! One task's log, event by event: chain, cause and effect, the order of a step, bounds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::event::{Contents, Event, Part, genesis, goes_on, text_of};
use super::inbox::{Inbox, key_of, steers};
use super::jobs::Jobs;
use super::rounds::Rounds;
use super::waits::Need;
use super::wake::Wake;
use crate::sim::agents::Plan;
use crate::sim::equipment::Equipment;
use crate::sim::outside::Outside;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    #[default]
    Unborn,
    Ready,
    Running,
    Waiting,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    /// Whether the task is over.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What the oracle knows of a log.
#[derive(Debug, Clone, Default)]
pub struct Log {
    pub seq: u64,
    pub hash: String,
    pub status: Status,
    ledger: String,
    pub at: String,
    epoch: u64,
    pub run: String,
    /// Events that the append in progress still lacks.
    owed: u64,
    decisions: BTreeSet<u64>,
    /// Actions without an outcome.
    open: BTreeMap<u64, String>,
    /// Positions that `TaskWoken` events name.
    woken_by: BTreeSet<u64>,
    pub rounds: Rounds,
    pub jobs: Jobs,
    /// The answer that the task ended with.
    pub answer: Option<Value>,
    /// Whether a message, and nothing but people, can make it go on.
    pub waits_for_message: bool,
    /// Whether it waits because a turn was broken off, which nothing but people carry on.
    is_broken_off: bool,
    /// What wakes the task.
    pub wake: Wake,
    pub reopened: bool,
    /// Whether no turn is under way: where a rewind may land and a fork branch off.
    pub rests_between_turns: bool,
    /// Events of the append that is not acknowledged yet.
    pub recent: Vec<Event>,
}

/// What an event is judged by besides its log.
pub struct Surroundings<'a> {
    pub task: &'a str,
    pub ledger: &'a str,
    pub plan: &'a Plan,
    pub contents: &'a Contents,
    pub outside: &'a Outside,
    /// What the process has that holds the task.
    pub has: Option<&'a Equipment>,
    /// Whether that process lacks a plugin, and has for the third time in vain.
    pub lacks: bool,
}

impl Log {
    /// Takes the next event of the log.
    pub fn push(&mut self, event: &Event, inbox: &mut Inbox, around: &Surroundings<'_>) -> Result<(), String> {
        self.chain(event, around)?;
        self.links(event)?;
        self.place(event)?;
        self.seq = event.seq;
        self.hash.clone_from(&event.hash);
        self.at.clone_from(&event.at);
        self.recent.push(event.clone());
        self.turns(event);
        let append = self.recent.first().map_or(event.seq, |first| first.seq);
        self.jobs.push(event, append, around)?;
        match event.kind.as_str() {
            "MessagesAppended" => self.messages(event, inbox, around),
            "TaskWoken" => {
                self.woken(event, inbox)?;
                self.rounds.push(event, around)
            }
            "TaskCompleted" => {
                self.answer = Some(event.payload["answer"].clone());
                Ok(())
            }
            "TaskSnapshot" if event.number("through") + 1 != event.seq => Err("a snapshot is of another state".into()),
            "AgentRevised" if self.works() => Err(format!("the definition changes while {:?} are open", self.open)),
            "TaskFailed" => self.rounds.failed(event.text("reason")?, around),
            "TaskSuspended" => match event.payload["failure"]["reason"].as_str() {
                Some(reason) => self.rounds.failed(reason, around),
                None => Ok(()),
            },
            _ => self.rounds.push(event, around),
        }?;
        match event.kind.as_str() {
            "TaskSuspended" => self.suspended(event),
            "TaskRewound" | "StepAttemptAbandoned" => self.sealed(event),
            "TurnInterrupted" => {
                self.rounds.turn_ended();
                self.rounds.waits.needs.push(Need::Word(event.seq));
                Ok(())
            }
            "ConversationReopened" => {
                self.reopened = true;
                Ok(())
            }
            _ => {
                if event.ends() {
                    self.rounds.turn_ended();
                }
                Ok(())
            }
        }
    }

    /// A fork takes over what its source was at this place, but for what was pending there.
    pub fn branch(&self) -> Self {
        let mut branch = Self { rounds: self.rounds.clone(), rests_between_turns: true, ..Self::default() };
        branch.rounds.turn_ended();
        branch.rounds.branch();
        branch
    }

    /// What is left behind by a rewind, or by an attempt that a crash broke, is over.
    fn sealed(&mut self, event: &Event) -> Result<(), String> {
        if event.kind == "TaskRewound" {
            self.wake = Wake { keys: [("message".to_owned(), 1)].into(), at: None };
            (self.reopened, self.waits_for_message, self.is_broken_off) = (true, true, false);
            self.rounds.went_back();
        } else {
            self.rounds.broken_off(event.text("verdict")?)?;
            if event.payload["verdict"] == "park" {
                self.rounds.waits.needs.push(Need::Word(event.seq));
            }
        }
        self.rounds.turn_ended();
        if event.payload["verdict"] == "redrive" {
            self.rounds.run_again();
        }
        match self.open.iter().find(|(_, kind)| event.kind == "TaskRewound" || *kind != "SubtaskSpawned") {
            Some((seq, kind)) => Err(format!("{} {} leaves {kind} {seq} open", event.kind, event.seq)),
            None => Ok(()),
        }
    }

    /// Whether something is under way that a definition is used for.
    fn works(&self) -> bool {
        self.open.values().any(|kind| !goes_on(kind))
    }

    /// Whether a turn is under way after this event (SN-5).
    fn turns(&mut self, event: &Event) {
        match event.kind.as_str() {
            // What lies there when a task that waits is cancelled is kept and opens no turn.
            "MessagesAppended" if self.status != Status::Waiting && !self.tells_of_a_seal() => {
                self.rests_between_turns = false;
            }
            "TaskSuspended" => self.rests_between_turns = !in_the_middle(&event.payload["reason"]),
            "TaskRewound" | "TaskForked" | "TurnInterrupted" => self.rests_between_turns = true,
            "StepAttemptAbandoned" => self.rests_between_turns = event.payload["verdict"] == "park",
            _ if event.ends() => self.rests_between_turns = true,
            _ => {}
        }
    }

    /// Whether the last event says what became of an attempt that the one before it parked.
    fn tells_of_a_seal(&self) -> bool {
        let before = self.recent.iter().rev().nth(1);
        before.is_some_and(|before| before.kind == "StepAttemptAbandoned" && before.payload["verdict"] == "park")
    }

    fn chain(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        if event.seq != self.seq + 1 {
            return Err(format!("event {} follows event {}", event.seq, self.seq));
        }
        if self.seq == 0 {
            self.hash = genesis(around.ledger, around.task);
            self.ledger = around.ledger.to_owned();
        }
        if event.prev != self.hash {
            return Err(format!("event {} does not name the hash of the event before it", event.seq));
        }
        if event.at < self.at {
            return Err(format!("event {} is recorded at {}, before {}", event.seq, event.at, self.at));
        }
        if event.epoch < self.epoch {
            return Err(format!("event {} goes back from epoch {} to {}", event.seq, self.epoch, event.epoch));
        }
        if self.owed > 0 && (event.more + 1 != self.owed || event.epoch != self.epoch || event.run != self.run) {
            return Err(format!("event {} breaks into an append that lacks {} events", event.seq, self.owed));
        }
        if self.seq > 0 && event.epoch == self.epoch && event.run != self.run {
            return Err(format!("epoch {} has two holders: {} and {}", event.epoch, self.run, event.run));
        }
        self.owed = event.more;
        self.epoch = event.epoch;
        self.run.clone_from(&event.run);
        Ok(())
    }

    /// Decision, action, outcome (section 6 of the design).
    fn links(&mut self, event: &Event) -> Result<(), String> {
        let (seq, kind) = (event.seq, &event.kind);
        match event.part() {
            Part::Decision if (event.decision, event.parent, event.action) == (Some(seq), None, None) => {
                self.decisions.insert(seq);
                Ok(())
            }
            Part::Action => {
                let cited = event.decision.filter(|decision| self.decisions.contains(decision));
                if cited.is_none() || event.parent != event.decision || event.action.is_some() {
                    return Err(format!("{kind} {seq} cites no decision"));
                }
                self.open.insert(seq, kind.clone());
                Ok(())
            }
            Part::Outcome => {
                let answered = event.action.and_then(|action| self.open.remove(&action));
                if event.parent != event.action || event.decision.is_some() {
                    return Err(format!("{kind} {seq} has other links than those of an outcome"));
                }
                answered.map(|_| ()).ok_or_else(|| format!("{kind} {seq} is no outcome of an open action"))
            }
            Part::Other if (event.decision, event.parent, event.action) == (None, None, None) => Ok(()),
            Part::Decision | Part::Other => Err(format!("{kind} {seq} poses as part of another chain")),
        }
    }

    /// The life of a task.
    fn place(&mut self, event: &Event) -> Result<(), String> {
        let (from, kind) = (self.status, event.kind.as_str());
        if from.is_over() {
            if !event.outlives() {
                return Err(format!("{kind} {} follows the end", event.seq));
            }
            if matches!(kind, "ConversationReopened" | "TaskRewound") {
                (self.status, self.waits_for_message) = (Status::Waiting, true);
                self.wake = Wake { keys: [("message".to_owned(), 1)].into(), at: None };
            }
            return Ok(());
        }
        let to = match (from, kind) {
            (Status::Unborn, "TaskCreated") | (Status::Waiting, "TaskWoken") => Status::Ready,
            (Status::Unborn, "TaskForked") => {
                self.waits_for_message = true;
                self.wake = Wake { keys: [("message".to_owned(), 1)].into(), at: None };
                Status::Waiting
            }
            (Status::Unborn, _) | (_, "TaskCreated" | "TaskForked" | "TaskWoken") => {
                return Err(format!("{kind} {} while the task is {from:?}", event.seq));
            }
            (Status::Ready | Status::Running, "ContextPlanComposed") => Status::Running,
            (Status::Ready | Status::Running, "TaskSuspended") => Status::Waiting,
            (_, "ContextPlanComposed" | "TaskSuspended") => {
                return Err(format!("{kind} {} while the task is {from:?}", event.seq));
            }
            (_, "TaskRewound") => Status::Waiting,
            (_, "TaskCompleted") => Status::Completed,
            (_, "TaskFailed") => Status::Failed,
            (_, "TaskCancelled") => Status::Cancelled,
            _ => from,
        };
        if to.is_over() && !self.open.is_empty() {
            return Err(format!("the task ended while actions were open: {:?}", self.open));
        }
        self.status = to;
        Ok(())
    }

    fn messages(&mut self, event: &Event, inbox: &mut Inbox, around: &Surroundings<'_>) -> Result<(), String> {
        let messages = event.payload["messages"].as_array().ok_or("messages are no list")?;
        for message in messages {
            let blocks = text_of(&message["blocks"], around.contents)?;
            let blocks: serde_json::Value = serde_json::from_str(&blocks).map_err(|error| error.to_string())?;
            match message["role"].as_str() {
                Some("assistant") => self.rounds.replied(&blocks)?,
                // What the engine itself says came through no inbox.
                Some("user") if message["origin"] == "human" => {
                    let text = blocks[0]["text"].as_str().ok_or("a message without text")?;
                    if event.seq > 2 {
                        inbox.said(text)?;
                    } else if text != around.plan.goal {
                        return Err("the first message is not the goal".into());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A task wakes because of what it waits for, or of what steers it, and each item wakes it
    /// once.
    fn woken(&mut self, event: &Event, inbox: &Inbox) -> Result<(), String> {
        let item = &event.payload["item"];
        let wake = std::mem::take(&mut self.wake);
        let (key, due) = (item["key"].as_str(), item["due"].as_str());
        let Some(position) = item["position"].as_u64() else {
            return match due {
                // A child that was told to stop gave back what it did not spend.
                None if item["kind"] == "budget" && self.rounds.has_room() => Ok(()),
                // A job that was lost came in no item.
                None if item["kind"] == "job" && wake.keys.contains_key("background") && self.jobs.any_untold() => {
                    Ok(())
                }
                Some(due) if wake.at.as_deref() == Some(due) && due <= event.at.as_str() => Ok(()),
                _ => Err(format!("woken at {} by a timer due {due:?}, it waits until {:?}", event.at, wake.at)),
            };
        };
        if !self.woken_by.insert(position) {
            return Err(format!("item {position} woke the task twice"));
        }
        let lying = inbox.lying(position).ok_or_else(|| format!("woken by item {position}, which is not there"))?;
        if item["kind"] != lying.kind() {
            return Err(format!("woken by item {position} as {}, which is {}", item["kind"], lying.kind()));
        }
        match key {
            None if steers(lying) => Ok(()),
            Some(key) if key_of(lying).as_deref() == Some(key) => {
                let need = wake.keys.get(key).ok_or_else(|| format!("woken by {key}, which it does not wait for"))?;
                let there = inbox.carrying(key);
                if there >= *need { Ok(()) } else { Err(format!("woken by {there} of {need} items with {key}")) }
            }
            _ => Err(format!("woken by item {position} ({}) under {key:?}", lying.kind())),
        }
    }

    /// A task that waits has nothing under way but children, and waits for all that its calls
    /// wait for and for nothing else.
    fn suspended(&mut self, event: &Event) -> Result<(), String> {
        let wake = &event.payload["wake"];
        let alternatives = wake["any"].as_array().into_iter().flatten();
        let key = |one: &Value| (one["key"].as_str().unwrap_or_default().to_owned(), one["need"].as_u64().unwrap_or(1));
        self.wake = Wake { keys: alternatives.map(key).collect(), at: wake["at"].as_str().map(str::to_owned) };
        let reason = event.text("reason")?;
        self.waits_for_message = !in_the_middle(&event.payload["reason"]);
        self.is_broken_off = matches!(reason, "failed" | "interrupted" | "parked");
        let mut expected = if reason == "budget" {
            self.rounds.waits.wake_of_budget()
        } else if self.waits_for_message {
            self.rounds.turn_ended();
            // Nothing but a person carries on what was broken off.
            self.rounds.waits.wake_of_rest(!self.is_broken_off)
        } else {
            self.rounds.waits.wake_of_calls(&self.rounds.calls)
        };
        if (self.waits_for_message || reason == "budget") && !self.is_broken_off && self.jobs.any_open() {
            expected.keys.insert("background".into(), 1);
        }
        if self.wake != expected {
            return Err(format!("suspended until {:?}, its calls wait for {expected:?}", self.wake));
        }
        match self.open.iter().find(|(_, kind)| !goes_on(kind)) {
            Some((seq, kind)) => Err(format!("the task waits while {kind} {seq} is open")),
            None => Ok(()),
        }
    }

    /// An append is complete: nothing of it is missing, and every answer has its decision.
    pub fn append_ends(&self) -> Result<(), String> {
        if self.owed > 0 {
            return Err(format!("the log ends at {} in the middle of an append", self.seq));
        }
        self.rounds.append_ends()
    }

    /// Whether the task is over, or waits for nothing but people.
    pub fn rests(&self) -> bool {
        self.status.is_over() || self.status == Status::Waiting && self.waits_for_message
    }

    /// The task is over, or rests for good.
    pub fn ended(&self) -> Result<(), String> {
        // One that waits keeps its jobs; and of what goes on in the background it takes in nothing
        // while a turn was broken off.
        let may_be = |kind: &String| match kind.as_str() {
            "BackgroundJobStarted" => !self.status.is_over(),
            "SubtaskSpawned" => !self.status.is_over() && self.is_broken_off,
            _ => false,
        };
        if self.open.values().all(may_be) { Ok(()) } else { Err(format!("actions are still open: {:?}", self.open)) }
    }
}

/// Whether what is waited for belongs to a turn that is under way.
fn in_the_middle(reason: &Value) -> bool {
    reason == "calls" || reason == "budget"
}
