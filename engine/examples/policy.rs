//! A policy and a guard of one's own. Both look and return a value: neither can append, nor change
//! a state by itself (HO-4).

use std::sync::Arc;

use plica_engine::{Client, Host, OneModel, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::event::TaskStatePatch;
use plica_kernel::id::WorkerId;
use plica_kernel::message::Block;
use plica_memory::MemoryStore;
use plica_ports::{Definition, Guard, GuardView, ModelChoice, Policy, PolicyView, Ruling};
use plica_script::ScriptModel;

/// Notes in the task's state what the model says that it decided.
struct Decisions;

impl Policy for Decisions {
    fn name(&self) -> &str {
        "decisions"
    }

    fn patch(&self, view: &PolicyView<'_>) -> Option<TaskStatePatch> {
        let decided = |block: &Block| match block {
            Block::Text { text } => text.strip_prefix("Decided: ").map(str::to_owned),
            Block::ToolUse { .. } | Block::Thinking { .. } => None,
        };
        let add_notes: Vec<String> = view.reply.iter().filter_map(decided).collect();
        (!add_notes.is_empty()).then(|| TaskStatePatch { add_notes, ..TaskStatePatch::default() })
    }
}

/// Denies every call that speaks of production; anything else is left to the agent's rules.
struct NotOnProduction;

impl Guard for NotOnProduction {
    fn name(&self) -> &str {
        "not-on-production"
    }

    fn rule(&self, view: &GuardView<'_>) -> Ruling {
        if view.args.contains("production") {
            return Ruling::Deny { reason: "not on production".into() };
        }
        Ruling::Allow { rule: None }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptModel::parse(
        br#"{"replies": [
            {"text": "Decided: deploy at night.",
             "calls": [{"tool": "TodoWrite", "args": {"todos": [{"content": "ask production", "status": "pending"}]}}]},
            {"text": "I leave production alone."}
        ]}"#,
    )?;
    let host = Host::builder(store.clone(), OneModel::new(model))
        .policy(Arc::new(Decisions))
        .guard(Arc::new(NotOnProduction))
        .build();
    let client = Client::new(store);
    let mut agent = Definition::new("deployer", ModelChoice::new("script", "deploy"));
    agent.tools = vec!["TodoWrite".into()];
    let task = client.submit(Submission::new(agent, "Deploy it.")).await?.id;
    let worker = Worker::new(host, WorkerOptions::new(WorkerId::new("one")?).until_idle());
    worker.run(Stop::new()).await?;

    let state = client.state(&task, None, false).await?;
    assert_eq!(state.state().notes, ["deploy at night."]);
    assert_eq!(state.governance().denials.iter().count(), 1);
    println!("{}", client.answer(&task).await?.unwrap_or_default());
    Ok(())
}
