//! Chat completions, the protocol of OpenAI and of most servers that people run themselves:
//! what a server sends, and what it takes.

use std::collections::BTreeSet;

use plica_kernel::event::Usage;
use serde_json::{Value, json};

use super::server::Received;
use super::{Protocol, Said, Told};

/// The protocol of `POST …/chat/completions`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chat;

/// The event that ends a stream.
const DONE: &str = "data: [DONE]\n\n";

fn event(choices: Value) -> String {
    chunk(
        json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices }),
    )
}

fn chunk(value: Value) -> String {
    format!("data: {value}\n\n")
}

fn delta(delta: Value) -> Value {
    json!({ "index": 0, "delta": delta, "finish_reason": null })
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input(),
        "completion_tokens": usage.output,
        "total_tokens": usage.input() + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cache_read, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

/// What a server that streams may do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// As OpenAI does it.
    Plain,
    /// Sends a second choice that nobody asked for.
    TwoChoices,
    /// Gives calls no index.
    NoIndex,
    /// Gives all calls the same index.
    SameIndex,
    /// Stops with `stop` although there are calls.
    StopsPlainly,
    /// Names thinking `reasoning`.
    OtherThinking,
    /// Reports tokens with every chunk, and none at the end.
    UsageThroughout,
}

impl Habit {
    fn events(self, said: &Said) -> Vec<String> {
        let thinking = if self == Self::OtherThinking { "reasoning" } else { "reasoning_content" };
        let mut choices = vec![delta(json!({ "role": "assistant", "content": "" }))];
        choices.extend(said.thinking.iter().map(|text| delta(json!({ thinking: text }))));
        choices.extend(said.text.iter().map(|text| delta(json!({ "content": text }))));
        for (index, (id, tool, args)) in said.calls.iter().enumerate() {
            choices.extend(
                self.call(index, id, tool, args).into_iter().map(|call| delta(json!({ "tool_calls": [call] }))),
            );
        }
        let usual = if said.calls.is_empty() || self == Self::StopsPlainly { "stop" } else { "tool_calls" };
        choices.push(json!({ "index": 0, "delta": {}, "finish_reason": said.stop.unwrap_or(usual) }));
        let mut events: Vec<String> = choices.into_iter().map(|choice| self.event(choice, said)).collect();
        if let Some(used) = said.usage.as_ref().filter(|_| self != Self::UsageThroughout) {
            events.push(chunk(json!({ "id": "chatcmpl-1", "choices": [], "usage": usage(used) })));
        }
        events.push(DONE.to_owned());
        events
    }

    fn event(self, choice: Value, said: &Said) -> String {
        match self {
            Self::TwoChoices => {
                let mut other = json!({ "index": 1, "delta": { "content": "other" }, "finish_reason": null });
                other["finish_reason"] = choice["finish_reason"].clone();
                event(json!([other, choice]))
            }
            Self::UsageThroughout => {
                chunk(json!({ "id": "chatcmpl-1", "choices": [choice], "usage": said.usage.as_ref().map(usage) }))
            }
            _ => event(json!([choice])),
        }
    }

    /// The pieces of a call.
    fn call(self, index: usize, id: &str, tool: &str, args: &[&str]) -> Vec<Value> {
        let first = json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": "" } });
        let rest = args.iter().map(|piece| json!({ "function": { "arguments": piece } }));
        let mut pieces: Vec<Value> = std::iter::once(first).chain(rest).collect();
        for piece in &mut pieces {
            match self {
                Self::NoIndex => {}
                Self::SameIndex => piece["index"] = json!(0),
                _ => piece["index"] = json!(index),
            }
        }
        pieces
    }
}

impl Protocol for Chat {
    fn events(&self, said: &Said) -> Vec<String> {
        Habit::Plain.events(said)
    }

    fn variants(&self, said: &Said) -> Vec<(&'static str, Vec<String>)> {
        let variants = [
            ("two choices", Habit::TwoChoices),
            ("calls without an index", Habit::NoIndex),
            ("calls with the same index", Habit::SameIndex),
            ("calls that end with stop", Habit::StopsPlainly),
            ("thinking by another name", Habit::OtherThinking),
            ("tokens throughout", Habit::UsageThroughout),
        ];
        variants.into_iter().map(|(word, habit)| (word, habit.events(said))).collect()
    }

