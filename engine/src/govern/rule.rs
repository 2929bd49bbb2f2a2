//! One rule: its text, what it matches.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};

use super::path::{FilePattern, normalise};
use super::shell::{Command, is_prefix};

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{list} rule `{rule}` cannot be read: {problem}")]
pub struct RuleError {
    /// The list it stands in: `deny`, `ask` or `allow`.
    pub list: &'static str,
    /// The rule.
    pub rule: String,
    /// What is wrong with it.
    pub problem: RuleProblem,
}

/// What is wrong with a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    /// There is no tool's name, or one with characters that no name has.
    #[error("it has to begin with a tool's name of letters, digits, `_` and `-`, like `Bash` or `mcp__server__*`")]
    Name,
    /// A parenthesis is missing, or something follows it.
    #[error("a pattern stands between `(` and a `)` at the end, like `Bash(git status:*)`")]
    Parentheses,
    /// There is nothing between the parentheses.
    #[error("its pattern is empty; for every call of the tool write the name alone")]
    EmptyPattern,
    /// The tool's arguments cannot be matched.
    #[error("only Bash, Read, Write and Edit take a pattern; write the tool's name alone")]
    NoArguments,
    /// A `*` in a command that is not its end.
    #[error("in a command `*` is a wildcard at the end only, as in `git status:*`")]
    CommandWildcard,
    /// Words to begin with that are no simple command.
    #[error("the words before `:*` have to be one simple command without operators or quotes")]
    CompoundPrefix,
    /// Characters in a path pattern that mean something elsewhere and nothing here.
    #[error("in a path `*`, `**` and `?` are the only wildcards; `[`, `{{`, `\\`, `!` and `..` mean nothing here")]
    PathPattern,
}

/// A rule.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    text: String,
    tool: ToolPattern,
    args: ArgsPattern,
}

#[derive(Debug, Clone)]
enum ToolPattern {
    Named(String),
    /// Names that begin so; every name when it is empty.
    Begins(String),
}

#[derive(Debug, Clone)]
enum ArgsPattern {
    Any,
    Command(String),
    CommandBegins(Vec<String>),
    File(FilePattern),
}

impl Rule {
    /// Reads a rule of `list`. `workspace` is what absolute paths are taken relative to.
    pub(super) fn parse(list: &'static str, text: &str, workspace: &str) -> Result<Self, RuleError> {
        let fail = |problem| RuleError { list, rule: text.to_owned(), problem };
        let (name, pattern) = match text.split_once('(') {
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(|| fail(RuleProblem::Parentheses))?)),
            None => (text, None),
        };
        let tool = tool_pattern(name).map_err(fail)?;
        let args = match pattern {
            None => ArgsPattern::Any,
            Some(pattern) if pattern.trim().is_empty() => return Err(fail(RuleProblem::EmptyPattern)),
            Some(pattern) => args_pattern(name, pattern.trim(), workspace).map_err(fail)?,
        };
        Ok(Self { text: text.to_owned(), tool, args })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The rule's text and the one tool that it names.
    pub(super) fn named_tool(&self) -> Option<(&str, &str)> {
        match &self.tool {
            ToolPattern::Named(tool) => Some((&self.text, tool)),
            ToolPattern::Begins(_) => None,
        }
    }

    /// Whether the rule plainly means the call: what lets it run.
    pub(super) fn means(&self, call: &Call<'_>) -> bool {
        if !self.is_for(call.tool) {
            return false;
        }
        match (&self.args, call.one()) {
            (ArgsPattern::Any, _) => true,
            (_, None) => false,
            (ArgsPattern::Command(exact), Some(text)) => {
                let words = exact_words(exact);
                text.trim() == exact
                    || !words.is_empty() && Command::read(text).simple().is_some_and(|simple| simple == words)
            }
            (ArgsPattern::CommandBegins(prefix), Some(text)) => {
                Command::read(text).simple().is_some_and(|words| is_prefix(prefix, words))
            }
            (ArgsPattern::File(pattern), Some(path)) => pattern.means(path),
        }
    }

    /// Whether the call may be what the rule means: what keeps it from running unasked.
    pub(super) fn may_mean(&self, call: &Call<'_>) -> bool {
        if !self.is_for(call.tool) {
            return false;
        }
        let Some(values) = &call.values else {
            // Whoever reads these arguments otherwise than this guard must not get past it.
            return true;
        };
        match &self.args {
            ArgsPattern::Any => true,
            ArgsPattern::Command(exact) => values
                .iter()
                .any(|text| text.trim() == exact || Command::read(text).may_hold(&exact_words(exact), true)),
            ArgsPattern::CommandBegins(prefix) => values.iter().any(|text| Command::read(text).may_hold(prefix, false)),
            ArgsPattern::File(pattern) => values.iter().any(|path| pattern.may_mean(path)),
        }
    }

    fn is_for(&self, tool: &str) -> bool {
        match &self.tool {
            ToolPattern::Named(name) => name == tool,
            ToolPattern::Begins(start) => tool.starts_with(start),
        }
    }
}

