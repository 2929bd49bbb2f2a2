//! The files of the workspace in a fixed order, without those that its ignore files name.
//!
//! The rules are ripgrep's defaults: `.gitignore` and `.ignore` files count, inside a git
//! repository or not, hidden files are left out unless a pattern names them, and no link is
//! followed. Ripgrep's own walker is not used since it opens folders by path, so one that is
//! swapped for a link under way would lead it out of the workspace (TO-5); and it looks at
//! settings outside of it, so two workers would see different files.

mod ignored;

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use crate::blocking::Cancel;
use crate::fault::Fault;
use crate::limits::WALK_DEPTH_MAX;
use crate::workspace::{PathError, Workspace};
use ignored::Ignored;

/// The version control systems' own folders, which hold no work of anybody.
const VCS_FOLDERS: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// A walk through a folder of the workspace and all below.
pub(crate) struct Walk<'a> {
    workspace: &'a Workspace,
    cancel: &'a Cancel,
    hidden: bool,
    ignored: Ignored,
    skipped: Skipped,
}

/// What a walk could not look at.
#[derive(Debug, Default)]
struct Skipped {
    unreadable: u64,
    too_deep: u64,
}

/// A file on a walk's way.
pub(crate) struct Found<'a> {
    /// The folder it is in, open.
    pub(crate) dir: &'a Dir,
    /// Its name there.
    pub(crate) name: &'a OsStr,
    /// Its path in the workspace.
    pub(crate) path: &'a Path,
}

/// Whether a pattern names hidden files, as `.github/**` does.
pub(crate) fn names_hidden(pattern: &str) -> bool {
    pattern.split(['/', '{', ',']).any(|part| part.starts_with('.') && part != "." && part != "..")
}

impl<'a> Walk<'a> {
    /// A walk that shows hidden files if `hidden` says so.
    pub(crate) fn new(workspace: &'a Workspace, cancel: &'a Cancel, hidden: bool) -> Self {
        Self { workspace, cancel, hidden, ignored: Ignored::default(), skipped: Skipped::default() }
    }

    /// Shows `visit` every regular file in the folder `start`, a path in the workspace whose
    /// links were followed, until it breaks.
    pub(crate) fn run(
        &mut self,
        start: &Path,
        visit: &mut dyn FnMut(&Found<'_>) -> ControlFlow<()>,
    ) -> Result<(), Fault> {
        let explain = |source| -> PathError { self.workspace.explain(&start.to_string_lossy(), source) };
        let root = self.workspace.root();
        let mut above = PathBuf::new();
        if start != Path::new(".") {
            // The folders above have their say too.
            for component in start.components() {
                let dir = if above.as_os_str().is_empty() { root.try_clone() } else { root.open_dir(&above) };
                let dir = dir.map_err(explain)?;
                self.ignored.enter(&dir, &above, &names(&dir).map_err(explain)?);
                above.push(component);
            }
        }
        let dir = if above.as_os_str().is_empty() { root.try_clone() } else { root.open_dir(&above) };
        let _ = self.folder(&dir.map_err(explain)?, &above, 0, visit)?;
        Ok(())
    }

    /// Sentences about what could not be looked at.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.skipped.unreadable > 0 {
            notes.push(format!("{} files or folders could not be read", self.skipped.unreadable));
        }
        if self.skipped.too_deep > 0 {
            notes.push(format!(
                "{} folders lie more than {WALK_DEPTH_MAX} deep and were not searched",
                self.skipped.too_deep
            ));
        }
        notes
    }

    /// Counts files that could not be read.
    pub(crate) fn unreadable(&mut self, files: u64) {
        self.skipped.unreadable += files;
    }

    fn folder(
        &mut self,
        dir: &Dir,
        path: &Path,
        depth: usize,
        visit: &mut dyn FnMut(&Found<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Fault> {
        self.cancel.check()?;
        let Ok(names) = names(dir) else {
            self.skipped.unreadable += 1;
            return Ok(ControlFlow::Continue(()));
        };
        self.ignored.enter(dir, path, &names);
        for name in &names {
            if self.entry(dir, &path.join(name), name, depth, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.ignored.leave();
        Ok(ControlFlow::Continue(()))
    }

    fn entry(
        &mut self,
        dir: &Dir,
        path: &Path,
        name: &OsStr,
        depth: usize,
        visit: &mut dyn FnMut(&Found<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Fault> {
        let go_on = Ok(ControlFlow::Continue(()));
        if VCS_FOLDERS.iter().any(|folder| name == *folder) {
            return go_on;
        }
        if !self.hidden && name.as_encoded_bytes().starts_with(b".") {
            return go_on;
        }
        let Ok(metadata) = dir.symlink_metadata(name) else {
            self.skipped.unreadable += 1;
            return go_on;
        };
        if !metadata.is_dir() && !metadata.is_file() || self.ignored.has(path, metadata.is_dir()) {
            return go_on;
        }
        if metadata.is_file() {
            return Ok(visit(&Found { dir, name, path }));
        }
        if depth >= WALK_DEPTH_MAX {
            self.skipped.too_deep += 1;
            return go_on;
        }
        match dir.open_dir(name) {
            Ok(below) => self.folder(&below, path, depth + 1, visit),
            Err(_) => {
                self.skipped.unreadable += 1;
                go_on
            }
        }
    }
}

/// The names in a folder, sorted by their bytes.
fn names(dir: &Dir) -> std::io::Result<Vec<OsString>> {
    let mut names = dir.entries()?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_hidden_files_by_a_part_that_starts_with_a_dot() {
        for (pattern, hidden) in [
            (".github/**", true),
            ("**/.env", true),
            ("{.a,b}", true),
            ("{a,.b}", true),
            ("*.rs", false),
            ("./src/*.rs", false),
            ("a.b/c.d", false),
        ] {
            assert_eq!(names_hidden(pattern), hidden, "{pattern}");
        }
    }
}
