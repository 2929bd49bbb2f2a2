use std::path::Path;

use async_trait::async_trait;
use plica_kernel::canonical::Hash;

/// What a file of a workspace holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileNow {
    /// There is no file.
    Absent,
    /// There is one.
    Present {
        /// Its bytes, if there are not more than were asked for.
        bytes: Option<Vec<u8>>,
        /// Their hash.
        sha256: Hash,
    },
}

impl FileNow {
    /// The hash of what it holds; `None` when there is no file.
    pub fn hash(&self) -> Option<Hash> {
        match self {
            Self::Absent => None,
            Self::Present { sha256, .. } => Some(*sha256),
        }
    }
}

/// Why a file was left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// It does not hold what it was expected to.
    #[error("it was changed by someone else since")]
    Changed,
    /// It cannot be read or written.
    #[error("{0}")]
    Failed(String),
}

/// The files of workspaces, as a rewind puts them back (SN-5, SN-8).
///
/// Paths are relative to the workspace and never lead out of it (TO-5).
#[async_trait]
pub trait Files: Send + Sync {
    /// What the file holds; its bytes too if there are at most `kept_max`.
    async fn look(&self, workspace: &Path, path: &str, kept_max: u64) -> Result<FileNow, FilesError>;

    /// Makes the file hold `wanted`, or removes it, whole or not at all and durably, if it holds
    /// what has the hash `expected` (`None`: if it is not there). One that is as wanted already is
    /// left alone, so a second try after a crash does no harm.
    async fn put(
        &self,
        workspace: &Path,
        path: &str,
        expected: Option<Hash>,
        wanted: Option<&[u8]>,
    ) -> Result<(), FilesError>;
}
