//! Moving a task to another definition: what is checked before it is recorded (EN-8).
//!
//! The workspace stays: files that tools read and changed are beneath it, and what the log says
//! of them would be about others. Tools stay that calls need which people have yet to rule on;
//! others may come and go, since none runs between two steps. The model, the rules and the instructions are in force from the next request on. The
//! caps of a root change with the definition, and what was spent or granted stays; a child
//! keeps its slice, and goes on to answer the call that spawned it.

use plica_kernel::body::ContentRef;
use plica_kernel::decide::Revision;
use plica_kernel::state::Task;
use plica_ports::{ContentStore, Definition};

use crate::govern::Rules;
use crate::setup::{SetupError, read_definition};

/// What moving from `now` to `next` would come to, or why it is refused.
pub(crate) fn check(task: &Task, now: &Definition, next: &Definition) -> Result<Revision, String> {
    if now.workspace != next.workspace {
        return Err(format!("the workspace stays {:?}, and the definition says {:?}", now.workspace, next.workspace));
    }
    if let Some(tool) = task.tools_to_start().find(|tool| !next.tools.iter().any(|listed| listed == tool)) {
        return Err(format!("a call that waits for a ruling needs the tool {tool}"));
    }
    Rules::of(next).map_err(|error| error.to_string())?;
    Ok(Revision { agent: next.name.clone(), budget: next.budget, interactive: next.interactive })
}

/// The same for definitions that stand in content.
///
/// # Errors
/// When content cannot be had now.
pub(crate) async fn check_content(
    content: &dyn ContentStore,
    task: &Task,
    now: Option<&Definition>,
    next: &ContentRef,
) -> Result<Result<Revision, String>, String> {
    let read = async {
        let next = read_definition(content, next).await?;
        for subagent in next.subagents.values() {
            read_definition(content, subagent).await?;
        }
        Ok(next)
    };
    match read.await {
        // A definition that cannot be used says of no workspace that it is to stay.
        Ok(next) => Ok(check(task, now.unwrap_or(&next), &next)),
        Err(SetupError::Unavailable(why)) => Err(why),
        Err(SetupError::Unusable(failure)) => Ok(Err(failure.detail.unwrap_or_else(|| failure.reason.to_string()))),
    }
}
