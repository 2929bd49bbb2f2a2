//! Everything a person or program does to tasks from outside.

mod back;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plica_kernel::body::{Blob, Body, ContentRef, MEDIA_DEFINITION};
use plica_kernel::decide::{Birth, Drafted, Stamp, born};
use plica_kernel::event::{ApprovalVerdict, CallResolution, Failure, MessageOrigin, Payload, Role, TaskCreated};
use plica_kernel::id::{CallId, DedupKey, Epoch, Position, Queue, RunId, Seq, TaskId};
use plica_kernel::message::Block;
use plica_kernel::state::{Entry, ResultStatus, Task};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::store::{
    Created, Delivered, Facts, NewTask, Page, Row, StoreError, StoredEvent, TaskFilter, rules::fingerprint,
};
use plica_ports::{ContentError, ContentStore, Definition, Store};

use crate::act::millis;
use crate::compose::{ComposeError, blocks_of, text_of};
use crate::error::{ClientError, LoadError};
use crate::load::{LoadOptions, load, read_event};
use crate::revise;
use crate::verify::Verdict;

/// Characters of a goal that the row keeps for lists.
const GOAL_SHOWN: usize = 200;
/// Events before the last among which the end of a task is looked for: late evidence may
/// follow it.
const ENDINGS_LOOKED_AT: u64 = 63;
/// Rows read at once to find the newest root.
const ROWS_LOOKED_AT: usize = 64;
/// Priority class of a task that asks for none.
const PRIORITY: u8 = 2;

/// Before when a task is not to be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotBefore {
    /// This time.
    At(Timestamp),
    /// So long after its creation, by the store's clock. The same delay under the same key is
    /// the same submission, whenever it is repeated.
    In(Duration),
}

impl NotBefore {
    fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::In(delay) => now.plus_millis(millis(delay)),
        }
    }
}

/// A task to be submitted.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Who asks.
    pub actor: String,
    /// The agent.
    pub definition: Definition,
    /// Bodies that the definition cites: scripts, subagents.
    pub blobs: Vec<Blob>,
    /// What to do.
    pub goal: String,
    /// Makes the submission idempotent.
    pub key: Option<DedupKey>,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// Not to be claimed before.
    pub not_before: Option<NotBefore>,
    /// The queue, if not the definition's.
    pub queue: Option<Queue>,
    /// Priority class, 0 first; 2 unless given.
    pub priority: Option<u8>,
}

impl Submission {
    /// A submission of `goal` to an agent that cites nothing else.
    pub fn new(definition: Definition, goal: impl Into<String>) -> Self {
        Self {
            actor: "user".into(),
            definition,
            blobs: Vec::new(),
            goal: goal.into(),
            key: None,
            labels: BTreeMap::new(),
            not_before: None,
            queue: None,
            priority: None,
        }
    }
}

/// One thing said in a conversation, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A message.
    Message {
        /// Who speaks.
        role: Role,
        /// Where it comes from, unless the model said it.
        origin: Option<MessageOrigin>,
        /// What it says.
        blocks: Vec<Block>,
    },
    /// The result of a call.
    Result {
        /// The call.
        call: CallId,
        /// The tool that was named.
        tool: String,
        /// How it ended.
        status: ResultStatus,
        /// What the model was told.
        output: String,
    },
}

/// Does to tasks what people and programs do from outside; works on any store, with or
/// without a worker alive.
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    content: Option<Arc<dyn ContentStore>>,
}

