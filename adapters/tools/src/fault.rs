//! Why a call did not end well, before it goes out as a [`ToolError`].

use plica_ports::ToolError;

use crate::workspace::PathError;

/// A [`ToolError`] without an output: a quarter of its size, so it can be passed around.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Unknown(String),
    #[error("it was changed by someone else since")]
    Changed,
    #[error("the call was stopped before it changed anything")]
    Stopped,
}

impl Fault {
    /// A failure that the model is told of.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }
}

impl From<PathError> for Fault {
    fn from(error: PathError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<Fault> for ToolError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Failed(text) => Self::failed(text),
            Fault::Changed => Self::failed(fault.to_string()),
            Fault::Unknown(text) => Self::unknown(text),
            Fault::Stopped => Self::stopped(fault.to_string()),
        }
    }
}
