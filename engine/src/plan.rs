//! What each call of a reply comes to: known tool, valid arguments, guards.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plica_kernel::decide::CallPlan;
use plica_kernel::limits::CALLS_MAX;
use plica_kernel::message::Block;
use plica_kernel::state::Task;
use plica_ports::{Definition, Effect, Guard, GuardView, Ruling};

use crate::govern::Rules;
use crate::host::Host;

/// The plan of every call of a reply, up to the 32nd.
pub(crate) fn plan_calls(
    host: &Host,
    definition: &Definition,
    rules: &Rules,
    task: &Task,
    blocks: &[Block],
) -> Vec<CallPlan> {
    let calls = blocks.iter().filter_map(|block| match block {
        Block::ToolUse { args, tool, .. } => Some((tool, args)),
        Block::Text { .. } | Block::Thinking { .. } => None,
    });
    calls.take(CALLS_MAX).map(|(tool, args)| plan_call(host, definition, rules, task, tool, args)).collect()
}

fn plan_call(host: &Host, definition: &Definition, rules: &Rules, task: &Task, name: &str, args: &str) -> CallPlan {
    let deny = |reason: String| CallPlan::Deny { reason, tool: name.to_owned() };
    let Some(tool) = host.tool_of(definition, name) else {
        return deny(format!("unknown tool {name:?}; the tools are: {}", definition.tools.join(", ")));
    };
    if let Err(reason) = tool.validate(args) {
        return deny(format!("invalid arguments for {name}: {reason}"));
    }
    let effect = tool.tool.declaration().effect;
    match rule(host, rules, task, name, effect, args) {
        Ruling::Allow { rule } => CallPlan::Start { args: args.to_owned(), rule, tool: name.to_owned() },
        Ruling::Deny { reason } => deny(format!("denied: {reason}")),
        Ruling::Ask { rule } => deny(format!(
            "denied: {} asks for a person's approval, and none can be given here",
            rule.map_or_else(|| "the permission mode".to_owned(), |rule| format!("rule {rule}"))
        )),
    }
}

/// Deny wins, then ask; a guard that panics denies (EN-3).
fn rule(host: &Host, rules: &Rules, task: &Task, tool: &str, effect: Effect, args: &str) -> Ruling {
    let view = GuardView { task, tool, effect: Some(effect), args, steers: false };
    let guards = host.guards.iter().map(|guard| &**guard).chain([rules as &dyn Guard]);
    let mut ruling = Ruling::Allow { rule: None };
    for guard in guards {
        let one = catch_unwind(AssertUnwindSafe(|| guard.rule(&view)))
            .unwrap_or_else(|_| Ruling::Deny { reason: format!("guard {} failed", guard.name()) });
        ruling = match (ruling, one) {
            (_, denied @ Ruling::Deny { .. }) => return denied,
            (asked @ Ruling::Ask { .. }, _) | (_, asked @ Ruling::Ask { .. }) => asked,
            (Ruling::Allow { rule: None }, allowed) => allowed,
            (allowed, _) => allowed,
        };
    }
    ruling
}
