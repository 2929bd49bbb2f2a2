//! A host on the memory store with a scripted model and a tool that answers at once.

pub mod dying;
pub mod virtual_time;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use plica_engine::{
    Client, Host, HostBuilder, LoadOptions, ModelSource, ModelSourceError, Stop, Submission, Verdict, Worker,
    WorkerOptions, load,
};
use plica_kernel::decode::decode;
use plica_kernel::envelope::Envelope;
use plica_kernel::event::EventType;
use plica_kernel::id::{Epoch, InstanceId, RunId, Seq, TaskId, WorkerId};
use plica_kernel::row::Status;
use plica_kernel::time::Timestamp;
use plica_memory::{ManualClock, MemoryStore};
use plica_ports::store::Worker as Identity;
use plica_ports::{
    CallContext, ContentStore, Definition, Effect, Model, ModelChoice, OnCrash, PermissionMode, Record, Store, Tool,
    ToolDeclaration, ToolError, ToolOutput,
};
use plica_script::ScriptModel;
use serde_json::{Value, json};
use tokio::sync::Notify;

pub fn say(text: &str) -> Value {
    json!({ "text": text })
}

pub fn calls(notes: &[&str]) -> Value {
    let calls: Vec<Value> = notes.iter().map(|note| json!({"tool": "Note", "args": {"note": note}})).collect();
    json!({"text": "", "calls": calls})
}

pub struct Scripts(pub Arc<ScriptModel>);

#[async_trait]
impl ModelSource for Scripts {
    async fn model(&self, _: &ModelChoice, _: &dyn ContentStore) -> Result<Arc<dyn Model>, ModelSourceError> {
        Ok(self.0.clone())
    }
}

/// Notes the idempotency key of each call and answers at once; told to hang it says that it
/// has begun and never ends (the first time, told to hang once), told to panic it does.
pub struct Note {
    declaration: ToolDeclaration,
    pub keys: Mutex<Vec<String>>,
    /// The fence and the claim that each call came under.
    pub fences: Mutex<Vec<(Epoch, RunId)>>,
    pub begun: Notify,
}

impl Note {
    pub fn new() -> Self {
        let declaration = ToolDeclaration {
            name: "Note".into(),
            description: "Notes something.".into(),
            schema: r#"{"type":"object","properties":{"note":{"type":"string"}},"required":["note"],"additionalProperties":false}"#.into(),
            effect: Effect::Mutation,
            retry_safe: false,
            version: "1".into(),
        };
        Self { declaration, keys: Mutex::default(), fences: Mutex::default(), begun: Notify::new() }
    }

    /// Another version of it, which may run again what a crash cut off.
    pub fn of_version(version: &str) -> Self {
        let mut note = Self::new();
        note.declaration.version = version.into();
        note.declaration.retry_safe = true;
        note
    }
}

#[async_trait]
impl Tool for Note {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        self.keys.lock().unwrap().push(context.idempotency_key.clone());
        self.fences.lock().unwrap().push((context.epoch, context.run.clone()));
        let again = args.contains("once") && self.keys.lock().unwrap().len() > 1;
        if args.contains("hang") && !again {
            self.begun.notify_one();
            std::future::pending::<()>().await;
        }
        if args.contains("panic") {
            panic!("the tool has a bug");
        }
        let record = Record { plugin: "note".into(), kind: "last".into(), body: args.to_owned() };
        Ok(ToolOutput { records: vec![record], ..ToolOutput::text("noted") })
    }
}

pub struct Bench {
    pub clock: Arc<ManualClock>,
    pub scripts: Arc<Scripts>,
    pub store: Arc<MemoryStore>,
    pub host: Arc<Host>,
    pub client: Client,
    pub note: Arc<Note>,
    pub definition: Definition,
}

