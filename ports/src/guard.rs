use plica_kernel::state::Task;

/// What a guard rules. Of several guards deny wins, then ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// It may run.
    Allow {
        /// The rule that says so, if one was named.
        rule: Option<String>,
    },
    /// It may not run; the model is told why.
    Deny {
        /// Why.
        reason: String,
    },
    /// A person decides.
    Ask {
        /// How long the approval can be granted; for ever unless set.
        expires_after: Option<std::time::Duration>,
        /// The rule that says so, if one was named.
        rule: Option<String>,
    },
}

/// What a guard sees: the call, and the task as it stands, read only (HO-4). There is no claim
/// in it to append with, and the state cannot take an event through it:
///
/// ```compile_fail,E0609
/// fn append(view: &plica_ports::GuardView<'_>) -> plica_ports::store::Claim {
///     view.claim.clone() // no such member: only the commit path holds a claim
/// }
/// ```
///
/// ```compile_fail,E0596
/// use plica_kernel::{canonical::Hash, envelope::Envelope};
///
/// fn record(view: &plica_ports::GuardView<'_>, event: &Envelope, hash: Hash) {
///     let _ = view.task.apply(event, hash); // a shared reference
/// }
/// ```
#[derive(Debug)]
pub struct GuardView<'a> {
    /// The task.
    pub task: &'a Task,
    /// The tool.
    pub tool: &'a str,
    /// What the tool does to the world, if there is such a tool.
    pub effect: Option<crate::Effect>,
    /// The arguments, as JSON text.
    pub args: &'a str,
    /// Whether the tool steers the task itself (`AskUser`, `Wait`, `Task`, `TodoWrite`).
    pub steers: bool,
}

/// Rules on calls before they run (EN-3). A guard returns a value and can do nothing else:
/// it gets views and holds no claim (HO-4).
pub trait Guard: Send + Sync {
    /// The guard's name, as reasons and records name it.
    fn name(&self) -> &str;

    /// The guard's version, if it has one: it is then pinned to the tasks it rules on, which no
    /// worker without it goes on with (RC-8).
    fn version(&self) -> Option<&str> {
        None
    }

    /// Rules on one call.
    fn rule(&self, view: &GuardView<'_>) -> Ruling;

    /// What is to be on record with this ruling, and sent to other tasks, in the append that has
    /// the decision (EN-9). May be asked several times before it is written.
    fn aside(&self, view: &GuardView<'_>, ruling: &Ruling) -> (Vec<crate::Record>, Vec<crate::Outgoing>) {
        let _ = (view, ruling);
        (Vec::new(), Vec::new())
    }
}
