use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use plica_kernel::id::{Seq, TaskId};
use plica_ports::{
    Clock, ContentStore, Definition, Delta, Files, Guard, Model, ModelChoice, Observer, Policy, Store, Tool,
};

use crate::definitions::Definitions;
use crate::time::TokioClock;

/// Why a model cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModelSourceError {
    /// No adapter for the provider on this worker.
    #[error("no model provider {0:?} on this worker")]
    UnknownProvider(String),
    /// The choice cannot be used: a missing key, a broken script.
    #[error("model {name:?} of provider {provider:?}: {reason}")]
    Unusable {
        /// The provider.
        provider: String,
        /// The model.
        name: String,
        /// Why.
        reason: String,
    },
}

/// Finds the model that a definition chooses.
#[async_trait]
pub trait ModelSource: Send + Sync {
    /// The model of this choice; bodies that the choice cites are in `content`.
    async fn model(&self, choice: &ModelChoice, content: &dyn ContentStore)
    -> Result<Arc<dyn Model>, ModelSourceError>;
}

/// A source with one model, whatever a definition chooses: for hosts that embed their own.
pub struct OneModel(Arc<dyn Model>);

impl OneModel {
    /// A source of this model.
    pub fn new(model: impl Model + 'static) -> Arc<Self> {
        Arc::new(Self(Arc::new(model)))
    }
}

#[async_trait]
impl ModelSource for OneModel {
    async fn model(&self, _: &ModelChoice, _: &dyn ContentStore) -> Result<Arc<dyn Model>, ModelSourceError> {
        Ok(Arc::clone(&self.0))
    }
}

/// Hears replies as they come, task by task: for showing them to people. Nothing of it is
/// recorded (MO-1) and nothing it does changes the run.
///
/// It is called in the middle of the request, so it must not block; a panic is caught and logged,
/// and ends the hearing of that reply.
pub trait Audience: Send + Sync {
    /// Takes one piece of the reply to the request that began with event `request`.
    fn hears(&self, task: &TaskId, request: Seq, delta: Delta);
}

/// Everything a worker works with: ports, and nothing else.
pub struct Host {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) content: Option<Arc<dyn ContentStore>>,
    pub(crate) models: Arc<dyn ModelSource>,
    pub(crate) tools: BTreeMap<String, HostTool>,
    pub(crate) guards: Vec<Arc<dyn Guard>>,
    pub(crate) policy: Option<Arc<dyn Policy>>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) files: Option<Arc<dyn Files>>,
    pub(crate) audience: Option<Arc<dyn Audience>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) definitions: Definitions,
}

impl Host {
    /// Begins a host on a store, with a source of models; everything else has a default.
    pub fn builder(store: Arc<dyn Store>, models: Arc<dyn ModelSource>) -> HostBuilder {
        HostBuilder {
            host: Self {
                store,
                content: None,
                models,
                tools: BTreeMap::new(),
                guards: Vec::new(),
                policy: None,
                observers: Vec::new(),
                files: None,
                audience: None,
                clock: Arc::new(TokioClock::new()),
                definitions: Definitions::default(),
            },
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Where bodies are: the content store of its own, if there is one, else the store's.
    pub(crate) fn content(&self) -> Result<&dyn ContentStore, plica_ports::ContentError> {
        match &self.content {
            Some(content) => Ok(&**content),
            None => self.store.content().ok_or_else(|| {
                plica_ports::ContentError::Unavailable(
                    "the store keeps no content and the host was given no content store".into(),
                )
            }),
        }
    }

    /// Whether some observer keeps its place in the logs (EN-5).
    pub(crate) fn is_followed(&self) -> bool {
        self.observers.iter().any(|observer| observer.progress().is_some())
    }

    /// The tool of this name, if the definition lists it and this host has it.
    pub(crate) fn tool_of(&self, definition: &Definition, name: &str) -> Option<&HostTool> {
        self.tools.get(name).filter(|_| definition.tools.iter().any(|listed| listed == name))
    }
}

/// A tool with what its arguments are validated by.
pub(crate) struct HostTool {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) validator: Validator,
}

impl HostTool {
    fn new(tool: Arc<dyn Tool>) -> Self {
        let validator = Validator::new(&tool.declaration().schema);
        Self { tool, validator }
    }
}

/// A compiled schema, or why there is none.
pub(crate) struct Validator(Result<jsonschema::Validator, String>);

impl Validator {
    pub(crate) fn new(schema: &str) -> Self {
        let schema = serde_json::from_str(schema).map_err(|error| error.to_string());
        Self(schema.and_then(|schema: serde_json::Value| {
            jsonschema::validator_for(&schema).map_err(|error| error.to_string())
        }))
    }

    /// Whether arguments are valid by the tool's schema (TO-1); if not, why, for the model.
    pub(crate) fn validate(&self, args: &str) -> Result<(), String> {
        let instance: serde_json::Value = serde_json::from_str(args).map_err(|error| format!("not JSON: {error}"))?;
        let validator = self.0.as_ref().map_err(|error| format!("the tool's own schema is invalid: {error}"))?;
        let errors = validator.iter_errors(&instance).take(VALIDATION_ERRORS_MAX);
        let errors: Vec<String> = errors
            .map(|error| match error.instance_path().to_string() {
                path if path.is_empty() => error.to_string(),
                path => format!("{path}: {error}"),
            })
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }
}

/// Validation errors that the model is told at once.
const VALIDATION_ERRORS_MAX: usize = 5;

/// A host in the making.
pub struct HostBuilder {
    host: Host,
}

impl HostBuilder {
    /// Adds a tool under its declared name; a later one of the same name takes its place.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.host.tools.insert(tool.declaration().name.clone(), HostTool::new(tool));
        self
    }

    /// Adds several tools.
    #[must_use]
    pub fn tools(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        tools.into_iter().fold(self, Self::tool)
    }

    /// Adds a guard beside the rules of each definition; deny wins, then ask.
    #[must_use]
    pub fn guard(mut self, guard: Arc<dyn Guard>) -> Self {
        self.host.guards.push(guard);
        self
    }

    /// Sets the policy that looks at each reply.
    #[must_use]
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.host.policy = Some(policy);
        self
    }

    /// Adds an observer of committed events.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.host.observers.push(observer);
        self
    }

    /// Puts files back when a task is rewound.
    #[must_use]
    pub fn files(mut self, files: Arc<dyn Files>) -> Self {
        self.host.files = Some(files);
        self
    }

    /// Lets someone hear replies as they come.
    #[must_use]
    pub fn audience(mut self, audience: Arc<dyn Audience>) -> Self {
        self.host.audience = Some(audience);
        self
    }

    /// Keeps bodies in a content store of its own instead of the store's.
    #[must_use]
    pub fn content(mut self, content: Arc<dyn ContentStore>) -> Self {
        self.host.content = Some(content);
        self
    }

    /// Uses another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.host.clock = clock;
        self
    }

    /// The host.
    #[must_use]
    pub fn build(self) -> Arc<Host> {
        Arc::new(self.host)
    }
}
