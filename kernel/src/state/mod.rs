//! The state of a task: four slices with one writer each.
//!
//! The slices' members are public to read. [`Task`] keeps the slices private and hands out
//! shared references, and only the fold handlers below this module can change them (HO-2):
//!
//! ```compile_fail,E0616
//! fn cheat(task: &mut plica_kernel::state::Task) {
//!     task.governance.cost_nano_usd = 0; // private: only the fold writes
//! }
//! ```
//!
//! ```compile_fail,E0594
//! fn cheat(task: &mut plica_kernel::state::Task) {
//!     task.governance().cost_nano_usd = 0; // a shared reference
//! }
//! ```

mod context;
pub mod fold;
mod governance;
mod list;
mod runtime;
mod task;

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::body::{Blob, ContentRef};
use crate::canonical::{CanonicalError, to_vec};
use crate::id::{RunId, TaskId};
use crate::ledger::{Head, Identity};
use crate::row::{Projection, Status};
use crate::wake::Wake;

pub use context::{Compaction, ContextState, Thinking};
pub(crate) use governance::grants_of;
pub use governance::{
    ActionKind, Approval, ApprovalRuling, Denial, EndedJob, GovernanceState, Late, OpenAction, OpenChild, OpenJob,
    Restoring,
};
pub use list::{List, Sealed};
pub use runtime::{
    CallResult, ChildCall, Entry, Phase, RequestPhase, ResultStatus, Results, Round, RoundCall, RuntimeState,
    UnknownCall,
};
pub use task::TaskState;

/// A task's state: what its log folds to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    agent: String,
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    closed: bool,
    context: ContextState,
    definition: ContentRef,
    depth: u32,
    governance: GovernanceState,
    head: Head,
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    interactive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<Parent>,
    runtime: RuntimeState,
    state: TaskState,
    status: Status,
    #[serde(rename = "task")]
    id: TaskId,
    wake: Wake,
}

/// Where a child came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Whether that call was answered at once and this child goes on by itself.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub background: bool,
    /// The call of the parent that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<crate::id::CallId>,
    /// The parent.
    pub task: TaskId,
}

impl Task {
    /// The task's id.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// The agent's name.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The agent definition in force.
    pub fn definition(&self) -> &ContentRef {
        &self.definition
    }

    /// Where a child came from.
    pub fn parent(&self) -> Option<&Parent> {
        self.parent.as_ref()
    }

    /// Steps from the root.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether a finished turn waits for the next message.
    pub fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Whether the conversation is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether nothing is under way that a definition is used for: no request is composed, no
    /// tool runs, no end is decided on. Whatever waits, for people, children, events or the time,
    /// waits on.
    pub fn is_between_steps(&self) -> bool {
        let idle = self.status == Status::Waiting
            || matches!(self.runtime.phase, Phase::Compose | Phase::Rest | Phase::Woken | Phase::Calls);
        let runs = |action: &OpenAction| matches!(action.what, ActionKind::Model | ActionKind::Call(_));
        idle && !self.status.is_over() && !self.governance.actions.iter().any(runs)
    }

    /// The tools of calls that are still to be started, once someone lets them run.
    pub fn tools_to_start(&self) -> impl Iterator<Item = &str> {
        self.governance.tools_to_start()
    }

