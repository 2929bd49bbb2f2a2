//! What the whole stream adds up to: spending, open actions, what people were asked.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use super::List;
use crate::body::{Body, ContentRef};
use crate::canonical::{Hash, from_slice};
use crate::event::{ApprovalSubject, ApprovalVerdict, Budget, JobEnd, LateKind, PluginPin, Spent, Usage};
use crate::id::{CallId, Seq, TaskId};
use crate::ledger::Identity;
use crate::time::Timestamp;

/// What the whole stream adds up to; nothing patches it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GovernanceState {
    /// Actions without an outcome, by seq.
    pub actions: Vec<OpenAction>,
    /// What the task was given to spend at first: what each grant adds again (EN-4).
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub allotted: Budget,
    /// Approvals of the round in progress, or of more budget, pending or settled.
    pub approvals: BTreeMap<CallId, Approval>,
    /// Approvals settled so far.
    pub approvals_settled: u64,
    /// What the task may spend, with all that was granted since.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// Spent on the model, in nano-USD, children's spending apart.
    pub cost_nano_usd: u64,
    /// The last decision on a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Seq>,
    /// Calls that were never started.
    pub denials: List<Denial>,
    /// Milliseconds of work: the sum of `elapsed_ms` in outcomes.
    pub elapsed_ms: u64,
    /// The last record of each kind, by plugin.
    #[serde(default)]
    pub extensions: BTreeMap<String, BTreeMap<String, Body>>,
    /// Rewinds and forks so far.
    pub generation: u32,
    /// Background jobs in the order of their ends: those that the model is still to be told of,
    /// and the last ones of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<EndedJob>,
    /// Results that came too late to count.
    pub late: List<Late>,
    /// Plugins in force (RC-8).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PluginPin>,
    /// The last plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Seq>,
    /// Questions without an answer, by the call that asks.
    pub questions: BTreeMap<CallId, Body>,
    /// Questions settled so far.
    pub questions_settled: u64,
    /// Files that a rewind puts back; no tool runs until that is done (SN-8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restoring: Option<Restoring>,
    /// The last person's word on a call whose outcome was unknown, and the event that records it:
    /// what allows that call to run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<(CallId, Seq)>,
    /// Wakes so far in this generation.
    pub resume: u32,
    /// Calls of unknown outcome that people have settled: no rewind brings the question back.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub settled: BTreeSet<CallId>,
    /// The last snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Seq>,
    /// Model round-trips that began.
    pub steps: u64,
    /// Slices of children that were told to stop and have not said yet what they spent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stopped: BTreeMap<CallId, Budget>,
    /// What children spent.
    #[serde(default)]
    pub subtask_spent: Spent,
    /// Children created so far.
    pub subtasks: u64,
    /// Calls started so far, each counted once.
    pub tool_calls: u64,
    /// Tokens, by kind.
    pub tokens: Usage,
}

/// Files that are being put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restoring {
    /// The plan.
    pub plan: ContentRef,
    /// The event that cites it.
    pub seq: Seq,
}

/// An action without an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenAction {
    /// The identity that its result must come under.
    pub identity: Identity,
    /// Its seq.
    pub seq: Seq,
    /// What was begun.
    pub what: ActionKind,
}

/// What an action began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// A model request.
    Model,
    /// A tool call.
    Call(CallId),
    /// A child.
    Child(OpenChild),
    /// A background job.
    Job(OpenJob),
}

/// A background job that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenJob {
    /// The call that started it.
    pub call: CallId,
    /// When its start was recorded.
    pub since: Timestamp,
    /// The tool that started it.
    pub tool: String,
    /// What runs.
    pub what: String,
}

/// A background job that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedJob {
    /// Its exit status, if it exited and has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// How it ended.
    pub how: JobEnd,
    /// Its id: the event that started it.
    pub job: Seq,
    /// The end of its output.
    pub output: Body,
    /// What it was.
    pub started: OpenJob,
    /// Whether the model knows, or has no need to.
    pub told: bool,
    /// When its end was recorded.
    pub until: Timestamp,
}

/// A child that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenChild {
    /// Whether the first result of the reply's children is enough.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub any: bool,
    /// Whether it goes on by itself.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub background: bool,
    /// What is reserved for it.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// The call that spawned it.
    pub call: CallId,
    /// The child.
    pub child: TaskId,
}

