//! What is tested: an adapter for a provider's protocol, and that protocol itself.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plica_kernel::event::Usage;
use plica_ports::{Delta, DeltaSink, Model, ModelError, ModelRequest, Reply};

use super::server::{Received, Server};

/// The key of every request of the suite; not a piece of it may ever show.
pub const KEY: &str = "sk-canary-0a1b2c3d4e5f6a7b8c9d";
/// The variable that the adapter is told to read the key from.
pub const KEY_VARIABLE: &str = "PLICA_CONFORMANCE_KEY";
/// The most bytes of one event that the adapter is told to take.
pub const EVENT_BYTES_MAX: usize = 256 << 10;
/// How many bytes of the key in a row are one piece too much.
const KEY_PIECE: usize = 6;

/// What the adapter under test is set up with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where the provider is.
    pub base_url: String,
    /// The variable to read the key from; the key itself is [`KEY`].
    pub key_variable: &'static str,
    /// The most bytes of one event.
    pub event_bytes_max: usize,
    /// How long the first byte is waited for.
    pub first_byte: Duration,
    /// How long the next bytes are waited for.
    pub idle: Duration,
    /// How long the whole reply may take.
    pub total: Duration,
}

/// What a provider says in one reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// Pieces of thinking.
    pub thinking: Vec<&'static str>,
    /// Pieces of text.
    pub text: Vec<&'static str>,
    /// Id, tool and pieces of arguments of each call.
    pub calls: Vec<(&'static str, &'static str, Vec<&'static str>)>,
    /// Tokens, if it says so.
    pub usage: Option<Usage>,
    /// Why it stopped, in the protocol's own word; the usual one unless given.
    pub stop: Option<&'static str>,
}

/// One message of a request as a provider reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// From whoever the agent works for, or from the engine.
    Input(String),
    /// What the model said before.
    Output {
        /// Its text.
        text: String,
        /// Id, tool and arguments of each call.
        calls: Vec<(String, String, String)>,
    },
    /// The result of a call.
    Result {
        /// The call's id.
        id: String,
        /// What came of it.
        text: String,
    },
}

/// A provider's protocol, told independently of any adapter.
pub trait Protocol: Send + Sync {
    /// The events of the stream that says this, each with the line that ends it; the last is
    /// the one without which the reply is not whole.
    fn events(&self, said: &Said) -> Vec<String>;

    /// Other streams that a provider may send for the same reply, each with a word for it.
    fn variants(&self, said: &Said) -> Vec<(&'static str, Vec<String>)>;

    /// The protocol's words for why a model stopped, and the reason they stand for as
    /// recorded.
    fn stops(&self) -> Vec<(&'static str, &'static str)>;

    /// An event that says in the middle of a stream that the provider is overloaded.
    fn failure(&self, message: &str) -> String;

    /// The body of an error.
    fn error(&self, message: &str) -> String;

    /// Statuses and bodies that say that the conversation no longer fits.
    fn overflows(&self) -> Vec<(u16, String)>;

    /// Reads a request as the strictest provider would.
    ///
    /// # Errors
    /// The rule that is broken.
    fn read(&self, request: &Received) -> Result<Vec<Told>, String>;
}

type Make = Arc<dyn Fn(&Setup) -> Arc<dyn Model> + Send + Sync>;

/// An adapter under test, with the protocol that it speaks.
#[derive(Clone)]
pub struct ModelSubject {
    make: Make,
    protocol: Arc<dyn Protocol>,
}

impl ModelSubject {
    /// An adapter that `make` sets up, and its protocol.
    pub fn new(
        protocol: impl Protocol + 'static,
        make: impl Fn(&Setup) -> Arc<dyn Model> + Send + Sync + 'static,
    ) -> Self {
        Self { make: Arc::new(make), protocol: Arc::new(protocol) }
    }

    /// The protocol.
    pub fn protocol(&self) -> &dyn Protocol {
        &*self.protocol
    }

    /// A model on this server that is patient.
    pub fn model(&self, server: &Server) -> Arc<dyn Model> {
        self.model_with(server, |_| {})
    }

    /// A model on this server, its setup changed.
    pub fn model_with(&self, server: &Server, change: impl FnOnce(&mut Setup)) -> Arc<dyn Model> {
        let patience = Duration::from_secs(30);
        let mut setup = Setup {
            base_url: server.base_url(),
            key_variable: KEY_VARIABLE,
            event_bytes_max: EVENT_BYTES_MAX,
            first_byte: patience,
            idle: patience,
            total: patience,
        };
        change(&mut setup);
        (self.make)(&setup)
    }
}

impl fmt::Debug for ModelSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSubject").finish_non_exhaustive()
    }
}

/// What came of a request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The reply or the error.
    pub reply: Result<Reply, ModelError>,
    /// The text of the deltas.
    pub text: String,
    /// The thinking of the deltas.
    pub thinking: String,
}

impl Asked {
    /// The reply.
    ///
    /// # Panics
    /// When there is none.
    pub fn reply(self) -> Reply {
        self.reply.expect("the provider gave a reply")
    }

    /// The error.
    ///
    /// # Panics
    /// When there is none.
    pub fn error(self) -> ModelError {
        self.reply.expect_err("the provider failed")
    }
}

#[derive(Default)]
struct Heard(Mutex<(String, String)>);

impl DeltaSink for Heard {
    fn delta(&self, delta: Delta) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match delta {
            Delta::Text(text) => heard.0.push_str(&text),
            Delta::Thinking(text) => heard.1.push_str(&text),
        }
    }
}

/// Asks, and checks what holds for every answer: nothing of it shows a piece of the key.
///
/// # Panics
/// When something does.
pub async fn ask(model: &dyn Model, request: &ModelRequest) -> Asked {
    let heard = Heard::default();
    let reply = model.ask(request, &heard).await;
    let (text, thinking) = heard.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    let shown = format!("{reply:?}");
    for piece in KEY.as_bytes().windows(KEY_PIECE) {
        let piece = String::from_utf8_lossy(piece);
        assert!(!shown.contains(&*piece), "a piece of the key shows: {piece}");
    }
    if let Err(error) = &reply {
        assert!(!format!("{error}").is_empty());
    }
    Asked { reply, text, thinking }
}
