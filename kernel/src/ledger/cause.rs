use crate::envelope::Envelope;
use crate::event::{ApprovalVerdict, Class, Payload};
use crate::id::{CallId, Seq};
use crate::state::{ActionKind, GovernanceState};

/// How an event's causal links fail to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CauseError {
    /// CA-1: a decision names itself.
    #[error("a decision's `decision` is its own seq, and it has no other link")]
    Decision,
    /// CA-2: an action cites a decision.
    #[error("an action cites a decision of this log as `parent` and `decision`")]
    Action,
    /// CA-6: the decision is the one that allowed the action.
    #[error("an action cites the decision that allowed it, which is event {0}")]
    NotAllowedBy(Seq),
    /// CA-6: nothing allowed the action.
    #[error("no decision allows this action")]
    NotAllowed,
    /// CA-3: an outcome cites an open action of its kind.
    #[error("an outcome cites an action without an outcome as `parent` and `action`")]
    Outcome,
    /// CA-5: an observation or checkpoint has no links.
    #[error("an observation or checkpoint is no part of a chain")]
    Pose,
    /// CA-4: a task ends with open actions.
    #[error("event {0} is an action without an outcome, so the task cannot end")]
    OpenAction(Seq),
}

/// Checks the links of an event against what came before it (CA-1 to CA-6); called when an
/// event is built and when it is folded.
///
/// # Errors
/// The first rule that is broken.
pub fn check_links(before: &GovernanceState, event: &Envelope) -> Result<(), CauseError> {
    let links = &event.links;
    match event.kind().class() {
        Class::Decision => {
            let itself = links.decision == Some(event.seq) && links.parent.is_none() && links.action.is_none();
            itself.then_some(()).ok_or(CauseError::Decision)
        }
        Class::Action => {
            let cited = links.decision.filter(|_| links.parent == links.decision && links.action.is_none());
            let cited = cited.ok_or(CauseError::Action)?;
            let allowed = allowed_by(before, &event.payload).ok_or(CauseError::NotAllowed)?;
            if cited == allowed { Ok(()) } else { Err(CauseError::NotAllowedBy(allowed)) }
        }
        Class::Outcome => {
            let cited = links.action.filter(|_| links.parent == links.action && links.decision.is_none());
            let open = cited.and_then(|seq| before.action(seq)).ok_or(CauseError::Outcome)?;
            let fits = match (&event.payload, &open.what) {
                (Payload::LLMRequestFinished(_), ActionKind::Model) => true,
                (Payload::ToolCallFinished(finished), ActionKind::Call(call)) => finished.call == *call,
                (Payload::SubtaskCompleted(done), ActionKind::Child(child)) => {
                    done.call == child.call && done.child == child.child
                }
                (Payload::BackgroundJobEnded(_), ActionKind::Job(_)) => true,
                _ => false,
            };
            fits.then_some(()).ok_or(CauseError::Outcome)
        }
        Class::Observation | Class::Checkpoint => {
            if *links != crate::envelope::Links::default() {
                return Err(CauseError::Pose);
            }
            match before.actions.first() {
                Some(open) if event.kind().is_terminal() => Err(CauseError::OpenAction(open.seq)),
                _ => Ok(()),
            }
        }
    }
}

/// The decision that allows an action (CA-6).
fn allowed_by(before: &GovernanceState, payload: &Payload) -> Option<Seq> {
    match payload {
        Payload::LLMRequestStarted(_) => before.plan,
        Payload::ToolCallStarted(started) => call_allowed_by(before, started.call),
        Payload::SubtaskSpawned(spawned) => call_allowed_by(before, spawned.call),
        Payload::BackgroundJobStarted(started) => call_allowed_by(before, started.call),
        _ => None,
    }
}

/// The decision that allows `call`: a person's word that it did not happen, the ruling when a person was asked about it, else the
/// decision that lists it.
pub(crate) fn call_allowed_by(before: &GovernanceState, call: CallId) -> Option<Seq> {
    if let Some((_, seq)) = before.resolved.filter(|(resolved, _)| *resolved == call) {
        return Some(seq);
    }
    match before.approvals.get(&call) {
        Some(approval) => {
            approval.resolved.filter(|ruling| ruling.verdict == ApprovalVerdict::Approve).map(|ruling| ruling.seq)
        }
        None => before.decision.filter(|decision| *decision == call.decision),
    }
}
