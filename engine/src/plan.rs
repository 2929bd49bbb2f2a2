//! What each call of a reply comes to: known tool, valid arguments, guards.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use plica_kernel::canonical::string_len;
use plica_kernel::decide::{Aside, CallPlan, Foreseen};
use plica_kernel::limits::{CALLS_MAX, EVENT_KINDS_BYTES_MAX, WAKE_ALTERNATIVES_MAX};
use plica_kernel::message::Block;
use plica_kernel::state::Task;
use plica_ports::{Definition, Effect, Guard, GuardView, Ruling};

use crate::act::millis;
use crate::aside::aside;
use crate::govern::Rules;
use crate::host::Host;
use crate::setup::Setup;
use crate::steering::{self, SPAWNING_TOOL, is_steering};

/// The plan of every call of a reply, up to the 32nd, and what guards return beside it.
pub(crate) fn plan_calls(host: &Host, setup: &Setup, task: &Task, blocks: &[Block]) -> (Vec<CallPlan>, Aside) {
    let (Some(definition), Some(rules)) = (setup.definition(), setup.rules()) else { return Default::default() };
    let mut planner = Planner { host, setup, definition, rules, task, aside: Aside::default() };
    let mut earlier = Earlier::default();
    let calls = blocks.iter().filter_map(|block| match block {
        Block::ToolUse { args, tool, .. } => Some((tool, args)),
        Block::Text { .. } | Block::Thinking { .. } => None,
    });
    let plans = calls.take(CALLS_MAX).map(|(tool, args)| planner.plan(tool, args, &mut earlier)).collect();
    (plans, planner.aside)
}

struct Planner<'a> {
    host: &'a Host,
    setup: &'a Setup,
    definition: &'a Definition,
    rules: &'a Rules,
    task: &'a Task,
    /// What guards returned beside their rulings so far.
    aside: Aside,
}

impl Planner<'_> {
    /// `earlier` is what calls of the reply that come before this one take up.
    fn plan(&mut self, name: &str, args: &str, earlier: &mut Earlier) -> CallPlan {
        let deny = |reason: String| CallPlan::Deny { reason, tool: name.to_owned() };
        let listed = self.definition.tools.iter().any(|listed| listed == name);
        if listed && is_steering(name) {
            return match self.rule(name, None, args, true) {
                Ruling::Deny { reason } => deny(format!("denied: {reason}")),
                // A spawn may be asked about; what only steers the task itself changes nothing outside.
                Ruling::Ask { expires_after, rule } if name == SPAWNING_TOOL => {
                    match steering::plan(self.setup, self.task, (name, args), earlier.spawned) {
                        Ok(_) => CallPlan::Ask {
                            args: args.to_owned(),
                            expires_ms: expires_after.map(millis),
                            rule,
                            tool: name.to_owned(),
                        },
                        Err(reason) => deny(format!("invalid arguments for {name}: {reason}")),
                    }
                }
                Ruling::Allow { .. } | Ruling::Ask { .. } => {
                    match steering::plan(self.setup, self.task, (name, args), earlier.spawned) {
                        Ok(CallPlan::Wait { event: Some(kind), .. }) if !earlier.admits_wait(&kind) => {
                            deny("too many waits in one reply".into())
                        }
                        Ok(plan) => {
                            earlier.spawned += u64::from(matches!(plan, CallPlan::Spawn(_)));
                            plan
                        }
                        Err(reason) => deny(format!("invalid arguments for {name}: {reason}")),
                    }
                }
            };
        }
        let Some(tool) = self.host.tool_of(self.definition, name) else {
            return deny(format!("unknown tool {name:?}; the tools are: {}", self.definition.tools.join(", ")));
        };
        if let Err(reason) = tool.validator.validate(args) {
            return deny(format!("invalid arguments for {name}: {reason}"));
        }
        let (args, tool_name) = (args.to_owned(), name.to_owned());
        match self.rule(name, Some(tool.tool.declaration().effect), &args, false) {
            Ruling::Allow { rule } => CallPlan::Start { args, foreseen: Foreseen::default(), rule, tool: tool_name },
            Ruling::Deny { reason } => deny(format!("denied: {reason}")),
            Ruling::Ask { expires_after, rule } => {
                CallPlan::Ask { args, expires_ms: expires_after.map(millis), rule, tool: tool_name }
            }
        }
    }

    /// Deny wins, then ask; a guard that panics denies (EN-3).
    fn rule(&mut self, tool: &str, effect: Option<Effect>, args: &str, steers: bool) -> Ruling {
        let view = GuardView { task: self.task, tool, effect, args, steers };
        let guards = self.host.guards.iter().map(|guard| &**guard).chain([self.rules as &dyn Guard]);
        let mut ruling = Ruling::Allow { rule: None };
        for guard in guards {
            let one = catch_unwind(AssertUnwindSafe(|| guard.rule(&view)))
                .unwrap_or_else(|_| Ruling::Deny { reason: format!("guard {} failed", guard.name()) });
            let (records, outgoing) = catch_unwind(AssertUnwindSafe(|| guard.aside(&view, &one))).unwrap_or_default();
            let aside = aside(&format!("plugin:{}", guard.name()), self.task.id(), records, outgoing);
            self.aside.records.extend(aside.records);
            self.aside.sent.extend(aside.sent);
            ruling = match (ruling, one) {
                (_, denied @ Ruling::Deny { .. }) => return denied,
                (asked @ Ruling::Ask { .. }, _) | (_, asked @ Ruling::Ask { .. }) => asked,
                (Ruling::Allow { rule: None }, allowed) => allowed,
                (allowed, _) => allowed,
            };
        }
        ruling
    }
}

/// Alternatives of a wake that are left for events: one is for answers, one for children.
const EVENT_WAITS_MAX: usize = WAKE_ALTERNATIVES_MAX - 2;

/// What calls of one reply take up together.
#[derive(Default)]
struct Earlier {
    /// Kinds of events that they wait for.
    kinds: BTreeSet<String>,
    /// Bytes of those kinds.
    bytes: usize,
    /// Children that they spawn.
    spawned: u64,
}

impl Earlier {
    /// Whether one more wait for `kind` fits. One that would need an alternative too many is
    /// answered so (section 11 of the design), and so is one whose kind does not fit into the
    /// decision beside the others, since every call names its own.
    fn admits_wait(&mut self, kind: &str) -> bool {
        let bytes = self.bytes + string_len(kind);
        if bytes > EVENT_KINDS_BYTES_MAX || (!self.kinds.contains(kind) && self.kinds.len() >= EVENT_WAITS_MAX) {
            return false;
        }
        self.bytes = bytes;
        self.kinds.insert(kind.to_owned());
        true
    }
}
