//! What a definition resolves to on this worker.

use std::sync::Arc;

use plica_kernel::event::{Failure, FailureReason};
use plica_kernel::state::Task;
use plica_ports::{ContentError, Definition, Model, ToolSpec};

use crate::govern::Rules;
use crate::host::Host;

/// A definition with its rules, model and tools; empty when it cannot be used.
pub(crate) struct Setup {
    pub(crate) definition: Option<Definition>,
    pub(crate) rules: Option<Rules>,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) tool_specs: Vec<ToolSpec>,
}

/// Why a definition cannot be used.
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
        Self { definition: None, rules: None, model: None, tool_specs: Vec::new() }
    }

    /// Reads the definition that a task cites and finds its model and tools.
    pub(crate) async fn read(host: &Host, task: &Task) -> Result<Self, SetupError> {
        let content = host.content().map_err(|error| SetupError::Unavailable(error.to_string()))?;
        let bytes = content.get(task.definition()).await.map_err(|error| match error {
            ContentError::Unavailable(why) => SetupError::Unavailable(why),
            error => unusable(FailureReason::ContentError, error),
        })?;
        let definition =
            Definition::from_bytes(&bytes).map_err(|error| unusable(FailureReason::DefinitionError, error))?;
        let rules = Rules::of(&definition).map_err(|error| unusable(FailureReason::DefinitionError, error))?;
        let model = host
            .models
            .model(&definition.model, content)
            .await
            .map_err(|error| unusable(FailureReason::LlmError, error))?;
        let spec = |tool: &crate::host::HostTool| {
            let declaration = tool.tool.declaration();
            ToolSpec {
                name: declaration.name.clone(),
                description: declaration.description.clone(),
                schema: declaration.schema.clone(),
            }
        };
        let tool_specs = host.tools_of(&definition).map(spec).collect();
        Ok(Self { definition: Some(definition), rules: Some(rules), model: Some(model), tool_specs })
    }

    /// The model, as the definition names it.
    pub(crate) fn model_name(&self) -> String {
        self.definition
            .as_ref()
            .map_or_else(String::new, |definition| format!("{}:{}", definition.model.provider, definition.model.name))
    }
}
