//! From a neutral request to the bytes of a chat completion (MO-2).

use std::borrow::Cow;
use std::collections::BTreeSet;

use plica_kernel::event::Role;
use plica_kernel::id::CallId;
use plica_kernel::message::Block;
use plica_ports::{ModelRequest, RequestMessage, ToolSpec};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::Settings;
use crate::preset::{MaxTokens, ThinkingMember};
use crate::text::cut;

/// What stands between the texts of one message.
const PARAGRAPH: &str = "\n\n";
/// What a text of the engine begins with. Many servers take system messages nowhere but at
/// the beginning, so it goes out as a user's.
const SYSTEM: &str = "[system] ";
/// What the result of a failed call begins with: the protocol has no mark for it.
const ERROR: &str = "error: ";
/// The longest function name that the protocol allows.
const NAME_BYTES_MAX: usize = 64;

/// A request that has no valid form: a defect of whoever composed it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("call {0} has no result right after it (TO-4)")]
    Unanswered(CallId),
    #[error("the result of call {0} answers no call (TO-4)")]
    Unasked(CallId),
    #[error("the schema of tool {tool} is not JSON: {why}")]
    Schema { tool: String, why: String },
    #[error("the request has no JSON form: {0}")]
    Form(String),
}

/// The body of a chat completion. Members come in this order, the conversation last, so that
/// the bodies of one task share the longest beginning.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: FunctionSpec<'a>,
}

#[derive(Serialize)]
struct FunctionSpec<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

#[derive(Serialize, Default)]
struct Message<'a> {
    role: &'static str,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: String,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

/// The body of a request: a function of the request and the settings and nothing else
/// (MO-2), tool schemas as the very text they are (EV-5).
pub(crate) fn body(request: &ModelRequest, settings: &Settings) -> Result<Vec<u8>, RequestError> {
    let form = |error: serde_json::Error| RequestError::Form(error.to_string());
    let temperature = settings.temperature.as_deref().map(serde_json::from_str).transpose().map_err(form)?;
    let bound = |name: MaxTokens| settings.max_tokens.filter(|_| settings.preset.max_tokens == name);
    let body = Body {
        model: &request.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens: bound(MaxTokens::Plain),
        max_completion_tokens: bound(MaxTokens::Completion),
        temperature,
        tools: tools(request)?,
        messages: Conversation::of(request, settings.thinking)?,
    };
    serde_json::to_vec(&body).map_err(form)
}

fn tools(request: &ModelRequest) -> Result<Vec<Tool<'_>>, RequestError> {
    fn tool(spec: &ToolSpec) -> Result<Tool<'_>, RequestError> {
        let parameters = serde_json::from_str(&spec.schema)
            .map_err(|error| RequestError::Schema { tool: spec.name.clone(), why: error.to_string() })?;
        let function = FunctionSpec { name: &spec.name, description: &spec.description, parameters };
        Ok(Tool { r#type: "function", function })
    }
    request.tools.iter().map(tool).collect()
}

/// Messages in the order that every server takes: a system message, then users and the model
/// in turn, each call answered right after it, in order (TO-4).
struct Conversation<'a> {
    messages: Vec<Message<'a>>,
    /// Ids that stand in it.
    ids: BTreeSet<String>,
    /// Calls of the last message that are not answered yet, last first.
    open: Vec<(CallId, String)>,
    thinking: Option<ThinkingMember>,
}

