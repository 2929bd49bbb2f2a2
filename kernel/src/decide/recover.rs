use alloc::{boxed::Box, string::String, vec::Vec};

use super::draft::{Draft, RecordError};
use super::record::{CallOutcome, Foreseen, ended, finish_call, park, start_call};
use crate::envelope::Origin;
use crate::event::{ApprovalVerdict, CallStatus, Message, MessageOrigin, SealVerdict, StepAttemptAbandoned};
use crate::id::{CallId, Seq};
use crate::limits::{SEALS_MAX, TOOL_STARTS_MAX};
use crate::state::{ActionKind, Entry, OpenAction, RoundCall, Task, UnknownCall};

/// What can be said of a call that a former holder began and did not finish (RC-2).
#[expect(clippy::large_enum_variant, reason = "one a call that a crash cut off, taken apart at once")]
#[derive(Debug, Clone)]
pub enum Orphan {
    /// Its result was found.
    Found(CallOutcome),
    /// Nothing was found, but the tool says that it may simply run again.
    RetrySafe,
    /// Nothing was found.
    Lost,
}

/// What becomes of an attempt that a crash broke (RC-3).
#[derive(Debug, Clone)]
pub enum AfterCrash {
    /// Each call is settled by what was found, a new start, or as unknown.
    Resolve,
    /// The step is run again from this state, the one before the attempt. The caller knows that
    /// every call of it passes the guards without asking and that no tool is unknown.
    Redrive(Box<Task>),
    /// Nothing is run again: a person's message carries on.
    Park,
    /// Nothing is run again, and the attempt is left behind: a rewind was asked for.
    Close,
}

/// What the model is told of a call whose effect is unknown.
const UNKNOWN: &str = "The worker that ran this call was lost before it reported back. The call may have happened \
wholly, partly or not at all. Check what it was to change before you repeat it.";
/// What the model is told of a call that could run again and does not.
const NOT_AGAIN: &str = "The worker that ran this call was lost before it reported back. It was not run again.";

/// An orphan with its call as it began.
struct Begun<'a> {
    action: Seq,
    call: CallId,
    round: RoundCall,
    /// Whether a person had approved it.
    approved: bool,
    found: &'a Orphan,
}

/// Settles all orphaned calls of the round in one append, each with the seq of its start and
/// what a look at the outside found (RC-2, RC-3).
///
/// * Resolving: a result that was found is `recovered`; a retry-safe call runs again under the
///   same key, at most 3 starts; else the outcome is `unknown`. The guards are not asked again:
///   what runs is what was recorded (RC-5). A call that a person had approved and of which
///   nothing is known parks the attempt (RC-4).
/// * Redriving: each gets `interrupted`, the attempt is sealed, and the step runs again.
/// * Parking: each gets its outcome, the attempt is sealed, and the task waits for a person. The
///   third seal in a row parks, whatever was chosen.
///
/// # Errors
/// When no such call is open.
pub fn settle_orphans(draft: &mut Draft, orphans: &[(Seq, Orphan)], after: &AfterCrash) -> Result<(), RecordError> {
    if draft.task().runtime().rerun.is_some() && !matches!(after, AfterCrash::Close) {
        // It is of no attempt: a person has settled the one that it belonged to.
        return settle_rerun(draft, orphans);
    }
    let begun = orphans.iter().map(|(action, found)| begun(draft, *action, found)).collect::<Result<Vec<_>, _>>()?;
    let asks = begun.iter().any(|orphan| orphan.approved && matches!(orphan.found, Orphan::Lost));
    match after {
        AfterCrash::Redrive(landing) if may_redrive(draft, landing) => redrive(draft, &begun, landing),
        AfterCrash::Close => begun.iter().try_for_each(|orphan| close(draft, orphan)),
        AfterCrash::Resolve if !asks => begun.iter().try_for_each(|orphan| resolve(draft, orphan)),
        AfterCrash::Resolve | AfterCrash::Redrive(_) | AfterCrash::Park => seal_and_park(draft, &begun),
    }
}

/// A call that a person said did not happen was cut off in its turn.
fn settle_rerun(draft: &mut Draft, orphans: &[(Seq, Orphan)]) -> Result<(), RecordError> {
    let Some(rerun) = draft.task().runtime().rerun.clone() else { return Ok(()) };
    let call = rerun.call;
    let round = begun_again(rerun);
    orphans.iter().try_for_each(|(action, found)| {
        let orphan = Begun { action: *action, call, round: round.clone(), approved: false, found };
        resolve(draft, &orphan)
    })
}

fn begun_again(rerun: UnknownCall) -> RoundCall {
    let UnknownCall { args, starts, tool, .. } = rerun;
    RoundCall { args: Some(args), child: None, result: None, starts, tool, wait: None }
}

/// A third seal in a row parks, and so does an attempt that spawned a child or took something in
/// that would not come again: an event, a child's answer, late evidence. What people said stays.
fn may_redrive(draft: &Draft, landing: &Task) -> bool {
    let told = |message: &Message| message.origin == Some(MessageOrigin::System);
    let since = draft.task().runtime().messages.after(landing.runtime().messages.len());
    let took_in = since.filter_map(|entry| match entry {
        Entry::Message(message) => Some(message),
        Entry::Results(_) => None,
    });
    if took_in.chain(&draft.task().runtime().held).any(told) {
        return false;
    }
    let runtime = draft.task().runtime();
    let alone = |call: &RoundCall| call.child.is_none() && call.wait.is_none();
    runtime.seals + 1 < SEALS_MAX && runtime.round.iter().flat_map(|round| &round.calls).all(alone)
}

