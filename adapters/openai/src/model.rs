//! One request: sent, read, and turned into a reply or a typed error.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_ports::{DeltaSink, Model, ModelError, ModelErrorKind, ModelRequest, Reply};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use reqwest::{Client, Response};
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::Asked;
use crate::reply::{End, Incoming};
use crate::secret::Secrets;
use crate::settings::HeaderSource;
use crate::sse::Events;
use crate::{OpenAiError, Settings, request, transport};

/// Reads a variable of the environment that secrets come from.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Bytes of the body of an error that are read.
const ERROR_BODY_BYTES_MAX: usize = 64 << 10;
/// How long the end of a body is waited for after the end of the reply, so that its
/// connection can be used again.
const LINGER: Duration = Duration::from_millis(50);
const REQUEST_ID: &str = "x-request-id";

/// A model behind an OpenAI-compatible API.
///
/// * **MO-1** Text and thinking go out as deltas as they come; then the whole reply is
///   returned: thinking, text, calls with their arguments as the text that came, tokens, and
///   why it stopped.
/// * **MO-2** The body follows from the request and the settings alone.
/// * **MO-3** Errors are typed; nothing is tried again here. A stream that is cut is an
///   error, however much of it came.
/// * **MO-4** What is not understood is kept in [`Reply::extra`] as the text that came.
/// * The key is read from its variable at every request and is in no message, event or log.
/// * Dropping the future closes the connection, which is how a request is cancelled.
pub struct ChatModel {
    pub(crate) settings: Settings,
    environment: Environment,
    pub(crate) client: Client,
}

impl ChatModel {
    /// A model on the server of these settings; `environment` is asked for the key at every
    /// request, and once, now, for the proxy.
    ///
    /// # Errors
    /// When the system's certificates cannot be read or the proxy's address is none.
    pub fn new(settings: Settings, environment: Environment) -> Result<Self, OpenAiError> {
        let client = transport::client(&settings, &environment)?;
        Ok(Self { settings, environment, client })
    }

    /// The headers of a request, and what its errors have to know.
    pub(crate) fn prepare(&self) -> Result<(HeaderMap, Asked), ModelError> {
        let settings = &self.settings;
        let key_variable = settings.api_key_env.clone();
        let mut asked = Asked { host: settings.host(), key_variable, secrets: Secrets::default() };
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(variable) = &settings.api_key_env {
            let value = self.secret(variable, "Bearer ", &mut asked)?;
            headers.insert(AUTHORIZATION, value);
        }
        for (name, source) in &settings.headers {
            let value = match source {
                HeaderSource::Literal(value) => value.clone(),
                HeaderSource::Variable(variable) => self.secret(variable, "", &mut asked)?,
            };
            headers.insert(name.clone(), value);
        }
        Ok((headers, asked))
    }

    /// The value of a header that holds the secret in `variable`.
    fn secret(&self, variable: &str, scheme: &str, asked: &mut Asked) -> Result<HeaderValue, ModelError> {
        let secret = (self.environment)(variable).ok_or_else(|| asked.no_key(variable, "is not set"))?;
        let secret = secret.trim();
        if secret.is_empty() {
            return Err(asked.no_key(variable, "is empty"));
        }
        let mut value = HeaderValue::from_str(&format!("{scheme}{secret}"))
            .map_err(|_| asked.no_key(variable, "holds characters that no key has"))?;
        value.set_sensitive(true);
        asked.secrets.add(secret);
        Ok(value)
    }

    async fn exchange(
        &self,
        headers: HeaderMap,
        body: Vec<u8>,
        asked: &Asked,
        deltas: &dyn DeltaSink,
    ) -> Result<Reply, ModelError> {
        let patience = Patience::new(&self.settings);
        let sent = self.client.post(self.settings.url.clone()).headers(headers).body(body).send();
        let response = patience
            .wait(sent, asked)
            .await?
            .map_err(|error| asked.transport(&error, self.settings.timeouts.connect))?;
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = error_body(response, patience, asked).await;
            return Err(asked.status(status, &headers, &body));
        }
        let reading = Reading { response, patience, asked, settings: &self.settings };
        match reading.media() {
            "application/json" => reading.whole(deltas).await,
            "text/html" => {
                let message = "answered with a page instead of a reply; is `base_url` right?";
                Err(asked.error(ModelErrorKind::Invalid, message))
            }
            _ => reading.stream(deltas).await,
        }
    }
}

