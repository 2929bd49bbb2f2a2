//! The `model` of an agent file.

use std::collections::BTreeMap;
use std::path::Path;

use plica_kernel::body::{Blob, MEDIA_JSON};
use plica_kernel::limits::CONTENT_BYTES_MAX;
use plica_openai::{Preset, Settings};
use plica_ports::ModelChoice;
use plica_script::ScriptModel;
use toml::Value;

use super::error::{AgentFileError, Shown};
use super::schema;
use super::table::{Section, nearest};

/// The providers that agent files can name. Whether a worker has an adapter for one is the
/// caller's affair.
pub(super) const PROVIDERS: &[&str] = &[
    "anthropic",
    "llama.cpp",
    "ollama",
    "openai",
    "openai-compatible",
    "openai-responses",
    "openrouter",
    SCRIPT,
    "vllm",
];

/// The provider of scripted models.
const SCRIPT: &str = "script";

const EXAMPLE: &str = "model = \"script:replies.json\"";

/// The model, and its script to `blobs`.
pub(super) fn choice(section: &Section<'_>, blobs: &mut Vec<Blob>) -> Result<ModelChoice, AgentFileError> {
    let (provider, name, options) = match section.value("model") {
        None => return Err(section.missing("model", EXAMPLE)),
        Some(Value::Table(_)) => from_table(section)?,
        Some(_) => {
            let text = section.required_text("model", EXAMPLE)?;
            let (provider, name) = text.split_once(':').ok_or_else(|| {
                section.wrong("model", format!("`{text}` names no provider; write `PROVIDER:NAME`, like `script:FILE`"))
            })?;
            (provider, name, BTreeMap::new())
        }
    };
    if !PROVIDERS.contains(&provider) {
        let rule = format!("unknown provider `{provider}`; did you mean `{}`?", nearest(provider, PROVIDERS));
        return Err(section.wrong("model", rule));
    }
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(section.wrong("model", format!("provider `{provider}` needs a model's name, as in {EXAMPLE}")));
    }
    if provider == SCRIPT {
        return scripted(section, name, options, blobs);
    }
    check_options(section, provider, &options)?;
    Ok(ModelChoice { provider: provider.to_owned(), name: name.to_owned(), script: None, options })
}

/// Whether a provider's adapter takes these options. They are checked now, before a task
/// exists; a worker reads them the same way.
fn check_options(
    section: &Section<'_>,
    provider: &str,
    options: &BTreeMap<String, String>,
) -> Result<(), AgentFileError> {
    let in_model = |option: &str| format!("model.{option}");
    if Preset::named(provider).is_some() {
        // Without a table there is no option to point at, only one that is missing.
        let place = |option: &str| if options.is_empty() { "model".to_owned() } else { in_model(option) };
        return Settings::of(provider, options)
            .map(drop)
            .map_err(|error| section.wrong(&place(&error.option), error.rule));
    }
    match options.keys().find(|option| !["api_key_env", "base_url"].contains(&option.as_str())) {
        Some(option) => Err(section.wrong(&in_model(option), format!("provider `{provider}` has no such option"))),
        None => Ok(()),
    }
}

/// Provider, name and options of a model's table.
fn from_table<'a>(section: &Section<'a>) -> Result<(&'a str, &'a str, BTreeMap<String, String>), AgentFileError> {
    let Some(model) = section.section("model", &schema::names(schema::MODEL_KEYS))? else {
        return Err(section.missing("model", EXAMPLE));
    };
    let provider = model.required_text("provider", "provider = \"openai-compatible\"")?;
    let name = model.required_text("name", "name = \"small\"")?;
    let mut options = BTreeMap::new();
    if let Some(variable) = model.text("api_key_env")? {
        // What stands there is not shown: it may be the key itself.
        if !is_variable(variable) {
            return Err(model.wrong("api_key_env", "expected the name of the variable that holds the key"));
        }
        options.insert("api_key_env".to_owned(), variable.to_owned());
    }
    if let Some(url) = model.text("base_url")? {
        if !is_plain_url(url) {
            return Err(model.wrong("base_url", "expected http:// or https:// and a host, without user or password"));
        }
        options.insert("base_url".to_owned(), url.to_owned());
    }
    if let Some(Value::Float(number)) = model.value("temperature") {
        return Err(
            model.wrong("temperature", format!("write it as a string, \"{number}\": its digits go out as they are"))
        );
    }
    for key in ["preset", "temperature", "thinking"] {
        options.extend(model.text(key)?.map(|text| (key.to_owned(), text.to_owned())));
    }
    for key in ["max_tokens", "timeout_s"] {
        options.extend(model.count(key)?.map(|count| (key.to_owned(), count.to_string())));
    }
    let headers = model.named_texts("headers")?;
    options.extend(headers.into_iter().map(|(name, value)| (format!("headers.{name}"), value.to_owned())));
    Ok((provider, name, options))
}

/// The choice of a scripted model. Its bytes are read and checked now and become content, so
/// a later change of the file changes no task (EN-8).
fn scripted(
    section: &Section<'_>,
    name: &str,
    options: BTreeMap<String, String>,
    blobs: &mut Vec<Blob>,
) -> Result<ModelChoice, AgentFileError> {
    if let Some(option) = options.keys().next() {
        return Err(section.wrong("model", format!("a scripted model has no `{option}`; remove it")));
    }
    let path = section.folder().join(name);
    let shown = || Shown::of(&path);
    if !path.exists() {
        return Err(AgentFileError::Cited { file: section.file(), what: "script", path: shown() });
    }
    let unreadable = |why: String| AgentFileError::ScriptRead { file: section.file(), path: shown(), why };
    let bytes = std::fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > CONTENT_BYTES_MAX {
        return Err(unreadable(format!("it has {} bytes, more than {CONTENT_BYTES_MAX}", bytes.len())));
    }
    ScriptModel::parse(&bytes).map_err(|source| AgentFileError::Script {
        file: section.file(),
        path: shown(),
        source,
    })?;
    let blob = Blob::new(MEDIA_JSON, bytes);
    let script = Some(blob.reference.clone());
    super::add(blobs, blob);
    // Events carry the model's name, so it is short, and the same wherever the file lies.
    let name = Path::new(name).file_name().map_or(name.into(), |name| name.to_string_lossy());
    Ok(ModelChoice { provider: SCRIPT.to_owned(), name: name.into_owned(), script, options })
}

/// Whether `name` can name a variable of an environment (POSIX.1-2024, 3.216 "Name").
pub(super) fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_plain_url(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !host.is_empty() && !host.contains('@') && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}
