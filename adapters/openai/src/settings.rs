//! What an agent may say about a server, and the defaults for what it leaves out.

use std::collections::BTreeMap;
use std::time::Duration;

use plica_kernel::canonical::INTEGER_MAX;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::preset::{COMPATIBLE, Preset, ThinkingMember};

/// The options that [`Settings::of`] takes; one for each header besides, `headers.NAME`.
pub const OPTIONS: &[&str] =
    &["api_key_env", "base_url", "max_tokens", "preset", "temperature", "thinking", "timeout_s"];

/// What an option for a header begins with.
const HEADER_PREFIX: &str = "headers.";

/// What a header's value begins with when it is read from a variable.
const FROM_VARIABLE: &str = "env:";

/// Where every chat completion is asked for.
const PATH: &str = "/chat/completions";

/// Headers that follow from the request itself.
const OWN_HEADERS: &[&str] =
    &["accept", "accept-encoding", "connection", "content-length", "content-type", "host", "te", "transfer-encoding"];

/// Parts of header names whose values are secrets.
const SECRET_MARKS: &[&str] = &["auth", "cookie", "key", "secret", "token", "password"];

/// Everything about a server that an agent's definition fixes. Secrets are named, not held.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The kind of server.
    pub preset: &'static Preset,
    /// The address that requests go to, complete.
    pub url: Url,
    /// The variable that the key is read from, at every request.
    pub api_key_env: Option<String>,
    /// Headers to send besides.
    pub headers: Vec<(HeaderName, HeaderSource)>,
    /// How long is waited for what.
    pub timeouts: Timeouts,
    /// How much is read.
    pub limits: Limits,
    /// The most tokens that a reply may have.
    pub max_tokens: Option<u64>,
    /// The sampling temperature, as the JSON number that goes out.
    pub temperature: Option<String>,
    /// The member that thinking goes back in, if it goes back.
    pub(crate) thinking: Option<ThinkingMember>,
}

/// Where a header's value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderSource {
    /// The value itself; no secret, for it stands in the agent's definition.
    Literal(HeaderValue),
    /// A variable of this name, read at every request.
    Variable(String),
}

/// How long is waited for what, before a request fails with a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection, TLS included.
    pub connect: Duration,
    /// From the request to the first byte of the reply: a local server may read a long
    /// conversation for minutes before it says anything.
    pub first_byte: Duration,
    /// From one piece of the reply to the next; comments that keep a stream alive count.
    pub idle: Duration,
    /// For the whole request.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(1800),
        }
    }
}

/// How many bytes of a reply are read before it fails; no server of good will comes near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of one server-sent event.
    pub event_bytes: usize,
    /// Of the whole stream, or of a reply that comes in one piece.
    pub stream_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // A token takes about 300 bytes on the wire, so this is some 800,000 tokens.
        Self { event_bytes: 16 << 20, stream_bytes: 256 << 20 }
    }
}

/// An option that cannot be used. What stands there is not shown: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("model option `{option}` is wrong: {rule}")]
pub struct SettingsError {
    /// The option.
    pub option: String,
    /// What is wrong, or what is expected.
    pub rule: String,
}

fn wrong(option: &str, rule: impl Into<String>) -> SettingsError {
    SettingsError { option: option.to_owned(), rule: rule.into() }
}

impl Settings {
    /// The settings of a model choice: its provider's preset, or the one that the option
    /// `preset` names, changed by the other options.
    ///
    /// # Errors
    /// [`SettingsError`] names the option and the rule.
    pub fn of(provider: &str, options: &BTreeMap<String, String>) -> Result<Self, SettingsError> {
        let preset = preset(provider, options.get("preset").map(String::as_str))?;
        let mut settings = Self {
            preset,
            url: endpoint(options.get("base_url").map(String::as_str).or(preset.base_url))?,
            api_key_env: preset.api_key_env.map(str::to_owned),
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            max_tokens: None,
            temperature: None,
            thinking: preset.thinking,
        };
        for (name, value) in options {
            settings.take(name, value)?;
        }
        Ok(settings)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), SettingsError> {
        match name {
            // Taken before all others.
            "preset" | "base_url" => {}
            "api_key_env" => self.api_key_env = Some(variable(name, value)?),
            "max_tokens" => self.max_tokens = Some(count(name, value)?),
            "temperature" => self.temperature = Some(number(name, value)?),
            "thinking" => self.thinking = thinking(name, value)?,
            "timeout_s" => {
                let total = Duration::from_secs(count(name, value)?);
                let Timeouts { connect, idle, .. } = self.timeouts;
                // Whoever gives a reply an hour may mean that it begins after half of it.
                self.timeouts =
                    Timeouts { connect: connect.min(total), first_byte: total, idle: idle.min(total), total };
            }
            _ => match name.strip_prefix(HEADER_PREFIX) {
                Some(header) => self.headers.push(self::header(name, header, value)?),
                None => return Err(wrong(name, "there is no such option")),
            },
        }
        Ok(())
    }

