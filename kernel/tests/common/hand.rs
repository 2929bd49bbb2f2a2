//! Logs made by hand: any payload, linked as its class asks, folded as it is written.

use std::collections::BTreeMap;
use std::fmt;

use plica_kernel::body::{Body, ContentRef, MEDIA_DEFINITION};
use plica_kernel::canonical::{Hash, genesis_hash};
use plica_kernel::envelope::{Envelope, Links, Origin};
use plica_kernel::event::*;
use plica_kernel::id::{CallId, Epoch, LedgerId, Queue, RunId, Seq, TaskId};
use plica_kernel::message::{Block, blocks_body};
use plica_kernel::snapshot;
use plica_kernel::state::{
    Task,
    fold::{FoldError, landing_of},
};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{Wake, WakeKey, Woken};

use super::Log;

/// A log and the state after each of its events.
#[derive(Clone)]
pub struct Hand {
    pub log: Log,
    pub states: Vec<Task>,
}

/// What is worth reading of a log that broke a law: its payloads.
impl fmt::Debug for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.log.envelopes().iter().try_for_each(|event| writeln!(f, "{}: {:?}", event.seq, event.payload))
    }
}

pub fn created(interactive: bool) -> TaskCreated {
    TaskCreated {
        background: false,
        agent: "hand".into(),
        budget: Budget::default(),
        call: None,
        definition: ContentRef::of(MEDIA_DEFINITION, b"{}"),
        depth: 0,
        goal: Body::Inline("goal".into()),
        interactive,
        key: None,
        labels: BTreeMap::new(),
        ledger: LedgerId::new("ledger").unwrap(),
        not_before: None,
        parent: None,
        priority: 2,
        queue: Queue::main(),
    }
}

/// An event that stands first in its log.
pub fn first(task: &str, ledger: &LedgerId, payload: Payload) -> Envelope {
    let task = TaskId::new(task).unwrap();
    Envelope {
        prev: genesis_hash(ledger, &task),
        task,
        seq: Seq(1),
        actor: "user:ada".into(),
        origin: Origin::System,
        at: Timestamp::from_micros(0),
        epoch: Epoch(0),
        run: RunId::new("birth").unwrap(),
        links: Links::default(),
        more: 0,
        trace: None,
        metrics: BTreeMap::new(),
        payload,
    }
}

pub fn message(role: Role, origin: Option<MessageOrigin>, blocks: &[Block]) -> Message {
    Message { blocks: blocks_body(blocks, &mut vec![]).unwrap(), origin, role }
}

pub fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

pub fn tool_use() -> Block {
    Block::ToolUse { args: "{}".into(), id: None, tool: "Tool".into() }
}

impl Hand {
    pub fn begin(interactive: bool) -> Self {
        let created = created(interactive);
        let event = first("hand", &created.ledger.clone(), created.into());
        let sealed = event.seal().unwrap();
        let task = Task::begin(&event, sealed.hash, None).unwrap();
        Self { log: Log { appends: vec![vec![sealed]], blobs: BTreeMap::new() }, states: vec![task] }
    }

    /// A log that branches off this one at `at`.
    pub fn fork(&self, id: &str, at: Seq) -> Self {
        let source = &self.states[at.0 as usize - 1];
        let ledger = LedgerId::new("ledger").unwrap();
        let forked = TaskForked {
            ledger: ledger.clone(),
            source: source.id().clone(),
            source_hash: source.head().hash,
            source_seq: at,
        };
        let event = first(id, &ledger, forked.into());
        let sealed = event.seal().unwrap();
        let task = Task::begin(&event, sealed.hash, Some(source)).unwrap();
        Self { log: Log { appends: vec![vec![sealed]], blobs: self.log.blobs.clone() }, states: vec![task] }
    }

    pub fn task(&self) -> &Task {
        self.states.last().unwrap()
    }

    pub fn head(&self) -> Seq {
        self.task().head().seq
    }

