//! The many ways in which servers say that a conversation no longer fits.

/// What each of them says, in lower case. None of it is said for any other reason, as far as
/// is known; a request that is refused for its rate never gets here.
const SPELLINGS: &[&str] = &[
    // OpenAI, vLLM, SGLang, DeepSeek, OpenRouter, Together
    "context_length_exceeded",
    "context length exceeded",
    "maximum context length",
    "exceeds the context window",
    "exceeds the model's context",
    "exceeds the model's maximum context",
    "exceed the model's maximum",
    "input is longer than the model's context",
    "model_max_prompt_tokens_exceeded",
    "maximum model length",
    // llama.cpp and what is built on it: LM Studio, Ollama, llama-cpp-python
    "exceed_context_size",
    "exceeds the available context size",
    "greater than the context length",
    "exceeds the context length",
    "exceeds context length",
    "exceeded max context length",
    "exceed context window",
    "exceeds context window",
    "context size has been exceeded",
    // Anthropic and Bedrock, behind gateways
    "prompt is too long",
    "input is too long for requested model",
    "request_too_large",
    // Gemini and Vertex
    "exceeds the maximum number of tokens",
    // xAI
    "maximum prompt length",
    // Groq
    "reduce the length of the messages",
    // Mistral
    "too large for model with",
    // Moonshot
    "exceeded model token limit",
    // MiniMax
    "context window exceeds limit",
    // GitHub's models
    "tokens_limit_reached",
    // Text generation inference
    "`inputs` tokens + `max_new_tokens` must be",
    // Alibaba
    "range of input length should be",
    // Gateways' own words
    "context window exceeded",
    "contextwindowexceeded",
    "context overflow",
    "input tokens exceed",
    "token limit exceeded",
];

/// Whether these words say that the conversation no longer fits.
pub(crate) fn is_overflow(words: &str) -> bool {
    let words = words.to_lowercase();
    SPELLINGS.iter().any(|spelling| words.contains(spelling))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mo_3_an_overflow_is_known_in_every_spelling() {
        for said in [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            r#"{"error":{"code":"context_length_exceeded"}}"#,
            "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            "The number of tokens to keep from the initial prompt is greater than the context length.",
            "prompt too long; exceeded max context length by 12 tokens",
            "the input length exceeds the context length",
            "Requested tokens (600) exceed context window of 512",
            "prompt is too long: 213462 tokens > 200000 maximum",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "Please reduce the length of the messages or completion.",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 280000)",
            "invalid params, context window exceeds limit (2013)",
            "`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2000 `inputs` tokens and 100 `max_new_tokens`",
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
            "litellm.ContextWindowExceededError: litellm.BadRequestError",
        ] {
            assert!(is_overflow(said), "{said}");
        }
        for said in ["", "Rate limit reached for requests", "invalid value for max_tokens", "unknown model"] {
            assert!(!is_overflow(said), "{said}");
        }
    }
}
