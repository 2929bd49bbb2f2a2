//! The JSON Schema of agent files, for editors: made from the tables that the reader uses, so the
//! two know the same keys, tools, providers and words.

use serde_json::{Map, Value, json};

use super::model::PROVIDERS;
use super::table::COUNT_MAX;
use super::tools::TOOLS;
use super::{ON_CRASH, PERMISSION_MODES};

/// What stands under a key.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// True or false.
    Flag,
    /// A whole number from 1.
    Count,
    /// A tool's name, in a list.
    Tools,
    /// A rule on tools, in a list.
    Rules,
    /// One of `PERMISSION_MODES`.
    Mode,
    /// One of `ON_CRASH`.
    OnCrash,
    /// One of `PROVIDERS`.
    Provider,
    /// A model: its name, or a table.
    Model,
    /// A table of texts by whatever names.
    Named,
    /// The budget's table.
    Budget,
    /// Known, and not supported by this version.
    Reserved,
}

/// A key of a table of an agent file.
pub(super) struct Key {
    pub(super) name: &'static str,
    shape: Shape,
    about: &'static str,
}

const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, about }
}

/// The keys of an agent file.
pub(super) const KEYS: &[Key] = &[
    key("allow", Shape::Rules, "What runs without asking, as in \"Bash(git status:*)\"."),
    key("ask", Shape::Rules, "What a person is asked about first; goes before allow."),
    key("budget", Shape::Budget, "What a task may spend before a person is asked."),
    key("deny", Shape::Rules, "What never runs; goes before ask and allow."),
    key("env", Shape::Texts, "Names of the worker's variables that commands may see."),
    key("instructions", Shape::Text, "What the model is told before everything else."),
    key("interactive", Shape::Flag, "Whether a finished turn waits for the next message."),
    key("mcp", Shape::Reserved, "Not supported by this version."),
    key("model", Shape::Model, "PROVIDER:NAME, as in \"ollama:qwen3\", or a table with options."),
    key("name", Shape::Text, "The agent's name, in lists and records."),
    key("on_crash", Shape::OnCrash, "What becomes of calls that a lost worker left open."),
    key("permission_mode", Shape::Mode, "What becomes of calls that no rule names."),
    key("queue", Shape::Text, "The queue that its tasks wait in."),
    key("subagents", Shape::Texts, "Agent files that the tool Task may give work to."),
    key("tools", Shape::Tools, "The tools that it may call."),
    key("workspace", Shape::Text, "The folder it works in; relative to this file."),
];

/// The keys of its `[budget]`.
pub(super) const BUDGET_KEYS: &[Key] = &[
    key("nano_usd", Shape::Count, "Money, in billionths of a US dollar."),
    key("steps", Shape::Count, "Model requests."),
    key("tokens", Shape::Count, "Tokens in and out."),
    key("wall_s", Shape::Count, "Seconds of work; waiting does not count."),
];

/// The keys of a model's table.
pub(super) const MODEL_KEYS: &[Key] = &[
    key("api_key_env", Shape::Text, "The variable that holds the key; never the key itself."),
    key("base_url", Shape::Text, "Where the server is, as in \"http://localhost:8080/v1\"."),
    key("headers", Shape::Named, "Headers to send besides; \"env:VARIABLE\" reads one from a variable."),
    key("max_tokens", Shape::Count, "The most tokens that a reply may have."),
    key("name", Shape::Text, "The model, as the server calls it."),
    key("preset", Shape::Text, "The kind of server, where the provider does not say it."),
    key("provider", Shape::Provider, "Whose model it is."),
    key("temperature", Shape::Text, "The sampling temperature, as text: \"0.2\"."),
    key("thinking", Shape::Text, "The member that thinking goes back to the server in."),
    key("timeout_s", Shape::Count, "Seconds that a whole reply may take."),
];

/// The names of some keys.
pub(super) fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

/// The schema.
pub fn schema() -> Value {
    let mut schema = table(KEYS, &["name", "model"]);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Plica agent file".into();
    schema
}

fn table(keys: &[Key], required: &[&str]) -> Value {
    let supported = keys.iter().filter(|key| !matches!(key.shape, Shape::Reserved));
    let property = |key: &Key| {
        let mut value = of(key.shape);
        value["description"] = key.about.into();
        (key.name.to_owned(), value)
    };
    let properties: Map<String, Value> = supported.map(property).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn of(shape: Shape) -> Value {
    let words = |words: &mut dyn Iterator<Item = &'static str>| json!({ "enum": words.collect::<Vec<_>>() });
    let list = |items: Value| json!({ "type": "array", "items": items });
    match shape {
        Shape::Text | Shape::Reserved => json!({ "type": "string" }),
        Shape::Texts | Shape::Rules => list(json!({ "type": "string" })),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Count => json!({ "type": "integer", "minimum": 1, "maximum": COUNT_MAX }),
        Shape::Tools => list(json!({ "anyOf": [{ "enum": TOOLS }, { "type": "string", "pattern": "^mcp__" }] })),
        Shape::Mode => words(&mut PERMISSION_MODES.iter().map(|(name, _)| *name)),
        Shape::OnCrash => words(&mut ON_CRASH.iter().map(|(name, _)| *name)),
        Shape::Provider => json!({ "enum": PROVIDERS }),
        Shape::Named => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Shape::Budget => table(BUDGET_KEYS, &[]),
        Shape::Model => {
            let providers = PROVIDERS.iter().map(|name| name.replace('.', "\\.")).collect::<Vec<_>>().join("|");
            let name = json!({ "type": "string", "pattern": format!("^({providers}):.+$") });
            json!({ "anyOf": [name, table(MODEL_KEYS, &["provider", "name"])] })
        }
    }
}