fn begun<'a>(draft: &Draft, action: Seq, found: &'a Orphan) -> Result<Begun<'a>, RecordError> {
    let governance = draft.task().governance();
    let Some(OpenAction { what: ActionKind::Call(call), .. }) = governance.action(action) else {
        return Err(draft.misplaced("no such call is open"));
    };
    let runtime = draft.task().runtime();
    let rerun = runtime.rerun.clone().filter(|rerun| rerun.call == *call).map(begun_again);
    let listed = runtime.round.as_ref().and_then(|round| round.calls.get(call.index as usize)).cloned();
    let begun = rerun.or(listed).ok_or_else(|| draft.misplaced("the call is of no round"))?;
    let ruling = governance.approvals.get(call).and_then(|approval| approval.resolved);
    let approved = ruling.is_some_and(|ruling| ruling.verdict == ApprovalVerdict::Approve);
    Ok(Begun { action, call: *call, round: begun, approved, found })
}

fn resolve(draft: &mut Draft, orphan: &Begun<'_>) -> Result<(), RecordError> {
    match orphan.found {
        Orphan::Found(outcome) => recovered(draft, orphan.action, outcome),
        Orphan::RetrySafe if orphan.round.starts < TOOL_STARTS_MAX => {
            let args = orphan.round.args.clone().ok_or_else(|| draft.misplaced("the call was never started"))?;
            let interrupted = ended(CallStatus::Interrupted, "the worker was lost; the call runs again");
            finish_call(draft, orphan.action, interrupted, true)?;
            // What its first start foresaw stands.
            let start = (orphan.round.starts + 1, args);
            start_call(draft, orphan.call, &orphan.round.tool, start, Foreseen::default())
        }
        Orphan::RetrySafe | Orphan::Lost => {
            finish_call(draft, orphan.action, ended(CallStatus::Unknown, UNKNOWN), false)
        }
    }
}

fn recovered(draft: &mut Draft, action: Seq, outcome: &CallOutcome) -> Result<(), RecordError> {
    finish_call(draft, action, CallOutcome { status: CallStatus::Recovered, ..outcome.clone() }, false)
}

/// The first event of the attempt in progress: its plan.
fn attempt(draft: &Draft) -> Result<Seq, RecordError> {
    draft.task().governance().plan.ok_or_else(|| draft.misplaced("no attempt is under way"))
}

fn redrive(draft: &mut Draft, orphans: &[Begun<'_>], landing: &Task) -> Result<(), RecordError> {
    let from_seq = attempt(draft)?;
    for orphan in orphans {
        let told = "interrupted: the worker was lost; the step runs again";
        let ended = ended(CallStatus::Interrupted, told);
        // The files that it changed are its own all the same: a rewind is to know of them.
        let outcome = match orphan.found {
            Orphan::Found(found) => CallOutcome { blobs: found.blobs.clone(), files: found.files.clone(), ..ended },
            Orphan::RetrySafe | Orphan::Lost => ended,
        };
        finish_call(draft, orphan.action, outcome, false)?;
    }
    let sealed = StepAttemptAbandoned { from_seq, verdict: SealVerdict::Redrive };
    draft.push_landing("engine", Origin::Engine, sealed, landing)?;
    draft.snapshot()
}

fn seal_and_park(draft: &mut Draft, orphans: &[Begun<'_>]) -> Result<(), RecordError> {
    let from_seq = attempt(draft)?;
    let told = what_became_of(draft, orphans);
    orphans.iter().try_for_each(|orphan| close(draft, orphan))?;
    park(draft, from_seq, &told)
}

/// Gives a call its outcome and runs nothing again.
fn close(draft: &mut Draft, orphan: &Begun<'_>) -> Result<(), RecordError> {
    match orphan.found {
        Orphan::Found(outcome) => recovered(draft, orphan.action, outcome),
        Orphan::RetrySafe => finish_call(draft, orphan.action, ended(CallStatus::Interrupted, NOT_AGAIN), false),
        Orphan::Lost => finish_call(draft, orphan.action, ended(CallStatus::Unknown, UNKNOWN), false),
    }
}

/// Names the calls of the attempt and says whether each finished.
fn what_became_of(draft: &Draft, orphans: &[Begun<'_>]) -> String {
    let mut told = String::from(
        "The worker that ran this step was lost. Nothing of the step is run again by itself. What is known of its calls:",
    );
    let calls = draft.task().runtime().round.iter().flat_map(|round| round.calls());
    for (id, call) in calls {
        let became = match (&call.result, orphans.iter().find(|orphan| orphan.call == id).map(|orphan| orphan.found)) {
            (Some(result), _) => alloc::format!("finished ({})", result.status.name()),
            (None, Some(Orphan::Found(_))) => "finished, as was found afterwards".into(),
            (None, Some(Orphan::RetrySafe)) => "cut off; it changes nothing".into(),
            (None, Some(Orphan::Lost)) => "cut off; it may have happened wholly, partly or not at all".into(),
            (None, None) => "not run".into(),
        };
        told.push_str(&alloc::format!("\n- call {id} ({}): {became}", call.tool));
    }
    told
}