impl Bench {
    pub fn new(replies: &[Value]) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_796_000_000_000_000)));
        let store = Arc::new(MemoryStore::with(clock.clone(), 7));
        Self { clock, ..Self::behind(store.clone(), store, replies, |host| host) }
    }

    /// A bench on `store` whose workers see it as `seen`, through whatever is wrapped around
    /// it, on a host with `more` to it.
    pub fn behind(
        store: Arc<MemoryStore>,
        seen: Arc<dyn Store>,
        replies: &[Value],
        more: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let script = serde_json::to_vec(&json!({ "replies": replies })).unwrap();
        let script = Arc::new(ScriptModel::parse(&script).unwrap());
        let note = Arc::new(Note::new());
        let scripts = Arc::new(Scripts(script));
        let host = more(Host::builder(seen, scripts.clone()).tool(note.clone())).build();
        let definition = Definition {
            allow: vec![],
            ask: vec![],
            budget: Default::default(),
            deny: vec![],
            env: vec![],
            instructions: "Do the work.".into(),
            interactive: false,
            model: ModelChoice {
                provider: "script".into(),
                name: "test".into(),
                script: None,
                options: Default::default(),
            },
            name: "main".into(),
            on_crash: OnCrash::Resolve,
            permission_mode: PermissionMode::Bypass,
            queue: None,
            subagents: Default::default(),
            tools: vec!["Note".into()],
            workspace: "/".into(),
        };
        let client = Client::new(store.clone());
        // The clock of `new`; a store that is given has a clock of its own.
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(0)));
        Self { clock, scripts, store, host, client, note, definition }
    }

    pub async fn submit(&self, goal: &str) -> TaskId {
        self.client.submit(Submission::new(self.definition.clone(), goal)).await.unwrap().id
    }

    pub fn worker(&self, name: &str) -> Worker {
        self.worker_with(name, |_| ())
    }

    /// A worker with options changed by `change`.
    pub fn worker_with(&self, name: &str, change: impl FnOnce(&mut WorkerOptions)) -> Worker {
        let identity = Identity {
            id: WorkerId::new(name).unwrap(),
            instance: InstanceId::new(format!("{name}-instance")).unwrap(),
            host: "here".into(),
            version: "test".into(),
            process: None,
        };
        let mut options = WorkerOptions {
            identity,
            queues: vec![],
            lease: Duration::from_secs(30),
            concurrency: 4,
            until_idle: true,
            only: None,
        };
        change(&mut options);
        Worker::new(self.host.clone(), options)
    }

    /// A worker that begins a call which hangs and is then gone without a trace; its lease runs
    /// out.
    pub async fn crash_in_a_call(&self) {
        let worker = self.worker("gone");
        let work = tokio::spawn(async move { worker.run(Stop::new()).await });
        self.note.begun.notified().await;
        work.abort();
        assert!(work.await.unwrap_err().is_cancelled());
        self.clock.advance(Duration::from_secs(31));
    }

    /// Works until nothing is left to do.
    pub async fn work(&self) {
        self.worker("one").run(Stop::new()).await.unwrap();
    }

    pub async fn status(&self, task: &TaskId) -> Status {
        self.store.row(task).await.unwrap().unwrap().projection.status
    }

    pub async fn events(&self, task: &TaskId) -> Vec<Envelope> {
        let stored = self.store.read(task, Seq(1), usize::MAX).await.unwrap();
        stored.iter().map(|stored| decode(&stored.body, &stored.hash).unwrap()).collect()
    }

    pub async fn kinds(&self, task: &TaskId) -> Vec<EventType> {
        self.events(task).await.iter().map(Envelope::kind).collect()
    }

    /// Appends so far, creation included: each ends with an event that none follows.
    pub async fn appends(&self, task: &TaskId) -> usize {
        self.events(task).await.iter().filter(|event| event.more == 0).count()
    }

    /// The log verifies, and both folds agree.
    pub async fn sound(&self, task: &TaskId) {
        let mut verdict = Verdict::new();
        self.client.verify(task, &mut verdict).await.unwrap();
        assert!(verdict.is_ok(), "{:?}", verdict.breaks);
        let content: &dyn ContentStore = &*self.store;
        let whole = LoadOptions { whole: true, ..LoadOptions::default() };
        let quick = load(&*self.store, content, task, whole).await.unwrap();
        let full = load(&*self.store, content, task, LoadOptions { ignore_snapshots: true, ..whole }).await.unwrap();
        assert_eq!(quick.to_bytes().unwrap(), full.to_bytes().unwrap());
    }
}
