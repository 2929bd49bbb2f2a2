//! Those who create tasks and send things to them.

use std::sync::Arc;
use std::time::Duration;

use plica_kernel::body::{Blob, ContentRef, MEDIA_DEFINITION};
use plica_kernel::decide::{Birth, Stamp, born};
use plica_kernel::event::{ApprovalVerdict, Budget, TaskCreated};
use plica_kernel::id::{DedupKey, Epoch, Queue, RunId, TaskId};
use plica_kernel::wake::Item;
use plica_ports::store::{CreateError, DeliverError, Facts, NewTask};
use plica_ports::{ContentStore, Definition, ModelChoice, OnCrash, PermissionMode, Store};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::agents::{Plan, Sending};
use super::oracle::{Need, Oracle, answer_text};
use super::prng::Prng;
use super::tools::Kind;

/// How long someone waits before trying again.
const PAUSE: Duration = Duration::from_millis(700);

/// Someone with one task in mind.
#[derive(Clone)]
pub struct Person {
    seed: u64,
    plan: Arc<Plan>,
    store: Arc<dyn Store>,
    content: Option<Arc<dyn ContentStore>>,
    oracle: Arc<Oracle>,
}

impl Person {
    /// Someone who wants `plan` to be done.
    pub fn new(
        seed: u64,
        plan: Arc<Plan>,
        store: Arc<dyn Store>,
        content: Option<Arc<dyn ContentStore>>,
        oracle: Arc<Oracle>,
    ) -> Self {
        Self { seed, plan, store, content, oracle }
    }

    /// Creates the task and sends what is to be sent; ends when all of it is certain.
    pub async fn act(self) {
        tokio::time::sleep(Duration::from_millis(self.plan.born_ms)).await;
        self.create().await;
        let mut sendings = JoinSet::new();
        for (nth, sending) in self.plan.sendings.iter().cloned().enumerate() {
            sendings.spawn(self.clone().send(nth, sending));
        }
        while sendings.join_next().await.is_some() {}
    }

