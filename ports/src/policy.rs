use plica_kernel::event::TaskStatePatch;
use plica_kernel::message::Block;
use plica_kernel::state::Task;

/// What a policy sees: the reply and the task as it stands, read only (HO-4).
///
/// ```compile_fail,E0596
/// use plica_kernel::{canonical::Hash, envelope::Envelope};
///
/// fn record(view: &plica_ports::PolicyView<'_>, event: &Envelope, hash: Hash) {
///     let _ = view.task.apply(event, hash); // a shared reference
/// }
/// ```
#[derive(Debug)]
pub struct PolicyView<'a> {
    /// The task, before the reply is recorded.
    pub task: &'a Task,
    /// What the model said.
    pub reply: &'a [Block],
}

/// Looks at each reply and may change the task's own state by a typed patch (FO-3), recorded
/// directly after the decision. It returns values and can do nothing else (HO-4).
pub trait Policy: Send + Sync {
    /// The policy's name: its events' actor is `policy:<name>`.
    fn name(&self) -> &str;

    /// The policy's version, if it has one: it is then pinned to the tasks it looks at (RC-8).
    fn version(&self) -> Option<&str> {
        None
    }

    /// The change that this reply calls for, if any.
    fn patch(&self, view: &PolicyView<'_>) -> Option<TaskStatePatch> {
        let _ = view;
        None
    }
}
