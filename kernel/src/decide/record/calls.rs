//! Calls: what each comes to, how it starts, how it ends.

use alloc::{boxed::Box, string::String, vec::Vec};

use super::items::say;
use super::jobs::start_job;
use super::plugins::{Aside, put_aside};
use super::{RULE_BYTES_MAX, TOOL_BYTES_MAX, WORD_BYTES_MAX};
use crate::body::{Blob, Body, ContentRef, MEDIA_JSON};
use crate::canonical::{Domain, Hash, to_vec};
use crate::decide::birth::{Birth, born};
use crate::decide::budget::slice;
use crate::decide::draft::{Draft, RecordError, clip};
use crate::envelope::Origin;
use crate::event::{
    ApprovalRequested, CallEntry, CallStatus, FileChange, FileWas, MessageOrigin, QuestionAsked, Role, SubtaskSpawned,
    TaskCreated, TaskStatePatch, TaskStatePatched, ToolCallDenied, ToolCallFinished, ToolCallStarted, WaitFor,
};
use crate::id::{CallId, Epoch, Seq};
use crate::ledger::call_allowed_by;
use crate::limits::{PAYLOAD_BYTES_MAX, WAIT_SECONDS_MAX};
use crate::state::{ActionKind, OpenAction};
use crate::time::Timestamp;

/// Bytes kept free for the number of files that do not fit.
const FILES_OVER_BYTES: usize = 32;

/// The tool that spawns children.
pub(super) const SPAWNING_TOOL: &str = "Task";

/// What a call that the model asks for comes to.
#[derive(Debug, Clone)]
pub enum CallPlan {
    /// It runs at once.
    Start {
        /// The arguments that run, as JSON text.
        args: String,
        /// The files that it will change.
        foreseen: Foreseen,
        /// The rule that lets it run.
        rule: Option<String>,
        /// The tool.
        tool: String,
    },
    /// It does not run; the model is told why.
    Deny {
        /// What the model is told.
        reason: String,
        /// The tool that was named.
        tool: String,
    },
    /// A person rules on it first.
    Ask {
        /// The arguments that would run, as JSON text.
        args: String,
        /// No longer to be granted so long after it was asked, in milliseconds.
        expires_ms: Option<u64>,
        /// The rule that asks.
        rule: Option<String>,
        /// The tool.
        tool: String,
    },
    /// A person is asked (`AskUser`).
    Question(
        /// The question.
        String,
    ),
    /// The task waits (`Wait`).
    Wait {
        /// For an event of this kind.
        event: Option<String>,
        /// Or for so many seconds.
        seconds: Option<u64>,
    },
    /// A child is spawned (`Task`).
    Spawn(Box<Spawn>),
    /// The list of todos is replaced (`TodoWrite`).
    Todo {
        /// The new list, as JSON text.
        todos: String,
    },
}

/// A child to be spawned.
#[derive(Debug, Clone)]
pub struct Spawn {
    /// Whether the first result of the reply's children is enough.
    pub any: bool,
    /// The child's first event; parent, call, depth and goal are filled in.
    pub created: TaskCreated,
    /// What it is to do.
    pub goal: String,
}

impl CallPlan {
    /// The call's entry in the decision. A wait's time counts from the decision.
    pub(super) fn entry(&self, now: Timestamp) -> CallEntry {
        let entry = |tool: &str, rule: &Option<String>| CallEntry {
            rule: rule.as_ref().map(|rule| clip(rule, RULE_BYTES_MAX)),
            tool: clip(tool, TOOL_BYTES_MAX),
            wait: None,
        };
        match self {
            Self::Start { rule, tool, .. } | Self::Ask { rule, tool, .. } => entry(tool, rule),
            Self::Deny { tool, .. } => entry(tool, &None),
            Self::Question(_) => entry("AskUser", &None),
            Self::Spawn(_) => entry(SPAWNING_TOOL, &None),
            Self::Todo { .. } => entry("TodoWrite", &None),
            Self::Wait { event, seconds } => {
                let due = seconds.map(|seconds| now.plus_millis(seconds.min(WAIT_SECONDS_MAX) * 1000));
                // Never cut: a wait for another kind would wait for ever.
                CallEntry { wait: Some(WaitFor { due, event: event.clone() }), ..entry("Wait", &None) }
            }
        }
    }
}

/// How a started call ended.
#[derive(Debug, Clone)]
pub struct CallOutcome {
    /// What its tool returned beside the result.
    pub aside: Aside,
    /// Bodies that belong to it.
    pub blobs: Vec<Blob>,
    /// Milliseconds that it took.
    pub elapsed_ms: u64,
    /// Files that it changed, in order.
    pub files: Vec<ChangedFile>,
    /// What it left running in the background, in one line, if it did.
    pub job: Option<String>,
    /// What the model is told.
    pub output: String,
    /// How it ended.
    pub status: CallStatus,
    /// The whole output, when the model is told only a part; its bytes are among the blobs.
    pub whole: Option<ContentRef>,
}

