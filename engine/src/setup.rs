//! What a definition resolves to on this worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use plica_kernel::body::ContentRef;
use plica_kernel::event::{Failure, FailureReason, PluginPin};
use plica_kernel::id::{LedgerId, Queue};
use plica_kernel::limits::TREE_TASKS_MAX;
use plica_kernel::state::Task;
use plica_ports::store::{Page, StoreError, TaskFilter};
use plica_ports::{ContentError, ContentStore, Definition, Model, Store, ToolSpec};

use crate::definitions::Known;
use crate::govern::Rules;
use crate::host::Host;
use crate::plugins;
use crate::steering;

/// A definition with its rules, model and tools; none when it cannot be used.
pub(crate) struct Setup {
    known: Option<Arc<Known>>,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) tool_specs: Vec<ToolSpec>,
    /// The plugins of this worker that are in force with it.
    pub(crate) pins: Vec<PluginPin>,
    /// The agents it may delegate to.
    pub(crate) subagents: BTreeMap<String, (ContentRef, Arc<Known>)>,
    /// What its children share with it; read when it may have any.
    pub(crate) family: Option<Family>,
}

/// What children share with the task that spawns them.
pub(crate) struct Family {
    pub(crate) ledger: LedgerId,
    pub(crate) queue: Queue,
    pub(crate) priority: u8,
    /// Tasks below the root that they all descend from, as they were counted last.
    pub(crate) tree: u64,
}

/// Why a definition cannot be used.
#[derive(Debug)]
pub(crate) enum SetupError {
    /// Not now.
    Unavailable(String),
    /// Not ever, as it stands: the turn fails with this.
    Unusable(Failure),
}

fn unusable(reason: FailureReason, detail: impl ToString) -> SetupError {
    SetupError::Unusable(Failure { detail: Some(detail.to_string()), reason })
}

impl Setup {
    /// The setup of a task whose definition cannot be used.
    pub(crate) fn none() -> Self {
        Self {
            known: None,
            model: None,
            tool_specs: Vec::new(),
            pins: Vec::new(),
            subagents: BTreeMap::new(),
            family: None,
        }
    }

    /// Reads the definition that a task cites and finds its model and tools.
    pub(crate) async fn read(host: &Host, task: &Task) -> Result<Self, SetupError> {
        let content = host.content().map_err(|error| SetupError::Unavailable(error.to_string()))?;
        let known = host.definitions.read(content, task.definition()).await?;
        let definition = &known.definition;
        if let Err(error) = &known.rules {
            return Err(unusable(FailureReason::DefinitionError, error));
        }
        let model = host
            .models
            .model(&definition.model, content)
            .await
            .map_err(|error| unusable(FailureReason::LlmError, error))?;
        let mut subagents = BTreeMap::new();
        for (name, reference) in &definition.subagents {
            subagents.insert(name.clone(), (reference.clone(), host.definitions.read(content, reference).await?));
        }
        let family = if subagents.is_empty() { None } else { Some(read_family(host, task).await?) };
        let tool_specs = definition.tools.iter().filter_map(|name| spec(host, definition, name)).collect();
        let pins = plugins::in_force(host, definition);
        Ok(Self { known: Some(known), model: Some(model), tool_specs, pins, subagents, family })
    }

    /// The definition.
    pub(crate) fn definition(&self) -> Option<&Definition> {
        self.known.as_ref().map(|known| &known.definition)
    }

    /// Its rules.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.known.as_ref()?.rules.as_ref().ok()
    }

    /// Counts the tasks of the tree again, as far as its bound.
    pub(crate) async fn count_tree(&mut self, store: &dyn Store, task: &Task) -> Result<(), StoreError> {
        if let Some(family) = &mut self.family {
            let filter = TaskFilter { prefix: Some(format!("{}.", root_of(task))), ..TaskFilter::default() };
            let most = usize::try_from(TREE_TASKS_MAX).unwrap_or(usize::MAX);
            family.tree = store.tasks(&filter, &Page::first(most)).await?.len() as u64;
        }
        Ok(())
    }

    /// The model, as the definition names it.
    pub(crate) fn model_name(&self) -> String {
        self.definition()
            .map_or_else(String::new, |definition| format!("{}:{}", definition.model.provider, definition.model.name))
    }
}

/// The root that a task descends from: each generation adds a decision, an index and a number.
fn root_of(task: &Task) -> &str {
    let parts = 3 * task.depth() as usize;
    task.id().as_str().rsplitn(parts + 1, '.').last().unwrap_or_default()
}

fn spec(host: &Host, definition: &Definition, name: &str) -> Option<ToolSpec> {
    steering::spec(name, definition).or_else(|| {
        let declaration = host.tool_of(definition, name)?.tool.declaration();
        Some(ToolSpec {
            name: declaration.name.clone(),
            description: declaration.description.clone(),
            schema: declaration.schema.clone(),
        })
    })
}

pub(crate) async fn read_definition(
    content: &dyn ContentStore,
    reference: &ContentRef,
) -> Result<Definition, SetupError> {
    let bytes = content.get(reference).await.map_err(|error| match error {
        ContentError::Unavailable(why) => SetupError::Unavailable(why),
        error => unusable(FailureReason::ContentError, error),
    })?;
    Definition::from_bytes(&bytes).map_err(|error| unusable(FailureReason::DefinitionError, error))
}

async fn read_family(host: &Host, task: &Task) -> Result<Family, SetupError> {
    let gone = |error: StoreError| SetupError::Unavailable(error.to_string());
    let ledger = host.store.ledger().await.map_err(gone)?;
    let row = host.store.row(task.id()).await.map_err(gone)?;
    let row = row.ok_or_else(|| gone(StoreError::UnknownTask(task.id().clone())))?;
    Ok(Family { ledger, queue: row.facts.queue, priority: row.facts.priority, tree: 0 })
}