    /// The next event, as [`follow`] makes it.
    pub fn next(&self, cause: Option<Seq>, payload: impl Into<Payload>) -> Envelope {
        follow(self.task(), cause, payload.into())
    }

    /// Writes an event, if it can follow.
    pub fn write(&mut self, event: &Envelope) -> Result<Seq, FoldError> {
        let sealed = event.seal().unwrap();
        let mut task = self.task().clone();
        let before = task.clone();
        let folded = match landing_of(event) {
            Some(landing) => {
                let landing = self.states.get((landing.0 as usize).wrapping_sub(1)).unwrap_or(&before);
                task.apply_landing(event, sealed.hash, landing)
            }
            None => task.apply(event, sealed.hash),
        };
        if let Err(error) = folded {
            assert_eq!(task, before, "a refused event changes nothing");
            return Err(error);
        }
        self.states.push(task);
        self.log.appends.push(vec![sealed]);
        Ok(event.seq)
    }

    pub fn try_push(&mut self, cause: Option<Seq>, payload: impl Into<Payload>) -> Result<Seq, FoldError> {
        let event = self.next(cause, payload);
        self.write(&event)
    }

    pub fn push(&mut self, payload: impl Into<Payload>) -> Seq {
        self.try_push(None, payload).unwrap()
    }

    pub fn caused(&mut self, cause: Seq, payload: impl Into<Payload>) -> Seq {
        self.try_push(Some(cause), payload).unwrap()
    }

    pub fn snapshot(&mut self) -> Seq {
        let mut blobs = vec![];
        let taken = snapshot::take(self.states.last_mut().unwrap(), &mut blobs).unwrap();
        self.log.keep(blobs);
        self.push(taken)
    }

    pub fn say(&mut self, said: &str) -> Seq {
        let message = message(Role::User, Some(MessageOrigin::Human), &[text(said)]);
        self.push(MessagesAppended { jobs: vec![], messages: vec![message] })
    }

    pub fn compose(&mut self) -> Seq {
        let definition = self.task().definition().clone();
        let through = self.head();
        self.push(ContextPlanComposed { composer: "plain.v1".into(), definition, refs: vec![], through })
    }

    /// Starts a request from `plan`.
    pub fn ask(&mut self, plan: Seq, attempt: u32) -> Seq {
        self.caused(plan, LLMRequestStarted { attempt, model: "m".into() })
    }

    pub fn answered(&mut self, request: Seq, status: RequestStatus) -> Seq {
        self.caused(request, answered(status))
    }

    /// Composes, asks and is answered with these blocks, up to the decision on them.
    pub fn reply(&mut self, blocks: &[Block]) -> Seq {
        let plan = self.compose();
        let request = self.ask(plan, 1);
        self.answered(request, RequestStatus::Ok);
        self.push(MessagesAppended { jobs: vec![], messages: vec![message(Role::Assistant, None, blocks)] });
        let calls = blocks.iter().filter(|block| matches!(block, Block::ToolUse { .. })).count();
        self.push(decision(calls))
    }

    pub fn start(&mut self, call: CallId, attempt: u32) -> Seq {
        self.caused(call.decision, started(call, attempt))
    }

    pub fn finish(&mut self, action: Seq, call: CallId, status: CallStatus, output: &str) -> Seq {
        self.caused(action, finished(call, status, output))
    }

    pub fn wake(&mut self) -> Seq {
        let item = Woken { data: None, due: None, key: Some(WakeKey::Message), kind: "message".into(), position: None };
        self.push(TaskWoken { item })
    }

    /// Ends a turn that was decided to be over.
    pub fn rest(&mut self) -> Seq {
        self.push(suspended(Some("answer")))
    }
}

