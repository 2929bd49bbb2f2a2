//! The end of a budget: a person is asked for more, and the task waits (EN-4).

use super::turn::{snapshot_if_due, wake_of_background};
use crate::body::{Body, MEDIA_JSON};
use crate::canonical::{Domain, to_vec};
use crate::decide::budget::grants;
use crate::decide::draft::{Draft, RecordError};
use crate::envelope::Origin;
use crate::event::{ApprovalRequested, ApprovalSubject, Budget, SuspendReason, TaskSuspended};
use crate::id::CallId;
use crate::wake::{Alternative, WakeKey};

/// The name that the approval goes by in the place of a tool's.
const BUDGET: &str = "budget";

/// Asks for as much again as the task was given of each cap that is used up, and suspends until
/// someone rules on it. The approval is bound to the task and the amounts.
pub(in crate::decide) fn ask_for_budget(draft: &mut Draft) -> Result<(), RecordError> {
    #[derive(serde::Serialize)]
    struct Exact<'a> {
        call: CallId,
        grants: Budget,
        subject: ApprovalSubject,
        task: &'a str,
    }
    let grants = grants(draft.task().governance());
    let call = CallId { decision: draft.task().head().seq.next(), index: 0 };
    let exact = Exact { call, grants, subject: ApprovalSubject::Budget, task: draft.task().id().as_str() };
    let digest = Domain::Call.hash(&to_vec(&exact)?);
    let args = alloc::string::String::from_utf8_lossy(&to_vec(&grants)?).into_owned();
    let asked = ApprovalRequested {
        args: Body::of(&args, MEDIA_JSON, draft.blobs()),
        call,
        digest,
        expires: None,
        rule: None,
        subject: Some(ApprovalSubject::Budget),
        tool: BUDGET.into(),
    };
    draft.push("engine", Origin::Engine, None, asked)?;
    suspend_for_budget(draft)
}

/// Suspends until someone rules on the budget, or a child that goes on by itself gives back
/// what it did not spend.
pub(in crate::decide) fn suspend_for_budget(draft: &mut Draft) -> Result<(), RecordError> {
    let Some((call, _)) = draft.task().governance().budget_approval() else {
        return Err(draft.misplaced("nobody was asked for more budget"));
    };
    snapshot_if_due(draft)?;
    let mut wake = wake_of_background(draft.task());
    wake.any.insert(0, Alternative { key: WakeKey::Answer(call.decision), need: 1 });
    let suspended = TaskSuspended { answer: None, failure: None, reason: SuspendReason::Budget, wake };
    draft.push("engine", Origin::Engine, None, suspended).map(|_| ())
}
