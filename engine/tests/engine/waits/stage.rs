//! Agents that delegate to one another, on a store and a host that share virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_engine::{
    Client, Host, HostBuilder, ModelSource, ModelSourceError, Stop, Submission, Verdict, Worker, WorkerError,
    WorkerOptions,
};
use plica_kernel::body::{Blob, MEDIA_DEFINITION};
use plica_kernel::decode::decode;
use plica_kernel::event::{EventType, Payload};
use plica_kernel::id::{Seq, TaskId, WorkerId};
use plica_kernel::row::Status;
use plica_kernel::time::Timestamp;
use plica_memory::{MemoryStore, StoreClock};
use plica_ports::store::{Page, Row, TaskFilter};
use plica_ports::{ContentStore, Definition, Guard, Model, ModelChoice, PermissionMode, Store};
use plica_script::ScriptModel;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::common::Note;

/// The store's clock, which goes with the runtime's.
struct VirtualTime(Instant);

#[async_trait]
impl StoreClock for VirtualTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_796_000_000_000_000 + i64::try_from(self.0.elapsed().as_micros()).unwrap())
    }

    async fn reached(&self, time: Timestamp) {
        tokio::time::sleep(Duration::from_millis(time.millis_since(self.now()) + 1)).await;
    }
}

/// A script for each model's name.
struct Cast(BTreeMap<String, Arc<ScriptModel>>);

#[async_trait]
impl ModelSource for Cast {
    async fn model(&self, choice: &ModelChoice, _: &dyn ContentStore) -> Result<Arc<dyn Model>, ModelSourceError> {
        Ok(self.0[&choice.name].clone())
    }
}

/// A reply that makes these calls.
pub fn calls(calls: &[Value]) -> Value {
    json!({ "text": "", "calls": calls })
}

/// A call.
pub fn call(tool: &str, args: Value) -> Value {
    json!({ "tool": tool, "args": args })
}

/// A call that delegates to an agent, with further arguments.
pub fn delegate(agent: &str, more: Value) -> Value {
    let mut args = json!({ "agent": agent, "goal": "Help." });
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call("Task", args)
}

pub struct Stage {
    pub store: Arc<MemoryStore>,
    pub client: Client,
    pub note: Arc<Note>,
    pub host: Arc<Host>,
    cast: Arc<Cast>,
    /// The agents, each of which knows all those before it.
    agents: Vec<Definition>,
}

impl Stage {
    /// Agents by name with their replies.
    pub fn new(agents: &[(&str, &[Value])]) -> Self {
        Self::guarded(agents, None)
    }

    /// The same, with a guard of the host's own.
    pub fn guarded(agents: &[(&str, &[Value])], guard: Option<Arc<dyn Guard>>) -> Self {
        Self::with(agents, |host| match guard {
            Some(guard) => host.guard(guard),
            None => host,
        })
    }

    /// The same, on a host that has `more`.
    pub fn with(agents: &[(&str, &[Value])], more: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        let script = |replies: &[Value]| {
            let bytes = serde_json::to_vec(&json!({ "replies": replies })).unwrap();
            Arc::new(ScriptModel::parse(&bytes).unwrap())
        };
        let cast = Arc::new(Cast(agents.iter().map(|(name, replies)| ((*name).to_owned(), script(replies))).collect()));
        let store = Arc::new(MemoryStore::with(Arc::new(VirtualTime(Instant::now())), 7));
        let note = Arc::new(Note::new());
        let host = more(Host::builder(store.clone(), cast.clone()).tool(note.clone()));
        let mut definitions: Vec<Definition> = Vec::new();
        for (name, _) in agents {
            let mut definition = Definition::new(*name, ModelChoice::new("script", *name));
            definition.permission_mode = PermissionMode::Bypass;
            definition.tools = ["Note", "AskUser", "Wait", "Task", "TodoWrite"].map(str::to_owned).into();
            definition.subagents =
                definitions.iter().map(|known| (known.name.clone(), blob(known).reference)).collect();
            definitions.push(definition);
        }
        Self { client: Client::new(store.clone()), store, note, host: host.build(), cast, agents: definitions }
    }

    /// Gives every agent one more tool.
    pub fn give(&mut self, tool: &str) {
        let mut known = BTreeMap::new();
        for definition in &mut self.agents {
            definition.tools.push(tool.into());
            definition.subagents.clone_from(&known);
            known.insert(definition.name.clone(), blob(definition).reference);
        }
    }

    /// Submits a task to the last agent, its definition changed by `change`.
    pub async fn submit(&self, change: impl FnOnce(&mut Submission)) -> TaskId {
        let (main, others) = self.agents.split_last().unwrap();
        let mut submission = Submission::new(main.clone(), "Go.");
        submission.blobs = others.iter().map(blob).collect();
        change(&mut submission);
        self.client.submit(submission).await.unwrap().id
    }

