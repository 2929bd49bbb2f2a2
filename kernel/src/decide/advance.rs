use super::draft::{Draft, RecordError};
use super::next::{Act, Inputs, Move, Next, next};
use super::record::{self, Composer};
use crate::event::{ApprovalVerdict, RequestStatus};
use crate::limits::MOVES_MAX;

/// Records everything that needs no outside world into `draft`, and returns the first thing
/// that does. Items that the draft takes are removed from `inputs`.
///
/// # Errors
/// When something cannot be recorded; the draft then is not to be committed.
pub fn advance(draft: &mut Draft, inputs: &mut Inputs, composer: &Composer) -> Result<Act, RecordError> {
    for _ in 0..MOVES_MAX.saturating_mul(inputs.items.len() + 1) {
        // Also what the caller recorded before may have taken items.
        inputs.items.retain(|item| !draft.consumed().contains(&item.position));
        let moved = match next(draft.task(), inputs) {
            Next::Act(act) => return Ok(act),
            Next::Record(moved) => moved,
        };
        match moved {
            Move::Cancel(position) => record::cancel(draft, position, &inputs.items)?,
            Move::Interrupt(position) => record::interrupt(draft, position, &inputs.items)?,
            Move::Wake(woken) => record::wake(draft, woken, &inputs.items)?,
            Move::Take(position) => record::take(draft, position, inputs)?,
            Move::Expire(call) => record::rule(draft, "engine", call, (ApprovalVerdict::Expire, None), inputs)?,
            Move::CloseRequest(action) => record::close_request(draft, action, RequestStatus::Interrupted)?,
            Move::Rewind(position) => {
                let prepared = inputs.rewinds.get(&position).cloned();
                let prepared = prepared.ok_or_else(|| draft.misplaced("the rewind was not prepared"))?;
                record::rewind(draft, position, &prepared, &inputs.items)?;
            }
            Move::Resume(seal) => record::resume(draft, seal)?,
            Move::Resolve(position) => record::resolve(draft, position, inputs)?,
            Move::Rest => record::rest_again(draft)?,
            Move::LoseJobs => record::lose_jobs(draft, inputs)?,
            Move::TellJobs => record::tell_jobs(draft)?,
            Move::Join => record::join(draft, &inputs.items)?,
            Move::Snapshot => draft.snapshot()?,
            Move::Compose => record::compose(draft, composer, &inputs.pins)?,
            Move::StartRequest => record::start_request(draft, composer, &inputs.pins)?,
            Move::AskForBudget => record::ask_for_budget(draft)?,
            Move::SuspendForBudget => record::suspend_for_budget(draft)?,
            Move::Suspend => record::suspend_for_calls(draft)?,
            Move::Fail(failure) => record::fail(draft, failure, &inputs.items)?,
            Move::Finish => record::finish(draft, &inputs.items)?,
        }
    }
    let head = draft.task().head();
    Err(RecordError::Endless { task: draft.task().id().clone(), seq: head.seq })
}
