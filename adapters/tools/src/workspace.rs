//! The workspace as a handle: every path is resolved beneath it by the kernel.
//!
//! TO-5 wants tools to run "as opened and not as checked". No path is ever looked at first and
//! opened later by name from outside: what is opened through the handle cannot lie outside of
//! it, whatever others do to the folders meanwhile.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::limits::LINKS_MAX;

/// Why a path could not be worked on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("the workspace {} cannot be opened: {source}", path.display())]
    Workspace { path: PathBuf, source: io::Error },
    #[error("{path} leads out of the workspace; file tools work inside it only, so name a path in {}", workspace.display())]
    Outside { path: String, workspace: PathBuf },
    #[error("{path} has a NUL character, which no path can have")]
    Nul { path: String },
    #[error("{path} does not exist; Glob finds the files there are")]
    Missing { path: String },
    #[error("{path} is a link to something that does not exist")]
    Dangling { path: String },
    #[error("{path} is a folder and not a file")]
    Folder { path: String },
    #[error("{path} is neither a file nor a folder")]
    Special { path: String },
    #[error("{path}: {source}")]
    Io { path: String, source: io::Error },
}

/// An open workspace.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: Dir,
    path: PathBuf,
}

/// A place where a file is or may be: an open folder and a name in it.
#[derive(Debug)]
pub(crate) struct Place {
    /// The folder, open: a change by name in it happens there and nowhere else.
    pub(crate) parent: Dir,
    /// The name in it.
    pub(crate) name: OsString,
    /// The path in the workspace, links followed.
    pub(crate) path: PathBuf,
}

