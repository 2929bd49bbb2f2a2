//! Which model a definition means, and where its secrets are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use plica_engine::{ModelSource, ModelSourceError};
use plica_openai::{COMPATIBLE, ChatModel, Environment, OpenAiError, PRESETS, Settings};
use plica_ports::{ContentStore, Model, ModelChoice};
use plica_script::ScriptModel;

/// The provider of scripted models.
const SCRIPT: &str = "script";
/// Clients that are kept for the next task of the same provider and options.
const CLIENTS_MAX: usize = 64;
/// How long a local server is waited for when it is only looked for.
const LOOK: Duration = Duration::from_millis(300);

/// The model providers of this build.
pub fn providers() -> Vec<&'static str> {
    [SCRIPT, COMPATIBLE.name].into_iter().chain(PRESETS.iter().map(|preset| preset.name)).collect()
}

/// Reads a variable of this process's environment.
fn environment() -> Environment {
    Arc::new(|name| std::env::var(name).ok())
}

/// Provider and options, which a client is made from; for a script, which one it is.
type ClientKey = (String, BTreeMap<String, String>);

/// The models of this build. A model's client keeps its connections, so one serves all tasks
/// with the same provider and options; a script is read once.
pub struct Models {
    clients: Mutex<BTreeMap<ClientKey, Arc<dyn Model>>>,
}

impl Models {
    pub fn new() -> Self {
        Self { clients: Mutex::default() }
    }

    fn kept(&self, key: &ClientKey) -> Option<Arc<dyn Model>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn keep(&self, key: ClientKey, client: Arc<dyn Model>) -> Arc<dyn Model> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.entry(key).or_insert(client).clone()
    }
}

fn chat(choice: &ModelChoice) -> Result<ChatModel, OpenAiError> {
    ChatModel::new(Settings::of(&choice.provider, &choice.options)?, environment())
}

#[async_trait]
impl ModelSource for Models {
    async fn model(
        &self,
        choice: &ModelChoice,
        content: &dyn ContentStore,
    ) -> Result<Arc<dyn Model>, ModelSourceError> {
        let unusable = |reason: String| ModelSourceError::Unusable {
            provider: choice.provider.clone(),
            name: choice.name.clone(),
            reason,
        };
        if !providers().contains(&choice.provider.as_str()) {
            return Err(ModelSourceError::UnknownProvider(choice.provider.clone()));
        }
        let is_script = choice.provider == SCRIPT;
        let script = choice.script.as_ref().filter(|_| is_script);
        let options = match script {
            Some(script) => BTreeMap::from([(SCRIPT.to_owned(), script.sha256.to_string())]),
            None => choice.options.clone(),
        };
        let key = (choice.provider.clone(), options);
        if let Some(client) = self.kept(&key) {
            return Ok(client);
        }
        let client: Arc<dyn Model> = if is_script {
            let script = script.ok_or_else(|| unusable("the definition cites no script".into()))?;
            let bytes = content.get(script).await.map_err(|error| unusable(error.to_string()))?;
            Arc::new(ScriptModel::parse(&bytes).map_err(|error| unusable(error.to_string()))?)
        } else {
            Arc::new(chat(choice).map_err(|error| unusable(error.to_string()))?)
        };
        Ok(self.keep(key, client))
    }
}

/// How far a provider can be reached from this machine, as far as that costs nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Whether something listens at a local address.
    Local {
        /// The address.
        url: String,
        /// Whether something listens there.
        listens: bool,
    },
    /// Whether the variable of a remote provider's key is set.
    Key {
        /// The variable.
        variable: String,
        /// Whether it is set.
        is_set: bool,
    },
}

impl Reach {
    /// Whether an agent could be run with it.
    pub const fn is_ready(&self) -> bool {
        match self {
            Self::Local { listens, .. } => *listens,
            Self::Key { is_set, .. } => *is_set,
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { url, listens: true } => write!(f, "something listens at {url}"),
            Self::Local { url, listens: false } => write!(f, "nothing listens at {url}"),
            Self::Key { variable, is_set: true } => write!(f, "{variable} is set"),
            Self::Key { variable, is_set: false } => write!(f, "{variable} is not set"),
        }
    }
}

/// How long a server may take to list its models.
const LIST: Duration = Duration::from_secs(5);

/// How far the provider of a model can be reached; `None` for one that needs no server.
pub async fn reach_of(choice: &ModelChoice) -> Option<Reach> {
    let settings = Settings::of(&choice.provider, &choice.options).ok().filter(|_| choice.provider != SCRIPT)?;
    Some(match &settings.api_key_env {
        Some(variable) => Reach::Key {
            variable: variable.clone(),
            is_set: environment()(variable).is_some_and(|key| !key.trim().is_empty()),
        },
        None => Reach::Local { url: settings.base_url(), listens: settings.is_listening(LOOK).await },
    })
}

/// The models that a provider says it has; else what it said.
pub async fn served(choice: &ModelChoice) -> Result<Vec<String>, String> {
    let settings = Settings::of(&choice.provider, &choice.options).map_err(|error| error.to_string())?;
    let model = ChatModel::new(settings, environment()).map_err(|error| error.to_string())?;
    model.served(LIST).await.map_err(|error| error.to_string())
}

/// How far each provider that has an address of its own can be reached. Nothing leaves this
/// machine for it.
pub async fn reach() -> Vec<(ModelChoice, Reach)> {
    let mut found = Vec::new();
    for preset in PRESETS.iter().filter(|preset| preset.base_url.is_some()) {
        let choice = ModelChoice::new(preset.name, "");
        if let Some(reach) = reach_of(&choice).await {
            found.push((choice, reach));
        }
    }
    found
}