    /// Submits a task to an agent by its name.
    pub async fn submit_to(&self, agent: &str) -> TaskId {
        let definition = self.agents.iter().find(|known| known.name == agent).unwrap().clone();
        self.client.submit(Submission::new(definition, "Go.")).await.unwrap().id
    }

    /// The definition of the last agent.
    pub fn definition(&self) -> &Definition {
        self.agents.last().unwrap()
    }

    /// A worker that ends when there is nothing left to do.
    pub fn worker(&self) -> Worker {
        Worker::new(self.host.clone(), WorkerOptions::new(WorkerId::new("one").unwrap()).until_idle())
    }

    /// A resident worker of another process, which reaches the store in its own way.
    pub fn other(&self, store: Arc<dyn Store>) -> Worker {
        let host = Host::builder(store, self.cast.clone()).tool(self.note.clone()).build();
        Worker::new(host, WorkerOptions::new(WorkerId::new("other").unwrap()))
    }

    /// A worker of another host on the same store, which has what `more` adds and nothing else.
    pub fn worker_of(&self, more: impl FnOnce(HostBuilder) -> HostBuilder) -> Worker {
        self.worker_on(self.store.clone(), more)
    }

    /// The same, which sees the store as `seen`, through whatever is laid around it.
    pub fn worker_on(&self, seen: Arc<dyn Store>, more: impl FnOnce(HostBuilder) -> HostBuilder) -> Worker {
        let host = more(Host::builder(seen, self.cast.clone())).build();
        Worker::new(host, WorkerOptions::new(WorkerId::new("other").unwrap()).until_idle())
    }

    /// Works until nothing is left to do.
    pub async fn work(&self) {
        self.worker().run(Stop::new()).await.unwrap();
    }

    /// Works meanwhile.
    pub fn works(&self) -> JoinHandle<Result<(), WorkerError>> {
        let worker = self.worker();
        tokio::spawn(async move { worker.run(Stop::new()).await })
    }

    /// The same, with other options.
    pub fn works_with(&self, change: impl FnOnce(&mut WorkerOptions)) -> JoinHandle<Result<(), WorkerError>> {
        let mut options = WorkerOptions::new(WorkerId::new("one").unwrap()).until_idle();
        change(&mut options);
        let worker = Worker::new(self.host.clone(), options);
        tokio::spawn(async move { worker.run(Stop::new()).await })
    }

    /// Returns once the task has an event of this type.
    pub async fn reaches(&self, task: &TaskId, kind: EventType) {
        let mut after = Seq(0);
        while !self.kinds(task).await.contains(&kind) {
            self.client.watch(task, after, Duration::from_secs(1)).await.unwrap();
            after = self.row(task).await.projection.seq;
        }
    }

    pub async fn row(&self, task: &TaskId) -> Row {
        self.store.row(task).await.unwrap().unwrap()
    }

    pub async fn status(&self, task: &TaskId) -> Status {
        self.row(task).await.projection.status
    }

    /// The children of a task, in order.
    pub async fn children(&self, task: &TaskId) -> Vec<TaskId> {
        let filter = TaskFilter { parent: Some(task.clone()), ..TaskFilter::default() };
        let rows = self.store.tasks(&filter, &Page::first(100)).await.unwrap();
        let mut ids: Vec<TaskId> = rows.into_iter().map(|row| row.id).collect();
        ids.sort();
        ids
    }

    pub async fn payloads(&self, task: &TaskId) -> Vec<Payload> {
        let stored = self.store.read(task, Seq(1), usize::MAX).await.unwrap();
        stored.iter().map(|stored| decode(&stored.body, &stored.hash).unwrap().payload).collect()
    }

    pub async fn kinds(&self, task: &TaskId) -> Vec<EventType> {
        self.payloads(task).await.iter().map(Payload::kind).collect()
    }

    /// How often the task's log has an event of this type.
    pub async fn count(&self, task: &TaskId, kind: EventType) -> usize {
        self.kinds(task).await.iter().filter(|found| **found == kind).count()
    }

    /// The conversation as text.
    pub async fn conversation(&self, task: &TaskId) -> String {
        format!("{:#?}", self.client.messages(task).await.unwrap())
    }

    /// The log verifies, and nothing about the task is due.
    pub async fn is_at_rest(&self, task: &TaskId) {
        let row = self.row(task).await;
        assert_eq!((row.claimable_at, row.blocked), (None, None), "{:?}", self.kinds(task).await);
        let mut verdict = Verdict::new();
        self.client.verify(task, &mut verdict).await.unwrap();
        assert!(verdict.is_ok(), "{:?}", verdict.breaks);
    }
}

fn blob(definition: &Definition) -> Blob {
    Blob::new(MEDIA_DEFINITION, definition.to_bytes().unwrap())
}