impl Workspace {
    /// Opens the folder at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, PathError> {
        let root = Dir::open_ambient_dir(path, ambient_authority())
            .map_err(|source| PathError::Workspace { path: path.to_path_buf(), source })?;
        Ok(Self { root, path: path.to_path_buf() })
    }

    /// The handle.
    pub(crate) fn root(&self) -> &Dir {
        &self.root
    }

    /// `given` as a path in the workspace, before any link is followed. An absolute path is
    /// taken when it starts with the workspace's own.
    pub(crate) fn relative(&self, given: &str) -> Result<PathBuf, PathError> {
        let outside = || PathError::Outside { path: given.to_string(), workspace: self.path.clone() };
        if given.contains('\0') {
            return Err(PathError::Nul { path: given.to_string() });
        }
        let path = Path::new(given);
        let inner = if path.is_absolute() { self.strip(path).ok_or_else(outside)? } else { path.to_path_buf() };
        let mut depth = 0_usize;
        for component in inner.components() {
            match component {
                Component::ParentDir => depth = depth.checked_sub(1).ok_or_else(outside)?,
                Component::Normal(_) => depth += 1,
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        let tidy: PathBuf = inner.components().filter(|part| *part != Component::CurDir).collect();
        Ok(if tidy.as_os_str().is_empty() { PathBuf::from(".") } else { tidy })
    }

    /// The model may know the workspace by its name or by what the name's links come to.
    fn strip(&self, path: &Path) -> Option<PathBuf> {
        if let Ok(inner) = path.strip_prefix(&self.path) {
            return Some(inner.to_path_buf());
        }
        let real = std::fs::canonicalize(&self.path).ok()?;
        path.strip_prefix(real).ok().map(Path::to_path_buf)
    }

    /// The path of something that exists, links followed.
    pub(crate) fn real(&self, given: &str) -> Result<PathBuf, PathError> {
        let relative = self.relative(given)?;
        let real = self.root.canonicalize(&relative).map_err(|source| self.explain(given, source))?;
        Ok(if real.as_os_str().is_empty() { PathBuf::from(".") } else { real })
    }

    /// Opens a regular file to read.
    pub(crate) fn open_file(&self, given: &str) -> Result<(File, Metadata), PathError> {
        let relative = self.relative(given)?;
        open_regular(&self.root, &relative, OpenOptions::new().read(true)).map_err(|error| self.name(given, error))
    }

    /// The place of a file that is there or shall be; folders that are missing on the way are
    /// made when `parents` says so.
    pub(crate) fn place(&self, given: &str, parents: Parents) -> Result<Place, PathError> {
        let folder = || PathError::Folder { path: given.to_string() };
        let path = self.resolve(given)?;
        let name = path.file_name().ok_or_else(folder)?.to_os_string();
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                self.parent(parent, parents).map_err(|source| self.explain(given, source))?
            }
            _ => self.root.try_clone().map_err(|source| self.explain(given, source))?,
        };
        Ok(Place { parent, name, path })
    }

    /// The path of a file that is there or shall be, links followed as far as there are any: a
    /// file has one path, whether it is there yet or not.
    pub(crate) fn resolve(&self, given: &str) -> Result<PathBuf, PathError> {
        if given.ends_with('/') {
            return Err(PathError::Folder { path: given.to_string() });
        }
        let mut path = self.relative(given)?;
        let mut links = 0;
        loop {
            // The handle is asked of the folder and never of the file: of one that is replaced at
            // this very moment the kernel tells a path that leads nowhere.
            let (Some(name), Some(folder)) = (path.file_name(), path.parent()) else {
                return self.root.canonicalize(&path).map_err(|source| self.explain(given, source));
            };
            let Some(folder) = self.folder(given, folder)? else {
                let (resolved, went_up) = self.resolve_missing(given, &path)?;
                // What lies above a folder that is missing may be there.
                match went_up {
                    false if links > 0 => return Err(PathError::Dangling { path: given.to_string() }),
                    false => return Ok(resolved),
                    true => path = resolved,
                }
                continue;
            };
            let real = folder.join(name);
            match self.root.symlink_metadata(&real) {
                Ok(there) if there.is_symlink() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(self.explain(given, Errno::LOOP.into()));
                    }
                    let target = self.root.read_link_contents(&real);
                    path = folder.join(target.map_err(|source| self.explain(given, source))?);
                }
                Ok(_) => return Ok(real),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.explain(given, error)),
                Err(_) if links > 0 => return Err(PathError::Dangling { path: given.to_string() }),
                Err(_) => return Ok(real),
            }
        }
    }

    /// The path of a folder, links followed; `None` when it does not exist.
    fn folder(&self, given: &str, path: &Path) -> Result<Option<PathBuf>, PathError> {
        if path.as_os_str().is_empty() {
            return Ok(Some(PathBuf::new()));
        }
        match self.root.canonicalize(path) {
            Ok(real) => Ok(Some(real.components().filter(|part| *part != Component::CurDir).collect())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.explain(given, source)),
        }
    }

    /// `path`, the end of which is missing, with the links of its beginning followed, and whether
    /// the missing part went up again.
    fn resolve_missing(&self, given: &str, path: &Path) -> Result<(PathBuf, bool), PathError> {
        let (mut resolved, mut missing) = (PathBuf::new(), path);
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if let Some(real) = self.folder(given, above)? {
                resolved = real;
                missing = path.strip_prefix(above).unwrap_or(path);
                break;
            }
        }
        let mut went_up = false;
        for component in missing.components() {
            match component {
                Component::ParentDir => {
                    went_up = true;
                    if !resolved.pop() {
                        return Err(PathError::Outside { path: given.to_string(), workspace: self.path.clone() });
                    }
                }
                Component::Normal(name) => resolved.push(name),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        Ok((resolved, went_up))
    }

    fn parent(&self, path: &Path, parents: Parents) -> io::Result<Dir> {
        if parents == Parents::Exist {
            return self.root.open_dir(path);
        }
        let mut above = self.root.try_clone()?;
        let mut prefix = PathBuf::new();
        for component in path.components() {
            prefix.push(component);
            above = match self.root.open_dir(&prefix) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match self.root.create_dir(&prefix) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                        _ => sync(&above)?,
                    }
                    self.root.open_dir(&prefix)?
                }
                opened => opened?,
            };
        }
        Ok(above)
    }

    /// The error of `given`, in words.
    pub(crate) fn explain(&self, given: &str, source: io::Error) -> PathError {
        let path = given.to_string();
        match source.kind() {
            // The handle refuses to lead out with an error that no system call gave.
            io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => {
                PathError::Outside { path, workspace: self.path.clone() }
            }
            io::ErrorKind::NotFound => PathError::Missing { path },
            io::ErrorKind::IsADirectory => PathError::Folder { path },
            _ => PathError::Io { path, source },
        }
    }

    /// The error of opening `given`, in words.
    pub(crate) fn name(&self, given: &str, error: OpenError) -> PathError {
        match error {
            OpenError::Folder => PathError::Folder { path: given.to_string() },
            OpenError::Special => PathError::Special { path: given.to_string() },
            OpenError::Io(source) => self.explain(given, source),
        }
    }
}

/// What to do about folders that are missing on the way to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parents {
    /// They have to be there.
    Exist,
    /// They are made.
    Make,
}

/// Why a regular file was not opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    Folder,
    Special,
    Io(io::Error),
}

/// Opens a regular file beneath `dir`. Without blocking: a named pipe would wait for a writer
/// for ever, and it is only known to be one once it is open.
pub(crate) fn open_regular(dir: &Dir, path: &Path, options: &mut OpenOptions) -> Result<(File, Metadata), OpenError> {
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = dir.open_with(path, options).map_err(OpenError::Io)?;
    let metadata = file.metadata().map_err(OpenError::Io)?;
    if metadata.is_dir() {
        return Err(OpenError::Folder);
    }
    if !metadata.is_file() {
        return Err(OpenError::Special);
    }
    Ok((file, metadata))
}

/// Makes the names in a folder durable.
pub(crate) fn sync(dir: &Dir) -> io::Result<()> {
    // The handle itself may be one for looking up only, which cannot be synced.
    dir.open(".")?.sync_all()
}
