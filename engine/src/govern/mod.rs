//! The permission guard: an agent's rules, then its mode (EN-3).
//!
//! Rules look at the words of a call and at nothing else, so they are a fence against
//! mistakes and not a sandbox: a variable can hide a command's name, a link in the workspace
//! can give a file another path, and `Bash` can reach whatever the worker's user can. Where
//! a call cannot be told for sure, rules lean towards the person: `deny` and `ask` match what
//! may be meant, `allow` matches only what is plainly meant.

mod path;
mod rule;
mod shell;

#[cfg(test)]
mod tests;

use plica_ports::{Definition, Effect, Guard, GuardView, PermissionMode, Ruling};

use rule::{Call, Rule};
pub use rule::{RuleError, RuleProblem};

/// An agent's rules and mode.
///
/// * **EN-3** Rules come first in every mode: `deny`, then `ask`, then `allow`; what no rule
///   names follows the mode: `default` asks for mutations, `accept-edits` for those other
///   than Write and Edit, `bypass` for none, `plan` denies them. Reads and steering tools
///   never ask by mode.
///
/// A rule is `Tool`, `mcp__server__*`, `*`, or a tool with a pattern:
///
/// * `Bash(git status)` is that command; `Bash(git status:*)` every command that begins with
///   these words. A compound command (`;`, `&&`, `|`, `$(…)`, a redirection, …) is matched by
///   `deny` and `ask` if any part of it is, and by `allow` only if it is the rule's own text.
/// * `Read(…)`, `Write(…)` and `Edit(…)` match `file_path` from the workspace on, with `*`,
///   `?` and `**`; a pattern without a slash matches at any depth, as in a `.gitignore`.
#[derive(Debug, Clone)]
pub struct Rules {
    deny: Vec<Rule>,
    ask: Vec<Rule>,
    allow: Vec<Rule>,
    mode: PermissionMode,
}

impl Rules {
    /// The rules of an agent.
    ///
    /// # Errors
    /// [`RuleError`] for the first rule that cannot be read.
    pub fn of(definition: &Definition) -> Result<Self, RuleError> {
        let read = |list: &'static str, texts: &[String]| {
            texts.iter().map(|text| Rule::parse(list, text, &definition.workspace)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            deny: read("deny", &definition.deny)?,
            ask: read("ask", &definition.ask)?,
            allow: read("allow", &definition.allow)?,
            mode: definition.permission_mode,
        })
    }

    /// Every rule's text with the tool that it names; patterns of names (`mcp__server__*`,
    /// `*`) are left out. Lets whoever reads agent files refuse a rule that could never match.
    pub fn named_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        [&self.deny, &self.ask, &self.allow].into_iter().flatten().filter_map(Rule::named_tool)
    }

    /// Rules on a call. `effect` is `None` when there is no such tool, which is taken as the
    /// worst; `steers` says that the tool only steers the task itself.
    pub fn ruling(&self, tool: &str, effect: Option<Effect>, args: &str, steers: bool) -> Ruling {
        let call = Call::new(tool, args);
        if let Some(rule) = self.deny.iter().find(|rule| rule.may_mean(&call)) {
            return Ruling::Deny { reason: format!("denied by the rule `{}`", rule.text()) };
        }
        if let Some(rule) = self.ask.iter().find(|rule| rule.may_mean(&call)) {
            return Ruling::Ask { expires_after: None, rule: Some(rule.text().to_owned()) };
        }
        if let Some(rule) = self.allow.iter().find(|rule| rule.means(&call)) {
            return Ruling::Allow { rule: Some(rule.text().to_owned()) };
        }
        self.by_mode(tool, effect, steers)
    }

    fn by_mode(&self, tool: &str, effect: Option<Effect>, steers: bool) -> Ruling {
        let mutates = !steers && effect != Some(Effect::Read);
        let (name, asks) = match self.mode {
            PermissionMode::Default => ("mode:default", mutates),
            PermissionMode::AcceptEdits => ("mode:accept-edits", mutates && !matches!(tool, "Write" | "Edit")),
            PermissionMode::Bypass => ("mode:bypass", false),
            PermissionMode::Plan if mutates => {
                return Ruling::Deny {
                    reason: format!("permission mode `plan` allows no changes, and {tool} may make one"),
                };
            }
            PermissionMode::Plan => ("mode:plan", false),
        };
        let rule = Some(name.to_owned());
        if asks { Ruling::Ask { expires_after: None, rule } } else { Ruling::Allow { rule } }
    }
}

impl Guard for Rules {
    fn name(&self) -> &str {
        "rules"
    }

    fn rule(&self, view: &GuardView<'_>) -> Ruling {
        self.ruling(view.tool, view.effect, view.args, view.steers)
    }
}