    /// Whether something listens where requests would go, as far as this machine can tell
    /// within `patience` and without a proxy. Nothing is sent.
    pub async fn is_listening(&self, patience: Duration) -> bool {
        let (Some(host), Some(port)) = (self.url.host_str(), self.url.port_or_known_default()) else { return false };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        timeout(patience, TcpStream::connect((host, port))).await.is_ok_and(|connected| connected.is_ok())
    }

    /// The address that its paths begin with.
    pub fn base_url(&self) -> String {
        let url = self.url.as_str();
        url.strip_suffix(PATH).unwrap_or(url).to_owned()
    }

    /// The address that lists the server's models.
    pub(crate) fn models_url(&self) -> Url {
        let mut url = self.url.clone();
        let path = url.path().strip_suffix(PATH).unwrap_or_default().to_owned() + "/models";
        url.set_path(&path);
        url
    }

    /// The host and port that requests go to, for messages.
    pub(crate) fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}

/// Whether `name` can name a variable of an environment (POSIX.1-2024, 3.216 "Name").
fn variable(option: &str, name: &str) -> Result<String, SettingsError> {
    let sound = !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if sound { Ok(name.to_owned()) } else { Err(wrong(option, "expected the name of a variable")) }
}

fn preset(provider: &str, named: Option<&str>) -> Result<&'static Preset, SettingsError> {
    let unknown = |option: &str| {
        let names: Vec<&str> = crate::PRESETS.iter().map(|preset| preset.name).collect();
        wrong(option, format!("expected one of {}", names.join(", ")))
    };
    match named {
        Some(name) if provider == COMPATIBLE.name => Preset::named(name).ok_or_else(|| unknown("preset")),
        Some(_) => Err(wrong("preset", format!("it goes with provider `{}` alone", COMPATIBLE.name))),
        None => Preset::named(provider).ok_or_else(|| unknown("provider")),
    }
}

/// The whole address, from the one that the server's paths begin with.
fn endpoint(base: Option<&str>) -> Result<Url, SettingsError> {
    let example = "add one, like \"http://localhost:8080/v1\", or a `preset`";
    let base =
        base.ok_or_else(|| wrong("base_url", format!("a server without a preset needs an address; {example}")))?;
    let expected = || wrong("base_url", "expected http:// or https://, a host and a path, without user or password");
    let mut url = Url::parse(base).map_err(|_| expected())?;
    let plain = matches!(url.scheme(), "http" | "https") && url.has_host() && url.fragment().is_none();
    if !plain || !url.username().is_empty() || url.password().is_some() {
        return Err(expected());
    }
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix(PATH).unwrap_or(path);
    url.set_path(&format!("{path}{PATH}"));
    Ok(url)
}

fn count(option: &str, value: &str) -> Result<u64, SettingsError> {
    let max = INTEGER_MAX.unsigned_abs();
    match value.parse::<u64>() {
        Ok(count @ 1..) if count <= max => Ok(count),
        _ => Err(wrong(option, format!("expected a whole number from 1 to {max}"))),
    }
}

/// A JSON number, kept as the text it is, so the request carries the very digits.
fn number(option: &str, value: &str) -> Result<String, SettingsError> {
    let is_number = value.starts_with(|c: char| c.is_ascii_digit());
    if is_number && serde_json::from_str::<&RawValue>(value).is_ok_and(|raw| raw.get() == value) {
        return Ok(value.to_owned());
    }
    Err(wrong(option, "expected a number that is not negative, as a string: \"0.7\""))
}

fn thinking(option: &str, value: &str) -> Result<Option<ThinkingMember>, SettingsError> {
    match value {
        "reasoning_content" => Ok(Some(ThinkingMember::ReasoningContent)),
        "reasoning" => Ok(Some(ThinkingMember::Reasoning)),
        "none" => Ok(None),
        _ => Err(wrong(option, "expected reasoning_content, reasoning or none")),
    }
}

