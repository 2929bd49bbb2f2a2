//! Requests as the engine composes them: a fixed one, and any.

use std::sync::Arc;

use plica_kernel::event::Role;
use plica_kernel::id::{CallId, Seq, TaskId};
use plica_kernel::message::Block;
use plica_ports::{ModelRequest, RequestMessage, ToolSpec};
use proptest::prelude::*;

/// A request with one question and one tool.
pub fn question() -> ModelRequest {
    let text = RequestMessage::Text { role: Role::User, text: "What is in the file?".into() };
    request(vec![text], vec![tool("Read")])
}

/// Any conversation that the engine can compose. Each text and each result in it ends in a
/// number between guillemets, counted from 0 in the order they are told, so it can be found
/// again in any protocol.
pub fn conversation() -> impl Strategy<Value = ModelRequest> {
    proptest::collection::vec(round(), 1..8).prop_map(|rounds| {
        let mut told = Told::default();
        let last = rounds.len() - 1;
        for (index, round) in rounds.into_iter().enumerate() {
            told.round(round, Seq(3 + 10 * index as u64), index == last);
        }
        request(told.messages, vec![tool("Read"), tool("mcp__git__log")])
    })
}

fn request(messages: Vec<RequestMessage>, tools: Vec<ToolSpec>) -> ModelRequest {
    let assistant = |message: &&RequestMessage| matches!(message, RequestMessage::Assistant { .. });
    let assistant_messages = messages.iter().filter(assistant).count() as u64;
    ModelRequest {
        task: TaskId::new("01900000-0000-7000-8000-000000000000").expect("a UUID is a task id"),
        model: "a-model".into(),
        instructions: "Answer briefly.\n".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools,
        attempt: 1,
        assistant_messages,
    }
}

/// A tool whose schema has what a careless printer would change: spaces, a number with an
/// exponent, names that are not sorted.
fn tool(name: &str) -> ToolSpec {
    let schema = r#"{ "type": "object", "properties": {"z": {"maximum": 1e3}, "a": {"type":"string"}} }"#;
    ToolSpec { name: name.into(), description: format!("The tool \"{name}\"."), schema: schema.into() }
}

/// One round: what is said from outside, then a reply.
#[derive(Debug, Clone)]
struct Round {
    inputs: Vec<(Role, String)>,
    thinking: bool,
    text: Option<String>,
    calls: Vec<Call>,
}

#[derive(Debug, Clone)]
struct Call {
    id: Option<String>,
    tool: String,
    args: String,
    error: bool,
    output: String,
}

fn one_of(texts: &[&str]) -> impl Strategy<Value = String> + use<> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    prop::sample::select(texts)
}

fn round() -> impl Strategy<Value = Round> {
    let text = || one_of(&["", "a ", "[system] ", "\u{0}\u{1f600}\n", "</s>\"\\ "]);
    let role = prop_oneof![3 => Just(Role::User), 1 => Just(Role::System)];
    let inputs = proptest::collection::vec((role, text()), 0..3);
    (inputs, any::<bool>(), proptest::option::of(text()), proptest::collection::vec(call(), 0..4))
        .prop_map(|(inputs, thinking, text, calls)| Round { inputs, thinking, text, calls })
}

fn call() -> impl Strategy<Value = Call> {
    let own = one_of(&["", " ", "same", "call_3_0", "call_13_0_2", "c\n1"]);
    let id = prop_oneof![Just(None), own.prop_map(Some), "[a-z]{1,4}".prop_map(Some)];
    let long = "x".repeat(80);
    let tool = one_of(&["Read", "mcp__git__log", "", "no such tool!", &long]);
    let args = one_of(&["", "{}", "{\"n\": 1.50}", "{\"a\":", "[1]", "\"text\"", " { } ", "{\"a\":1,\"a\":2}"]);
    (id, tool, args, any::<bool>(), "[a-z\\n]{0,5}").prop_map(|(id, tool, args, error, output)| Call {
        id,
        tool,
        args,
        error,
        output,
    })
}

/// A conversation as it grows.
#[derive(Default)]
struct Told {
    messages: Vec<RequestMessage>,
    marks: usize,
    /// Whether the model may speak: something was said to it since it last did.
    may_speak: bool,
}

impl Told {
    fn mark(&mut self, text: &str) -> String {
        let mark = format!("{text}«{}»", self.marks);
        self.marks += 1;
        mark
    }

    fn input(&mut self, role: Role, text: &str) {
        let text = self.mark(text);
        self.messages.push(RequestMessage::Text { role, text });
        self.may_speak = true;
    }

    fn round(&mut self, round: Round, decision: Seq, last: bool) {
        for (role, text) in &round.inputs {
            self.input(*role, text);
        }
        if !self.may_speak {
            self.input(Role::User, "go on ");
        }
        // A conversation never ends with what the model said.
        if last && round.calls.is_empty() {
            return;
        }
        let mut blocks = Vec::new();
        if round.thinking {
            blocks.push(Block::Thinking { signature: None, text: "hm".into() });
        }
        if let Some(text) = &round.text {
            blocks.push(Block::Text { text: self.mark(text) });
        }
        for Call { id, tool, args, .. } in &round.calls {
            blocks.push(Block::ToolUse { args: args.clone(), id: id.clone(), tool: tool.clone() });
        }
        if blocks.is_empty() {
            return;
        }
        let calls: Vec<CallId> = (0..).take(round.calls.len()).map(|index| CallId { decision, index }).collect();
        self.messages.push(RequestMessage::Assistant { blocks, calls: calls.clone() });
        self.may_speak = !calls.is_empty();
        for (Call { id, tool, error, output, .. }, call) in round.calls.into_iter().zip(calls) {
            let output = self.mark(&output);
            self.messages.push(RequestMessage::ToolResult { call, id, tool, error, output });
        }
    }
}
