//! Paths of files and patterns for them, without looking at any file.

/// Bytes of a path that a system can open (Linux `PATH_MAX`); a longer one is no file's, and is
/// not worth the time that matching it would take.
const PATH_BYTES_MAX: usize = 4096;

/// A path as its components, `.` and empty ones gone and `..` taken up where it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lexical {
    absolute: bool,
    components: Vec<String>,
}

/// Takes a path apart. A `..` that leads above a relative path's start stays in front.
pub(super) fn normalise(path: &str) -> Lexical {
    let absolute = path.starts_with('/');
    let mut components: Vec<String> = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." if components.last().is_some_and(|last| last != "..") => {
                components.pop();
            }
            // Above the root is the root.
            ".." if absolute => {}
            _ => components.push(component.to_owned()),
        }
    }
    Lexical { absolute, components }
}

/// A pattern for files in the workspace, in the manner of a `.gitignore` line.
#[derive(Debug, Clone)]
pub(super) struct FilePattern {
    /// Components; `**` stands for any number of them.
    components: Vec<String>,
    workspace: Lexical,
}

impl FilePattern {
    /// Reads a pattern; `None` when it holds what means nothing here. A leading slash, or the
    /// workspace's own path, ties it to the workspace's top, as a slash inside does; a slash
    /// at the end means everything beneath.
    pub(super) fn parse(pattern: &str, workspace: &Lexical) -> Option<Self> {
        if pattern.contains(['[', ']', '{', '}', '\\']) || pattern.starts_with('!') {
            return None;
        }
        let mut components = normalise(pattern).components;
        if pattern.split('/').any(|component| component == "..") || components.is_empty() {
            return None;
        }
        if pattern.starts_with('/') && !workspace.components.is_empty() && components.starts_with(&workspace.components)
        {
            components.drain(..workspace.components.len());
        }
        if !pattern.trim_start_matches("./").trim_end_matches('/').contains('/') {
            components.insert(0, "**".to_owned());
        }
        if pattern.ends_with('/') || components.is_empty() {
            components.push("**".to_owned());
        }
        Some(Self { components, workspace: workspace.clone() })
    }

    /// Whether `path` itself matches and lies in the workspace.
    pub(super) fn means(&self, path: &str) -> bool {
        if path.len() > PATH_BYTES_MAX {
            return false;
        }
        let (inside, components) = self.within_workspace(path);
        inside && self.matches(&components)
    }

    /// Whether `path` or a folder above it matches, be it in the workspace or not.
    pub(super) fn may_mean(&self, path: &str) -> bool {
        if path.len() > PATH_BYTES_MAX {
            return true;
        }
        let (_, components) = self.within_workspace(path);
        (0..=components.len()).rev().any(|length| self.matches(&components[..length]))
    }

    fn matches(&self, components: &[String]) -> bool {
        // What `dir/**` is about lies beneath the folder.
        !components.is_empty()
            && wild(
                &self.components,
                components,
                |pattern| pattern == "**",
                |pattern, component| {
                    let (pattern, component): (Vec<char>, Vec<char>) =
                        (pattern.chars().collect(), component.chars().collect());
                    wild(&pattern, &component, |c| *c == '*', |pattern, c| *pattern == '?' || pattern == c)
                },
            )
    }

    /// The components from the workspace on, and whether the path lies in it.
    fn within_workspace(&self, path: &str) -> (bool, Vec<String>) {
        let Lexical { absolute, components } = normalise(path);
        if !absolute {
            if components.first().is_none_or(|first| first != "..") {
                return (true, components);
            }
            // It may well come back in by the workspace's own name.
            let whole = self.workspace.components.iter().chain(&components).map(String::as_str);
            let whole = format!("/{}", whole.collect::<Vec<_>>().join("/"));
            return self.strip_workspace(normalise(&whole).components);
        }
        self.strip_workspace(components)
    }

    fn strip_workspace(&self, components: Vec<String>) -> (bool, Vec<String>) {
        match components.strip_prefix(self.workspace.components.as_slice()) {
            Some(rest) if self.workspace.absolute => (true, rest.to_vec()),
            _ => (false, components),
        }
    }
}

/// Whether `text` matches `pattern`, in which what `is_star` stands for any number of items
/// and anything else for one item that it `fits`. Goes back to the last star only, which is
/// enough, so the time is at most the product of the lengths (Kirk Krauss, "Matching
/// Wildcards: An Algorithm", 2008).
fn wild<P, T>(pattern: &[P], text: &[T], is_star: impl Fn(&P) -> bool, fits: impl Fn(&P, &T) -> bool) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while here < text.len() {
        match pattern.get(at) {
            Some(item) if is_star(item) => {
                star = Some((at, here));
                at += 1;
            }
            Some(item) if fits(item, &text[here]) => {
                at += 1;
                here += 1;
            }
            _ => match star {
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    at = after + 1;
                    here = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(is_star)
}
