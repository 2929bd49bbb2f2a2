//! What the engine asks of a pool: no connection is held across a call of a model or a tool
//! (SP-1, WA-1).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_engine::{Client, Host, OneModel, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::event::Usage;
use plica_kernel::id::{TaskId, WorkerId};
use plica_kernel::message::Block;
use plica_kernel::row::Status;
use plica_ports::{
    CallContext, Definition, DeltaSink, Effect, Model, ModelChoice, ModelError, ModelRequest, PermissionMode, Reply,
    StopReason, Store, Tool, ToolDeclaration, ToolError, ToolOutput,
};
use plica_postgres::{OpenOptions, PostgresStore};
use tokio::sync::Barrier;
use tokio::time::timeout;

/// Tasks, whose calls all begin before the first of them ends.
const TASKS: usize = 6;
/// More than any test takes.
const LONG: Duration = Duration::from_secs(60);

/// A place where all tasks have to be at once, and where the store is used meanwhile.
struct Meeting {
    barrier: Barrier,
    store: Arc<PostgresStore>,
}

impl Meeting {
    async fn attend(&self) {
        let met = async {
            self.barrier.wait().await;
            self.store.now().await.expect("a connection is free while all tasks are in a call");
        };
        timeout(LONG, met).await.expect("all tasks are in a call at once");
    }
}

/// Calls the tool once, then answers.
struct Caller(Arc<Meeting>);

#[async_trait]
impl Model for Caller {
    async fn ask(&self, request: &ModelRequest, _: &dyn DeltaSink) -> Result<Reply, ModelError> {
        self.0.attend().await;
        let (block, stop) = if request.assistant_messages == 0 {
            let (args, tool) = ("{}".to_owned(), "Meet".to_owned());
            (Block::ToolUse { args, id: Some("call_0".into()), tool }, StopReason::Calls)
        } else {
            (Block::Text { text: "met".into() }, StopReason::End)
        };
        Ok(Reply { blocks: vec![block], usage: Usage::default(), cost_nano_usd: None, stop, extra: None })
    }
}

struct Meet(ToolDeclaration, Arc<Meeting>);

#[async_trait]
impl Tool for Meet {
    fn declaration(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, _: &str, _: &CallContext) -> Result<ToolOutput, ToolError> {
        self.1.attend().await;
        Ok(ToolOutput::text("met"))
    }
}

async fn submit(client: &Client) -> TaskId {
    let mut definition = Definition::new("caller", ModelChoice::new("test", "caller"));
    definition.permission_mode = PermissionMode::Bypass;
    definition.tools = vec!["Meet".into()];
    client.submit(Submission::new(definition, "Meet.")).await.expect("a task is created").id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sp_1_wa_1_one_connection_is_enough_for_any_number_of_calls_at_once() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    let url = format!("{}&pool=1", fresh.url());
    let store = Arc::new(PostgresStore::open(&url, OpenOptions::default()).expect("a URL is a URL"));
    let client = Client::new(store.clone());
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        tasks.push(submit(&client).await);
    }

    let meeting = Arc::new(Meeting { barrier: Barrier::new(TASKS), store: store.clone() });
    let declaration = ToolDeclaration {
        name: "Meet".into(),
        description: "Waits for all others.".into(),
        schema: r#"{"type":"object"}"#.into(),
        effect: Effect::Read,
        retry_safe: true,
        version: "1".into(),
    };
    let model = OneModel::new(Caller(meeting.clone()));
    let host = Host::builder(store.clone(), model).tool(Arc::new(Meet(declaration, meeting))).build();
    let options = WorkerOptions::new(WorkerId::new("ada").expect("a word")).until_idle();
    let worker = Worker::new(host, WorkerOptions { concurrency: TASKS, ..options });
    worker.run(Stop::new()).await.expect("the worker ends well");

    for task in &tasks {
        let row = client.row(task).await.expect("rows can be read");
        assert_eq!(row.projection.status, Status::Completed, "{task}");
    }
}
