//! From everything that can go wrong to a typed error that holds no secret (MO-3).

use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use plica_ports::{ModelError, ModelErrorKind};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use serde_json::value::RawValue;

use crate::overflow::is_overflow;
use crate::retry_after::retry_after;
use crate::secret::Secrets;
use crate::text::{Members, cut, list, string};

/// Bytes of a server's words that are kept.
const WORDS_BYTES_MAX: usize = 500;
/// Where servers put the name of a request, for their own logs.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What an error has to know of the request that failed.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Host and port.
    pub(crate) host: String,
    /// The variable that the key was read from.
    pub(crate) key_variable: Option<String>,
    pub(crate) secrets: Secrets,
}

impl Asked {
    /// An error whose message begins with the host.
    pub(crate) fn error(&self, kind: ModelErrorKind, message: &str) -> ModelError {
        let message = self.secrets.redact(&format!("{} {message}", self.host));
        ModelError { kind, message, retry_after: None }
    }

    /// The stream ended before the reply did.
    pub(crate) fn broken_off(&self, why: &str) -> ModelError {
        self.error(ModelErrorKind::Network, &format!("broke off in the middle of its reply{why}"))
    }

    /// Nothing came in time.
    pub(crate) fn timeout(&self, what: &str, after: Duration) -> ModelError {
        self.error(ModelErrorKind::Timeout, &format!("{what} within {after:?}"))
    }

    /// The key cannot be read; nothing was sent.
    pub(crate) fn no_key(&self, variable: &str, why: &str) -> ModelError {
        let message = format!(
            "wants a key, and the variable {variable} {why} in the environment of this worker; set it there and submit \
             again"
        );
        self.error(ModelErrorKind::Auth, &message)
    }

    /// The request could not be sent, or the reply not be read.
    pub(crate) fn transport(&self, error: &reqwest::Error, connect: Duration) -> ModelError {
        // The root cause alone: what stands before it repeats the address, query and all.
        let mut cause: &(dyn Error + 'static) = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let untrusted = is_untrusted(cause);
        let cause = if cause.is::<reqwest::Error>() { String::new() } else { format!(": {cause}") };
        if error.is_timeout() {
            return self.timeout("could not be connected to", connect);
        }
        if untrusted {
            let message = format!("cannot be trusted{cause}; add its certificate to those that this system trusts");
            return self.error(ModelErrorKind::Invalid, &message);
        }
        if error.is_connect() {
            let message = format!("cannot be connected to{cause}; is the server running, and `base_url` right?");
            return self.error(ModelErrorKind::Network, &message);
        }
        if error.is_builder() {
            return self.error(ModelErrorKind::Invalid, &format!("cannot be asked{cause}"));
        }
        self.broken_off(&cause)
    }

    /// The server answered with a status that is not success.
    pub(crate) fn status(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ModelError {
        let body = String::from_utf8_lossy(body);
        let said = Said::read(&body);
        let kind = kind(status, &said, &body);
        let mut message = format!("answered {status}");
        if status.is_redirection() {
            let target = headers.get(LOCATION).and_then(|location| location.to_str().ok()).unwrap_or_default();
            let target = target.split(['?', '#']).next().unwrap_or_default();
            message.push_str(&format!(" to {target}, and redirects are not followed; set `base_url` to where it is"));
        } else if kind == ModelErrorKind::Auth && status != StatusCode::FORBIDDEN {
            // What servers say to a wrong key repeats a part of it.
            message.push_str(&self.refused_key());
        } else {
            let words = said.words(headers);
            if !words.is_empty() {
                message.push_str(&format!(": {words}"));
            }
        }
        if let Some(id) = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()) {
            message.push_str(&format!(" (request {})", cut(id, 100)));
        }
        ModelError { retry_after: retry_after(headers, SystemTime::now()), ..self.error(kind, &message) }
    }

    fn refused_key(&self) -> String {
        match &self.key_variable {
            Some(variable) => format!(": it refuses the key in the variable {variable} of this worker's environment"),
            None => ": it wants a key; name the variable that holds it with `api_key_env`".to_owned(),
        }
    }

    /// The server said in the middle of a stream that it failed.
    pub(crate) fn in_stream(&self, error: &RawValue) -> ModelError {
        let said = Said::of(error);
        let status = said.code.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
        let kind = match status {
            Some(status) if !status.is_success() => kind(status, &said, error.get()),
            _ => kind_by_name(&said, error.get()),
        };
        let message = if kind == ModelErrorKind::Auth {
            format!("failed in the middle of its reply{}", self.refused_key())
        } else {
            format!("failed in the middle of its reply: {}", cut(&said.text, WORDS_BYTES_MAX))
        };
        self.error(kind, &message)
    }
}

/// Whether a certificate was refused, which it will be at every try. TLS's error is wrapped in
/// one of input and output, and that once more; their `source` passes over what they wrap.
fn is_untrusted(cause: &(dyn Error + 'static)) -> bool {
    if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
        return matches!(tls, rustls::Error::InvalidCertificate(_));
    }
    let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.is_some_and(|wrapped| is_untrusted(wrapped))
}

/// What a server says went wrong.
#[derive(Debug, Default)]
struct Said {
    text: String,
    /// A number or a name.
    code: String,
    /// Its name for the kind of error.
    name: String,
    /// Whether it is a page for people, which nobody wants to read in an event.
    is_page: bool,
}

impl Said {
    /// From the body of a reply: `{"error":{…}}`, `{"error":"…"}`, `{"message":…}`,
    /// `{"detail":…}`, `[{"error":…}]`, or plain text.
    fn read(body: &str) -> Self {
        let json: Result<&RawValue, _> = serde_json::from_str(body);
        let Ok(json) = json else {
            let text = body.trim();
            return Self { text: text.to_owned(), is_page: text.starts_with('<'), ..Self::default() };
        };
        let json = list(json).first().copied().unwrap_or(json);
        let inner = Members::of(json.get()).and_then(|mut members| members.take("error"));
        Self::of(inner.unwrap_or(json))
    }