impl<'a> Conversation<'a> {
    fn of(request: &'a ModelRequest, thinking: Option<ThinkingMember>) -> Result<Vec<Message<'a>>, RequestError> {
        let mut conversation = Self { messages: Vec::new(), ids: BTreeSet::new(), open: Vec::new(), thinking };
        if !request.instructions.is_empty() {
            let content = Cow::from(&request.instructions);
            conversation.messages.push(Message { role: "system", content, ..Message::default() });
        }
        for message in &request.messages {
            match &**message {
                RequestMessage::Text { role, text } => conversation.text(*role, text)?,
                RequestMessage::Assistant { blocks, calls } => conversation.assistant(blocks, calls)?,
                RequestMessage::ToolResult { call, error, output, .. } => {
                    conversation.result(*call, *error, output)?;
                }
            }
        }
        conversation.all_answered()?;
        Ok(conversation.messages)
    }

    fn all_answered(&self) -> Result<(), RequestError> {
        self.open.last().map_or(Ok(()), |(call, _)| Err(RequestError::Unanswered(*call)))
    }

    /// A text from outside. Texts in a row are one message, since servers want turns.
    fn text(&mut self, role: Role, text: &'a str) -> Result<(), RequestError> {
        self.all_answered()?;
        let text = if role == Role::System { Cow::from(format!("{SYSTEM}{text}")) } else { Cow::from(text) };
        match self.messages.last_mut() {
            Some(last) if last.role == "user" => join(&mut last.content, &text),
            _ => self.messages.push(Message { role: "user", content: text, ..Message::default() }),
        }
        Ok(())
    }

    /// What the model said. A message that would hold nothing is left out.
    fn assistant(&mut self, blocks: &'a [Block], calls: &[CallId]) -> Result<(), RequestError> {
        self.all_answered()?;
        let (mut content, mut thinking, mut tool_calls) = (String::new(), String::new(), Vec::new());
        let mut ids = calls.iter();
        for block in blocks {
            match block {
                Block::Text { text } => content.push_str(text),
                Block::Thinking { text, .. } => thinking.push_str(text),
                Block::ToolUse { args, id, tool } => {
                    // A call without an id of ours was never decided on and has no result.
                    let Some(call) = ids.next() else { continue };
                    let id = self.unused(*call, id.as_deref());
                    self.open.push((*call, id.clone()));
                    let function = Function { name: name(tool), arguments: arguments(args) };
                    tool_calls.push(ToolCall { id, r#type: "function", function });
                }
            }
        }
        self.open.reverse();
        if content.is_empty() && tool_calls.is_empty() {
            return Ok(());
        }
        // Servers that want thinking back want it with calls, and refuse or drop it elsewhere.
        let thinking = (!thinking.is_empty() && !tool_calls.is_empty()).then_some(thinking);
        let (reasoning_content, reasoning) = match self.thinking {
            Some(ThinkingMember::ReasoningContent) => (thinking, None),
            Some(ThinkingMember::Reasoning) => (None, thinking),
            None => (None, None),
        };
        let mut said = Message {
            role: "assistant",
            content: content.into(),
            reasoning_content,
            reasoning,
            tool_calls,
            tool_call_id: None,
        };
        if let Some(before) = self.messages.pop_if(|last| last.role == "assistant") {
            let mut content = before.content;
            join(&mut content, &said.content);
            said.content = content;
        }
        self.messages.push(said);
        Ok(())
    }

    fn result(&mut self, call: CallId, error: bool, output: &'a str) -> Result<(), RequestError> {
        let id = match self.open.pop() {
            Some((open, id)) if open == call => id,
            Some((open, _)) => return Err(RequestError::Unanswered(open)),
            None => return Err(RequestError::Unasked(call)),
        };
        let says_so = output.get(..ERROR.len()).is_some_and(|start| start.eq_ignore_ascii_case(ERROR));
        let content = if error && !says_so { format!("{ERROR}{output}").into() } else { Cow::from(output) };
        self.messages.push(Message { role: "tool", content, tool_call_id: Some(id), ..Message::default() });
        Ok(())
    }

    /// The id that a call has on the wire: the server's own, and where that is empty or was
    /// used before, one of ours. It follows from what stands before it, so it never changes
    /// while the conversation grows.
    fn unused(&mut self, call: CallId, given: Option<&str>) -> String {
        let given = given.filter(|id| !id.trim().is_empty() && !id.contains(char::is_control));
        let ours = || {
            let first = format!("call_{}_{}", call.decision, call.index);
            // A fork counts its decisions from 1 again, so ours may repeat too.
            let further = (2_u64..).map(|n| format!("call_{}_{}_{n}", call.decision, call.index));
            std::iter::once(first).chain(further)
        };
        let mut candidates = given.map(str::to_owned).into_iter().chain(ours());
        let id = candidates.find(|id| !self.ids.contains(id)).expect("the numbers that ours end in never run out");
        self.ids.insert(id.clone());
        id
    }
}

/// Adds a paragraph.
fn join(content: &mut Cow<'_, str>, text: &str) {
    if content.is_empty() || text.is_empty() {
        content.to_mut().push_str(text);
    } else {
        content.to_mut().extend([PARAGRAPH, text]);
    }
}

/// The name of a call's function as servers accept it: a model may have made up one that they
/// would refuse, and with it the whole conversation.
fn name(tool: &str) -> Cow<'_, str> {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if tool.is_empty() {
        return "unnamed".into();
    }
    if tool.len() <= NAME_BYTES_MAX && tool.chars().all(sound) {
        return tool.into();
    }
    let name: String = tool.chars().map(|c| if sound(c) { c } else { '_' }).collect();
    cut(&name, NAME_BYTES_MAX).to_owned().into()
}

/// A call's arguments: the very text that came (EV-5). What is not a JSON object many servers
/// refuse, and with it the whole conversation, so it goes out as a member of one.
fn arguments(args: &str) -> Cow<'_, str> {
    if args.trim().is_empty() {
        return "{}".into();
    }
    if args.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(args).is_ok() {
        return args.into();
    }
    format!("{{\"malformed_arguments\":{}}}", serde_json::Value::from(args)).into()
}

#[cfg(test)]
mod tests;
