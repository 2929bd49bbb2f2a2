//! Writes [`GovernanceState`].

use alloc::{string::String, vec::Vec};

use super::runtime::add;
use crate::envelope::Envelope;
use crate::event::{
    ApprovalSubject, ApprovalVerdict, BackgroundJobEnded, Budget, CallResolution, Payload, PluginKind, PluginPin,
    SubtaskCompleted,
};
use crate::ledger::Identity;
use crate::limits::JOBS_KEPT_MAX;
use crate::state::{
    ActionKind, Approval, ApprovalRuling, Denial, EndedJob, GovernanceState, Late, OpenAction, OpenChild, OpenJob,
    Restoring,
};

pub(super) fn apply(state: &mut GovernanceState, event: &Envelope) {
    match &event.payload {
        Payload::MessagesAppended(appended) => {
            state
                .jobs
                .iter_mut()
                .filter(|ended| appended.jobs.contains(&ended.job))
                .for_each(|ended| ended.told = true);
        }
        Payload::ContextPlanComposed(_) => state.plan = Some(event.seq),
        Payload::LLMRequestStarted(started) => {
            state.steps += 1;
            // There was room: what was asked about the budget is settled or needs no answer.
            state.approvals.retain(|_, approval| approval.subject != Some(ApprovalSubject::Budget));
            open(state, event, started.attempt, ActionKind::Model);
        }
        Payload::LLMRequestFinished(finished) => {
            close(state, event);
            state.cost_nano_usd = state.cost_nano_usd.saturating_add(finished.cost_nano_usd.unwrap_or(0));
            state.elapsed_ms = state.elapsed_ms.saturating_add(finished.elapsed_ms);
            add(&mut state.tokens, &finished.usage);
        }
        Payload::DecisionRecorded(_) => {
            state.decision = Some(event.seq);
            state.approvals.clear();
        }
        Payload::ToolCallStarted(started) => {
            state.tool_calls += u64::from(started.attempt == 1);
            open(state, event, started.attempt, ActionKind::Call(started.call));
        }
        Payload::ToolCallFinished(finished) => {
            close(state, event);
            state.elapsed_ms = state.elapsed_ms.saturating_add(finished.elapsed_ms);
        }
        Payload::ToolCallDenied(denied) => state.denials.push(Denial { call: denied.call, tool: denied.tool.clone() }),
        Payload::ApprovalRequested(asked) => {
            let approval = Approval {
                args: asked.args.clone(),
                digest: asked.digest,
                expires: asked.expires,
                resolved: None,
                subject: asked.subject,
                tool: asked.tool.clone(),
            };
            state.approvals.insert(asked.call, approval);
        }
        Payload::ApprovalResolved(ruling) => {
            if let Some(approval) = state.approvals.get_mut(&ruling.call) {
                approval.resolved = Some(ApprovalRuling { seq: event.seq, verdict: ruling.verdict });
                state.approvals_settled += 1;
                if ruling.verdict == ApprovalVerdict::Approve
                    && let Some(grants) = approval.grants()
                {
                    state.budget = state.budget.raised_by(grants);
                    state.approvals.remove(&ruling.call);
                }
            }
        }
        Payload::CallResolved(resolved) => {
            let runs = resolved.verdict == CallResolution::NotLanded;
            state.resolved = runs.then_some((resolved.call, event.seq));
            state.settled.insert(resolved.call);
        }
        Payload::QuestionAsked(asked) => {
            state.questions.insert(asked.call, asked.question.clone());
        }
        Payload::QuestionAnswered(answered) => {
            state.questions.remove(&answered.call);
            state.questions_settled += 1;
        }
        Payload::SubtaskSpawned(spawned) => {
            state.subtasks += 1;
            let child = OpenChild {
                any: spawned.any,
                background: spawned.background,
                budget: spawned.budget,
                call: spawned.call,
                child: spawned.child.clone(),
            };
            open(state, event, 1, ActionKind::Child(child));
        }
        Payload::SubtaskCompleted(done) => {
            leave_to_themselves(state, done);
            let slice = state.children().find(|(_, child)| child.child == done.child).map(|(_, child)| child.budget);
            if let Some(slice) = slice.filter(|_| done.unsettled) {
                state.stopped.insert(done.call, slice);
            }
            close(state, event);
            state.subtask_spent = state.subtask_spent.plus(done.spent);
        }
        Payload::BackgroundJobStarted(started) => {
            let job =
                OpenJob { call: started.call, since: event.at, tool: started.tool.clone(), what: started.what.clone() };
            open(state, event, 1, ActionKind::Job(job));
        }
        Payload::BackgroundJobEnded(ended) => {
            keep_job(state, event, ended);
            close(state, event);
        }
        Payload::TaskWoken(_) => state.resume += 1,
        Payload::FilesRestoring(restoring) => {
            state.restoring = Some(Restoring { plan: restoring.plan.clone(), seq: event.seq });
        }
        Payload::FilesRestored(_) => state.restoring = None,
        Payload::TaskSnapshot(_) => state.snapshot = Some(event.seq),
        Payload::LateResultRecorded(late) => {
            if let (Some(call), Some(spent)) = (late.call, late.spent)
                && state.stopped.remove(&call).is_some()
            {
                state.subtask_spent = state.subtask_spent.plus(spent);
            }
            state.late.push(Late { answers: late.answers, kind: late.kind, seq: event.seq })
        }
        Payload::PluginsPinned(pinned) => pinned.plugins.iter().for_each(|pin| set_pin(state, pin)),
        Payload::AgentRevised(revised) if revised.refused.is_none() => {
            // What the new definition names is on record again before its first request. It names the
            // tools of calls that are still to be started: those calls keep what they were asked for.
            let tools: Vec<String> = state.tools_to_start().map(String::from).collect();
            state.pins.retain(|pin| pin.kind == PluginKind::Tool && tools.contains(&pin.name));
        }
        Payload::ExtensionRecorded(record) => {
            state.extensions.entry(record.plugin.clone()).or_default().insert(record.kind.clone(), record.body.clone());
        }
        _ => {}
    }
}

