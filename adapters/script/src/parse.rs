//! From the file's bytes to replies.

use std::time::Duration;

use plica_kernel::canonical::INTEGER_MAX;
use plica_kernel::event::Usage;
use plica_kernel::message::Block;
use plica_ports::{ForeignText, ModelErrorKind, StopReason};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{Scripted, ScriptedError};

/// The largest count that a record can hold (EV-1).
const COUNT_MAX: u64 = INTEGER_MAX as u64;

/// Why bytes are no script. The caller knows which file they came from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The file as a whole is not `{"replies":[…]}`.
    #[error("script cannot be read: {rule} at line {line}; expected {{\"replies\":[…]}}")]
    File {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        rule: String,
    },
    /// One reply is wrong.
    #[error("script cannot be read: reply {reply} (line {line}): {rule}")]
    Reply {
        /// Which one, from 1.
        reply: usize,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        rule: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileShape<'a> {
    #[serde(borrow)]
    replies: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyShape<'a> {
    #[serde(default)]
    text: ForeignText,
    #[serde(default, borrow)]
    calls: Vec<CallShape<'a>>,
    #[serde(default)]
    usage: UsageShape,
    stop: Option<ForeignText>,
    #[serde(default)]
    delay_ms: u64,
    error: Option<ErrorShape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallShape<'a> {
    tool: ForeignText,
    #[serde(default, borrow, deserialize_with = "even_null")]
    args: Option<&'a RawValue>,
    id: Option<ForeignText>,
}

/// What stands there, `null` included, which an `Option` would take for nothing.
fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct UsageShape {
    #[serde(alias = "input_tokens")]
    uncached: u64,
    cache_read: u64,
    cache_write: u64,
    #[serde(alias = "output_tokens")]
    output: u64,
    reasoning: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorShape {
    status: u16,
    retry_after_ms: Option<u64>,
}

/// Reads all replies.
pub(crate) fn replies(bytes: &[u8]) -> Result<Vec<Scripted>, ScriptError> {
    let file = String::from_utf8_lossy(bytes);
    // A byte order mark is no part of JSON, but editors write it.
    let file = file.strip_prefix('\u{feff}').unwrap_or(&file);
    let broken_utf8 = std::str::from_utf8(bytes).is_err();
    let shape: FileShape<'_> = object(file).map_err(|(rule, line)| ScriptError::File { line, rule })?;
    let read = |(index, raw): (usize, &&RawValue)| {
        let first_line = line_of(file, raw.get());
        let fail = |rule, line| ScriptError::Reply { reply: index + 1, line: first_line + line - 1, rule };
        let shape: ReplyShape<'_> = object(raw.get()).map_err(|(rule, line)| fail(rule, line))?;
        let mut reply = scripted(shape).map_err(|rule| fail(rule, 1))?;
        reply.replaced |= broken_utf8 && raw.get().contains(char::REPLACEMENT_CHARACTER);
        Ok(reply)
    };
    shape.replies.iter().enumerate().map(read).collect()
}

fn scripted(shape: ReplyShape<'_>) -> Result<Scripted, String> {
    let mut replaced = shape.text.replaced;
    let mut take = |text: ForeignText| {
        replaced |= text.replaced;
        text.text
    };
    let mut blocks = Vec::new();
    if !shape.text.text.is_empty() {
        blocks.push(Block::Text { text: shape.text.text });
    }
    let has_calls = !shape.calls.is_empty();
    for call in shape.calls {
        blocks.push(Block::ToolUse {
            args: call.args.map_or("{}", RawValue::get).to_owned(),
            id: call.id.map(&mut take),
            tool: take(call.tool),
        });
    }
    let stop = match shape.stop.map(take) {
        None if has_calls => StopReason::Calls,
        None => StopReason::End,
        Some(word) => match word.as_str() {
            "end" => StopReason::End,
            "calls" => StopReason::Calls,
            "length" => StopReason::Length,
            _ => StopReason::Other(word),
        },
    };
    Ok(Scripted {
        blocks,
        usage: usage(&shape.usage)?,
        stop,
        delay: Duration::from_millis(shape.delay_ms),
        error: shape.error.map(|error| scripted_error(&error)).transpose()?,
        replaced,
    })
}

fn usage(shape: &UsageShape) -> Result<Usage, String> {
    let count = |name: &str, value: u64| {
        if value > COUNT_MAX {
            return Err(format!("usage `{name}` is {value}, more than {COUNT_MAX}, the most a record can hold"));
        }
        Ok(value)
    };
    Ok(Usage {
        cache_read: count("cache_read", shape.cache_read)?,
        cache_write: count("cache_write", shape.cache_write)?,
        output: count("output", shape.output)?,
        reasoning: count("reasoning", shape.reasoning)?,
        uncached: count("uncached", shape.uncached)?,
    })
}

fn scripted_error(shape: &ErrorShape) -> Result<ScriptedError, String> {
    let kind = match shape.status {
        0 => ModelErrorKind::Network,
        401 | 403 => ModelErrorKind::Auth,
        408 | 504 => ModelErrorKind::Timeout,
        413 => ModelErrorKind::ContextOverflow,
        429 => ModelErrorKind::RateLimited,
        400..=499 => ModelErrorKind::Invalid,
        500..=599 => ModelErrorKind::Overloaded,
        status => {
            return Err(format!("error `status` is {status}; an error is 400 to 599, or 0 for a lost connection"));
        }
    };
    Ok(ScriptedError { status: shape.status, kind, retry_after: shape.retry_after_ms.map(Duration::from_millis) })
}

/// Reads one object; what is wrong comes as its rule and line.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, (String, usize)> {
    // Derived readers take an array for an object, member by member, which no script means.
    if text.trim_start().starts_with('[') {
        return Err(("a list where an object belongs".to_owned(), 1));
    }
    serde_json::from_str(text).map_err(|error| {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        (text.strip_suffix(&place).unwrap_or(&text).to_owned(), error.line().max(1))
    })
}

/// The line of `file`, from 1, on which `part`, a slice of it, begins.
fn line_of(file: &str, part: &str) -> usize {
    let offset = (part.as_ptr() as usize).saturating_sub(file.as_ptr() as usize).min(file.len());
    1 + file.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count()
}