    /// What wakes it; empty unless it waits.
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Whether no turn is under way: where a rewind may land and a fork may branch off (SN-4,
    /// SN-5).
    pub fn is_turn_boundary(&self) -> bool {
        matches!(self.runtime.phase, Phase::Rest | Phase::Woken)
    }

    /// The last event.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// What the engine recorded.
    pub fn runtime(&self) -> &RuntimeState {
        &self.runtime
    }

    /// The agent's own view of its work.
    pub fn state(&self) -> &TaskState {
        &self.state
    }

    /// What requests are made of, besides the conversation.
    pub fn context(&self) -> &ContextState {
        &self.context
    }

    /// What the whole stream adds up to.
    pub fn governance(&self) -> &GovernanceState {
        &self.governance
    }

    /// What the row holds of this state.
    ///
    /// * **ST-13** A task that waits with live background jobs is due whenever nobody holds it: its
    ///   row says so by a timer that has gone off.
    pub fn projection(&self) -> Projection {
        let mut wake = self.wake.clone();
        if self.status == Status::Waiting && self.governance.open_jobs().next().is_some() {
            wake.at = Some(wake.at.map_or(self.head.at, |at| at.min(self.head.at)));
        }
        Projection { seq: self.head.seq, hash: self.head.hash, status: self.status, wake, closed: self.closed }
    }

    /// The identity under which an action that starts now would answer (section 7).
    pub fn identity(&self, attempt: u32, run: &RunId, epoch: crate::id::Epoch) -> Identity {
        Identity {
            attempt,
            fence: epoch,
            generation: self.governance.generation,
            resume: self.governance.resume,
            run: run.clone(),
        }
    }

    /// The state as one canonical object: the same bytes for the same log, on any machine
    /// (FO-1).
    ///
    /// # Errors
    /// When sealed segments are still unread (see [`crate::snapshot::unread`]).
    pub fn to_bytes(&self) -> Result<Vec<u8>, CanonicalError> {
        to_vec(self)
    }

    /// Every list that only grows, by name: what snapshots seal.
    pub(crate) fn seal_lists(&mut self, blobs: &mut Vec<Blob>) -> Result<(SealedLists, Self), CanonicalError> {
        let (messages, messages_tail) = self.runtime.messages.seal(blobs)?;
        let (turns, turns_tail) = self.runtime.turns.seal(blobs)?;
        let (thinking, thinking_tail) = self.context.thinking.seal(blobs)?;
        let (denials, denials_tail) = self.governance.denials.seal(blobs)?;
        let (late, late_tail) = self.governance.late.seal(blobs)?;
        let mut open = self.clone();
        open.runtime.messages = messages_tail;
        open.runtime.turns = turns_tail;
        open.context.thinking = thinking_tail;
        open.governance.denials = denials_tail;
        open.governance.late = late_tail;
        Ok((SealedLists { denials, late, messages, thinking, turns }, open))
    }

    /// Puts sealed segments before the tails.
    pub(crate) fn precede_lists(&mut self, lists: SealedLists) {
        self.runtime.messages.precede(lists.messages);
        self.runtime.turns.precede(lists.turns);
        self.context.thinking.precede(lists.thinking);
        self.governance.denials.precede(lists.denials);
        self.governance.late.precede(lists.late);
    }

    /// The last unread segment of each list, with which list it is.
    pub(crate) fn unread_lists(&self) -> impl Iterator<Item = (ListName, &Sealed)> {
        [
            (ListName::Messages, self.runtime.messages.unread()),
            (ListName::Turns, self.runtime.turns.unread()),
            (ListName::Thinking, self.context.thinking.unread()),
            (ListName::Denials, self.governance.denials.unread()),
            (ListName::Late, self.governance.late.unread()),
        ]
        .into_iter()
        .filter_map(|(name, unread)| Some((name, unread?)))
    }

    /// Takes in the bytes of a list's last unread segment.
    pub(crate) fn supply_list(&mut self, name: ListName, bytes: &[u8]) -> Result<(), CanonicalError> {
        match name {
            ListName::Messages => self.runtime.messages.supply(bytes),
            ListName::Turns => self.runtime.turns.supply(bytes),
            ListName::Thinking => self.context.thinking.supply(bytes),
            ListName::Denials => self.governance.denials.supply(bytes),
            ListName::Late => self.governance.late.supply(bytes),
        }
    }
}

/// The lists that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListName {
    /// The conversation.
    Messages,
    /// Usage by turn.
    Turns,
    /// Thinking by reply.
    Thinking,
    /// Calls never started.
    Denials,
    /// Results that came too late.
    Late,
}

/// The sealed part of every list, as a snapshot holds it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SealedLists {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    denials: Option<Sealed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late: Option<Sealed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    messages: Option<Sealed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thinking: Option<Sealed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turns: Option<Sealed>,
}
