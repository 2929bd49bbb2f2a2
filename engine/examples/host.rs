//! The ten-line host: a store, a model, a worker, a task.

use std::sync::Arc;

use plica_engine::{Client, Host, OneModel, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::id::WorkerId;
use plica_memory::MemoryStore;
use plica_ports::{Definition, ModelChoice};
use plica_script::ScriptModel;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptModel::parse(br#"{"replies": [{"text": "Hello from the fold."}]}"#)?;
    let host = Host::builder(store.clone(), OneModel::new(model)).build();
    let client = Client::new(store);
    let agent = Definition::new("hello", ModelChoice::new("script", "hello"));
    let task = client.submit(Submission::new(agent, "Say hello.")).await?.id;
    let worker = Worker::new(host, WorkerOptions::new(WorkerId::new("one")?).until_idle());
    worker.run(Stop::new()).await?;
    println!("{}", client.answer(&task).await?.unwrap_or_default());
    Ok(())
}