    fn stops(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("stop", "end"),
            ("length", "length"),
            ("tool_calls", "calls"),
            ("function_call", "calls"),
            ("content_filter", "content_filter"),
        ]
    }

    fn failure(&self, message: &str) -> String {
        chunk(json!({ "error": { "message": message, "type": "server_error", "code": 503 }, "choices": [] }))
    }

    fn error(&self, message: &str) -> String {
        json!({ "error": { "message": message, "type": "invalid_request_error", "param": null, "code": null } })
            .to_string()
    }

    fn overflows(&self) -> Vec<(u16, String)> {
        let named = |code: &str, message: &str| json!({ "error": { "message": message, "code": code } }).to_string();
        let window =
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";
        vec![
            (400, named("context_length_exceeded", "Please shorten it.")),
            (400, self.error(window)),
            (400, json!({ "object": "error", "message": window, "code": 400 }).to_string()),
            (
                400,
                json!({ "error": { "code": 400, "type": "exceed_context_size_error",
                    "message": "the request exceeds the available context size, try increasing it" } })
                .to_string(),
            ),
            (500, json!({ "error": "the input length exceeds the context length" }).to_string()),
            (413, "request entity too large".to_owned()),
            (400, self.error("Your input exceeds the context window of this model.")),
            (400, self.error("Please reduce the length of the messages or completion.")),
            (422, self.error("prompt is too long: 213462 tokens > 200000 maximum")),
        ]
    }

    fn read(&self, request: &Received) -> Result<Vec<Told>, String> {
        let target = "POST /v1/chat/completions";
        check(request.target == target, || format!("{} is not {target}", request.target))?;
        let json = request.headers.iter().any(|(name, value)| name == "content-type" && value == "application/json");
        check(json, || "the content type is not JSON".into())?;
        let body: Value = serde_json::from_slice(&request.body).map_err(|error| error.to_string())?;
        let known = [
            "max_completion_tokens",
            "max_tokens",
            "messages",
            "model",
            "stream",
            "stream_options",
            "temperature",
            "tools",
        ];
        members(&body, &known)?;
        check(body["model"].as_str().is_some_and(|model| !model.is_empty()), || "no model".into())?;
        check(body["stream"] == json!(true), || "not streamed".into())?;
        check(body["stream_options"] == json!({ "include_usage": true }), || "no tokens asked for".into())?;
        let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        check(body.get("tools").is_none() || !tools.is_empty(), || "an empty list of tools".into())?;
        tools.iter().try_for_each(read_tool)?;
        let mut reader = Reader::default();
        body["messages"].as_array().ok_or("no messages")?.iter().try_for_each(|message| reader.take(message))?;
        reader.end()
    }
}

fn check(holds: bool, rule: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(rule()) }
}

fn members(value: &Value, known: &[&str]) -> Result<(), String> {
    let object = value.as_object().ok_or_else(|| format!("{value} is no object"))?;
    let unknown = object.keys().find(|name| !known.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| Err(format!("unknown member {name} of {value}")))
}

fn read_tool(tool: &Value) -> Result<(), String> {
    members(tool, &["function", "type"])?;
    members(&tool["function"], &["description", "name", "parameters"])?;
    check(tool["type"] == "function" && is_name(&tool["function"]["name"]), || format!("{tool} has no name"))?;
    check(tool["function"]["parameters"].is_object(), || format!("{tool} has no schema"))
}

/// `^[a-zA-Z0-9_-]{1,64}$`
fn is_name(name: &Value) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.as_str().is_some_and(|name| (1..=64).contains(&name.len()) && name.chars().all(sound))
}

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{value} is no text"))
}

/// Reads a conversation message by message.
#[derive(Debug, Default)]
struct Reader {
    messages: usize,
    told: Vec<Told>,
    /// Ids of calls that wait for their results, in order.
    open: Vec<String>,
    ids: BTreeSet<String>,
}

impl Reader {
    fn take(&mut self, message: &Value) -> Result<(), String> {
        let is_first = self.messages == 0;
        self.messages += 1;
        let role = text(&message["role"])?;
        let content = text(&message["content"])?;
        check(role == "tool" || self.open.is_empty(), || format!("{:?} are not answered before {message}", self.open))?;
        match role.as_str() {
            "system" => {
                members(message, &["content", "role"])?;
                check(is_first && !content.is_empty(), || format!("a system message out of place: {message}"))
            }
            "user" => {
                members(message, &["content", "role"])?;
                let last = self.told.last();
                check(!matches!(last, Some(Told::Input(_))), || format!("no turn of the model before {message}"))?;
                self.told.push(Told::Input(content));
                Ok(())
            }
            "assistant" => self.assistant(message, content),
            "tool" => {
                members(message, &["content", "role", "tool_call_id"])?;
                let id = text(&message["tool_call_id"])?;
                check(self.open.first() == Some(&id), || format!("{:?} wait for their results, not {id}", self.open))?;
                self.open.remove(0);
                self.told.push(Told::Result { id, text: content });
                Ok(())
            }
            _ => Err(format!("unknown role of {message}")),
        }
    }

    fn assistant(&mut self, message: &Value, content: String) -> Result<(), String> {
        members(message, &["content", "reasoning", "reasoning_content", "role", "tool_calls"])?;
        let before = matches!(self.told.last(), Some(Told::Input(_) | Told::Result { .. }));
        check(before, || format!("nothing is said before {message}"))?;
        let listed = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        check(!content.is_empty() || !listed.is_empty(), || format!("{message} says nothing"))?;
        let calls = listed.iter().map(|call| self.call(call)).collect::<Result<Vec<_>, String>>()?;
        self.open = calls.iter().map(|(id, ..)| id.clone()).collect();
        self.told.push(Told::Output { text: content, calls });
        Ok(())
    }

    fn call(&mut self, call: &Value) -> Result<(String, String, String), String> {
        members(call, &["function", "id", "type"])?;
        members(&call["function"], &["arguments", "name"])?;
        let id = text(&call["id"])?;
        let sound = !id.trim().is_empty() && !id.contains(char::is_control);
        check(sound && self.ids.insert(id.clone()), || format!("the id of {call} is empty, unsound or taken"))?;
        check(call["type"] == "function" && is_name(&call["function"]["name"]), || format!("{call} has no name"))?;
        let arguments = text(&call["function"]["arguments"])?;
        let object = serde_json::from_str::<Value>(&arguments).is_ok_and(|arguments| arguments.is_object());
        check(object, || format!("the arguments of {call} are no JSON object"))?;
        Ok((id, text(&call["function"]["name"])?, arguments))
    }

    fn end(self) -> Result<Vec<Told>, String> {
        check(self.open.is_empty(), || format!("{:?} are not answered", self.open))?;
        let turn = matches!(self.told.last(), Some(Told::Input(_) | Told::Result { .. }));
        check(turn, || "it is not the model's turn".into())?;
        Ok(self.told)
    }
}
