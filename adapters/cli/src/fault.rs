//! What can go wrong, by exit status (CL-2).

use plica_engine::{ClientError, LoadError, WorkerError};
use plica_ports::store::{DeliverError, StoreError};

/// The command line asks for what does not apply.
pub const USAGE: u8 = 2;
/// The task waits for someone.
pub const WAITING: u8 = 3;

/// Why a verb was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The command line asks for what does not exist or does not apply.
    #[error("{0}")]
    Usage(String),
    /// The store, an agent file or the configuration cannot be used.
    #[error("{0}")]
    Config(String),
    /// Verification found something broken; what was printed already.
    #[error("verification failed")]
    Verification,
    /// The user broke it off; what was printed already.
    #[error("")]
    Interrupted,
}

impl Fault {
    /// The exit status.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Config(_) => 4,
            Self::Verification => 5,
            Self::Interrupted => 130,
        }
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        let unknown = matches!(
            error,
            ClientError::Load(LoadError::UnknownTask(_) | LoadError::Store(StoreError::UnknownTask(_)))
                | ClientError::Store(StoreError::UnknownTask(_))
                | ClientError::Deliver(DeliverError::Store(StoreError::UnknownTask(_)))
        );
        let refused = matches!(
            error,
            ClientError::Deliver(
                DeliverError::TaskOver { .. }
                    | DeliverError::KeyConflict { .. }
                    | DeliverError::TooLarge { .. }
                    | DeliverError::Invalid { .. }
            ) | ClientError::Create(plica_ports::store::CreateError::KeyConflict { .. })
        );
        if unknown || refused { Self::Usage(error.to_string()) } else { Self::Config(error.to_string()) }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::from(ClientError::from(error))
    }
}

impl From<WorkerError> for Fault {
    fn from(error: WorkerError) -> Self {
        Self::Config(error.to_string())
    }
}
