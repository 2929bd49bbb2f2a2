//! What SQLite's errors mean to the port: try later, someone must look, or a refusal.

use std::fs::File;
use std::path::Path;

use plica_kernel::id::TaskId;
use plica_ports::ContentError;
use plica_ports::store::{AppendError, ClaimError, CreateError, DeliverError, StoreError};
use rusqlite::ErrorCode;
use rustix::io::Errno;

/// How the work of one request fails inside its savepoint.
#[derive(Debug)]
pub(crate) enum Fail<E> {
    /// By a rule: the savepoint is undone, the others of the batch are not touched.
    Refused(E),
    /// In SQLite.
    Sql(rusqlite::Error),
}

impl<E> From<rusqlite::Error> for Fail<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// How a request to the writer ends badly.
#[derive(Debug)]
pub(crate) enum Lost<E> {
    /// By a rule; nothing was written.
    Refused(E),
    /// The store could not; nothing was written.
    Store(StoreError),
    /// COMMIT failed: nobody knows yet.
    Unknown(String),
}

impl Lost<AppendError> {
    /// As the error of an append, release or block.
    pub(crate) fn append(self, task: &TaskId) -> AppendError {
        match self {
            Self::Refused(error) => error,
            Self::Store(error) => error.into(),
            Self::Unknown(detail) => AppendError::CommitUnknown { task: task.clone(), detail },
        }
    }
}

impl Lost<CreateError> {
    /// As the error of a creation.
    pub(crate) fn create(self, task: &TaskId) -> CreateError {
        match self {
            Self::Refused(error) => error,
            Self::Store(error) => error.into(),
            Self::Unknown(detail) => CreateError::CommitUnknown { task: task.clone(), detail },
        }
    }
}

impl Lost<DeliverError> {
    /// As the error of a delivery.
    pub(crate) fn deliver(self, task: &TaskId) -> DeliverError {
        match self {
            Self::Refused(error) => error,
            Self::Store(error) => error.into(),
            Self::Unknown(detail) => DeliverError::CommitUnknown { task: task.clone(), detail },
        }
    }
}

impl Lost<StoreError> {
    /// As the error of a claim.
    pub(crate) fn claim(self) -> ClaimError {
        match self {
            Self::Refused(error) | Self::Store(error) => error.into(),
            Self::Unknown(detail) => ClaimError::CommitUnknown(detail),
        }
    }

    /// As a store error, for what may simply be asked again.
    pub(crate) fn store(self) -> StoreError {
        match self {
            Self::Refused(error) | Self::Store(error) => error,
            Self::Unknown(detail) => StoreError::Unavailable(detail),
        }
    }

    /// As the error of a content store.
    pub(crate) fn content(self) -> ContentError {
        ContentError::Unavailable(self.store().to_string())
    }
}

/// Sorts an error of SQLite by who must act: whatever may pass by itself (a lock, a full
/// disk, a failing device) is `Unavailable`, the rest is `Unusable`; both name the file.
pub(crate) fn store_error(file: &Path, error: &rusqlite::Error) -> StoreError {
    let path = file.display();
    let Some(code) = error.sqlite_error_code() else {
        return StoreError::Unusable(format!("{path} holds what this version cannot read: {error}"));
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Unavailable(format!("{path} is locked by another process: {error}"))
        }
        ErrorCode::DiskFull => StoreError::Unavailable(format!("no space left for {path}: {error}")),
        ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted => {
            StoreError::Unavailable(format!("{path}: {error}"))
        }
        ErrorCode::NotADatabase => StoreError::Unusable(not_ours(&path)),
        ErrorCode::DatabaseCorrupt => {
            StoreError::Unusable(format!("{path} is damaged ({error}); restore it from a backup"))
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            StoreError::Unusable(format!("{path} cannot be written ({error}); check the rights of file and folder"))
        }
        ErrorCode::CannotOpen if may_open_no_more(file) => {
            StoreError::Unavailable(format!("{path}: this process or machine has too many files open"))
        }
        ErrorCode::CannotOpen => {
            StoreError::Unusable(format!("{path} cannot be opened ({error}); check the rights of file and folder"))
        }
        _ => StoreError::Unusable(format!("{path}: {error}")),
    }
}

/// Whether it is only for want of another descriptor that the file cannot be opened; SQLite does
/// not say.
fn may_open_no_more(file: &Path) -> bool {
    let refused = File::open(file).err().and_then(|error| Errno::from_io_error(&error));
    matches!(refused, Some(Errno::MFILE | Errno::NFILE))
}

/// What is said of a file that some other program made.
pub(crate) fn not_ours(path: &dyn std::fmt::Display) -> String {
    format!("{path} is not a store of this program; nothing was changed: name another file")
}

/// Whether the error only says that somebody else holds a lock.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
