//! The fold: the only writers of the slices, one file a slice.
//!
//! [`Task::apply`] checks that an event can follow (FO-4) and then hands it to each slice's
//! handler, which sees its own slice and the event and nothing else. The live engine and
//! replay both go through it (FO-2).

mod check;
mod context;
mod governance;
mod live_path;
mod runtime;
mod task;

use alloc::string::{String, ToString};

use super::{ContextState, GovernanceState, Parent, Phase, RuntimeState, Task, TaskState};
use crate::canonical::Hash;
use crate::envelope::Envelope;
use crate::event::{AgentRevised, EventType, Payload, TaskCreated};
use crate::id::{Seq, TaskId};
use crate::ledger::Head;
use crate::row::Status;
use crate::wake::{Wake, WakeKey};

pub use live_path::{Folder, landing_of};

/// Version of the code that folds: a hash over its sources, made at build time (SN-2).
pub fn fold_version() -> Hash {
    Hash::parse(env!("PLICA_FOLD_VERSION")).unwrap_or(Hash::from_bytes([0; 32]))
}

/// An event that cannot follow what came before it (FO-4).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task {task}: event {seq}: {rule}")]
pub struct FoldError {
    /// The task.
    pub task: TaskId,
    /// The event.
    pub seq: Seq,
    /// The rule that is broken.
    pub rule: String,
}

impl FoldError {
    pub(crate) fn new(event: &Envelope, rule: impl ToString) -> Self {
        Self { task: event.task.clone(), seq: event.seq, rule: rule.to_string() }
    }
}

impl Task {
    /// The state after a task's first event. A fork takes the state of its source at the
    /// event it branches from.
    ///
    /// # Errors
    /// When the event cannot be a log's first.
    pub fn begin(event: &Envelope, hash: Hash, ancestor: Option<&Self>) -> Result<Self, FoldError> {
        crate::ledger::check_chain(None, event).map_err(|error| FoldError::new(event, error))?;
        crate::ledger::check_links(&GovernanceState::default(), event).map_err(|error| FoldError::new(event, error))?;
        let head = Head { at: event.at, epoch: event.epoch, hash, seq: event.seq };
        match (&event.payload, ancestor) {
            (Payload::TaskCreated(created), _) => Ok(Self::created(event, created, head)),
            (Payload::TaskForked(forked), Some(ancestor)) => {
                if (&forked.source, forked.source_seq, forked.source_hash)
                    != (&ancestor.id, ancestor.head.seq, ancestor.head.hash)
                {
                    return Err(FoldError::new(event, "the fork's source is not the state it was given"));
                }
                if ancestor.parent.is_some() || !ancestor.is_turn_boundary() {
                    return Err(FoldError::new(event, "only a root task forks, and only where no turn is under way"));
                }
                let mut task = ancestor.clone();
                task.id = event.task.clone();
                task.closed = false;
                governance::branch(&mut task.governance);
                governance::forget_places(&mut task.governance);
                context::forget_places(&mut task.context);
                runtime::land(&mut task.runtime);
                runtime::forget_places(&mut task.runtime);
                task.head = head;
                task.rest_for_message();
                Ok(task)
            }
            (Payload::TaskForked(_), None) => Err(FoldError::new(event, "a fork needs the state of its source")),
            _ => Err(FoldError::new(event, "a log begins with TaskCreated or TaskForked")),
        }
    }

    fn created(event: &Envelope, created: &TaskCreated, head: Head) -> Self {
        let parent =
            created.parent.clone().map(|task| Parent { background: created.background, call: created.call, task });
        Self {
            agent: created.agent.clone(),
            closed: false,
            context: ContextState::default(),
            definition: created.definition.clone(),
            depth: created.depth,
            governance: GovernanceState { allotted: created.budget, budget: created.budget, ..Default::default() },
            head,
            interactive: created.interactive,
            parent,
            runtime: RuntimeState::default(),
            state: TaskState { goal: created.goal.clone(), ..Default::default() },
            status: Status::Ready,
            id: event.task.clone(),
            wake: Wake::default(),
        }
    }

