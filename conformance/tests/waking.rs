//! Many tasks that wait for one event each, woken at once by deliveries that come four times:
//! each wakes once, by the engine, on SQLite (ST-7, ST-8, WA-2). The bench does the same with
//! ten thousand (`bench wakes`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_engine::{Client, Host, ModelSource, ModelSourceError, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::event::Usage;
use plica_kernel::id::{DedupKey, Seq, TaskId, WorkerId};
use plica_kernel::message::Block;
use plica_kernel::row::Status;
use plica_kernel::wake::Item;
use plica_ports::{
    ContentStore, Definition, DeltaSink, Model, ModelChoice, ModelError, ModelRequest, OnCrash, PermissionMode, Reply,
    StopReason, Store,
};
use plica_sqlite::{OpenOptions, SqliteStore};
use tokio::task::JoinSet;

/// Tasks that wait.
const TASKS: usize = 400;
/// How often each delivery comes again.
const AGAIN: usize = 3;
/// Tasks worked on at once.
const AT_ONCE: usize = 32;

/// Waits for an event, then answers.
struct Waiter;

#[async_trait]
impl Model for Waiter {
    async fn ask(&self, request: &ModelRequest, _: &dyn DeltaSink) -> Result<Reply, ModelError> {
        let (block, stop) = if request.assistant_messages == 0 {
            let args = r#"{"event":"go"}"#.to_owned();
            (Block::ToolUse { args, id: Some("call_0".into()), tool: "Wait".into() }, StopReason::Calls)
        } else {
            (Block::Text { text: "gone".into() }, StopReason::End)
        };
        Ok(Reply { blocks: vec![block], usage: Usage::default(), cost_nano_usd: None, stop, extra: None })
    }
}

struct Models;

#[async_trait]
impl ModelSource for Models {
    async fn model(&self, _: &ModelChoice, _: &dyn ContentStore) -> Result<Arc<dyn Model>, ModelSourceError> {
        Ok(Arc::new(Waiter))
    }
}

fn definition() -> Definition {
    Definition {
        allow: vec![],
        ask: vec![],
        budget: Default::default(),
        deny: vec![],
        env: vec![],
        instructions: "Wait, then say so.".into(),
        interactive: false,
        model: ModelChoice {
            provider: "test".into(),
            name: "waiter".into(),
            script: None,
            options: Default::default(),
        },
        name: "waiter".into(),
        on_crash: OnCrash::Resolve,
        permission_mode: PermissionMode::Bypass,
        queue: None,
        subagents: Default::default(),
        tools: vec!["Wait".into()],
        workspace: "/".into(),
    }
}

fn worker(store: Arc<dyn Store>, name: &str) -> Worker {
    let host = Host::builder(store, Arc::new(Models)).build();
    let options = WorkerOptions::new(WorkerId::new(name).expect("a word")).until_idle();
    Worker::new(host, WorkerOptions { concurrency: AT_ONCE, lease: Duration::from_secs(60), ..options })
}

/// Submits all tasks and works until they wait.
async fn fall_asleep(store: &Arc<dyn Store>) -> Vec<TaskId> {
    let client = Client::new(store.clone());
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        let submission = Submission::new(definition(), format!("task {number}"));
        tasks.push(client.submit(submission).await.expect("a task is created").id);
    }
    worker(store.clone(), "ada").run(Stop::new()).await.expect("the worker ends well");
    tasks
}

/// Delivers the event to every task, again and again, from several senders at once.
fn deliveries(store: &Arc<dyn Store>, tasks: &[TaskId]) -> JoinSet<usize> {
    let mut sending = JoinSet::new();
    for _ in 0..=AGAIN {
        let (store, tasks) = (store.clone(), tasks.to_vec());
        sending.spawn(async move {
            let (item, key) = (Item::Event { data: None, event: "go".into() }, DedupKey::new("go").expect("a word"));
            let mut fresh = 0;
            for task in &tasks {
                match store.deliver(task, "user:ada", &item, &key).await {
                    Ok(delivered) => fresh += usize::from(delivered.fresh),
                    Err(error) => panic!("{task}: {error}"),
                }
            }
            fresh
        });
    }
    sending
}

/// The types of a task's events, counted.
async fn kinds(store: &dyn Store, task: &TaskId) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for event in store.read(task, Seq(1), usize::MAX).await.expect("a log") {
        let body: serde_json::Value = serde_json::from_slice(&event.body).expect("an event");
        *kinds.entry(body["type"].as_str().expect("a type").to_owned()).or_default() += 1;
    }
    kinds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn st_7_wa_2_everything_that_waits_wakes_once_however_often_it_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || -> Arc<dyn Store> {
        let path = folder.path().join("store.db");
        Arc::new(SqliteStore::open(path, OpenOptions::default()).expect("a path in a folder"))
    };
    let (here, there) = (open(), open());
    let tasks = fall_asleep(&here).await;
    for task in &tasks {
        let row = here.row(task).await.expect("rows can be read").expect("the task has a row");
        assert_eq!((row.projection.status, row.claimable_at, row.holder), (Status::Waiting, None, None));
    }

    // Two workers, each with a handle of its own, while the news comes in.
    let sending = deliveries(&there, &tasks);
    let mut working = JoinSet::new();
    for (store, name) in [(&here, "ada"), (&there, "bob")] {
        let worker = worker(store.clone(), name);
        working.spawn(async move { worker.run(Stop::new()).await.expect("the worker ends well") });
    }
    let fresh: usize = sending.join_all().await.into_iter().sum();
    working.join_all().await;
    // Whoever saw nothing to come may have ended before the last of the news.
    worker(here.clone(), "eve").run(Stop::new()).await.expect("the worker ends well");

    assert_eq!(fresh, TASKS, "each event is taken in once");
    for task in &tasks {
        let kinds = kinds(&*here, task).await;
        assert_eq!(kinds.get("TaskWoken"), Some(&1), "{task}: {kinds:?}");
        assert_eq!(kinds.get("TaskCompleted"), Some(&1), "{task}: {kinds:?}");
        assert!(!kinds.contains_key("LateResultRecorded"), "{task}: {kinds:?}");
    }
}