/// A file that a call changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Hash of what it holds now; none when it is gone.
    pub after: Option<Hash>,
    /// What it held before; the bytes of what was kept are among the outcome's blobs.
    pub before: FileWas,
    /// Its path beneath the workspace.
    pub path: String,
}

/// Files that a call will change if it does what it is asked to, before it starts (TO-5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Foreseen {
    /// What they hold now, as far as that is kept.
    pub blobs: Vec<Blob>,
    /// What each holds now and will hold then.
    pub files: Vec<ChangedFile>,
}

/// The digest that an approval is bound to: of the exact call, as it would run (EN-3).
fn digest(draft: &Draft, call: CallId, tool: &str, args: &str) -> Result<Hash, RecordError> {
    #[derive(serde::Serialize)]
    struct Exact<'a> {
        args: &'a str,
        call: CallId,
        task: &'a str,
        tool: &'a str,
    }
    Ok(Domain::Call.hash(&to_vec(&Exact { args, call, task: draft.task().id().as_str(), tool })?))
}

/// Records what each call of a decision comes to. Patches stand directly after the decision
/// they belong to, so they go first.
pub(super) fn begin_calls(draft: &mut Draft, decision: Seq, plans: Vec<CallPlan>) -> Result<(), RecordError> {
    let calls = (0..).zip(plans).map(|(index, plan)| (CallId { decision, index }, plan));
    let (patches, others): (Vec<_>, Vec<_>) = calls.partition(|(_, plan)| matches!(plan, CallPlan::Todo { .. }));
    // Children of one reply share what is left of the budget.
    let mut spawns = others.iter().filter(|(_, plan)| matches!(plan, CallPlan::Spawn(_))).count() as u64;
    patches.into_iter().chain(others).try_for_each(|(call, plan)| {
        let sharers = spawns;
        spawns -= u64::from(matches!(plan, CallPlan::Spawn(_)));
        begin_call(draft, call, plan, sharers)
    })
}

/// `sharers` are the children of the reply that are still to be spawned.
fn begin_call(draft: &mut Draft, call: CallId, plan: CallPlan, sharers: u64) -> Result<(), RecordError> {
    match plan {
        CallPlan::Start { args, foreseen, tool, .. } => {
            let args = Body::of(&args, MEDIA_JSON, draft.blobs());
            start_call(draft, call, &clip(&tool, TOOL_BYTES_MAX), (1, args), foreseen)
        }
        CallPlan::Deny { reason, tool } => deny_call(draft, call, &tool, &reason),
        CallPlan::Ask { args, expires_ms, rule, tool } => {
            let tool = clip(&tool, TOOL_BYTES_MAX);
            let asked = ApprovalRequested {
                digest: digest(draft, call, &tool, &args)?,
                args: Body::of(&args, MEDIA_JSON, draft.blobs()),
                call,
                expires: expires_ms.map(|millis| draft.stamp().now.plus_millis(millis)),
                rule: rule.map(|rule| clip(&rule, WORD_BYTES_MAX)),
                subject: None,
                tool,
            };
            draft.push("guard", Origin::Engine, None, asked).map(|_| ())
        }
        CallPlan::Question(question) => {
            let question = Body::text(&question, draft.blobs());
            draft.push("engine", Origin::Engine, None, QuestionAsked { call, question }).map(|_| ())
        }
        // What it waits for stands in the decision; the suspend that follows waits for it.
        CallPlan::Wait { .. } => Ok(()),
        CallPlan::Spawn(spawn) => spawn_child(draft, call, *spawn, sharers),
        CallPlan::Todo { todos } => {
            let todos = Some(Body::of(&todos, MEDIA_JSON, draft.blobs()));
            let patch = TaskStatePatch { todos, ..TaskStatePatch::default() };
            draft.push("tool:TodoWrite", Origin::Engine, None, TaskStatePatched { call: Some(call), patch }).map(|_| ())
        }
    }
}

/// Records that a call does not run.
pub(super) fn deny_call(draft: &mut Draft, call: CallId, tool: &str, reason: &str) -> Result<(), RecordError> {
    let reason = Body::text(reason, draft.blobs());
    let denied = ToolCallDenied { call, reason, tool: clip(tool, TOOL_BYTES_MAX) };
    draft.push("guard", Origin::Engine, None, denied).map(|_| ())
}

/// Starts a call, the n-th time with these arguments, under the decision that allows it (CA-6).
pub(in crate::decide) fn start_call(
    draft: &mut Draft,
    call: CallId,
    tool: &str,
    (attempt, args): (u32, Body),
    foreseen: Foreseen,
) -> Result<(), RecordError> {
    let allowed = call_allowed_by(draft.task().governance(), call);
    let allowed = allowed.ok_or_else(|| draft.misplaced("nothing allows the call"))?;
    let actor = alloc::format!("tool:{tool}");
    let mut started = ToolCallStarted { args, attempt, call, files: Vec::new(), tool: tool.into() };
    draft.keep(foreseen.blobs);
    for file in foreseen.files {
        started.files.push(changed(draft, file));
        if to_vec(&started)?.len() > PAYLOAD_BYTES_MAX {
            started.files.pop();
            break;
        }
    }
    draft.push(&actor, Origin::Tool, Some(allowed), started).map(|_| ())
}