    /// Takes the next event in. On an error the state is unchanged.
    ///
    /// # Errors
    /// The rule by which the event cannot follow.
    pub fn apply(&mut self, event: &Envelope, hash: Hash) -> Result<(), FoldError> {
        if landing_of(event).is_some() {
            return Err(FoldError::new(event, "needs the state of its landing"));
        }
        check::check(self, event)?;
        self.take(event, hash);
        Ok(())
    }

    /// Takes in a rewind, or a seal that is to be redriven: the conversation becomes that of
    /// `landing`, the state as of [`landing_of`] the event; what was spent stays spent (SN-1).
    ///
    /// # Errors
    /// The rule by which the event cannot follow, or a landing that is not the right one.
    pub fn apply_landing(&mut self, event: &Envelope, hash: Hash, landing: &Self) -> Result<(), FoldError> {
        check::check(self, event)?;
        if landing_of(event) != Some(landing.head.seq) || landing.id != self.id {
            return Err(FoldError::new(event, "the landing is not the state this event names"));
        }
        let rewound = event.kind() == EventType::TaskRewound;
        if rewound && !landing.is_turn_boundary() {
            return Err(FoldError::new(event, "a rewind lands where no turn is under way"));
        }
        let seals = self.runtime.seals;
        let met_meanwhile =
            if rewound { alloc::vec::Vec::new() } else { runtime::people_since(&self.runtime, &landing.runtime) };
        self.runtime = landing.runtime.clone();
        self.state = landing.state.clone();
        self.context = landing.context.clone();
        runtime::forget_settled(&mut self.runtime, &self.governance.settled);
        runtime::keep(&mut self.runtime, met_meanwhile);
        governance::tell_again(&mut self.governance, &landing.governance);
        if rewound {
            runtime::land(&mut self.runtime);
            governance::branch(&mut self.governance);
            self.rest_for_message();
        } else {
            governance::lapse(&mut self.governance);
            runtime::seal(&mut self.runtime, seals);
        }
        self.advance(event, hash);
        Ok(())
    }

    /// Gives the head the hash that was not known before its append was complete.
    pub(crate) fn seal_head(&mut self, hash: Hash) {
        self.head.hash = hash;
    }

    fn take(&mut self, event: &Envelope, hash: Hash) {
        runtime::apply(&mut self.runtime, event);
        task::apply(&mut self.state, event);
        context::apply(&mut self.context, event);
        governance::apply(&mut self.governance, event);
        if self.runtime.phase == Phase::Rest {
            governance::lapse(&mut self.governance);
        }
        self.apply_header(&event.payload);
        self.advance(event, hash);
    }

    fn advance(&mut self, event: &Envelope, hash: Hash) {
        self.head = Head { at: event.at, epoch: event.epoch, hash, seq: event.seq };
    }

    /// Where the task stands and what wakes it.
    fn apply_header(&mut self, payload: &Payload) {
        let status = match payload {
            Payload::ContextPlanComposed(_) => Status::Running,
            Payload::TaskSuspended(suspended) => {
                self.wake = suspended.wake.clone();
                self.status = Status::Waiting;
                return;
            }
            Payload::TaskWoken(_) => Status::Ready,
            Payload::TaskCompleted(_) => Status::Completed,
            Payload::TaskFailed(_) => Status::Failed,
            Payload::TaskCancelled(_) => Status::Cancelled,
            Payload::AgentRevised(revised) => {
                self.revise(revised);
                return;
            }
            Payload::ConversationClosed(_) => {
                self.closed = true;
                return;
            }
            Payload::ConversationReopened(_) => {
                self.closed = false;
                if self.status.is_over() {
                    self.rest_for_message();
                }
                // A turn that goes on in a closed conversation goes on when it is opened.
                return;
            }
            _ => return,
        };
        self.status = status;
        self.wake = Wake::default();
    }

    fn revise(&mut self, revised: &AgentRevised) {
        if revised.refused.is_some() {
            return;
        }
        self.agent = revised.agent.clone();
        self.definition = revised.definition.clone();
        // A child answers the call that spawned it, and spends what that call was given.
        if self.parent.is_none() {
            self.interactive = revised.interactive;
            governance::revise_budget(&mut self.governance, revised.budget);
        }
    }

    fn rest_for_message(&mut self) {
        self.status = Status::Waiting;
        self.wake = Wake::on(WakeKey::Message);
    }
}
