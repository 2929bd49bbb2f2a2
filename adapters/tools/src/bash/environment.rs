//! What a command sees of the worker's environment.

use std::ffi::OsString;

use plica_ports::CallContext;

/// The variables of the worker that every command gets; those whose names start with `LC_` too.
const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "TZ", "TERM", "TMPDIR"];

/// The whole environment of a command, out of `worker`'s.
///
/// The names come from a list and not from a rule of what to leave out: a secret that nobody
/// thought of must not reach a command that a model wrote.
pub(super) fn environment(
    worker: impl Iterator<Item = (OsString, OsString)>,
    context: &CallContext,
) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            INHERITED.contains(&name) || name.starts_with("LC_") || context.env.iter().any(|named| named == name)
        })
    };
    let mut variables: Vec<_> = worker.filter(|(name, _)| passes(name)).collect();
    // Last, so that an agent's list of names cannot put others in their place.
    variables.push(("PLICA_TASK".into(), context.task.as_str().into()));
    variables.push(("PLICA_CALL".into(), context.call.to_string().into()));
    variables.push(("PLICA_IDEMPOTENCY_KEY".into(), context.idempotency_key.clone().into()));
    variables
}