fn tool_pattern(tool: &str) -> Result<ToolPattern, RuleProblem> {
    let (name, begins) = match tool.strip_suffix('*') {
        Some(start) => (start, true),
        None => (tool, false),
    };
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    match begins {
        _ if !is_name(name) => Err(RuleProblem::Name),
        true => Ok(ToolPattern::Begins(name.to_owned())),
        false if name.is_empty() => Err(RuleProblem::Name),
        false => Ok(ToolPattern::Named(name.to_owned())),
    }
}

fn args_pattern(tool: &str, pattern: &str, workspace: &str) -> Result<ArgsPattern, RuleProblem> {
    match tool {
        _ if argument_of(tool).is_none() => Err(RuleProblem::NoArguments),
        _ if pattern == "*" => Ok(ArgsPattern::Any),
        "Bash" => command_pattern(pattern),
        _ => FilePattern::parse(pattern, &normalise(workspace)).map(ArgsPattern::File).ok_or(RuleProblem::PathPattern),
    }
}

fn command_pattern(pattern: &str) -> Result<ArgsPattern, RuleProblem> {
    let Some(prefix) = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *")) else {
        if pattern.contains('*') {
            return Err(RuleProblem::CommandWildcard);
        }
        return Ok(ArgsPattern::Command(pattern.to_owned()));
    };
    if prefix.contains('*') {
        return Err(RuleProblem::CommandWildcard);
    }
    if prefix.contains(['\'', '"', '\\']) {
        return Err(RuleProblem::CompoundPrefix);
    }
    match Command::read(prefix).simple() {
        None => Err(RuleProblem::CompoundPrefix),
        Some([]) => Err(RuleProblem::EmptyPattern),
        Some(words) => Ok(ArgsPattern::CommandBegins(words.to_vec())),
    }
}

/// The words of a rule's exact command; none if it is compound, which only its own text is.
fn exact_words(exact: &str) -> Vec<String> {
    Command::read(exact).simple().map(<[String]>::to_vec).unwrap_or_default()
}

/// The argument that a tool's patterns are about.
fn argument_of(tool: &str) -> Option<&'static str> {
    match tool {
        "Bash" => Some("command"),
        "Read" | "Write" | "Edit" => Some("file_path"),
        _ => None,
    }
}

/// A call as rules look at it.
#[derive(Debug)]
pub(super) struct Call<'a> {
    tool: &'a str,
    /// Every value of the argument that patterns are about: more than one when the model
    /// wrote the name twice. `None` when that cannot be told.
    values: Option<Vec<String>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(tool: &'a str, args: &str) -> Self {
        let values = match argument_of(tool) {
            None => Some(vec![]),
            Some(name) => texts_named(name, args),
        };
        Self { tool, values }
    }

    /// The argument, if it stands there once.
    fn one(&self) -> Option<&str> {
        match self.values.as_deref() {
            Some([value]) => Some(value),
            _ => None,
        }
    }
}

/// All texts that stand in the JSON object `args` under `name`; `None` when `args` is no
/// object or holds something else than a text there.
fn texts_named(name: &str, args: &str) -> Option<Vec<String>> {
    struct Named<'n>(&'n str);
    impl<'de> Visitor<'de> for Named<'_> {
        type Value = Option<Vec<String>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = Some(vec![]);
            while let Some((key, value)) = map.next_entry::<String, serde_json::Value>()? {
                if key == self.0 {
                    values = match (values, value) {
                        (Some(mut values), serde_json::Value::String(text)) => {
                            values.push(text);
                            Some(values)
                        }
                        _ => None,
                    };
                }
            }
            Ok(values)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(args);
    let values = reader.deserialize_map(Named(name)).ok()?;
    reader.end().ok()?;
    values
}