/// Creates a child in the same append as its spawn (WA-5), with a slice of what is left of the
/// budget, which it shares with the other `sharers - 1` children that are to follow (EN-4).
pub(super) fn spawn_child(draft: &mut Draft, call: CallId, spawn: Spawn, sharers: u64) -> Result<(), RecordError> {
    let parent = draft.task();
    let child = parent.id().child(call, 1);
    let mut created = spawn.created;
    created.budget = match slice(parent.governance(), created.budget, sharers) {
        Ok(slice) => slice,
        Err(cap) => return deny_call(draft, call, SPAWNING_TOOL, &alloc::format!("not spawned: {cap}")),
    };
    created.parent = Some(parent.id().clone());
    created.call = Some(call);
    created.depth = parent.depth() + 1;
    let goal = Body::text(&spawn.goal, draft.blobs());
    let spawned = SubtaskSpawned {
        agent: created.agent.clone(),
        // A call that is answered at once waits for no first result.
        any: spawn.any && !created.background,
        background: created.background,
        budget: created.budget,
        call,
        child: child.clone(),
        definition: created.definition.clone(),
        goal,
    };
    let allowed = call_allowed_by(draft.task().governance(), call);
    let allowed = allowed.ok_or_else(|| draft.misplaced("nothing allows the call"))?;
    draft.push("engine", Origin::Engine, Some(allowed), spawned)?;
    let birth = Birth { id: child, actor: "engine".into(), goal: spawn.goal, created, blobs: Vec::new() };
    let stamp = crate::decide::Stamp { epoch: Epoch(0), ..draft.stamp().clone() };
    let drafted = born(birth, stamp)?;
    draft.bear(drafted);
    Ok(())
}

/// Records how the call begun at `action` ended, with the records that its tool returned.
///
/// # Errors
/// When the call is not open, or something does not fit.
pub fn call_outcome(draft: &mut Draft, action: Seq, outcome: CallOutcome) -> Result<(), RecordError> {
    finish_call(draft, action, outcome, false)
}

pub(in crate::decide) fn finish_call(
    draft: &mut Draft,
    action: Seq,
    outcome: CallOutcome,
    again: bool,
) -> Result<(), RecordError> {
    let Some(OpenAction { what: ActionKind::Call(call), .. }) = draft.task().governance().action(action) else {
        return Err(draft.misplaced("no such call is open"));
    };
    let call = *call;
    draft.keep(outcome.blobs);
    let runtime = draft.task().runtime();
    let rerun = runtime.rerun.as_ref().filter(|rerun| rerun.call == call);
    let listed = runtime.round.as_ref().and_then(|round| round.calls.get(call.index as usize));
    let tool = rerun.map(|rerun| &rerun.tool).or(listed.map(|call| &call.tool)).cloned().unwrap_or_default();
    let runs_again = rerun.is_some();
    let actor = alloc::format!("tool:{tool}");
    let CallOutcome { aside, elapsed_ms, status, whole, files, job, output: mut told, .. } = outcome;
    if let Some(what) = job {
        let job = start_job(draft, call, &tool, &what)?;
        told = alloc::format!("Background job {job} was started.\n{told}");
    }
    let output = Body::text(&told, draft.blobs());
    let mut finished =
        ToolCallFinished { again, call, elapsed_ms, files: Vec::new(), files_over: 0, output, status, whole };
    for file in files {
        finished.files.push(changed(draft, file));
        if to_vec(&finished)?.len() > PAYLOAD_BYTES_MAX - FILES_OVER_BYTES {
            finished.files.pop();
            finished.files_over += 1;
        }
    }
    draft.push(&actor, Origin::Tool, Some(action), finished)?;
    if runs_again && !again {
        // Its place in the conversation is taken by what the model was told when it was lost.
        let told = alloc::format!(
            "Call {call} ({tool}), whose outcome was unknown, did not happen and was to run now. It ended {}:\n{}",
            ended_as(status),
            told
        );
        say(draft, "engine", Role::User, Some(MessageOrigin::System), &told)?;
    }
    put_aside(draft, Origin::Tool, aside)
}

fn changed(draft: &mut Draft, ChangedFile { after, before, path }: ChangedFile) -> FileChange {
    FileChange { after, before, path: Body::text(&path, draft.blobs()) }
}

/// How a call ended, in words.
fn ended_as(status: CallStatus) -> &'static str {
    match status {
        CallStatus::Ok | CallStatus::Recovered => "well",
        CallStatus::Error => "with an error",
        CallStatus::Interrupted | CallStatus::Cancelled => "before it was done",
        CallStatus::Unknown => "nobody knows how",
    }
}

/// An outcome that is nothing but a status and a sentence.
pub(in crate::decide) fn ended(status: CallStatus, told: &str) -> CallOutcome {
    CallOutcome {
        aside: Aside::default(),
        blobs: Vec::new(),
        elapsed_ms: 0,
        files: Vec::new(),
        job: None,
        output: told.into(),
        status,
        whole: None,
    }
}
