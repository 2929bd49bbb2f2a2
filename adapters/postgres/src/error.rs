//! What PostgreSQL's errors mean to the port: try later, someone must look, nobody knows, or a
//! refusal.

use deadpool_postgres::PoolError;
use plica_kernel::id::TaskId;
use plica_ports::ContentError;
use plica_ports::store::{AppendError, ClaimError, CreateError, DeliverError, StoreError};
use tokio_postgres::error::{Error, SqlState};

use crate::connect::{Place, spelled_out};

/// How a write ends badly, rules apart.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The store could not; nothing was written.
    Store(StoreError),
    /// The answer was lost: nobody knows yet.
    Unknown(String),
}

impl Lost {
    /// As the error of an append, release or block.
    pub(crate) fn append(self, task: &TaskId) -> AppendError {
        match self {
            Self::Store(error) => error.into(),
            Self::Unknown(detail) => AppendError::CommitUnknown { task: task.clone(), detail },
        }
    }

    /// As the error of a creation.
    pub(crate) fn create(self, task: &TaskId) -> CreateError {
        match self {
            Self::Store(error) => error.into(),
            Self::Unknown(detail) => CreateError::CommitUnknown { task: task.clone(), detail },
        }
    }

    /// As the error of a delivery.
    pub(crate) fn deliver(self, task: &TaskId) -> DeliverError {
        match self {
            Self::Store(error) => error.into(),
            Self::Unknown(detail) => DeliverError::CommitUnknown { task: task.clone(), detail },
        }
    }

    /// As the error of a claim.
    pub(crate) fn claim(self) -> ClaimError {
        match self {
            Self::Store(error) => error.into(),
            Self::Unknown(detail) => ClaimError::CommitUnknown(detail),
        }
    }

    /// As a store error, for what may simply be asked again.
    pub(crate) fn store(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Unknown(detail) => StoreError::Unavailable(detail),
        }
    }

    /// As the error of a content store.
    pub(crate) fn content(self) -> ContentError {
        ContentError::Unavailable(self.store().to_string())
    }
}

/// What a statement's error asks of whoever sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Rolled back whole, for another's sake: the same again may well succeed (ST-15).
    Again,
    /// The schema, or something in it, is not there or of another version.
    Schema,
    /// The connection ended, or its server: whether it was written before is not known.
    Broken,
    /// Nothing was written; trying later may help.
    Later,
    /// Nothing was written; someone must look.
    Never,
}

/// The schema has another version than ours; raised by `refuse`.
const OTHER_VERSION: &str = "PL001";

/// Sorts a statement's error.
pub(crate) fn meaning(error: &Error) -> Meaning {
    let Some(said) = error.as_db_error() else {
        // Nothing came back from the server. What could not be encoded was never sent, but is
        // a bug here, which nobody's retry mends.
        return if is_conversion(error) { Meaning::Never } else { Meaning::Broken };
    };
    let code = said.code();
    // Two that make the same at the same time: the second finds it made when it comes again.
    if [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED, &SqlState::UNIQUE_VIOLATION]
        .contains(&code)
    {
        return Meaning::Again;
    }
    let no_schema = [&SqlState::INVALID_SCHEMA_NAME, &SqlState::UNDEFINED_TABLE, &SqlState::UNDEFINED_FUNCTION];
    if no_schema.contains(&code) || code.code() == OTHER_VERSION || *code == SqlState::UNDEFINED_COLUMN {
        return Meaning::Schema;
    }
    match code.code().get(..2) {
        // The server, or a pooler, gave the connection up; it may have done so after the commit.
        Some("08" | "57") if *code != SqlState::QUERY_CANCELED => Meaning::Broken,
        Some("25" | "53" | "55" | "57" | "58") => Meaning::Later,
        _ => Meaning::Never,
    }
}

fn is_conversion(error: &Error) -> bool {
    use std::error::Error as _;
    error.source().is_some_and(|cause| !cause.is::<std::io::Error>()) && !error.is_closed()
}

/// As a store error; it names the place.
pub(crate) fn store_error(place: &Place, error: &Error) -> StoreError {
    let said = spelled_out(error);
    match meaning(error) {
        Meaning::Again | Meaning::Broken | Meaning::Later => StoreError::Unavailable(format!("{place}: {said}")),
        Meaning::Schema | Meaning::Never => StoreError::Unusable(format!("{place}: {said}")),
    }
}

/// Why no connection was to be had.
pub(crate) fn no_connection(place: &Place, error: &PoolError) -> StoreError {
    let PoolError::Backend(cause) = error else {
        let said = match error {
            PoolError::Timeout(_) => "no connection in time; all are in use, or the server does not answer".into(),
            other => spelled_out(other),
        };
        return StoreError::Unavailable(format!("{place}: {said}"));
    };
    let said = spelled_out(cause);
    let refused = cause.code().and_then(|code| code.code().get(..2));
    match refused {
        // Wrong password, no such role, no such database, no right to connect.
        Some("28" | "3D" | "42") => StoreError::Unusable(format!("{place}: {said}; check the URL of the store")),
        Some(_) => store_error(place, cause),
        None if is_distrust(cause) => StoreError::Unusable(format!(
            "{place}: {said}; name the certificates to trust with sslrootcert=FILE, or give TLS up with sslmode=disable"
        )),
        None => StoreError::Unavailable(format!("{place}: {said}")),
    }
}

/// Whether it is the server's certificate that is not trusted, or the server has no TLS at all:
/// waiting does not help.
fn is_distrust(error: &Error) -> bool {
    let said = spelled_out(error);
    said.contains("certificate") || said.contains("server does not support TLS")
}
