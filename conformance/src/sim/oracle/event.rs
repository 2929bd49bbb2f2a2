//! One stored event, read without any of the kernel's code.

use std::collections::BTreeMap;
use std::fmt::Write;

use plica_ports::store::StoredEvent;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Bodies by the hexadecimal digits of their hash.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// The members of an event that the oracle looks at.
#[derive(Debug, Clone)]
pub struct Event {
    pub seq: u64,
    pub kind: String,
    pub actor: String,
    pub at: String,
    pub epoch: u64,
    pub run: String,
    pub parent: Option<u64>,
    pub decision: Option<u64>,
    pub action: Option<u64>,
    pub more: u64,
    pub prev: String,
    pub hash: String,
    pub payload: Value,
}

/// Part of a chain of cause and effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Decision,
    Action,
    Outcome,
    Other,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String never fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// SHA-256 of several pieces, as text.
pub fn sha256(pieces: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hex(&hasher.finalize())
}

/// The `prev` of a task's first event (EV-4).
pub fn genesis(ledger: &str, task: &str) -> String {
    let text = format!("{{\"ledger\":{},\"task\":{}}}", Value::from(ledger), Value::from(task));
    sha256(&[b"plica/genesis/v1\n", text.as_bytes()])
}

impl Event {
    /// Reads an event; its bytes must be those that were hashed, and compact.
    pub fn read(task: &str, stored: &StoredEvent) -> Result<Self, String> {
        let hash = sha256(&[b"plica/event/v1\n", &stored.body]);
        if hash != stored.hash.to_string() {
            return Err(format!("event {} is stored under {} but has the hash {hash}", stored.seq, stored.hash));
        }
        let body: Value = serde_json::from_slice(&stored.body).map_err(|error| error.to_string())?;
        if serde_json::to_vec(&body).ok().as_deref() != Some(&stored.body[..]) {
            return Err(format!("event {} is not written canonically", stored.seq));
        }
        let number = |name: &str| body[name].as_u64();
        let must = |name: &str| number(name).ok_or_else(|| format!("event {}: {name} is no number", stored.seq));
        let text = |name: &str| {
            let text = body[name].as_str().map(str::to_owned);
            text.ok_or_else(|| format!("event {}: {name} is no text", stored.seq))
        };
        if must("v")? != 1 || text("task")? != task || must("seq")? != stored.seq.0 {
            return Err(format!("event {} says that it is another", stored.seq));
        }
        Ok(Self {
            seq: stored.seq.0,
            kind: text("type")?,
            actor: text("actor")?,
            at: text("at")?,
            epoch: must("epoch")?,
            run: text("run")?,
            parent: number("parent"),
            decision: number("decision"),
            action: number("action"),
            more: number("more").unwrap_or(0),
            prev: text("prev")?,
            hash,
            payload: body["payload"].clone(),
        })
    }

    /// What part it plays (section 6 of the design).
    pub fn part(&self) -> Part {
        match self.kind.as_str() {
            "ContextPlanComposed"
            | "DecisionRecorded"
            | "ApprovalResolved"
            | "AgentRevised"
            | "CallResolved"
            | "MutationIntended"
            | "RetentionChanged" => Part::Decision,
            "LLMRequestStarted"
            | "ToolCallStarted"
            | "SubtaskSpawned"
            | "BackgroundJobStarted"
            | "MutationDispatched" => Part::Action,
            "LLMRequestFinished" | "ToolCallFinished" | "SubtaskCompleted" | "BackgroundJobEnded"
            | "MutationObserved" => Part::Outcome,
            _ => Part::Other,
        }
    }

    /// Whether it ends its task.
    pub fn ends(&self) -> bool {
        matches!(self.kind.as_str(), "TaskCompleted" | "TaskFailed" | "TaskCancelled")
    }

    /// Whether it may follow the end of its task (FO-4).
    pub fn outlives(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "TaskRewound"
                | "ConversationReopened"
                | "ConversationClosed"
                | "TaskSnapshot"
                | "CheckpointRecorded"
                | "LateResultRecorded"
                | "ExtensionRecorded"
                | "EffectResolved"
                | "RetentionChanged"
                | "ArtifactRetired"
                | "ArtifactPurged"
        )
    }

    /// A text member of the payload.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        self.payload[name].as_str().ok_or_else(|| format!("{} {}: {name} is no text", self.kind, self.seq))
    }

    /// A number of the payload, 0 if it is left out.
    pub fn number(&self, name: &str) -> u64 {
        self.payload[name].as_u64().unwrap_or(0)
    }

    /// The whole text of a body in the payload.
    pub fn body(&self, name: &str, contents: &Contents) -> Result<String, String> {
        text_of(&self.payload[name], contents)
    }
}

/// Whether an action of this kind goes on while its task waits.
pub fn goes_on(kind: &str) -> bool {
    matches!(kind, "SubtaskSpawned" | "BackgroundJobStarted")
}

/// The whole text of a body: a text, or a reference to one.
pub fn text_of(body: &Value, contents: &Contents) -> Result<String, String> {
    if let Some(text) = body.as_str() {
        return Ok(text.to_owned());
    }
    let sha256 = body["sha256"].as_str().ok_or("a body is neither text nor reference")?;
    let bytes = contents.get(sha256).ok_or_else(|| format!("no content {sha256}"))?;
    String::from_utf8(bytes.clone()).map_err(|_| format!("content {sha256} is no text"))
}

/// Every content reference inside a value: hash and size.
pub fn references(value: &Value) -> Vec<(String, u64)> {
    match value {
        Value::Object(members) => match (members.len(), &value["media"], &value["sha256"], &value["size"]) {
            (3, Value::String(_), Value::String(sha256), Value::Number(size)) => {
                vec![(sha256.clone(), size.as_u64().unwrap_or(u64::MAX))]
            }
            _ => members.values().flat_map(references).collect(),
        },
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
