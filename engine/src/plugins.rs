//! Plugins: what of them is in force on this worker, and what is left to another that has what
//! this one lacks (RC-8).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use plica_kernel::canonical::{Hash, content_hash};
use plica_kernel::event::{Failure, FailureReason, PluginKind, PluginPin};
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::limits::PLUGIN_CLAIMS_MAX;
use plica_kernel::state::Task;
use plica_ports::{Definition, Effect, ToolDeclaration};

use crate::host::Host;
use crate::steering::is_steering;

/// Where a plugin of the host's own comes from, as pins name it.
const HOST: &str = "host";

/// The plugins that a worker on `host` has for a task of this definition: the tools it lists,
/// and the host's policy, guards and observers that say a version.
pub(crate) fn in_force(host: &Host, definition: &Definition) -> Vec<PluginPin> {
    let tools = definition.tools.iter().filter(|name| !is_steering(name));
    let tools = tools.filter_map(|name| host.tool_of(definition, name)).map(|tool| {
        let declaration = tool.tool.declaration();
        pin(PluginKind::Tool, &declaration.name, tool.tool.source(), &declaration.version, Some(hash_of(declaration)))
    });
    let own = |kind, name: &str, version: Option<&str>| Some(pin(kind, name, HOST, version?, None));
    let policy = host.policy.iter().filter_map(|policy| own(PluginKind::Policy, policy.name(), policy.version()));
    let guards = host.guards.iter().filter_map(|guard| own(PluginKind::Guard, guard.name(), guard.version()));
    let progress = host.observers.iter().filter_map(|observer| observer.progress());
    let observers = progress.filter_map(|progress| own(PluginKind::Observer, progress.plugin(), progress.version()));
    tools.chain(policy).chain(guards).chain(observers).collect()
}

fn pin(kind: PluginKind, name: &str, source: &str, version: &str, parameters: Option<Hash>) -> PluginPin {
    PluginPin { kind, name: cut(name), parameters, source: cut(source), version: cut(version) }
}

/// Names and versions are short words; a host that chose others still gets pins that fit.
fn cut(text: &str) -> String {
    text.chars().take(WORD_CHARS_MAX).collect()
}

const WORD_CHARS_MAX: usize = 128;

/// A hash of what a tool declares: another one means that calls may mean something else.
fn hash_of(declaration: &ToolDeclaration) -> Hash {
    let effect = match declaration.effect {
        Effect::Read => "read",
        Effect::Idempotent => "idempotent",
        Effect::Mutation => "mutation",
    };
    let retry_safe = if declaration.retry_safe { "retry-safe" } else { "once" };
    let parts = [declaration.description.as_str(), &declaration.schema, effect, retry_safe];
    // Lengths keep two declarations apart that differ only in where a part ends.
    let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    content_hash(text.as_bytes())
}

/// The plugins in force in a task that this worker has not, by name.
pub(crate) fn lacking(task: &Task, has: &[PluginPin]) -> Vec<String> {
    let pinned = task.governance().pins.iter();
    pinned.filter(|pin| !has.iter().any(|mine| mine.is_same_plugin(pin))).map(described).collect()
}

fn described(pin: &PluginPin) -> String {
    let kind = match pin.kind {
        PluginKind::Tool => "tool",
        PluginKind::Policy => "policy",
        PluginKind::Guard => "guard",
        PluginKind::Observer => "observer",
    };
    format!("{kind} {} {} of {}", pin.name, pin.version, pin.source)
}

/// Whether a tool is on this worker as it is in force in the task: a call that was begun with
/// another version is neither looked up nor run again with this one.
pub(crate) fn is_in_force(task: &Task, has: &[PluginPin], tool: &str) -> bool {
    let of = |pins: &[PluginPin]| pins.iter().find(|pin| pin.kind == PluginKind::Tool && pin.name == tool).cloned();
    of(&task.governance().pins).is_none_or(|pinned| of(has) == Some(pinned))
}

/// How a task fails whose plugins no worker has.
pub(crate) fn missing(lacking: &[String]) -> Failure {
    let detail = format!("no worker that took the task has {}", lacking.join(", "));
    Failure { detail: Some(detail), reason: FailureReason::PluginMissing }
}

/// Claims of this worker, in a row, of tasks that need what it has not.
#[derive(Debug, Default)]
pub(crate) struct Lacks(Mutex<BTreeMap<TaskId, (Seq, u32)>>);

impl Lacks {
    /// Notes one more such claim; whether it is one too many with the log unchanged.
    pub(crate) fn is_one_too_many(&self, task: &Task) -> bool {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let head = task.head().seq;
        let (seen, count) = claims.entry(task.id().clone()).or_insert((head, 0));
        if *seen != head {
            (*seen, *count) = (head, 0);
        }
        *count += 1;
        let over = *count >= PLUGIN_CLAIMS_MAX;
        if over {
            claims.remove(task.id());
        }
        over
    }
}
