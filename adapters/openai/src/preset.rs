//! What is known of the servers that people run.

/// A kind of server: where it is, where its key is, and how it differs from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name, as agent files have it.
    pub name: &'static str,
    /// The address that its paths begin with, unless the agent names another.
    pub base_url: Option<&'static str>,
    /// The variable that its key is read from, unless the agent names another.
    pub api_key_env: Option<&'static str>,
    /// What the member is called that bounds the reply's tokens. OpenAI's newer models refuse
    /// the name that every other server knows.
    pub(crate) max_tokens: MaxTokens,
    /// The member of an assistant's message that thinking goes back in, if it goes back.
    pub(crate) thinking: Option<ThinkingMember>,
    /// Whether `usage.cost` is a price in US dollars.
    pub(crate) has_cost: bool,
}

/// The name of the bound on the reply's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaxTokens {
    /// `max_tokens`
    Plain,
    /// `max_completion_tokens`
    Completion,
}

/// The name that thinking has in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingMember {
    /// `reasoning_content`
    ReasoningContent,
    /// `reasoning`
    Reasoning,
}

/// Any other server; its address has to be given.
pub const COMPATIBLE: Preset = Preset {
    name: "openai-compatible",
    base_url: None,
    api_key_env: None,
    max_tokens: MaxTokens::Plain,
    thinking: Some(ThinkingMember::ReasoningContent),
    has_cost: false,
};

/// The servers that have a name of their own.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "openai",
        base_url: Some("https://api.openai.com/v1"),
        api_key_env: Some("OPENAI_API_KEY"),
        max_tokens: MaxTokens::Completion,
        // It gives none out and refuses members that it does not know.
        thinking: None,
        ..COMPATIBLE
    },
    Preset {
        name: "ollama",
        base_url: Some("http://localhost:11434/v1"),
        thinking: Some(ThinkingMember::Reasoning),
        ..COMPATIBLE
    },
    Preset { name: "llama.cpp", base_url: Some("http://localhost:8080/v1"), ..COMPATIBLE },
    Preset {
        name: "vllm",
        base_url: Some("http://localhost:8000/v1"),
        thinking: Some(ThinkingMember::Reasoning),
        ..COMPATIBLE
    },
    Preset {
        name: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        api_key_env: Some("OPENROUTER_API_KEY"),
        thinking: Some(ThinkingMember::Reasoning),
        has_cost: true,
        ..COMPATIBLE
    },
];

impl Preset {
    /// The preset of this name, `openai-compatible` included.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().chain([&COMPATIBLE]).find(|preset| preset.name == name)
    }
}
