//! Those who create tasks and send things to them.

use std::sync::Arc;
use std::time::Duration;

use plica_engine::{LoadOptions, load};
use plica_kernel::decide::{Birth, Drafted, Stamp, born, forked};
use plica_kernel::event::{Budget, TaskCreated};
use plica_kernel::id::{Epoch, Queue, RunId, Seq, TaskId};
use plica_kernel::wake::Item;
use plica_ports::store::{CreateError, Facts, NewTask};
use plica_ports::{ContentStore, Store};

use super::agents::{Plan, Plans};
use super::definitions;
use super::desk::{PAUSE, Post};
use super::oracle::Oracle;
use super::prng::Prng;

/// Someone with one task in mind.
#[derive(Clone)]
pub struct Person {
    seed: u64,
    plan: Arc<Plan>,
    store: Arc<dyn Store>,
    content: Option<Arc<dyn ContentStore>>,
    oracle: Arc<Oracle>,
    plans: Arc<Plans>,
}

impl Person {
    /// Someone who wants `plan`, one of `plans`, to be done.
    pub fn new(
        seed: u64,
        (plan, plans): (Arc<Plan>, Arc<Plans>),
        store: Arc<dyn Store>,
        content: Option<Arc<dyn ContentStore>>,
        oracle: Arc<Oracle>,
    ) -> Self {
        Self { seed, plan, store, content, oracle, plans }
    }

    /// Creates the task and sends what is to be sent; ends when all of it is certain.
    pub async fn act(self) {
        tokio::time::sleep(Duration::from_millis(self.plan.born_ms)).await;
        self.create().await;
        let post = Post::new(self.store.clone(), self.content.clone(), self.oracle.clone());
        tokio::join!(post.send_all(&self.plan), self.fork(&post));
    }

    /// Forks the task where a turn has ended, if it is to be, and has the fork go on.
    async fn fork(&self, post: &Post) {
        let Some(after) = self.plan.forked_ms else { return };
        tokio::time::sleep(Duration::from_millis(after)).await;
        let landings = self.oracle.landings(&self.plan.id);
        let prng = Prng::named(self.seed, &format!("fork of {}", self.plan.id));
        if landings.is_empty() {
            return;
        }
        let at = *prng.pick(&landings);
        let fork = TaskId::new(format!("{}-fork", self.plan.id)).expect("an id and a word");
        self.plans.branch(&self.plan, &fork);
        loop {
            if let Some(task) = self.branch(&fork, at).await {
                match self.store.create(task).await {
                    Ok(_) | Err(CreateError::Exists(_)) => break,
                    Err(CreateError::CommitUnknown { .. } | CreateError::Store(_)) => {}
                    Err(error) => return self.oracle.violated(fork.as_str(), error.to_string()),
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        post.deliver(&fork, "first", &Item::Message { text: format!("and now {fork}") }).await;
    }

    /// The fork as it is to be created now; `None` while the store cannot be reached.
    async fn branch(&self, fork: &TaskId, at: Seq) -> Option<NewTask> {
        let content = self.content.as_deref().or_else(|| self.store.content())?;
        let options = LoadOptions { at: Some(at), ..LoadOptions::default() };
        let source = load(&*self.store, content, &self.plan.id, options).await.ok()?;
        let (ledger, now) = (self.store.ledger().await.ok()?, self.store.now().await.ok()?);
        let row = self.store.row(&self.plan.id).await.ok()??;
        let stamp = Stamp { now, epoch: Epoch(0), run: run_of(fork) };
        let facts = Facts { source: Some(self.plan.id.clone()), created_at: now.max(source.head().at), ..row.facts };
        match forked(&source, fork.clone(), "user:sim", ledger, stamp) {
            Ok(drafted) => self.put(new_task(fork, drafted, facts)).await,
            Err(error) => {
                self.oracle.violated(fork.as_str(), format!("cannot branch off at event {at}: {error}"));
                None
            }
        }
    }

    /// Puts the bodies of a task where they live, when that is another place than the store.
    async fn put(&self, mut task: NewTask) -> Option<NewTask> {
        if let Some(content) = &self.content {
            for blob in std::mem::take(&mut task.blobs) {
                content.put(&blob).await.ok()?;
            }
        }
        Some(task)
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
        let (definition, mut blobs) = definitions::first(plan);
        let definition = definitions::blob(&definition);
        let facts = Facts {
            agent: "sim".into(),
            goal: plan.goal.clone(),
            parent: None,
            source: None,
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
        blobs.push(definition);
        let birth = Birth { id: plan.id.clone(), actor: "user:sim".into(), goal: plan.goal.clone(), created, blobs };
        let drafted = born(birth, Stamp { now, epoch: Epoch(0), run: run_of(&plan.id) }).expect("a short goal fits");
        self.put(new_task(&plan.id, drafted, facts)).await
    }
}

fn run_of(task: &TaskId) -> RunId {
    RunId::new(format!("birth-of-{task}")).expect("an id after a word")
}

fn new_task(id: &TaskId, drafted: Drafted, facts: Facts) -> NewTask {
    NewTask {
        id: id.clone(),
        row: drafted.task.projection(),
        events: drafted.events,
        blobs: drafted.blobs,
        facts,
        key: None,
    }
}