#[async_trait]
impl Model for ChatModel {
    async fn ask(&self, request: &ModelRequest, deltas: &dyn DeltaSink) -> Result<Reply, ModelError> {
        let (headers, asked) = self.prepare()?;
        let body = request::body(request, &self.settings)
            .map_err(|error| asked.error(ModelErrorKind::Invalid, &format!("was not asked: {error}")))?;
        let total = self.settings.timeouts.total;
        match timeout(total, self.exchange(headers, body, &asked, deltas)).await {
            Ok(reply) => reply,
            Err(_) => Err(asked.timeout("did not end its reply", total)),
        }
    }
}

impl fmt::Debug for ChatModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatModel").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// How long the next bytes are waited for.
#[derive(Debug, Clone, Copy)]
struct Patience {
    until: Instant,
    wait: Duration,
    idle: Duration,
    begun: bool,
}

impl Patience {
    fn new(settings: &Settings) -> Self {
        let (wait, idle) = (settings.timeouts.first_byte, settings.timeouts.idle);
        Self { until: Instant::now() + wait, wait, idle, begun: false }
    }

    async fn wait<F: Future>(&self, what: F, asked: &Asked) -> Result<F::Output, ModelError> {
        let lost = if self.begun { "said nothing more" } else { "did not begin its reply" };
        timeout_at(self.until, what).await.map_err(|_| asked.timeout(lost, self.wait))
    }

    /// Something came.
    fn renew(&mut self) {
        *self = Self { until: Instant::now() + self.idle, wait: self.idle, idle: self.idle, begun: true };
    }
}

/// A reply on its way.
struct Reading<'a> {
    response: Response,
    patience: Patience,
    asked: &'a Asked,
    settings: &'a Settings,
}

impl Reading<'_> {
    fn header(&self, name: HeaderName) -> Option<String> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    /// The media type, without parameters.
    fn media(&self) -> &str {
        let media = self.response.headers().get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
        media.unwrap_or_default().split(';').next().unwrap_or_default().trim()
    }

    /// The next bytes; none at the end of the body.
    async fn next(&mut self) -> Result<Option<bytes::Bytes>, ModelError> {
        let next = self.patience.wait(self.response.chunk(), self.asked).await?;
        self.patience.renew();
        next.map_err(|error| self.asked.transport(&error, self.settings.timeouts.connect))
    }

    fn oversize(&self, what: impl fmt::Display) -> ModelError {
        self.asked.error(ModelErrorKind::Invalid, &format!("sent {what}, more than any reply has"))
    }

    fn end(&self, incoming: Incoming, replaced: bool) -> Result<Reply, ModelError> {
        let headers = self.response.headers();
        let framed = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
        let request_id = self.header(HeaderName::from_static(REQUEST_ID));
        let has_cost = self.settings.preset.has_cost;
        incoming.finish(End { framed, replaced, request_id: request_id.as_deref(), has_cost }, self.asked)
    }

    async fn stream(mut self, deltas: &dyn DeltaSink) -> Result<Reply, ModelError> {
        let mut events = Events::new(self.settings.limits);
        let mut incoming = Incoming::default();
        'body: while let Some(bytes) = self.next().await? {
            for data in events.push(&bytes) {
                let data = data.map_err(|oversize| self.oversize(oversize))?;
                incoming.event(&data, self.asked, deltas)?;
                if incoming.is_done() {
                    break 'body;
                }
            }
        }
        if incoming.is_done() {
            // Whatever comes of it, the reply is whole.
            drop(timeout(LINGER, self.response.chunk()).await);
        }
        self.end(incoming, events.replaced())
    }

    /// A reply in one piece, from a server that does not stream although it was asked to.
    async fn whole(mut self, deltas: &dyn DeltaSink) -> Result<Reply, ModelError> {
        let max = self.settings.limits.stream_bytes;
        let mut body = Vec::new();
        while let Some(bytes) = self.next().await? {
            body.extend_from_slice(&bytes);
            if body.len() > max {
                return Err(self.oversize(format_args!("more than {max} bytes")));
            }
        }
        let json = String::from_utf8_lossy(&body);
        let mut incoming = Incoming::default();
        incoming.whole(&json, self.asked, deltas)?;
        self.end(incoming, std::str::from_utf8(&body).is_err())
    }
}

/// What the server says of an error, as far as it comes in time: the status alone is worth
/// reporting too.
async fn error_body(mut response: Response, mut patience: Patience, asked: &Asked) -> Vec<u8> {
    let mut body = Vec::new();
    patience.renew();
    while body.len() < ERROR_BODY_BYTES_MAX {
        let Ok(Ok(Some(bytes))) = patience.wait(response.chunk(), asked).await else { break };
        body.extend_from_slice(&bytes);
    }
    body.truncate(ERROR_BODY_BYTES_MAX);
    body
}
