//! How `Write` and `Edit` change a file: whole, or not at all.
//!
//! The new content is written beside the file under a name of the call, made durable and then
//! renamed over it, so neither a reader nor a crash ever meets half of it. A hard link to the
//! old content keeps the old content; extended attributes are not carried over.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt, Permissions};
use plica_kernel::canonical::{Hash, content_hash};
use plica_ports::CallContext;
use rustix::fs::{Gid, Uid};
use sha2::{Digest, Sha256};

use crate::blocking::Cancel;
use crate::fault::Fault;
use crate::workspace::{OpenError, Place, Workspace, open_regular, sync};

/// What a file was before a change.
#[derive(Debug)]
pub(crate) struct Before {
    /// Number of bytes.
    pub(crate) size: u64,
    /// Their hash.
    pub(crate) sha256: Hash,
    /// The bytes, unless there were more than asked for.
    pub(crate) bytes: Option<Vec<u8>>,
    permissions: Permissions,
    owner: (u32, u32),
}

impl Before {
    /// Reads the file at `place`, keeping its bytes if they are at most `kept_max`. `None` says
    /// that there is no file. It has to be writable: a rename would not ask for that.
    pub(crate) fn read(place: &Place, kept_max: u64, cancel: &Cancel) -> Result<Option<Self>, BeforeError> {
        let Some((file, metadata)) = Self::open(place)? else { return Ok(None) };
        Self::read_open(file, &metadata, kept_max, cancel).map(Some)
    }

    /// Reads the file at `place` as [`Self::read`] does, but not if it has more than `max` bytes.
    pub(crate) fn read_at_most(place: &Place, max: u64, cancel: &Cancel) -> Result<AtMost, BeforeError> {
        let Some((file, metadata)) = Self::open(place)? else { return Ok(AtMost::Absent) };
        if metadata.len() > max {
            return Ok(AtMost::Over(metadata.len()));
        }
        // It may grow meanwhile, without end.
        let before = Self::read_open(file.take(max + 1), &metadata, max, cancel)?;
        Ok(if before.bytes.is_some() { AtMost::Read(before) } else { AtMost::Over(before.size) })
    }

    fn open(place: &Place) -> Result<Option<(File, Metadata)>, BeforeError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match open_regular(&place.parent, Path::new(&place.name), &mut options) {
            Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some).map_err(BeforeError::Open),
        }
    }

    fn read_open(
        mut file: impl io::Read,
        metadata: &Metadata,
        kept_max: u64,
        cancel: &Cancel,
    ) -> Result<Self, BeforeError> {
        let mut hasher = Sha256::new();
        let mut bytes = Some(Vec::new());
        let mut size = 0_u64;
        let mut buffer = vec![0; 64 << 10];
        loop {
            cancel.check().map_err(BeforeError::Stopped)?;
            let part = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => &buffer[..n],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(BeforeError::Open(OpenError::Io(error))),
            };
            hasher.update(part);
            size += part.len() as u64;
            match &mut bytes {
                Some(bytes) if size <= kept_max => bytes.extend_from_slice(part),
                _ => bytes = None,
            }
        }
        Ok(Self {
            size,
            sha256: Hash::from_bytes(hasher.finalize().into()),
            bytes,
            permissions: metadata.permissions(),
            owner: (metadata.uid(), metadata.gid()),
        })
    }
}

/// What a file was, if it was small enough to be read.
pub(crate) enum AtMost {
    /// There was no file.
    Absent,
    /// This, with its bytes.
    Read(Before),
    /// At least this many bytes, which were too many.
    Over(u64),
}

/// Why what a file was could not be told.
pub(crate) enum BeforeError {
    Open(OpenError),
    Stopped(Fault),
}

impl BeforeError {
    /// The error of the call that named the file `given`.
    pub(crate) fn into_fault(self, workspace: &Workspace, given: &str) -> Fault {
        match self {
            Self::Open(error) => workspace.name(given, error).into(),
            Self::Stopped(error) => error,
        }
    }
}

/// The names under which a call keeps content that is not in place yet. They come from its
/// idempotency key, so whoever recovers the call finds them (TO-3), and from the claim and the
/// try, so a worker that was slow to die never shares one with its successor.
#[derive(Debug, Clone)]
pub(crate) struct TempName {
    prefix: String,
    name: String,
}

