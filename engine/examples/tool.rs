//! A tool of one's own: what it says of itself, and what it does.

use std::sync::Arc;

use async_trait::async_trait;
use plica_engine::{Client, Host, OneModel, Said, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::id::WorkerId;
use plica_memory::MemoryStore;
use plica_ports::{CallContext, Definition, Effect, ModelChoice, Tool, ToolDeclaration, ToolError, ToolOutput};
use plica_script::ScriptModel;

/// Counts the words of a text. It changes nothing, so it may run again after a crash.
struct CountWords(ToolDeclaration);

impl CountWords {
    fn new() -> Self {
        let schema = r#"{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}"#;
        Self(ToolDeclaration::new("CountWords", "Counts the words of a text.", schema, Effect::Read))
    }
}

#[async_trait]
impl Tool for CountWords {
    fn declaration(&self) -> &ToolDeclaration {
        &self.0
    }

    /// The arguments are valid by the schema when they get here.
    async fn call(&self, args: &str, _: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: serde_json::Value =
            serde_json::from_str(args).map_err(|error| ToolError::failed(error.to_string()))?;
        let words = args["text"].as_str().unwrap_or_default().split_whitespace().count();
        Ok(ToolOutput::text(format!("{words} words")))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptModel::parse(
        br#"{"replies": [
            {"calls": [{"tool": "CountWords", "args": {"text": "one two three"}}]},
            {"text": "There are three."}
        ]}"#,
    )?;
    let host = Host::builder(store.clone(), OneModel::new(model)).tool(Arc::new(CountWords::new())).build();
    let client = Client::new(store);
    let mut agent = Definition::new("counter", ModelChoice::new("script", "count"));
    agent.tools = vec!["CountWords".into()];
    let task = client.submit(Submission::new(agent, "How many words?")).await?.id;
    let worker = Worker::new(host, WorkerOptions::new(WorkerId::new("one")?).until_idle());
    worker.run(Stop::new()).await?;

    let said = client.messages(&task).await?;
    assert!(matches!(&said[2], Said::Result { output, .. } if output == "3 words"));
    println!("{}", client.answer(&task).await?.unwrap_or_default());
    Ok(())
}
