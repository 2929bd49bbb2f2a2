//! A table of an agent file, read key by key.

use std::path::Path;

use plica_kernel::canonical::INTEGER_MAX;
use toml::{Table, Value};

use super::error::{AgentFileError, Shown};

/// The largest count that a definition can hold (EV-1).
pub(super) const COUNT_MAX: u64 = INTEGER_MAX as u64;

/// Reads the file's bytes as TOML.
pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<Table, AgentFileError> {
    let fail = |why: String| AgentFileError::Syntax { file: Shown::of(file), why };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| fail(format!("byte {} is not UTF-8; save the file as UTF-8", error.valid_up_to())))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.parse().map_err(|error: toml::de::Error| fail(error.to_string().trim_end().to_owned()))
}

/// The name of `names` that is nearest to `name`, whatever its case.
pub(super) fn nearest<'n>(name: &str, names: &[&'n str]) -> &'n str {
    // Nobody mistypes more than this, and the distance takes time by the product of lengths.
    let name: String = name.chars().take(64).collect::<String>().to_lowercase();
    let distance = |known: &&&str| strsim::damerau_levenshtein(&name, &known.to_lowercase());
    names.iter().min_by_key(distance).copied().unwrap_or_default()
}

/// A table whose keys are all known.
#[derive(Debug)]
pub(super) struct Section<'a> {
    file: &'a Path,
    /// The tables it stands in, with a dot at the end; empty for the file itself.
    prefix: String,
    table: &'a Table,
}

impl<'a> Section<'a> {
    /// The file itself.
    pub(super) fn top(file: &'a Path, table: &'a Table, keys: &[&str]) -> Result<Self, AgentFileError> {
        Self::new(file, String::new(), table, keys)
    }

    fn new(file: &'a Path, prefix: String, table: &'a Table, keys: &[&str]) -> Result<Self, AgentFileError> {
        let section = Self { file, prefix, table };
        match table.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(key) => Err(AgentFileError::UnknownKey {
                file: section.file(),
                key: section.path(key),
                nearest: section.path(nearest(key, keys)),
            }),
            None => Ok(section),
        }
    }

    /// The file, for messages.
    pub(super) fn file(&self) -> Shown {
        Shown::of(self.file)
    }

    /// The folder that the file's relative paths are in.
    pub(super) fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// The key with the tables it stands in.
    pub(super) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The value of `key` is wrong by `rule`.
    pub(super) fn wrong(&self, key: &str, rule: impl Into<String>) -> AgentFileError {
        AgentFileError::Value { file: self.file(), key: self.path(key), rule: rule.into() }
    }

    fn mistyped(&self, key: &str, value: &Value, expected: &str) -> AgentFileError {
        self.wrong(key, format!("it is a TOML {}; expected {expected}", value.type_str()))
    }

    /// The value of `key`, whatever it is.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.table.get(key)
    }

    /// Whether `key` stands there.
    pub(super) fn holds(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The text under `key`.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, AgentFileError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(value) => Err(self.mistyped(key, value, "a string")),
        }
    }

    /// The text under `key`, which has to be there as in `example`.
    pub(super) fn required_text(&self, key: &str, example: &'static str) -> Result<&'a str, AgentFileError> {
        self.text(key)?.ok_or_else(|| self.missing(key, example))
    }

    /// `key` has to be there as in `example`.
    pub(super) fn missing(&self, key: &str, example: &'static str) -> AgentFileError {
        AgentFileError::MissingKey { file: self.file(), key: self.path(key), example }
    }

    /// The list of texts under `key`; empty when there is none.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, AgentFileError> {
        let expected = "a list of strings";
        match self.value(key) {
            None => Ok(vec![]),
            Some(Value::Array(values)) => values
                .iter()
                .map(|value| value.as_str().map(str::to_owned).ok_or_else(|| self.mistyped(key, value, expected)))
                .collect(),
            Some(value) => Err(self.mistyped(key, value, expected)),
        }
    }

    /// The texts of the table under `key`, by whatever names; none when there is none.
    pub(super) fn named_texts(&self, key: &str) -> Result<Vec<(&'a str, &'a str)>, AgentFileError> {
        let expected = "a table of strings";
        match self.value(key) {
            None => Ok(vec![]),
            Some(Value::Table(table)) => table
                .iter()
                .map(|(name, value)| {
                    let text = value.as_str().ok_or_else(|| self.mistyped(key, value, expected))?;
                    Ok((name.as_str(), text))
                })
                .collect(),
            Some(value) => Err(self.mistyped(key, value, expected)),
        }
    }

    /// The truth under `key`; false when there is none.
    pub(super) fn flag(&self, key: &str) -> Result<bool, AgentFileError> {
        match self.value(key) {
            None => Ok(false),
            Some(Value::Boolean(flag)) => Ok(*flag),
            Some(value) => Err(self.mistyped(key, value, "true or false")),
        }
    }

    /// The cap under `key`. Zero is refused: granting the same amount again, which is how a
    /// person lets a task go on, would grant nothing.
    pub(super) fn count(&self, key: &str) -> Result<Option<u64>, AgentFileError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Integer(count)) => match u64::try_from(*count) {
                Ok(count @ 1..=COUNT_MAX) => Ok(Some(count)),
                _ => Err(self.wrong(key, format!("it is {count}; expected 1 to {COUNT_MAX}"))),
            },
            Some(value) => Err(self.mistyped(key, value, "a whole number")),
        }
    }

    /// The choice under `key`; the default when there is none.
    pub(super) fn one_of<T: Copy + Default>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, AgentFileError> {
        let Some(text) = self.text(key)? else { return Ok(T::default()) };
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
            return Ok(*choice);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        Err(self
            .wrong(key, format!("`{text}` is none of {}; did you mean `{}`?", names.join(", "), nearest(text, &names))))
    }

    /// The table under `key`, whose own keys are `keys`.
    pub(super) fn section(&self, key: &str, keys: &[&str]) -> Result<Option<Section<'a>>, AgentFileError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Section::new(self.file, format!("{}.", self.path(key)), table, keys).map(Some),
            Some(value) => Err(self.mistyped(key, value, "a table")),
        }
    }
}