impl TempName {
    /// Of this try of the call.
    pub(crate) fn of(context: &CallContext) -> Self {
        let mut key = content_hash(context.idempotency_key.as_bytes()).to_string();
        key.truncate(16);
        let prefix = format!(".plica-{key}-");
        let name = format!("{prefix}{}-{}.tmp", context.epoch, context.attempt);
        Self { prefix, name }
    }

    /// Of a file that a rewind puts back.
    pub(crate) fn restoring(path: &str) -> Self {
        let mut key = content_hash(path.as_bytes()).to_string();
        key.truncate(16);
        let prefix = format!(".plica-restore-{key}-");
        Self { name: format!("{prefix}.tmp"), prefix }
    }

    /// Removes what any try of the call left in `dir`.
    pub(crate) fn sweep(&self, dir: &Dir) -> io::Result<()> {
        for entry in dir.entries()? {
            let name = entry?.file_name();
            let ours = name.to_str().is_some_and(|name| name.starts_with(&self.prefix) && name.ends_with(".tmp"));
            if ours {
                match dir.remove_file(&name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Puts `content` in place of what was there before.
///
/// `given` is the path as the model wrote it, for errors. An error says that nothing changed,
/// except [`Fault::Unknown`]: then the change is made but may not outlive a power cut.
pub(crate) fn replace(
    workspace: &Workspace,
    given: &str,
    place: &Place,
    content: &[u8],
    before: Option<&Before>,
    temp: &TempName,
    cancel: &Cancel,
) -> Result<(), Fault> {
    let failed = |source| Fault::from(workspace.explain(given, source));
    let written = Temp::write(&place.parent, &temp.name, content, before).map_err(failed)?;
    cancel.check()?;
    written.rename(Path::new(&place.name)).map_err(failed)?;
    sync(&place.parent).map_err(|error| {
        Fault::Unknown(format!("{given} was written, but its folder could not be made durable: {error}"))
    })
}

/// Content that is not in place yet, and goes away unless it is renamed.
struct Temp<'a> {
    dir: &'a Dir,
    name: &'a str,
    renamed: bool,
}

impl<'a> Temp<'a> {
    fn write(dir: &'a Dir, name: &'a str, content: &[u8], before: Option<&Before>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if before.is_some() {
            // Nobody who may not read the file may read its new content meanwhile.
            options.mode(0o600);
        }
        let mut file = dir.open_with(name, &options)?;
        let temp = Self { dir, name, renamed: false };
        file.write_all(content)?;
        if let Some(before) = before {
            keep_owner(&file, before.owner)?;
            // After the owner, since changing that clears the set-id bits.
            file.set_permissions(before.permissions.clone())?;
        }
        file.sync_all()?;
        Ok(temp)
    }

    fn rename(mut self, name: &Path) -> io::Result<()> {
        self.dir.rename(self.name, self.dir, name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.renamed
            && let Err(error) = self.dir.remove_file(self.name)
        {
            tracing::warn!(name = self.name, %error, "a temporary file could not be removed");
        }
    }
}

/// Gives `file` to the owner of the file it replaces. Only a worker with special rights can, and
/// for any other one the two differ only where its group may write.
fn keep_owner(file: &File, owner: (u32, u32)) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == owner {
        return Ok(());
    }
    match rustix::fs::fchown(file, Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1))) {
        Ok(()) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Parents;

    #[test]
    fn to_5_a_change_that_is_called_off_leaves_the_file_and_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.txt"), "old").expect("a file");
        let workspace = Workspace::open(folder.path()).expect("a workspace");
        let place = workspace.place("a.txt", Parents::Exist).expect("a place");
        let temp = TempName { prefix: ".plica-0-".to_string(), name: ".plica-0-1-1.tmp".to_string() };
        let cancel = Cancel::default();
        cancel.cancel();
        let result = replace(&workspace, "a.txt", &place, b"new", None, &temp, &cancel);
        assert_eq!(result, Err(Fault::Stopped));
        let names: Vec<_> =
            place.parent.entries().expect("names").map(|entry| entry.expect("a name").file_name()).collect();
        assert_eq!(names, ["a.txt"]);
        assert_eq!(std::fs::read(folder.path().join("a.txt")).expect("the file"), b"old");
    }
}