fn header(option: &str, name: &str, value: &str) -> Result<(HeaderName, HeaderSource), SettingsError> {
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(option, "no header has such a name"))?;
    if OWN_HEADERS.contains(&header.as_str()) {
        return Err(wrong(option, "this header follows from the request and cannot be set"));
    }
    if let Some(name) = value.strip_prefix(FROM_VARIABLE) {
        return Ok((header, HeaderSource::Variable(variable(option, name)?)));
    }
    if SECRET_MARKS.iter().any(|mark| header.as_str().contains(mark)) {
        return Err(wrong(
            option,
            "it looks like a key or password; write \"env:VARIABLE\" to read it from a variable",
        ));
    }
    let value = HeaderValue::from_str(value).map_err(|_| wrong(option, "no header can have such a value"))?;
    Ok((header, HeaderSource::Literal(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(provider: &str, options: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::of(provider, &options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn ho_3_a_preset_knows_its_address_and_key() {
        for (provider, url, key) in [
            ("openai", "https://api.openai.com/v1/chat/completions", Some("OPENAI_API_KEY")),
            ("ollama", "http://localhost:11434/v1/chat/completions", None),
            ("llama.cpp", "http://localhost:8080/v1/chat/completions", None),
            ("vllm", "http://localhost:8000/v1/chat/completions", None),
            ("openrouter", "https://openrouter.ai/api/v1/chat/completions", Some("OPENROUTER_API_KEY")),
        ] {
            let named = settings(provider, &[]).unwrap();
            assert_eq!((named.url.as_str(), named.api_key_env.as_deref()), (url, key));
            assert_eq!(settings("openai-compatible", &[("preset", provider)]).unwrap(), named);
        }
    }

    #[test]
    fn ho_3_options_change_a_preset() {
        let settings = settings(
            "openai",
            &[
                ("api_key_env", "MY_KEY"),
                ("base_url", "http://gateway:1/openai/v1/"),
                ("headers.X-Title", "plica"),
                ("headers.X-Gateway-Key", "env:GATEWAY"),
                ("max_tokens", "100"),
                ("temperature", "0.70"),
                ("thinking", "reasoning"),
                ("timeout_s", "30"),
            ],
        )
        .unwrap();
        assert_eq!(settings.url.as_str(), "http://gateway:1/openai/v1/chat/completions");
        assert_eq!(settings.api_key_env.as_deref(), Some("MY_KEY"));
        assert_eq!((settings.max_tokens, settings.temperature.as_deref()), (Some(100), Some("0.70")));
        assert_eq!(settings.thinking, Some(ThinkingMember::Reasoning));
        let seconds = Duration::from_secs;
        let timeouts =
            Timeouts { connect: seconds(10), first_byte: seconds(30), idle: seconds(30), total: seconds(30) };
        assert_eq!(settings.timeouts, timeouts);
        let headers = [
            (HeaderName::from_static("x-gateway-key"), HeaderSource::Variable("GATEWAY".into())),
            (HeaderName::from_static("x-title"), HeaderSource::Literal(HeaderValue::from_static("plica"))),
        ];
        assert_eq!(settings.headers, headers);
    }

    #[test]
    fn ho_3_an_address_is_completed_once_and_keeps_its_query() {
        for (base, url) in [
            ("http://h/v1", "http://h/v1/chat/completions"),
            ("http://h", "http://h/chat/completions"),
            ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
            ("https://h/d/x?api-version=1", "https://h/d/x/chat/completions?api-version=1"),
        ] {
            assert_eq!(settings("openai-compatible", &[("base_url", base)]).unwrap().url.as_str(), url);
        }
    }

    #[test]
    fn cl_2_a_wrong_option_is_named_and_its_value_is_not_shown() {
        for (provider, option, value) in [
            ("openai-compatible", "base_url", "ftp://s3cr3t"),
            ("openai-compatible", "base_url", "http://user:s3cr3t@h/v1"),
            ("openai-compatible", "base_url", "s3cr3t"),
            ("openai-compatible", "preset", "s3cr3t"),
            ("openai", "preset", "ollama"),
            ("openai", "api_key_env", "sk-s3cr3t"),
            ("openai", "max_tokens", "0"),
            ("openai", "max_tokens", "9007199254740992"),
            ("openai", "temperature", "-1"),
            ("openai", "temperature", "01"),
            ("openai", "temperature", "0.5 "),
            ("openai", "temperature", "s3cr3t"),
            ("openai", "thinking", "s3cr3t"),
            ("openai", "timeout_s", "1.5"),
            ("openai", "headers.Authorization", "Bearer s3cr3t"),
            ("openai", "headers.X-Api-Key", "s3cr3t"),
            ("openai", "headers.X-Name", "env:sk-s3cr3t"),
            ("openai", "headers.X-Name", "s3cr3t\n"),
            ("openai", "headers.Host", "s3cr3t"),
            ("openai", "headers.X Name", "s3cr3t"),
            ("openai", "api_key", "s3cr3t"),
        ] {
            let error = settings(provider, &[(option, value)]).unwrap_err();
            assert_eq!(error.option, option);
            assert!(!error.to_string().contains("s3cr3t"), "{error}");
        }
        assert_eq!(settings("openai-compatible", &[]).unwrap_err().option, "base_url");
        assert_eq!(settings("nobody", &[]).unwrap_err().option, "provider");
    }
}
