//! Which files the ignore files of the workspace name.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::limits::IGNORE_FILE_BYTES_MAX;
use crate::workspace::open_regular;

/// The rules of the folders from the workspace down to where a walk is.
#[derive(Default)]
pub(super) struct Ignored(Vec<Level>);

/// The rules of one folder, for all that is below it.
struct Level {
    folder: PathBuf,
    /// Of `.ignore`, which goes before everything that is git's.
    ignore: Gitignore,
    /// Of `.gitignore`.
    git: Gitignore,
    /// Of `.git/info/exclude`, which comes last.
    exclude: Gitignore,
    /// Whether it is a git repository: the `.gitignore` files above it then say nothing.
    repository: bool,
}

impl Ignored {
    /// Adds the rules of the folder at `path`, in which there are `names`.
    pub(super) fn enter(&mut self, dir: &Dir, path: &Path, names: &[OsString]) {
        let has = |name: &str| names.iter().any(|there| there == name);
        let rules = |name: &str| if has(name) { load(dir, name) } else { Gitignore::empty() };
        let repository = has(".git");
        self.0.push(Level {
            folder: path.to_path_buf(),
            ignore: rules(".ignore"),
            git: rules(".gitignore"),
            exclude: if repository { load(dir, ".git/info/exclude") } else { Gitignore::empty() },
            repository,
        });
    }

    /// Takes back the rules of the folder entered last.
    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    /// Whether the file or folder at `path` is ignored. The nearest rule decides.
    pub(super) fn has(&self, path: &Path, is_dir: bool) -> bool {
        let decided = |levels: &[Level], rules: fn(&Level) -> &Gitignore| {
            levels.iter().rev().find_map(|level| {
                let below = path.strip_prefix(&level.folder).ok()?;
                match rules(level).matched(below, is_dir) {
                    Match::None => None,
                    Match::Ignore(_) => Some(true),
                    Match::Whitelist(_) => Some(false),
                }
            })
        };
        let repository = self.0.iter().rposition(|level| level.repository).unwrap_or(0);
        let git = &self.0[repository..];
        decided(&self.0, |level| &level.ignore)
            .or_else(|| decided(git, |level| &level.git))
            .or_else(|| decided(git, |level| &level.exclude))
            .unwrap_or(false)
    }
}

/// The rules of an ignore file. A line that is no pattern is passed over, as git does, and so
/// is a file that cannot be read.
fn load(dir: &Dir, name: &str) -> Gitignore {
    let Ok((file, _)) = open_regular(dir, Path::new(name), OpenOptions::new().read(true)) else {
        return Gitignore::empty();
    };
    let mut bytes = Vec::new();
    if file.take(IGNORE_FILE_BYTES_MAX).read_to_end(&mut bytes).is_err() {
        return Gitignore::empty();
    }
    // Paths are given relative to the folder, so the rules' own root is "here".
    let mut builder = GitignoreBuilder::new(".");
    for line in String::from_utf8_lossy(&bytes).lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
