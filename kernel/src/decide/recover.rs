use super::draft::{Draft, RecordError};
use super::record::{CallOutcome, ended, finish_call, start_call};
use crate::event::CallStatus;
use crate::id::Seq;
use crate::limits::TOOL_STARTS_MAX;
use crate::state::{ActionKind, OpenAction};

/// What can be said of a call that a former holder began and did not finish (RC-2).
#[derive(Debug, Clone)]
pub enum Orphan {
    /// Its result was found.
    Found(CallOutcome),
    /// Nothing was found, but the tool says that it may simply run again.
    RetrySafe,
    /// Nothing was found.
    Lost,
}

/// What the model is told of a call whose effect is unknown.
const UNKNOWN: &str = "The worker that ran this call was lost before it reported back. The call may have happened \
wholly, partly or not at all. Check what it was to change before you repeat it.";

/// Settles the orphaned call begun at `action`, in the order of RC-2: a result that was found
/// is `recovered`; a retry-safe call runs again under the same key, at most 3 starts; else
/// the outcome is `unknown`. The guards are not asked again: what runs is what was recorded
/// (RC-5).
///
/// # Errors
/// When no such call is open.
pub fn settle_orphan(draft: &mut Draft, action: Seq, orphan: Orphan) -> Result<(), RecordError> {
    let Some(OpenAction { what: ActionKind::Call(call), .. }) = draft.task().governance().action(action) else {
        return Err(draft.misplaced("no such call is open"));
    };
    let call = *call;
    let round = draft.task().runtime().round.as_ref();
    let begun = round.and_then(|round| round.calls.get(call.index as usize)).cloned();
    let begun = begun.ok_or_else(|| draft.misplaced("the call is of no round"))?;
    match orphan {
        Orphan::Found(outcome) => {
            finish_call(draft, action, CallOutcome { status: CallStatus::Recovered, ..outcome }, false)
        }
        Orphan::RetrySafe if begun.starts < TOOL_STARTS_MAX => {
            let args = begun.args.ok_or_else(|| draft.misplaced("the call was never started"))?;
            finish_call(
                draft,
                action,
                ended(CallStatus::Interrupted, "the worker was lost; the call runs again"),
                true,
            )?;
            start_call(draft, call, &begun.tool, begun.starts + 1, args)
        }
        Orphan::RetrySafe | Orphan::Lost => finish_call(draft, action, ended(CallStatus::Unknown, UNKNOWN), false),
    }
}
