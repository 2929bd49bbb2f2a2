//! What keeps a model from being set up.

use crate::SettingsError;

/// Why there is no model for these settings on this worker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenAiError {
    /// An option cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The system's certificates cannot be read.
    #[error("no TLS on this machine: {0}; install the system's CA certificates")]
    Tls(String),
    /// The proxy's address is none. It is not shown: it may hold a password.
    #[error("the variable {variable} does not hold a proxy's address, like http://proxy:3128")]
    Proxy {
        /// The variable it was read from.
        variable: &'static str,
    },
    /// The HTTP client cannot be made.
    #[error("no HTTP client: {0}")]
    Client(String),
}
