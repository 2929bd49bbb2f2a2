//! What the engine recorded: the conversation, the round in progress, where the step stands.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::List;
use crate::body::Body;
use crate::event::{CallStatus, Message, Usage, WaitFor};
use crate::id::{CallId, Seq, TaskId};
use crate::time::Timestamp;

/// What the engine recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RuntimeState {
    /// Assistant messages on the live path; compaction does not lower it.
    pub assistant_messages: u64,
    /// Empty replies in a row (RC-7).
    pub empty_replies: u32,
    /// Messages recorded while calls are open; they stand after the calls' results (EN-6).
    pub held: Vec<Message>,
    /// Internal errors in a row (RC-7).
    pub internal_errors: u32,
    /// Model requests in a row without any answer (RC-1).
    pub interruptions: u32,
    /// All input tokens of the last round-trip: uncached, cache read and cache write.
    pub last_input_tokens: u64,
    /// The conversation.
    pub messages: List<Entry>,
    /// The seal of an attempt that waits for a person (RC-3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Seq>,
    /// Where the step stands.
    pub phase: Phase,
    /// The calls of the last decision, until each has its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
    /// Tool rounds in a row since the last snapshot (SN-3).
    pub rounds: u32,
    /// A call that a person said did not happen, until it has run (TO-3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<UnknownCall>,
    /// Attempts in a row that a crash broke and that were sealed (RC-3).
    pub seals: u32,
    /// Whether the last attempt was sealed and the next has not begun.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub sealed: bool,
    /// Truncated replies in a row (RC-7).
    pub truncated_replies: u32,
    /// Calls whose outcome is unknown and that nobody has settled, the newest last; older ones
    /// are forgotten beyond a bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownCall>,
    /// Usage of the turn in progress.
    pub turn_usage: Usage,
    /// Usage of each finished turn.
    pub turns: List<Usage>,
}

/// A call that may have happened wholly, partly or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownCall {
    /// The arguments that ran.
    pub args: Body,
    /// The call.
    pub call: CallId,
    /// Starts so far.
    pub starts: u32,
    /// The tool.
    pub tool: String,
}

/// Where the step stands: what `next` goes by.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A request is to be composed.
    #[default]
    Compose,
    /// A request was composed, and is open or to be started.
    Request(RequestPhase),
    /// A decision's calls are to be settled.
    Calls,
    /// The turn is done; its end is to be recorded.
    Finish(Body),
    /// The turn has ended.
    Rest,
    /// The turn has ended and something woke the task; what it brings opens the next one.
    Woken,
}

/// A composed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPhase {
    /// Starts so far from this plan.
    pub attempts: u32,
    /// Tries that failed and are worth another (MO-3).
    pub errors: u32,
    /// The next try is not to be made before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// The last failure when it is not worth another try, or the last one there was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The plan.
    pub plan: Seq,
}

/// One entry of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// A message.
    Message(Message),
    /// The model's message and the decision on it, whose calls' results come next.
    Results(Results),
}

/// The results of a decision's calls, in the calls' order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// The decision.
    pub decision: Seq,
    /// Calls beyond the 32 that are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub over: u32,
    /// One a call.
    pub results: Vec<CallResult>,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// The calls of a decision while some are not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The calls.
    pub calls: Vec<RoundCall>,
    /// The decision.
    pub decision: Seq,
    /// Calls beyond the 32 that are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub over: u32,
}

impl Round {
    /// The id of the call at `index`.
    pub fn call(&self, index: usize) -> CallId {
        CallId { decision: self.decision, index: index as u32 }
    }

    /// The calls with their ids.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, &RoundCall)> {
        self.calls.iter().enumerate().map(|(index, call)| (self.call(index), call))
    }

    /// Whether every call has its result.
    pub fn is_settled(&self) -> bool {
        self.calls.iter().all(|call| call.result.is_some())
    }
}

/// One call of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundCall {
    /// The arguments that ran at the last start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Body>,
    /// The child it spawned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ChildCall>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<CallResult>,
    /// Starts so far.
    pub starts: u32,
    /// The tool.
    pub tool: String,
    /// What it waits for, when it is a `Wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitFor>,
}

/// The child that a call spawned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildCall {
    /// Whether the first result of the reply's children is enough.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub any: bool,
    /// The child.
    pub child: TaskId,
}

/// What came of a call, as the model is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// What the model is told.
    pub output: Body,
    /// How it ended.
    pub status: ResultStatus,
}

/// How a call ended, started or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultStatus {
    /// Well.
    Ok,
    /// It says that it failed.
    Error,
    /// It was never started.
    Denied,
    /// It was stopped.
    Interrupted,
    /// It may have happened.
    Unknown,
    /// The task was cancelled or rewound.
    Cancelled,
}

impl From<CallStatus> for ResultStatus {
    fn from(status: CallStatus) -> Self {
        match status {
            CallStatus::Ok | CallStatus::Recovered => Self::Ok,
            CallStatus::Error => Self::Error,
            CallStatus::Interrupted => Self::Interrupted,
            CallStatus::Unknown => Self::Unknown,
            CallStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl ResultStatus {
    /// The word as recorded.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the model is told that the call failed.
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(result: Option<CallResult>) -> RoundCall {
        RoundCall { args: None, child: None, result, starts: 0, tool: "Tool".into(), wait: None }
    }

    #[test]
    fn to_4_a_round_is_settled_once_every_call_has_its_result() {
        let result = || Some(CallResult { output: Body::default(), status: ResultStatus::Denied });
        for (calls, settled) in [
            (alloc::vec![call(None), call(None)], false),
            (alloc::vec![call(result()), call(None)], false),
            (alloc::vec![call(result()), call(result())], true),
        ] {
            let round = Round { calls, decision: Seq(7), over: 0 };
            assert_eq!(round.is_settled(), settled);
            let second = CallId { decision: Seq(7), index: 1 };
            assert_eq!((round.call(1), round.calls().nth(1)), (second, Some((second, &round.calls[1]))));
            assert_eq!(round.calls().count(), 2);
        }
    }

    #[test]
    fn to_3_how_a_call_ended_is_one_word() {
        for (status, name, error) in [
            (ResultStatus::Ok, "ok", false),
            (ResultStatus::Error, "error", true),
            (ResultStatus::Denied, "denied", true),
            (ResultStatus::Interrupted, "interrupted", true),
            (ResultStatus::Unknown, "unknown", true),
            (ResultStatus::Cancelled, "cancelled", true),
        ] {
            assert_eq!((status.name(), status.is_error()), (name, error));
            let recorded = crate::canonical::to_vec(&status).unwrap();
            assert_eq!(recorded, alloc::format!("\"{name}\"").into_bytes());
        }
        for (status, result) in [
            (CallStatus::Ok, ResultStatus::Ok),
            (CallStatus::Recovered, ResultStatus::Ok),
            (CallStatus::Error, ResultStatus::Error),
            (CallStatus::Interrupted, ResultStatus::Interrupted),
            (CallStatus::Unknown, ResultStatus::Unknown),
            (CallStatus::Cancelled, ResultStatus::Cancelled),
        ] {
            assert_eq!(ResultStatus::from(status), result);
        }
    }
}