fn set_pin(state: &mut GovernanceState, pin: &PluginPin) {
    match state.pins.iter_mut().find(|pinned| pinned.is_same_plugin(pin)) {
        Some(pinned) => *pinned = pin.clone(),
        None => state.pins.push(pin.clone()),
    }
}

/// A root's caps become those of its new definition, and what was granted on top of the old ones
/// stays granted (EN-4, EN-8).
pub(super) fn revise_budget(state: &mut GovernanceState, caps: Budget) {
    let granted = state.budget.zip(state.allotted, |cap, allotted| Some(cap?.saturating_sub(allotted.unwrap_or(0))));
    state.allotted = caps;
    state.budget = caps.raised_by(granted);
}

/// Where the first result of a reply's children is enough, the others go on by themselves;
/// children of the reply that are waited for all together are no part of that.
fn leave_to_themselves(state: &mut GovernanceState, done: &SubtaskCompleted) {
    if !state.children().any(|(_, child)| child.child == done.child && child.any) {
        return;
    }
    for action in &mut state.actions {
        if let ActionKind::Child(child) = &mut action.what
            && child.any
            && child.call.decision == done.call.decision
        {
            child.background = true;
        }
    }
}

/// Nothing pending outlives its turn, however that ended, or an attempt that became dead.
pub(super) fn lapse(state: &mut GovernanceState) {
    state.approvals.clear();
    state.questions.clear();
}

/// A new generation: what was pending is gone, what was spent stays.
pub(super) fn branch(state: &mut GovernanceState) {
    lapse(state);
    state.actions.clear();
    state.generation += 1;
    state.resume = 0;
}

/// A fork's log has seqs of its own: places in the ancestor's log mean nothing in it.
pub(super) fn forget_places(state: &mut GovernanceState) {
    state.decision = None;
    state.plan = None;
    state.resolved = None;
    state.settled.clear();
    state.restoring = None;
    state.snapshot = None;
    // Children of the ancestor say what they spent to it alone.
    state.stopped.clear();
    // Its jobs are its own: none runs for the fork, and what they said is in its log.
    state.jobs.clear();
}

/// Keeps what became of a background job, and no more of the older ones than an agent may ask for.
fn keep_job(state: &mut GovernanceState, event: &Envelope, ended: &BackgroundJobEnded) {
    let started = state.open_jobs().find(|(action, _)| Some(action.seq) == event.links.action);
    let Some((seq, started)) = started.map(|(action, job)| (action.seq, job.clone())) else { return };
    let BackgroundJobEnded { code, how, output } = ended.clone();
    state.jobs.push(EndedJob { code, how, job: seq, output, started, told: false, until: event.at });
    let mut over = state.jobs.len().saturating_sub(JOBS_KEPT_MAX);
    state.jobs.retain(|job| {
        let forgotten = job.told && over > 0;
        over -= usize::from(forgotten);
        !forgotten
    });
}

/// The conversation goes on from `landing`: what the model was told of jobs since is forgotten
/// with the rest, so it is told again of those that it knows to run, and of no other.
pub(super) fn tell_again(state: &mut GovernanceState, landing: &GovernanceState) {
    for ended in &mut state.jobs {
        let runs = landing.action(ended.job).is_some();
        let untold = landing.ended_job(ended.job).is_some_and(|ended| !ended.told);
        ended.told = !runs && !untold;
    }
}

fn open(state: &mut GovernanceState, event: &Envelope, attempt: u32, what: ActionKind) {
    let identity = Identity {
        attempt,
        fence: event.epoch,
        generation: state.generation,
        resume: state.resume,
        run: event.run.clone(),
    };
    state.actions.push(OpenAction { identity, seq: event.seq, what });
}

fn close(state: &mut GovernanceState, event: &Envelope) {
    state.actions.retain(|action| Some(action.seq) != event.links.action);
}
