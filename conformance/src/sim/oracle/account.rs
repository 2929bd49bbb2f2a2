//! Every item that an append takes leaves its one trace in it, and nothing is on record in
//! someone's name who did not say it.

use plica_kernel::event::ApprovalVerdict;
use plica_kernel::wake::Item;

use super::event::{Contents, Event, text_of};
use super::inbox::Lying;
use super::waits::Waits;

/// Kinds of events that record what came through an inbox.
const TRACES: [&str; 12] = [
    "AgentRevised",
    "BackgroundJobEnded",
    "CallResolved",
    "QuestionAnswered",
    "ApprovalResolved",
    "SubtaskCompleted",
    "LateResultRecorded",
    "TurnInterrupted",
    "TaskRewound",
    "TaskCancelled",
    "ConversationClosed",
    "ConversationReopened",
];

/// Events of one append that no item accounts for yet.
pub struct Account<'a> {
    events: Vec<&'a Event>,
    contents: &'a Contents,
    waits: &'a Waits,
    /// Orders that came, of which several leave one trace.
    interrupted: bool,
    cancelled: bool,
}

impl<'a> Account<'a> {
    /// The account of an append of these events.
    pub fn new(events: &'a [Event], contents: &'a Contents, waits: &'a Waits) -> Self {
        Self { events: events.iter().collect(), contents, waits, interrupted: false, cancelled: false }
    }

    /// An item was taken: one event is its trace.
    pub fn settle(&mut self, position: u64, taken: &Lying) -> Result<(), String> {
        match &taken.item {
            Item::Interrupt { .. } => self.interrupted = true,
            Item::Cancel { .. } => self.cancelled = true,
            _ => {}
        }
        let traces = || (0..).zip(&self.events).filter(|(_, event)| self.records(event, position, taken));
        // Evidence that settles its call is not kept as late too, but a call may be settled by
        // something else while evidence comes too late.
        let late = traces().find(|(_, event)| event.kind == "LateResultRecorded");
        let late = late.filter(|_| matches!(taken.item, Item::Evidence { .. }));
        let trace: Option<usize> = late.or_else(|| traces().next()).map(|(at, _)| at);
        match (trace, &taken.item) {
            // Several orders to stop are carried out at once.
            (Some(_), Item::Interrupt { .. } | Item::Cancel { .. }) => Ok(()),
            (Some(at), _) => {
                self.events.remove(at);
                Ok(())
            }
            (None, item) => Err(format!("item {position} was taken and left no trace: {item:.200?}")),
        }
    }

    fn records(&self, event: &Event, position: u64, taken: &Lying) -> bool {
        let kind = event.kind.as_str();
        let names = |call: &dyn ToString| event.payload["call"] == call.to_string();
        let says = |name: &str, text: &str| event.body(name, self.contents).is_ok_and(|said| said == text);
        let by = event.actor == taken.actor;
        match &taken.item {
            Item::Message { text } => kind == "MessagesAppended" && by && self.is_message(event, text),
            Item::Answer { call, text } => match kind {
                "QuestionAnswered" => names(call) && by && says("answer", text),
                _ => kind == "LateResultRecorded" && names(call) && by && says("output", text),
            },
            Item::Verdict { call, verdict, .. } => match kind {
                "ApprovalResolved" => {
                    let in_time = self.waits.is_in_time(&call.to_string(), &taken.at.to_string());
                    names(call) && by && event.payload["verdict"] == word(*verdict) && in_time
                }
                _ => kind == "LateResultRecorded" && names(call) && by,
            },
            Item::Event { .. } => kind == "TaskWoken" && event.payload["item"]["position"] == position,
            Item::Child { child, call, .. } => match kind {
                "SubtaskCompleted" => event.payload["child"] == child.as_str() && by,
                _ => kind == "LateResultRecorded" && names(call) && by,
            },
            Item::Job { job, .. } => match kind {
                "BackgroundJobEnded" => event.action == Some(job.0) && by,
                _ => kind == "LateResultRecorded" && event.payload["answers"] == job.0,
            },
            Item::Evidence { call, action, .. } => match kind {
                "ToolCallFinished" => {
                    let taken_from_it = ["recovered", "error"].iter().any(|status| event.payload["status"] == *status);
                    names(call) && event.action == Some(action.0) && taken_from_it
                }
                _ => kind == "LateResultRecorded" && names(call) && event.payload["answers"] == action.0,
            },
            // What goes back stops the turn as well.
            Item::Interrupt { .. } => {
                matches!(kind, "TurnInterrupted" | "TaskCancelled" | "TaskFailed" | "TaskRewound")
            }
            Item::Cancel { .. } => matches!(kind, "TaskCancelled" | "TaskFailed"),
            Item::Close { .. } => kind == "ConversationClosed" && by,
            Item::Reopen { .. } => kind == "ConversationReopened" && by,
            Item::Rewind { to_seq } => match kind {
                "TaskRewound" => by && event.payload["to_seq"] == to_seq.0,
                _ => kind == "LateResultRecorded" && by && event.payload["call"].is_null(),
            },
            Item::Resolve { call, .. } => matches!(kind, "CallResolved" | "LateResultRecorded") && names(call) && by,
            Item::Revise { definition } => {
                let named = event.payload["definition"]["sha256"] == definition.sha256.to_string();
                kind == "AgentRevised" && by && named
            }
        }
    }

    fn is_message(&self, event: &Event, text: &str) -> bool {
        let blocks = text_of(&event.payload["messages"][0]["blocks"], self.contents).unwrap_or_default();
        let blocks: serde_json::Value = serde_json::from_str(&blocks).unwrap_or_default();
        blocks[0]["text"] == text
    }

    /// Everything is accounted for: no event says what no item brought.
    pub fn close(self) -> Result<(), String> {
        let made_up = self.events.iter().find(|event| match event.kind.as_str() {
            "TurnInterrupted" => !self.interrupted,
            "TaskCancelled" => !self.cancelled,
            // What the engine itself rules when nobody did, and what it says of children and jobs that
            // it stops.
            "ApprovalResolved" => event.payload["verdict"] != "expire" || event.actor != "engine",
            "BackgroundJobEnded" | "SubtaskCompleted" => event.actor != "engine",
            kind => TRACES.contains(&kind),
        });
        match made_up {
            None => Ok(()),
            Some(event) => Err(format!("{} {} by {} records what nobody sent", event.kind, event.seq, event.actor)),
        }
    }
}

fn word(verdict: ApprovalVerdict) -> &'static str {
    match verdict {
        ApprovalVerdict::Approve => "approve",
        ApprovalVerdict::Deny => "deny",
        ApprovalVerdict::Expire => "expire",
    }
}
