//! Just enough of the shell's grammar (POSIX.1-2024, "Shell Command Language", and Bash's
//! additions) to tell a simple command from a compound one.

/// Commands and reserved words that run what follows them.
const RUNNERS: &[&str] = &[
    "!", "bash", "builtin", "busybox", "chroot", "command", "coproc", "dash", "do", "doas", "elif", "else", "env",
    "eval", "exec", "find", "flock", "function", "if", "ionice", "ksh", "nice", "nohup", "parallel", "script",
    "setsid", "sh", "ssh", "stdbuf", "strace", "su", "sudo", "then", "time", "timeout", "trap", "unshare", "until",
    "watch", "while", "xargs", "zsh", "{",
];

/// Redirections that touch no file.
const HARMLESS: &[&str] = &[">&1", ">&2", ">/dev/null", "> /dev/null"];

/// A command line, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// The words of each simple command in it, quotes removed.
    parts: Vec<Vec<String>>,
    /// Whether it is one simple command that redirects nothing.
    is_simple: bool,
    /// Every run of characters that could be a word, when the grammar above cannot tell.
    unclear: Option<Vec<String>>,
}

impl Command {
    /// Takes a command line apart.
    pub(super) fn read(text: &str) -> Self {
        let text = text.trim_matches([' ', '\t', '\n']);
        let mut reader = Reader::new(text);
        let clear = reader.read();
        let unclear = (!clear).then(|| loose_words(text));
        Self { is_simple: clear && !reader.compound && reader.parts.len() <= 1, parts: reader.parts, unclear }
    }

    /// Its words, if it is one simple command that redirects nothing.
    pub(super) fn simple(&self) -> Option<&[String]> {
        self.is_simple.then(|| self.parts.first().map_or(&[][..], Vec::as_slice))
    }

    /// Whether some part of it may be a command of these words: with `exact` of no other
    /// ones, else one that begins with them.
    pub(super) fn may_hold(&self, words: &[String], exact: bool) -> bool {
        if words.is_empty() {
            return false;
        }
        if let Some(loose) = &self.unclear {
            return (0..loose.len()).any(|at| is_prefix_by_name(words, &loose[at..]));
        }
        self.parts.iter().any(|part| {
            let start = part.iter().take_while(|word| is_assignment(word)).count();
            let part = &part[start..];
            let fits = is_prefix_by_name(words, part) && (!exact || part.len() == words.len());
            fits || runs_others(part) && {
                // What the runner runs may begin at any word, and one word may hold it all.
                let loose = loose_words(&part[1..].join(" "));
                (0..loose.len()).any(|at| is_prefix_by_name(words, &loose[at..]))
            }
        })
    }
}

/// Whether `words` begins with all of `prefix`.
pub(super) fn is_prefix(prefix: &[String], words: &[String]) -> bool {
    words.starts_with(prefix)
}

/// The same, with `/bin/rm` as good as `rm`.
fn is_prefix_by_name(prefix: &[String], words: &[String]) -> bool {
    match (prefix, words) {
        ([first, prefix @ ..], [word, words @ ..]) => {
            (word == first || base_name(word) == first) && words.starts_with(prefix)
        }
        _ => false,
    }
}

fn base_name(word: &str) -> &str {
    word.rsplit_once('/').map_or(word, |(_, name)| name)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '[' | ']'))
    })
}

fn runs_others(part: &[String]) -> bool {
    part.first().is_some_and(|word| RUNNERS.contains(&base_name(word)))
}

/// All that could be a word, whatever the quotes and operators around it mean.
fn loose_words(text: &str) -> Vec<String> {
    let unquoted: String = text.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    unquoted
        .split(|c: char| {
            c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>' | '`' | '$' | '{' | '}' | ',')
        })
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Reads a command line once from left to right.
struct Reader<'a> {
    rest: &'a str,
    /// The word being read, if one has begun: an empty quoted text is a word too.
    word: Option<String>,
    part: Vec<String>,
    parts: Vec<Vec<String>>,
    compound: bool,
    /// Whether the next word is a redirection's file and none of the command's.
    target: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text, word: None, part: vec![], parts: vec![], compound: false, target: false }
    }

    /// Reads it all; false when the meaning of some of it is beyond this grammar.
    fn read(&mut self) -> bool {
        while let Some(c) = self.next() {
            let clear = match c {
                ' ' | '\t' => {
                    self.end_word();
                    true
                }
                ';' | '&' | '|' | '\n' | '(' | ')' => {
                    self.compound = true;
                    self.end_part();
                    true
                }
                '<' | '>' => self.redirection(c),
                '\'' => self.single_quoted(),
                '"' => self.double_quoted(),
                '\\' => self.escaped(),
                '`' => false,
                '$' => self.dollar(),
                // A comment runs to the end of its line and hides quotes from the shell.
                '#' if self.word.is_none() => false,
                // `{rm,-r,x}` is a command of three words.
                '{' if self.part.is_empty() && !self.rest.starts_with([' ', '\t', '\n']) => false,
                _ => {
                    self.push(c);
                    true
                }
            };
            if !clear {
                return false;
            }
        }
        self.end_part();
        true
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.target) {
            self.part.push(word);
        }
    }

    fn end_part(&mut self) {
        self.end_word();
        self.target = false;
        if !self.part.is_empty() {
            self.parts.push(std::mem::take(&mut self.part));
        }
    }

    fn redirection(&mut self, c: char) -> bool {
        // Here-documents and process substitutions hold text with rules of its own.
        if self.rest.starts_with('(') || c == '<' && self.rest.starts_with('<') {
            return false;
        }
        // The number right before it names a descriptor and is no word.
        if self.word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        let ends = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '|', '&', ')']);
        let harmless = HARMLESS
            .iter()
            .filter(|_| c == '>')
            .find_map(|form| self.rest.strip_prefix(&form[1..]).filter(|rest| ends(rest)));
        match harmless {
            Some(rest) => self.rest = rest,
            None => {
                self.compound = true;
                // `>>`, `>|`, `<&` and the like: the rest of the operator.
                self.rest = self.rest.trim_start_matches(['>', '|', '&', '<']);
                self.target = true;
            }
        }
        true
    }

    fn single_quoted(&mut self) -> bool {
        let Some((quoted, rest)) = self.rest.split_once('\'') else { return false };
        self.word.get_or_insert_default().push_str(quoted);
        self.rest = rest;
        true
    }

    fn double_quoted(&mut self) -> bool {
        self.word.get_or_insert_default();
        while let Some(c) = self.next() {
            match c {
                '"' => return true,
                '`' => return false,
                '$' if !self.dollar() => return false,
                '$' => {}
                '\\' => match self.next() {
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                    None => return false,
                },
                _ => self.push(c),
            }
        }
        false
    }

    fn escaped(&mut self) -> bool {
        match self.next() {
            Some('\n') => true,
            Some(c) => {
                self.push(c);
                true
            }
            None => false,
        }
    }

    /// A plain variable is a word like any other; what computes a value, or quotes in another
    /// way, is beyond this grammar.
    fn dollar(&mut self) -> bool {
        self.push('$');
        !self.rest.starts_with(['(', '{', '[', '\'', '"'])
    }
}
