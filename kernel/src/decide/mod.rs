//! What happens next, and how what happened is recorded.
//!
//! [`next()`] is a pure function of a state and what this worker sees ([`Inputs`]): the engine
//! has no other memory (EN-1). A [`Draft`] is an append in the making: the record functions
//! put events into it, each checked and folded at once by the same code as replay, so the
//! state in hand is always the state that the log will fold to (FO-2). [`advance`] ties the
//! two together: it records everything that needs no outside world and stops at the first
//! [`Act`] that does.
//!
//! Nothing here can write: only the commit path of the engine holds a claim (HO-4).

mod advance;
mod birth;
mod budget;
mod draft;
mod next;
mod record;
mod recover;

#[cfg(test)]
mod tests;

pub use advance::advance;
pub use birth::{Birth, born, forked};
pub use budget::{exhausted, remaining};
pub use draft::{Draft, Drafted, RecordError, Sent, Stamp};
pub use next::{Act, Inputs, Move, Next, next};
pub use record::{
    Answer, Aside, CallOutcome, CallPlan, ChangedFile, Composer, Foreseen, PluginRecord, Prepared, Refusal, Revision,
    Spawn, call_outcome, close_request, fail, observed, refusal, reply, restored, revise,
};
pub use recover::{AfterCrash, Orphan, settle_orphans};