    /// From the value of `error`, or what stands in its place.
    fn of(error: &RawValue) -> Self {
        let plain = |raw: &RawValue| string(raw).map_or_else(|| raw.get().to_owned(), |text| text.text);
        let Some(mut members) = Members::of(error.get()) else {
            return Self { text: plain(error), ..Self::default() };
        };
        let mut text = ["message", "detail"].into_iter().find_map(|name| members.take(name)).map(plain);
        // A gateway's message is its own; what the server behind it said stands apart.
        let behind = members.take_object("metadata").and_then(|mut metadata| metadata.take("raw")).map(plain);
        if let (Some(text), Some(behind)) = (&mut text, behind) {
            text.push_str(&format!(": {behind}"));
        }
        Self {
            text: text.unwrap_or_else(|| error.get().to_owned()),
            code: members.take("code").map(plain).unwrap_or_default(),
            name: members.take("type").map(plain).unwrap_or_default(),
            is_page: false,
        }
    }

    fn words(&self, headers: &HeaderMap) -> String {
        if self.is_page {
            let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or("a page");
            return format!("{} instead of JSON; is `base_url` right?", cut(media, 100));
        }
        cut(&self.text, WORDS_BYTES_MAX).to_owned()
    }

    fn says(&self, parts: &[&str]) -> bool {
        let all = format!("{} {} {}", self.code, self.name, self.text).to_lowercase();
        parts.iter().any(|part| all.contains(part))
    }
}

/// The kind of error that a status stands for.
fn kind(status: StatusCode, said: &Said, body: &str) -> ModelErrorKind {
    match status.as_u16() {
        401 | 403 => ModelErrorKind::Auth,
        // An empty account is told as too many requests; waiting does not fill it.
        402 => ModelErrorKind::Invalid,
        429 if said.says(&["insufficient_quota", "insufficient balance", "credit balance"]) => ModelErrorKind::Invalid,
        429 => ModelErrorKind::RateLimited,
        408 | 504 => ModelErrorKind::Timeout,
        413 => ModelErrorKind::ContextOverflow,
        400..=599 if is_overflow(body) => ModelErrorKind::ContextOverflow,
        400 if said.says(&["api key not valid", "invalid api key", "incorrect api key", "invalid_api_key"]) => {
            ModelErrorKind::Auth
        }
        501 | 505 => ModelErrorKind::Invalid,
        500..=599 => ModelErrorKind::Overloaded,
        _ => ModelErrorKind::Invalid,
    }
}

/// The kind of error that has a name and no status.
fn kind_by_name(said: &Said, body: &str) -> ModelErrorKind {
    if is_overflow(body) {
        ModelErrorKind::ContextOverflow
    } else if said.says(&["rate_limit", "rate limit", "too many requests"]) {
        ModelErrorKind::RateLimited
    } else if said.says(&["authentication", "invalid_api_key", "unauthorized"]) {
        ModelErrorKind::Auth
    } else if said.says(&["invalid_request", "bad_request", "badrequest"]) {
        ModelErrorKind::Invalid
    } else {
        ModelErrorKind::Overloaded
    }
}

#[cfg(test)]
mod tests;