impl Client {
    /// A client of a store that keeps content too.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, content: None }
    }

    /// A client whose bodies live in a content store of their own.
    pub fn with_content(store: Arc<dyn Store>, content: Arc<dyn ContentStore>) -> Self {
        Self { store, content: Some(content) }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn content(&self) -> Result<&dyn ContentStore, ContentError> {
        match &self.content {
            Some(content) => Ok(&**content),
            None => self.store.content().ok_or_else(|| ContentError::Unavailable("the store keeps no content".into())),
        }
    }

    /// Creates a task; it runs once a worker claims it.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is created then, unless the error says that this is
    /// unknown.
    pub async fn submit(&self, submission: Submission) -> Result<Created, ClientError> {
        let ledger = self.store.ledger().await?;
        let now = self.store.now().await?;
        let definition = Blob::new(MEDIA_DEFINITION, submission.definition.to_bytes()?);
        let queue =
            submission.queue.clone().or_else(|| submission.definition.queue.clone()).unwrap_or_else(Queue::main);
        let priority = submission.priority.unwrap_or(PRIORITY);
        let print = self.fingerprint(&submission, &definition.reference, &queue, priority);
        let not_before = submission.not_before.map(|not_before| not_before.resolve(now));
        let id = new_task_id();
        let created = TaskCreated {
            agent: submission.definition.name.clone(),
            background: false,
            budget: submission.definition.budget,
            call: None,
            definition: definition.reference.clone(),
            depth: 0,
            goal: Body::default(),
            interactive: submission.definition.interactive,
            key: submission.key.clone(),
            labels: submission.labels.clone(),
            ledger,
            not_before,
            parent: None,
            priority,
            queue: queue.clone(),
        };
        let facts = Facts {
            agent: created.agent.clone(),
            goal: submission.goal.chars().take(GOAL_SHOWN).collect(),
            parent: None,
            source: None,
            queue,
            priority,
            labels: submission.labels,
            not_before,
            created_at: now,
        };
        let mut blobs = submission.blobs;
        blobs.push(definition);
        let birth = Birth { id: id.clone(), actor: submission.actor, goal: submission.goal, created, blobs };
        let drafted = born(birth, Stamp { now, epoch: Epoch(0), run: new_run_id() })?;
        let mut task = new_task(drafted, facts);
        task.key = submission.key.map(|key| (key, print));
        if let Some(content) = &self.content {
            for blob in std::mem::take(&mut task.blobs) {
                content.put(&blob).await?;
            }
        }
        Ok(self.store.create(task).await?)
    }

    fn fingerprint(
        &self,
        submission: &Submission,
        definition: &ContentRef,
        queue: &Queue,
        priority: u8,
    ) -> plica_kernel::canonical::Hash {
        let labels = format!("{:?}", submission.labels);
        let not_before = match submission.not_before {
            None => String::new(),
            Some(NotBefore::At(time)) => time.to_string(),
            Some(NotBefore::In(delay)) => format!("in {} ms", millis(delay)),
        };
        fingerprint(&[
            submission.goal.as_bytes(),
            definition.sha256.as_bytes(),
            queue.as_str().as_bytes(),
            &[priority],
            labels.as_bytes(),
            not_before.as_bytes(),
        ])
    }

    /// Tasks whose id is, or begins with, `text`; an exact id wins.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find(&self, text: &str) -> Result<Vec<Row>, ClientError> {
        if let Ok(id) = TaskId::new(text)
            && let Some(row) = self.store.row(&id).await?
        {
            return Ok(vec![row]);
        }
        let filter = TaskFilter { prefix: Some(text.to_owned()), ..TaskFilter::default() };
        Ok(self.store.tasks(&filter, &Page::first(20)).await?)
    }

    /// The newest task that someone created, if there is one: what tasks spawn by themselves is
    /// passed over.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn newest(&self) -> Result<Option<Row>, ClientError> {
        let mut page = Page::first(ROWS_LOOKED_AT);
        loop {
            let rows = self.store.tasks(&TaskFilter::default(), &page).await?;
            let full = rows.len() == page.limit;
            page.after = rows.last().map(|last| (last.facts.created_at, last.id.clone()));
            match rows.into_iter().find(|row| row.facts.parent.is_none()) {
                None if full => {}
                found => return Ok(found),
            }
        }
    }

    /// The row of a task.
    ///
    /// # Errors
    /// When there is none, or the store cannot be read.
    pub async fn row(&self, task: &TaskId) -> Result<Row, ClientError> {
        Ok(self.store.row(task).await?.ok_or_else(|| StoreError::UnknownTask(task.clone()))?)
    }

    /// Rows that match, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, ClientError> {
        Ok(self.store.tasks(filter, page).await?)
    }

    /// The state of a task, whole, as of any seq (SN-6), or of the last there is when this begins:
    /// a worker may append meanwhile, and what a rewind lands on is found before the log is read.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub async fn state(&self, task: &TaskId, at: Option<Seq>, ignore_snapshots: bool) -> Result<Task, ClientError> {
        let at = match at {
            Some(at) => at,
            None => self.row(task).await?.projection.seq,
        };
        let options = LoadOptions { at: Some(at), ignore_snapshots, whole: true };
        let content = self.content()?;
        match load(&*self.store, content, task, options).await {
            // A snapshot whose segments are gone is slower, never wrong (SN-2).
            Err(LoadError::Content { .. }) if !ignore_snapshots => {
                Ok(load(&*self.store, content, task, LoadOptions { ignore_snapshots: true, ..options }).await?)
            }
            loaded => Ok(loaded?),
        }
    }

    /// Stored events from `from` on, at most `limit`, as their exact bytes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn events(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, ClientError> {
        Ok(self.store.read(task, from, limit).await?)
    }

    /// Returns when the task has events after `after`, or after `timeout`; says whether it has.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn watch(&self, task: &TaskId, after: Seq, timeout: Duration) -> Result<bool, ClientError> {
        Ok(self.store.watch(task, after, Position(u64::MAX), timeout).await?)
    }

    /// The whole text of a body.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn text(&self, task: &TaskId, body: &Body) -> Result<String, ClientError> {
        text_of(body, self.content()?).await.map_err(|error| text_error(task, &error))
    }

    /// The event by which the task ended or its last turn did: what became of it. `None` while
    /// a turn is under way.
    ///
    /// # Errors
    /// When the store cannot be read, or the end of the log.
    pub async fn ended_by(&self, task: &TaskId) -> Result<Option<Payload>, ClientError> {
        let head = self.row(task).await?.projection.seq;
        let from = Seq(head.0.saturating_sub(ENDINGS_LOOKED_AT).max(1));
        let last = self.store.read(task, from, usize::MAX).await?;
        for stored in last.iter().rev() {
            match read_event(task, stored)?.payload {
                // These may follow an end.
                Payload::TaskSnapshot(_) | Payload::LateResultRecorded(_) | Payload::ExtensionRecorded(_) => {}
                end @ (Payload::TaskCompleted(_)
                | Payload::TaskFailed(_)
                | Payload::TaskCancelled(_)
                | Payload::TaskSuspended(_)) => return Ok(Some(end)),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// How the last turn, or the task, failed, if it did and nothing has begun since.
    ///
    /// # Errors
    /// When the store cannot be read, or the end of the log.
    pub async fn last_failure(&self, task: &TaskId) -> Result<Option<Failure>, ClientError> {
        let head = self.row(task).await?.projection.seq;
        let from = Seq(head.0.saturating_sub(ENDINGS_LOOKED_AT).max(1));
        for stored in self.store.read(task, from, usize::MAX).await?.iter().rev() {
            match read_event(task, stored)?.payload {
                Payload::TaskFailed(failed) => {
                    return Ok(Some(Failure { detail: failed.detail, reason: failed.reason }));
                }
                Payload::TaskSuspended(suspended) => return Ok(suspended.failure),
                // These begin no turn.
                Payload::TaskSnapshot(_)
                | Payload::LateResultRecorded(_)
                | Payload::ExtensionRecorded(_)
                | Payload::AgentRevised(_)
                | Payload::BackgroundJobEnded(_)
                | Payload::ConversationClosed(_)
                | Payload::ConversationReopened(_) => {}
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The answer of a completed task, or of the last turn of one that waits for a message.
    /// `None` when there is none.
    ///
    /// # Errors
    /// As [`Self::ended_by`], and when the answer's text cannot be had.
    pub async fn answer(&self, task: &TaskId) -> Result<Option<String>, ClientError> {
        let answer = match self.ended_by(task).await? {
            Some(Payload::TaskCompleted(completed)) => Some(completed.answer),
            Some(Payload::TaskSuspended(suspended)) => suspended.answer,
            _ => None,
        };
        match answer {
            Some(body) => Ok(Some(self.text(task, &body).await?)),
            None => Ok(None),
        }
    }

    /// The conversation, for people to read.
    ///
    /// # Errors
    /// When the state or some content cannot be had.
    pub async fn messages(&self, task: &TaskId) -> Result<Vec<Said>, ClientError> {
        let state = self.state(task, None, false).await?;
        let content = self.content()?;
        let mut said = Vec::new();
        let mut called: Vec<String> = Vec::new();
        for entry in state.runtime().messages.iter() {
            match entry {
                Entry::Message(message) => {
                    let blocks = blocks_of(&message.blocks, content).await.map_err(|error| text_error(task, &error))?;
                    called = tools_of(&blocks);
                    said.push(Said::Message { role: message.role, origin: message.origin, blocks });
                }
                Entry::Results(results) => {
                    for (index, result) in (0..).zip(&results.results) {
                        let call = CallId { decision: results.decision, index };
                        let tool = called.get(index as usize).cloned().unwrap_or_default();
                        let output = self.text(task, &result.output).await?;
                        said.push(Said::Result { call, tool, status: result.status, output });
                    }
                }
            }
        }
        Ok(said)
    }

    /// Delivers an item to a task's inbox; durable when it returns. Without a key each call
    /// delivers anew.
    ///
    /// # Errors
    /// When the task takes no such item, or the store cannot be written.
    pub async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        key: Option<DedupKey>,
    ) -> Result<Delivered, ClientError> {
        let key = key.unwrap_or_else(new_key);
        Ok(self.store.deliver(task, actor, item, &key).await?)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// As [`Self::deliver`], and when the conversation is closed.
    pub async fn send(&self, task: &TaskId, actor: &str, text: impl Into<String>) -> Result<Delivered, ClientError> {
        if self.row(task).await?.projection.closed && !self.is_to_be_reopened(task).await? {
            return Err(ClientError::Closed(task.clone()));
        }
        self.deliver(task, actor, &Item::Message { text: text.into() }, None).await
    }

    /// What was delivered to a task and is still to be taken, the oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn untaken(&self, task: &TaskId) -> Result<Vec<InboxItem>, ClientError> {
        Ok(self.store.inbox(task, Position(0)).await?)
    }

    /// Whether an order to reopen lies in the inbox, which comes before whatever is sent now.
    async fn is_to_be_reopened(&self, task: &TaskId) -> Result<bool, ClientError> {
        let items = self.store.inbox(task, Position(0)).await?;
        let last = items.iter().rev().find(|item| matches!(item.item, Item::Close { .. } | Item::Reopen { .. }));
        Ok(last.is_some_and(|item| matches!(item.item, Item::Reopen { .. })))
    }

    /// Moves a task to another definition, from its next step on (EN-8); `blobs` are the bodies
    /// that the definition cites. They are in the content store before the order is delivered,
    /// which the task's holder takes between two steps, or its next one before anything else.
    ///
    /// # Errors
    /// As [`Self::deliver`], and when the move would be refused: nothing is delivered then.
    pub async fn revise(
        &self,
        task: &TaskId,
        actor: &str,
        definition: &Definition,
        blobs: &[Blob],
    ) -> Result<Delivered, ClientError> {
        let state = self.state(task, None, false).await?;
        let content = self.content()?;
        let now = Definition::from_bytes(&content.get(state.definition()).await?)?;
        revise::check(&state, &now, definition).map_err(|why| ClientError::Revision { task: task.clone(), why })?;
        let body = Blob::new(MEDIA_DEFINITION, definition.to_bytes()?);
        for blob in blobs.iter().chain([&body]) {
            content.put(blob).await?;
        }
        self.deliver(task, actor, &Item::Revise { definition: body.reference }, None).await
    }

    /// Ends a task.
    ///
    /// # Errors
    /// As [`Self::deliver`].
    pub async fn cancel(&self, task: &TaskId, actor: &str, reason: Option<String>) -> Result<Delivered, ClientError> {
        self.deliver(task, actor, &Item::Cancel { reason }, None).await
    }

    /// Stops the turn; the task then waits for its next message.
    ///
    /// # Errors
    /// As [`Self::deliver`].
    pub async fn interrupt(
        &self,
        task: &TaskId,
        actor: &str,
        reason: Option<String>,
    ) -> Result<Delivered, ClientError> {
        self.deliver(task, actor, &Item::Interrupt { reason }, None).await
    }

    /// Closes the conversation: it takes no message until it is reopened.
    ///
    /// # Errors
    /// As [`Self::deliver`].
    pub async fn close(&self, task: &TaskId, actor: &str, reason: Option<String>) -> Result<Delivered, ClientError> {
        self.deliver(task, actor, &Item::Close { reason }, None).await
    }

    /// Reopens a conversation that is closed or over; it then waits for a message.
    ///
    /// # Errors
    /// [`ClientError::Reported`] for a child that has told its parent how it ended, and as
    /// [`Self::deliver`].
    pub async fn reopen(&self, task: &TaskId, actor: &str, reason: Option<String>) -> Result<Delivered, ClientError> {
        self.check_unreported(task).await?;
        self.deliver(task, actor, &Item::Reopen { reason }, None).await
    }

    /// Delivers an event from outside, by its kind. With a key it is delivered once however
    /// often this is called.
    ///
    /// # Errors
    /// As [`Self::deliver`].
    pub async fn signal(
        &self,
        task: &TaskId,
        actor: &str,
        event: impl Into<String>,
        data: Option<String>,
        key: Option<DedupKey>,
    ) -> Result<Delivered, ClientError> {
        self.deliver(task, actor, &Item::Event { data, event: event.into() }, key).await
    }

    /// Answers the question of a call. The first answer stands: another one is refused.
    ///
    /// # Errors
    /// As [`Self::deliver`]; a key conflict means that it was answered otherwise.
    pub async fn answer_question(
        &self,
        task: &TaskId,
        actor: &str,
        call: CallId,
        text: impl Into<String>,
    ) -> Result<Delivered, ClientError> {
        let key = call_key("answer", call);
        self.deliver(task, actor, &Item::Answer { call, text: text.into() }, Some(key)).await
    }

    /// Rules on the approval of a call. The first ruling stands: another one is refused.
    ///
    /// # Errors
    /// As [`Self::deliver`]; a key conflict means that it was ruled otherwise.
    pub async fn rule(
        &self,
        task: &TaskId,
        actor: &str,
        call: CallId,
        verdict: ApprovalVerdict,
        reason: Option<String>,
    ) -> Result<Delivered, ClientError> {
        let key = call_key("verdict", call);
        self.deliver(task, actor, &Item::Verdict { call, reason, verdict }, Some(key)).await
    }

    /// Settles a call whose outcome is unknown (TO-3): `output` says what it brought, when it landed.
    ///
    /// # Errors
    /// [`ClientError::NotUnknown`] when no such call is of unknown outcome, and as
    /// [`Self::deliver`]; a key conflict means that it was settled otherwise.
    pub async fn resolve(
        &self,
        task: &TaskId,
        actor: &str,
        call: CallId,
        verdict: CallResolution,
        output: Option<String>,
    ) -> Result<Delivered, ClientError> {
        let state = self.state(task, None, false).await?;
        let unknown = state.runtime().unknown.iter().find(|unknown| unknown.call == call);
        let starts = unknown.map(|unknown| unknown.starts);
        let starts = starts.ok_or_else(|| ClientError::NotUnknown { task: task.clone(), call })?;
        // Once for each start: one that ran again may be of unknown outcome again.
        let key = call_key(&format!("resolve:{starts}"), call);
        self.deliver(task, actor, &Item::Resolve { call, output, verdict }, Some(key)).await
    }

    /// Verifies a task and adds what was found to `verdict`.
    ///
    /// # Errors
    /// When the store cannot be read or has no such task; a broken log is no error.
    pub async fn verify(&self, task: &TaskId, verdict: &mut Verdict) -> Result<(), ClientError> {
        Ok(verdict.check(&*self.store, self.content()?, task).await?)
    }

    /// Whether a worker is alive that might take the task.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn has_worker(&self, queue: &Queue) -> Result<bool, ClientError> {
        let workers = self.store.workers().await?;
        Ok(workers.iter().any(|worker| worker.queues.is_empty() || worker.queues.contains(queue)))
    }
}

fn text_error(task: &TaskId, error: &ComposeError) -> ClientError {
    ClientError::Text { task: task.clone(), rule: error.to_string() }
}

fn tools_of(blocks: &[Block]) -> Vec<String> {
    let tool = |block: &Block| match block {
        Block::ToolUse { tool, .. } => Some(tool.clone()),
        Block::Text { .. } | Block::Thinking { .. } => None,
    };
    blocks.iter().filter_map(tool).collect()
}

/// A new task as a store takes it.
pub(crate) fn new_task(drafted: Drafted, facts: Facts) -> NewTask {
    NewTask {
        id: drafted.task.id().clone(),
        row: drafted.task.projection(),
        events: drafted.events,
        blobs: drafted.blobs,
        facts,
        key: None,
    }
}

/// A child as a store takes it; what its row holds for good stands in its first event.
pub(crate) fn new_child(drafted: Drafted) -> NewTask {
    let first = drafted.envelopes.first();
    let created = first.and_then(|event| match &event.payload {
        Payload::TaskCreated(created) => Some((event.at, created)),
        _ => None,
    });
    let (created_at, created) = created.expect("a child's first event is its TaskCreated: `born` made it");
    let facts = Facts {
        agent: created.agent.clone(),
        goal: match &created.goal {
            Body::Inline(goal) => goal.chars().take(GOAL_SHOWN).collect(),
            Body::Ref(_) => first_characters(&drafted, &created.goal),
        },
        parent: created.parent.clone(),
        source: None,
        queue: created.queue.clone(),
        priority: created.priority,
        labels: created.labels.clone(),
        not_before: created.not_before,
        created_at,
    };
    new_task(drafted, facts)
}

fn first_characters(drafted: &Drafted, body: &Body) -> String {
    let blob = drafted.blobs.iter().find(|blob| Some(&blob.reference) == body.reference());
    blob.map(|blob| String::from_utf8_lossy(&blob.bytes).chars().take(GOAL_SHOWN).collect()).unwrap_or_default()
}

/// UUIDv7 text is a valid id of every kind: 36 characters without white space.
fn uuid_text() -> String {
    uuid::Uuid::now_v7().to_string()
}

fn new_task_id() -> TaskId {
    TaskId::new(uuid_text()).expect("UUID text is a valid id")
}

fn new_run_id() -> RunId {
    RunId::new(uuid_text()).expect("UUID text is a valid id")
}

fn call_key(what: &str, call: CallId) -> DedupKey {
    DedupKey::new(format!("{what}:{call}")).expect("a call's id is short and has no white space")
}

fn new_key() -> DedupKey {
    DedupKey::new(uuid_text()).expect("UUID text is a valid id")
}
