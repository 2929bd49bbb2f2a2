//! Everything a person or program does to tasks from outside: here, making them.

mod back;
mod read;
mod steer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plica_kernel::body::{Blob, Body, ContentRef, MEDIA_DEFINITION};
use plica_kernel::decide::{Birth, Drafted, Stamp, born};
use plica_kernel::event::{Payload, TaskCreated};
use plica_kernel::id::{DedupKey, Epoch, Queue, RunId, TaskId};
use plica_kernel::time::Timestamp;
use plica_ports::store::{Created, Facts, NewTask, rules::fingerprint};
use plica_ports::{ContentError, ContentStore, Definition, Store};

use crate::act::millis;
use crate::error::ClientError;

pub use self::read::Said;

/// Characters of a goal that the row keeps for lists.
const GOAL_SHOWN: usize = 200;
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