/// The event after `task`, linked as its class asks: `cause` is the decision of an action or the
/// action of an outcome.
pub fn follow(task: &Task, cause: Option<Seq>, payload: Payload) -> Envelope {
    let head = task.head();
    let seq = head.seq.next();
    let links = match payload.kind().class() {
        Class::Decision => Links { decision: Some(seq), ..Links::default() },
        Class::Action => Links { parent: cause, decision: cause, action: None },
        Class::Outcome => Links { parent: cause, decision: None, action: cause },
        Class::Observation | Class::Checkpoint => Links::default(),
    };
    let people = matches!(&payload, Payload::MessagesAppended(said) if said.messages.iter().any(|message| message.origin.is_some()));
    Envelope {
        task: task.id().clone(),
        seq,
        actor: "hand".into(),
        origin: if people { Origin::System } else { Origin::Engine },
        at: head.at,
        epoch: Epoch(1),
        run: RunId::new("run").unwrap(),
        links,
        more: 0,
        trace: None,
        metrics: BTreeMap::new(),
        prev: head.hash,
        payload,
    }
}

pub fn suspended(answer: Option<&str>) -> TaskSuspended {
    TaskSuspended {
        answer: answer.map(|answer| Body::Inline(answer.into())),
        failure: None,
        reason: SuspendReason::Message,
        wake: Wake::on(WakeKey::Message),
    }
}

pub fn answered(status: RequestStatus) -> LLMRequestFinished {
    LLMRequestFinished {
        cost_nano_usd: Some(1),
        elapsed_ms: 1,
        error: None,
        extra: None,
        reply: None,
        status,
        stop: None,
        usage: Usage { output: 1, uncached: 1, ..Usage::default() },
    }
}

/// A decision on a reply with that many calls.
pub fn decision(calls: usize) -> DecisionRecorded {
    let kind = if calls > 0 { DecisionKind::Calls } else { DecisionKind::Finish };
    let answer = (calls == 0).then(|| Body::Inline("answer".into()));
    let calls = vec![CallEntry { rule: None, tool: "Tool".into(), wait: None }; calls];
    DecisionRecorded { answer, calls, kind, over: 0 }
}

pub fn started(call: CallId, attempt: u32) -> ToolCallStarted {
    ToolCallStarted { args: Body::Inline("{}".into()), attempt, call, files: Vec::new(), tool: "Tool".into() }
}

pub fn finished(call: CallId, status: CallStatus, output: &str) -> ToolCallFinished {
    let output = Body::Inline(output.into());
    ToolCallFinished { again: false, call, elapsed_ms: 1, files: vec![], files_over: 0, output, status, whole: None }
}

pub fn call(decision: Seq, index: u32) -> CallId {
    CallId { decision, index }
}

pub fn asked(call: CallId) -> ApprovalRequested {
    ApprovalRequested {
        args: Body::Inline("{}".into()),
        call,
        digest: Hash::from_bytes([3; 32]),
        expires: None,
        rule: None,
        subject: None,
        tool: "Tool".into(),
    }
}

pub fn ruled(call: CallId, verdict: ApprovalVerdict) -> ApprovalResolved {
    ApprovalResolved { call, digest: Hash::from_bytes([3; 32]), reason: None, verdict }
}

pub fn question(call: CallId) -> QuestionAsked {
    QuestionAsked { call, question: Body::Inline("which?".into()) }
}

pub fn spawned(call: CallId, n: u32) -> SubtaskSpawned {
    SubtaskSpawned {
        agent: "child".into(),
        any: false,
        background: false,
        budget: Budget::default(),
        call,
        child: TaskId::new("hand").unwrap().child(call, n),
        definition: ContentRef::of(MEDIA_DEFINITION, b"{}"),
        goal: Body::Inline("child's goal".into()),
    }
}

pub fn child_done(call: CallId, n: u32) -> SubtaskCompleted {
    SubtaskCompleted {
        answer: Body::Inline("child's answer".into()),
        call,
        child: TaskId::new("hand").unwrap().child(call, n),
        failure: None,
        spent: Spent { nano_usd: 1, steps: 2, tokens: 3, wall_ms: 4 },
        status: SubtaskStatus::Completed,
        unsettled: false,
    }
}
