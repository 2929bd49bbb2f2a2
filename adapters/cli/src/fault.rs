//! What can go wrong, by exit status (CL-2).

use plica_engine::{ClientError, LoadError, WorkerError};
use plica_ports::store::{CreateError, DeliverError, StoreError};

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
    /// Whoever read standard output has gone: there is nobody left to print for.
    #[error("")]
    ReaderGone,
}

impl Fault {
    /// The exit status.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Config(_) => 4,
            Self::Verification => 5,
            Self::Interrupted => 130,
            Self::ReaderGone => 0,
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
            ) | ClientError::Create(CreateError::KeyConflict { .. })
        );
        let refused = refused
            || matches!(
                error,
                ClientError::Closed(_)
                    | ClientError::NoBoundary { .. }
                    | ClientError::NoRoot { .. }
                    | ClientError::Reported { .. }
                    | ClientError::NotUnknown { .. }
                    | ClientError::Revision { .. }
                    | ClientError::Grace { .. }
            );
        let hint = hint(&error).unwrap_or_default();
        if unknown || refused { Self::Usage(format!("{error}{hint}")) } else { Self::Config(format!("{error}{hint}")) }
    }
}

/// The next command to type, where the error does not name one itself (CL-8).
fn hint(error: &ClientError) -> Option<String> {
    let store = match error {
        ClientError::Store(store)
        | ClientError::Load(LoadError::Store(store))
        | ClientError::Create(CreateError::Store(store))
        | ClientError::Deliver(DeliverError::Store(store)) => Some(store),
        _ => None,
    };
    match (store, error) {
        (Some(StoreError::UnknownTask(_)), _) | (_, ClientError::Load(LoadError::UnknownTask(_))) => {
            Some("; `plica list` shows the tasks".into())
        }
        (_, ClientError::Unreached(LoadError::Content { task, .. })) => {
            Some(format!("; `plica verify {task}` says more"))
        }
        (Some(StoreError::Unusable(_)), _) => Some(STORE_HINT.into()),
        (_, ClientError::Deliver(DeliverError::TaskOver { task, .. })) => {
            Some(format!("; `plica show {task}` says how it ended"))
        }
        (_, ClientError::Deliver(DeliverError::KeyConflict { task, .. })) => {
            Some(format!("; `plica events {task}` lists what it took, and another --key delivers this too"))
        }
        (_, ClientError::Create(CreateError::KeyConflict { task, .. })) => {
            Some(format!("; `plica show {task}` shows that task"))
        }
        _ => None,
    }
}

/// How another store is named.
pub const STORE_HINT: &str = "; `plica help` says how a store is named";

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::from(ClientError::from(error))
    }
}

impl From<WorkerError> for Fault {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Store(error) => error.into(),
            error => Self::Config(error.to_string()),
        }
    }
}
