//! The real engine on a file, with a scripted model and a tool that answers at once.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use plica_engine::{Client, Host, ModelSource, ModelSourceError, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::envelope::Envelope;
use plica_kernel::event::{EventType, Usage};
use plica_kernel::id::{InstanceId, TaskId, WorkerId};
use plica_kernel::message::Block;
use plica_ports::store::Worker as Identity;
use plica_ports::{
    CallContext, ContentStore, Definition, DeltaSink, Effect, Model, ModelChoice, ModelError, ModelRequest, Observer,
    OnCrash, PermissionMode, Reply, StopReason, Store, Tool, ToolDeclaration, ToolError, ToolOutput,
};
use plica_sqlite::SqliteStore;

use crate::appends::OPTIONS;
use crate::mix;

/// The event that agents wait for.
pub(crate) const EVENT: &str = "go";

/// Makes a call in each of the first `rounds` replies of a turn and then answers.
struct Talker {
    rounds: u64,
    /// Whether the calls wait for an event.
    waits: bool,
}

#[async_trait]
impl Model for Talker {
    async fn ask(&self, request: &ModelRequest, _: &dyn DeltaSink) -> Result<Reply, ModelError> {
        let said = request.assistant_messages;
        let text = Block::Text { text: mix::text(said + 1, 300) };
        let (tool, args) = match self.waits {
            true => ("Wait", format!("{{\"event\":\"{EVENT}\"}}")),
            false => ("Read", format!("{{\"file_path\":\"src/module_{said}.rs\"}}")),
        };
        let (blocks, stop) = if said < self.rounds {
            let call = Block::ToolUse { args, id: Some(format!("call_{said:024}")), tool: tool.into() };
            (vec![text, call], StopReason::Calls)
        } else {
            (vec![text], StopReason::End)
        };
        let usage = Usage { cache_read: 0, cache_write: 0, output: 180, reasoning: 0, uncached: 900 };
        Ok(Reply { blocks, usage, cost_nano_usd: None, stop, extra: None })
    }
}

struct Models(Arc<Talker>);

#[async_trait]
impl ModelSource for Models {
    async fn model(&self, _: &ModelChoice, _: &dyn ContentStore) -> Result<Arc<dyn Model>, ModelSourceError> {
        Ok(self.0.clone())
    }
}

/// Answers with 450 bytes.
struct Read(ToolDeclaration);

#[async_trait]
impl Tool for Read {
    fn declaration(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, args: &str, _: &CallContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(mix::text(args.len() as u64, 450)))
    }
}

/// Notes when each request was on record.
#[derive(Default)]
pub(crate) struct Requests(Mutex<Vec<Instant>>);

impl Observer for Requests {
    fn committed(&self, event: &Envelope, _: &[u8]) {
        if event.kind() == EventType::LLMRequestStarted {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        }
    }
}

impl Requests {
    /// The times noted since the last call.
    pub(crate) fn take(&self) -> Vec<Instant> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The first time noted since the last call, waited for.
    pub(crate) async fn next(&self) -> Instant {
        loop {
            if let Some(first) = self.take().first() {
                return *first;
            }
            tokio::time::sleep(Duration::from_micros(50)).await;
        }
    }
}

/// A host on a SQLite file.
pub(crate) struct Engine {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) client: Client,
    pub(crate) requests: Arc<Requests>,
    host: Arc<Host>,
}

impl Engine {
    /// A host on the file at `path` whose tasks make `rounds` calls.
    pub(crate) fn new(path: &Path, rounds: u64) -> Self {
        Self::with(path, Talker { rounds, waits: false })
    }

    /// A host on the file at `path` whose tasks wait for an event once.
    pub(crate) fn waiting(path: &Path) -> Self {
        Self::with(path, Talker { rounds: 1, waits: true })
    }

    fn with(path: &Path, talker: Talker) -> Self {
        let store = Arc::new(SqliteStore::open(path, OPTIONS).expect("a path for a store"));
        let requests = Arc::new(Requests::default());
        let declaration = ToolDeclaration {
            name: "Read".into(),
            description: "Reads a file.".into(),
            schema: r#"{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"],"additionalProperties":false}"#.into(),
            effect: Effect::Read,
            retry_safe: true,
            version: "1".into(),
        };
        let host = Host::builder(store.clone(), Arc::new(Models(Arc::new(talker))))
            .tool(Arc::new(Read(declaration)))
            .observer(requests.clone())
            .build();
        Self { client: Client::new(store.clone()), store, requests, host }
    }

    /// Submits a task.
    pub(crate) async fn submit(&self, interactive: bool) -> TaskId {
        let submission = Submission::new(definition(interactive), mix::text(3, 200));
        self.client.submit(submission).await.expect("a task is created").id
    }

    /// A worker that ends when nothing is left to do, or only when it is told to.
    pub(crate) fn worker(&self, until_idle: bool) -> Worker {
        self.worker_of(until_idle, 4)
    }

    /// The same, which works on so many tasks at once.
    pub(crate) fn worker_of(&self, until_idle: bool, concurrency: usize) -> Worker {
        let identity = Identity {
            id: WorkerId::new("bench").expect("an id"),
            instance: InstanceId::new(format!("bench-{}", std::process::id())).expect("an id"),
            host: "here".into(),
            version: "1".into(),
            process: plica_sqlite::process_identity(),
        };
        let lease = Duration::from_secs(30);
        let options = WorkerOptions { identity, queues: vec![], lease, concurrency, until_idle, only: None };
        Worker::new(self.host.clone(), options)
    }

    /// Works until nothing is left to do.
    pub(crate) async fn work(&self) {
        self.worker(true).run(Stop::new()).await.expect("the worker ends well");
    }

    /// The store as a port.
    pub(crate) fn port(&self) -> &dyn Store {
        &*self.store
    }
}

/// An agent that may do what it likes.
pub(crate) fn definition(interactive: bool) -> Definition {
    Definition {
        allow: vec![],
        ask: vec![],
        budget: Default::default(),
        deny: vec![],
        env: vec![],
        instructions: mix::text(11, 800),
        interactive,
        model: ModelChoice {
            provider: "bench".into(),
            name: "talker".into(),
            script: None,
            options: Default::default(),
        },
        name: "coder".into(),
        on_crash: OnCrash::Resolve,
        permission_mode: PermissionMode::Bypass,
        queue: None,
        subagents: Default::default(),
        tools: vec!["Read".into(), "Wait".into()],
        workspace: "/".into(),
    }
}
