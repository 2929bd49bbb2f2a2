//! The model of a world: answers by script, and looks whether what it is asked makes sense.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_engine::{ModelSource, ModelSourceError};
use plica_kernel::event::Usage;
use plica_kernel::message::Block;
use plica_ports::{ContentStore, DeltaSink, Model, ModelChoice, ModelError, ModelRequest, Reply, StopReason};

use super::agents::{Plans, Step};
use super::gate::Gate;
use super::oracle::Oracle;

/// The model, as one worker process reaches it.
pub struct SimModel {
    plans: Arc<Plans>,
    oracle: Arc<Oracle>,
    gate: Arc<Gate>,
    /// The process.
    instance: String,
}

impl SimModel {
    /// The model for the process `instance` behind `gate`.
    pub fn new(plans: Arc<Plans>, oracle: Arc<Oracle>, gate: Arc<Gate>, instance: &str) -> Self {
        Self { plans, oracle, gate, instance: instance.to_owned() }
    }
}

fn reply(step: &Step) -> Reply {
    let thinking =
        step.thinking.iter().map(|text| Block::Thinking { signature: Some("sig".into()), text: text.clone() });
    let text = (!step.text.is_empty()).then(|| Block::Text { text: step.text.clone() });
    let calls = step.calls.iter().enumerate().map(|(index, call)| Block::ToolUse {
        args: call.args.clone(),
        id: Some(format!("call_{index}")),
        tool: call.tool.clone(),
    });
    let stop = match () {
        () if step.cut => StopReason::Length,
        () if step.calls.is_empty() => StopReason::End,
        () => StopReason::Calls,
    };
    Reply {
        blocks: thinking.chain(text).chain(calls).collect(),
        usage: Usage { output: 10, uncached: 100, ..Usage::default() },
        cost_nano_usd: Some(1_000),
        stop,
        extra: None,
    }
}

#[async_trait]
impl Model for SimModel {
    async fn ask(&self, request: &ModelRequest, _: &dyn DeltaSink) -> Result<Reply, ModelError> {
        self.gate.pass().await;
        self.oracle.model_asked(&self.instance, request);
        let step = self.plans.of(&request.task).map(|plan| plan.step(request.assistant_messages)).unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(step.takes_ms)).await;
        self.gate.pass().await;
        let nth = usize::try_from(request.attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        match step.refusals.get(nth) {
            Some(refusal) => Err(ModelError {
                kind: refusal.kind,
                message: "refused by the script".into(),
                retry_after: (refusal.retry_after_ms > 0).then(|| Duration::from_millis(refusal.retry_after_ms)),
            }),
            None => Ok(reply(&step)),
        }
    }
}

/// Gives every task the one model there is.
pub struct OneModel(pub Arc<SimModel>);

#[async_trait]
impl ModelSource for OneModel {
    async fn model(&self, _: &ModelChoice, _: &dyn ContentStore) -> Result<Arc<dyn Model>, ModelSourceError> {
        Ok(self.0.clone())
    }
}