/// An approval of one exact call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The arguments that would run.
    pub args: Body,
    /// Digest of the exact call.
    pub digest: Hash,
    /// No longer to be granted after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The ruling and the event that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ApprovalRuling>,
    /// What it is about, when it is no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<ApprovalSubject>,
    /// The tool.
    pub tool: String,
}

impl Approval {
    /// What it adds to the task's caps, when it is about the budget.
    pub fn grants(&self) -> Option<Budget> {
        self.subject.and_then(|ApprovalSubject::Budget| grants_of(&self.args))
    }
}

/// The budget that the arguments of an approval say.
pub(crate) fn grants_of(args: &Body) -> Option<Budget> {
    args.inline().and_then(|text| from_slice(text.as_bytes()).ok())
}

/// A ruling on an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRuling {
    /// The event.
    pub seq: Seq,
    /// The ruling.
    pub verdict: ApprovalVerdict,
}

/// A call that was never started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The call.
    pub call: CallId,
    /// The tool that was named.
    pub tool: String,
}

/// A result that came too late to count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// The action it answers, or the decision on the call.
    pub answers: Seq,
    /// Why it does not count.
    pub kind: LateKind,
    /// The event that keeps it.
    pub seq: Seq,
}

impl GovernanceState {
    /// The open action that began at `seq`.
    pub fn action(&self, seq: Seq) -> Option<&OpenAction> {
        self.actions.iter().find(|action| action.seq == seq)
    }

    /// The open action of `call`; what it left running is another one.
    pub fn action_of(&self, call: CallId) -> Option<&OpenAction> {
        self.actions.iter().find(|action| match &action.what {
            ActionKind::Model | ActionKind::Job(_) => false,
            ActionKind::Call(open) => *open == call,
            ActionKind::Child(child) => child.call == call,
        })
    }

    /// The children that have not ended, with the seq of their spawn.
    pub fn children(&self) -> impl Iterator<Item = (Seq, &OpenChild)> {
        self.actions.iter().filter_map(|action| match &action.what {
            ActionKind::Child(child) => Some((action.seq, child)),
            ActionKind::Model | ActionKind::Call(_) | ActionKind::Job(_) => None,
        })
    }

    /// The background jobs that have not ended, each with its action, whose seq is the job's id.
    pub fn open_jobs(&self) -> impl Iterator<Item = (&OpenAction, &OpenJob)> {
        self.actions.iter().filter_map(|action| match &action.what {
            ActionKind::Job(job) => Some((action, job)),
            ActionKind::Model | ActionKind::Call(_) | ActionKind::Child(_) => None,
        })
    }

    /// The background jobs that have ended and that the model is still to be told of.
    pub fn untold_jobs(&self) -> impl Iterator<Item = &EndedJob> {
        self.jobs.iter().filter(|job| !job.told)
    }

    /// The background job of this id, if it has ended and is not forgotten.
    pub fn ended_job(&self, id: Seq) -> Option<&EndedJob> {
        self.jobs.iter().find(|ended| ended.job == id)
    }

    /// The open model request.
    pub fn model_action(&self) -> Option<&OpenAction> {
        self.actions.iter().find(|action| action.what == ActionKind::Model)
    }

    /// What was spent, children that have said so included.
    pub fn spent(&self) -> Spent {
        let own = Spent {
            nano_usd: self.cost_nano_usd,
            steps: self.steps,
            tokens: self.tokens.input().saturating_add(self.tokens.output),
            wall_ms: self.elapsed_ms,
        };
        own.plus(self.subtask_spent)
    }

    /// What is set aside for children that have not said yet what they spent.
    pub fn reserved(&self) -> Spent {
        let open = self.children().map(|(_, child)| child.budget);
        open.chain(self.stopped.values().copied()).fold(Spent::default(), |sum, slice| sum.plus(slice.into()))
    }

    /// The tools of calls that are still to be started, once someone lets them run.
    pub fn tools_to_start(&self) -> impl Iterator<Item = &str> {
        let asked = self.approvals.values().filter(|one| one.subject.is_none() && one.resolved.is_none());
        asked.map(|one| one.tool.as_str())
    }

    /// The approval of more budget, pending or settled, and the call it goes by.
    pub fn budget_approval(&self) -> Option<(CallId, &Approval)> {
        self.approvals
            .iter()
            .find(|(_, approval)| approval.subject == Some(ApprovalSubject::Budget))
            .map(|(call, approval)| (*call, approval))
    }
}