    async fn create(&self) {
        loop {
            if let Some(task) = self.birth().await {
                match self.store.create(task).await {
                    Ok(_) | Err(CreateError::Exists(_)) => return,
                    Err(CreateError::CommitUnknown { .. } | CreateError::Store(_)) => {}
                    Err(error) => return self.oracle.violated(self.plan.id.as_str(), error.to_string()),
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The task as it is to be created now; `None` while the store cannot be reached.
    async fn birth(&self) -> Option<NewTask> {
        let plan = &self.plan;
        let (ledger, now) = (self.store.ledger().await.ok()?, self.store.now().await.ok()?);
        let budget = Budget { steps: plan.steps_max, ..Budget::default() };
        let helper = Blob::new(MEDIA_DEFINITION, base().to_bytes().expect("a definition of texts"));
        let definition = definition(plan, budget, helper.reference.clone());
        let definition = Blob::new(MEDIA_DEFINITION, definition.to_bytes().expect("a definition of texts"));
        let facts = Facts {
            agent: "sim".into(),
            goal: plan.goal.clone(),
            parent: None,
            queue: Queue::main(),
            priority: u8::try_from(Prng::named(self.seed, plan.id.as_str()).below(4)).unwrap_or(2),
            labels: Default::default(),
            not_before: None,
            created_at: now,
        };
        let created = TaskCreated {
            agent: facts.agent.clone(),
            background: false,
            budget,
            call: None,
            definition: definition.reference.clone(),
            depth: 0,
            goal: Default::default(),
            interactive: plan.interactive,
            key: None,
            labels: Default::default(),
            ledger,
            not_before: None,
            parent: None,
            priority: facts.priority,
            queue: facts.queue.clone(),
        };
        let birth = Birth {
            id: plan.id.clone(),
            actor: "user:sim".into(),
            goal: plan.goal.clone(),
            created,
            blobs: vec![definition, helper],
        };
        let run = RunId::new(format!("birth-of-{}", plan.id)).expect("an id after a word");
        let drafted = born(birth, Stamp { now, epoch: Epoch(0), run }).expect("a short goal fits");
        let mut task = NewTask {
            id: plan.id.clone(),
            row: drafted.task.projection(),
            events: drafted.events,
            blobs: drafted.blobs,
            facts,
            key: None,
        };
        if let Some(content) = &self.content {
            for blob in std::mem::take(&mut task.blobs) {
                content.put(&blob).await.ok()?;
            }
        }
        Some(task)
    }

    async fn send(self, nth: usize, sending: Sending) {
        tokio::time::sleep(Duration::from_millis(sending.at_ms)).await;
        let (key, post) = (format!("key-{nth}"), Post { store: self.store.clone(), oracle: self.oracle.clone() });
        post.deliver(&self.plan.id, &key, &sending.item).await;
        if let Some(after) = sending.again_ms {
            tokio::time::sleep(Duration::from_millis(after)).await;
            post.deliver(&self.plan.id, &key, &sending.item).await;
        }
    }
}

/// Those who answer what tasks ask.
pub struct Desk {
    seed: u64,
    post: Post,
    needs: UnboundedReceiver<(TaskId, Need)>,
}

impl Desk {
    /// Those who answer `needs` by way of `store`.
    pub fn new(
        seed: u64,
        store: Arc<dyn Store>,
        oracle: Arc<Oracle>,
        needs: UnboundedReceiver<(TaskId, Need)>,
    ) -> Self {
        Self { seed, post: Post { store, oracle }, needs }
    }

    /// Answers everything sooner or later.
    pub async fn answer_all(mut self) {
        let mut answering = JoinSet::new();
        while let Some((task, need)) = self.needs.recv().await {
            answering.spawn(answer(self.seed, self.post.clone(), task, need));
        }
    }
}

async fn answer(seed: u64, post: Post, task: TaskId, need: Need) {
    let prng = Prng::named(seed, &format!("{task} {need:?}"));
    let after = if prng.chance(150) { prng.between(10_000, 60_000) } else { prng.between(20, 8_000) };
    tokio::time::sleep(Duration::from_millis(after)).await;
    let verdict = if prng.chance(700) { ApprovalVerdict::Approve } else { ApprovalVerdict::Deny };
    let (key, item) = match &need {
        Need::Answer(call) => {
            let Ok(id) = call.parse() else { return };
            (format!("answer:{call}"), Item::Answer { call: id, text: answer_text(task.as_str(), call) })
        }
        Need::Verdict(call) => {
            let Ok(id) = call.parse() else { return };
            (format!("verdict:{call}"), Item::Verdict { call: id, reason: None, verdict })
        }
        Need::Event(kind) => (format!("event:{kind}"), Item::Event { data: None, event: kind.clone() }),
    };
    post.deliver(&task, &key, &item).await;
    if prng.chance(200) {
        tokio::time::sleep(Duration::from_millis(prng.below(5_000))).await;
        post.deliver(&task, &key, &item).await;
    }
}

/// The way of people to inboxes.
#[derive(Clone)]
struct Post {
    store: Arc<dyn Store>,
    oracle: Arc<Oracle>,
}

impl Post {
    /// Delivers until it is certain what became of it.
    async fn deliver(&self, task: &TaskId, key: &str, item: &Item) {
        let key = DedupKey::new(key).expect("a key without white space");
        loop {
            match self.store.deliver(task, "user:sim", item, &key).await {
                Ok(_) => return self.oracle.promised(task, item),
                Err(DeliverError::TaskOver { .. }) => return self.oracle.turned_down(task, item),
                Err(DeliverError::CommitUnknown { .. } | DeliverError::Store(_)) => {}
                Err(error) => return self.oracle.violated(task.as_str(), error.to_string()),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn definition(plan: &Plan, budget: Budget, helper: ContentRef) -> Definition {
    let mut definition = Definition { budget, interactive: plan.interactive, ..base() };
    definition.tools.extend(["Missing", "AskUser", "Wait", "Task", "TodoWrite"].map(str::to_owned));
    definition.subagents.insert("errand".into(), helper);
    definition
}

/// The agent that others send on errands, and what all agents share.
fn base() -> Definition {
    Definition {
        allow: Vec::new(),
        ask: Vec::new(),
        budget: Budget::default(),
        deny: vec![Kind::Forbidden.name().into()],
        env: Vec::new(),
        instructions: "Do what the script says.".into(),
        interactive: false,
        model: ModelChoice { provider: "sim".into(), name: "sim".into(), script: None, options: Default::default() },
        name: "sim".into(),
        on_crash: OnCrash::Resolve,
        permission_mode: PermissionMode::Bypass,
        queue: None,
        subagents: Default::default(),
        tools: Kind::ALL.into_iter().map(|kind| kind.name().to_owned()).collect(),
        workspace: "/".into(),
    }
}
