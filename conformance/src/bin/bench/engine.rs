//! The real engine on a store, with a scripted model and a tool that answers at once.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use plica_engine::{Client, Host, ModelSource, ModelSourceError, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::body::{Blob, MEDIA_DEFINITION};
use plica_kernel::envelope::Envelope;
use plica_kernel::event::{EventType, Usage};
use plica_kernel::id::{InstanceId, TaskId, WorkerId};
use plica_kernel::message::Block;
use plica_ports::store::Worker as Identity;
use plica_ports::{
    CallContext, ContentStore, Definition, DeltaSink, Effect, Model, ModelChoice, ModelError, ModelRequest, Observer,
    OnCrash, PermissionMode, Reply, StopReason, Store, Tool, ToolDeclaration, ToolError, ToolOutput,
};

use crate::{mix, place};

/// The event that agents wait for.
pub(crate) const EVENT: &str = "go";

/// The agent that children of a family run.
const CHILD: &str = "child";

/// What the model says, before it answers and the turn ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Talk {
    /// A call in each of so many replies.
    Rounds(u64),
    /// A call in each of so many replies of every turn.
    Turns(u64),
    /// A call in each of so many replies, each of which the model takes so long for; up to twice as
    /// long for the first, so that tasks that begin together do not go on in step.
    Slow { rounds: u64, reply: Duration },
    /// A call that waits for an event.
    Event,
    /// A call that waits a number of whole seconds, such that the timers of all tasks are due one
    /// after the other within so many seconds from this time (microseconds since 1970) on.
    Until { from: i64, seconds: u64 },
    /// So many replies with so many children each; the children answer at once.
    Family { replies: u64, children: u64 },
}

impl Talk {
    /// The calls of a reply to a task after so many replies.
    fn calls(self, task: &TaskId, said: u64) -> Vec<(&'static str, String)> {
        match self {
            Self::Rounds(rounds) | Self::Slow { rounds, .. } if said < rounds => {
                vec![("Read", format!("{{\"file_path\":\"src/module_{said}.rs\"}}"))]
            }
            Self::Turns(rounds) if !(said + 1).is_multiple_of(rounds + 1) => {
                vec![("Read", format!("{{\"file_path\":\"src/module_{said}.rs\"}}"))]
            }
            Self::Event if said == 0 => vec![("Wait", format!("{{\"event\":\"{EVENT}\"}}"))],
            Self::Until { from, seconds } if said == 0 => {
                let left = u64::try_from(from - now_micros()).unwrap_or(0).div_ceil(1_000_000);
                let number: u64 = task.as_str().bytes().map(u64::from).sum();
                vec![("Wait", format!("{{\"seconds\":{}}}", left + number % seconds))]
            }
            Self::Family { replies, children } if said < replies => (0..children)
                .map(|child| ("Task", format!("{{\"agent\":\"{CHILD}\",\"goal\":\"part {said}.{child}\"}}")))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// The time, as the stores on this machine tell it.
pub(crate) fn now_micros() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

struct Talker(Talk);

#[async_trait]
impl Model for Talker {
    async fn ask(&self, request: &ModelRequest, _: &dyn DeltaSink) -> Result<Reply, ModelError> {
        let said = request.assistant_messages;
        if let Talk::Slow { reply, .. } = self.0 {
            let number: u32 = request.task.as_str().bytes().map(u32::from).sum();
            let more = if said == 0 { reply * (number % 20) / 20 } else { Duration::ZERO };
            tokio::time::sleep(reply + more).await;
        }
        let mut blocks = vec![Block::Text { text: mix::text(said + 1, 300) }];
        let calls = if request.model == CHILD { Vec::new() } else { self.0.calls(&request.task, said) };
        let stop = if calls.is_empty() { StopReason::End } else { StopReason::Calls };
        blocks.extend(calls.into_iter().enumerate().map(|(nth, (tool, args))| Block::ToolUse {
            args,
            id: Some(format!("call_{said:020}{nth:04}")),
            tool: tool.into(),
        }));
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

/// Notes when each request of a task that is no child's was on record.
#[derive(Default)]
pub(crate) struct Requests(Mutex<Vec<Instant>>);

impl Observer for Requests {
    fn committed(&self, event: &Envelope, _: &[u8]) {
        if event.kind() == EventType::LLMRequestStarted && !event.task.as_str().contains('.') {
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

/// A host on a store.
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) client: Client,
    pub(crate) requests: Arc<Requests>,
    host: Arc<Host>,
}

impl Engine {
    /// A host on the file at `path` whose tasks make `rounds` calls.
    pub(crate) fn new(path: &Path, rounds: u64) -> Self {
        Self::on(place::file(path), Talk::Rounds(rounds))
    }

    /// A host on the file at `path` whose tasks wait for an event once.
    pub(crate) fn waiting(path: &Path) -> Self {
        Self::on(place::file(path), Talk::Event)
    }

    /// A host on a store.
    pub(crate) fn on(store: Arc<dyn Store>, talk: Talk) -> Self {
        let requests = Arc::new(Requests::default());
        let declaration = ToolDeclaration {
            name: "Read".into(),
            description: "Reads a file.".into(),
            schema: r#"{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"],"additionalProperties":false}"#.into(),
            effect: Effect::Read,
            retry_safe: true,
            version: "1".into(),
        };
        let host = Host::builder(store.clone(), Arc::new(Models(Arc::new(Talker(talk)))))
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

    /// Submits a task whose children answer at once.
    pub(crate) async fn submit_family(&self) -> TaskId {
        let mut child = definition(false);
        child.name = CHILD.into();
        child.model.name = CHILD.into();
        let child = Blob::new(MEDIA_DEFINITION, child.to_bytes().expect("a definition is one"));
        let mut parent = definition(false);
        parent.subagents.insert(CHILD.into(), child.reference.clone());
        let mut submission = Submission::new(parent, mix::text(3, 200));
        submission.blobs.push(child);
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
        tools: vec!["Read".into(), "Wait".into(), "Task".into()],
        workspace: "/".into(),
    }
}
