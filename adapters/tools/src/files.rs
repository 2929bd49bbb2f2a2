//! Files as a rewind puts them back.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use plica_kernel::canonical::{Hash, content_hash};
use plica_ports::{FileNow, Files, FilesError};

use crate::blocking::Cancel;
use crate::change::{Before, TempName, replace};
use crate::fault::Fault;
use crate::workspace::{Parents, PathError, Workspace, sync};
use plica_kernel::limits::PREIMAGE_BYTES_MAX;

/// The workspaces of this host.
#[derive(Debug, Default)]
pub struct WorkspaceFiles;

#[async_trait]
impl Files for WorkspaceFiles {
    async fn look(&self, workspace: &Path, path: &str, kept_max: u64) -> Result<FileNow, FilesError> {
        let (workspace, path) = (workspace.to_path_buf(), path.to_string());
        blocking(move || look(&Workspace::open(&workspace)?, &path, kept_max)).await
    }

    async fn put(
        &self,
        workspace: &Path,
        path: &str,
        expected: Option<Hash>,
        wanted: Option<&[u8]>,
    ) -> Result<(), FilesError> {
        let (workspace, path) = (workspace.to_path_buf(), path.to_string());
        let wanted = wanted.map(<[u8]>::to_vec);
        blocking(move || put(&workspace, &path, expected, wanted.as_deref())).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, FilesError> {
    let ended = tokio::task::spawn_blocking(work).await.map_err(|error| FilesError::Failed(error.to_string()))?;
    ended.map_err(|fault| match fault {
        Fault::Changed => FilesError::Changed,
        fault => FilesError::Failed(fault.to_string()),
    })
}

fn look(workspace: &Workspace, path: &str, kept_max: u64) -> Result<FileNow, Fault> {
    let place = match workspace.place(path, Parents::Exist) {
        // A folder on the way that is gone took the file with it.
        Err(PathError::Missing { .. }) => return Ok(FileNow::Absent),
        place => place?,
    };
    let before = Before::read(&place, kept_max, &Cancel::default());
    Ok(match before.map_err(|error| error.into_fault(workspace, path))? {
        None => FileNow::Absent,
        Some(Before { bytes, sha256, .. }) => FileNow::Present { bytes, sha256 },
    })
}

fn put(folder: &Path, path: &str, expected: Option<Hash>, wanted: Option<&[u8]>) -> Result<(), Fault> {
    let workspace = Workspace::open(folder)?;
    let now = look(&workspace, path, 0)?.hash();
    if now == wanted.map(content_hash) {
        return Ok(());
    }
    if now != expected {
        return Err(Fault::Changed);
    }
    let place = workspace.place(path, Parents::Make)?;
    let failed = |source| Fault::from(workspace.explain(path, source));
    match wanted {
        None => match place.parent.remove_file(&place.name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => sync(&place.parent).map_err(failed),
        },
        Some(bytes) => {
            let temp = TempName::restoring(path);
            temp.sweep(&place.parent).map_err(failed)?;
            let before = Before::read(&place, PREIMAGE_BYTES_MAX, &Cancel::default());
            let before = before.map_err(|error| error.into_fault(&workspace, path))?;
            replace(&workspace, path, &place, bytes, before.as_ref(), &temp, &Cancel::default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sn_8_a_file_is_put_back_only_from_what_it_was_expected_to_hold() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let hash = |bytes: &[u8]| Some(content_hash(bytes));
        std::fs::write(at("a"), "two").expect("a file");
        let files = WorkspaceFiles;
        // Expected: put back, and again without harm, as after a crash.
        for _ in 0..2 {
            assert_eq!(files.put(folder.path(), "a", hash(b"two"), Some(b"one")).await, Ok(()));
            assert_eq!(std::fs::read(at("a")).expect("the file"), b"one");
        }
        // Changed by someone else since: left.
        std::fs::write(at("a"), "mine").expect("a file");
        assert_eq!(files.put(folder.path(), "a", hash(b"two"), Some(b"one")).await, Err(FilesError::Changed));
        assert_eq!(files.put(folder.path(), "a", hash(b"two"), None).await, Err(FilesError::Changed));
        assert_eq!(std::fs::read(at("a")).expect("the file"), b"mine");
        // Made by the task: removed, and again without harm.
        for _ in 0..2 {
            assert_eq!(files.put(folder.path(), "a", hash(b"mine"), None).await, Ok(()));
            assert!(!at("a").exists());
        }
        // Gone with its folder: made again.
        assert_eq!(files.look(folder.path(), "b/c", 9).await, Ok(FileNow::Absent));
        assert_eq!(files.put(folder.path(), "b/c", None, Some(b"back")).await, Ok(()));
        let there = FileNow::Present { bytes: Some(b"back".to_vec()), sha256: content_hash(b"back") };
        assert_eq!(files.look(folder.path(), "b/c", 9).await, Ok(there));
        assert_eq!(std::fs::read_dir(at("b")).expect("a folder").count(), 1, "nothing is left beside it");
    }

    #[tokio::test]
    async fn to_5_nothing_outside_of_the_workspace_is_put_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = WorkspaceFiles;
        let refused = files.put(folder.path(), "../a", None, Some(b"x")).await;
        assert!(matches!(refused, Err(FilesError::Failed(_))), "{refused:?}");
    }
}
