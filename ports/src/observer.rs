use plica_kernel::envelope::Envelope;

/// A record that a plugin wants appended: opaque to every core rule (EN-9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The plugin.
    pub plugin: String,
    /// The record's kind; the last of each kind is kept in the state.
    pub kind: String,
    /// The record, as text.
    pub body: String,
}

/// Sees every committed event (EN-5): after its commit, in seq order, outside every lock.
/// Nothing it does changes what was decided.
pub trait Observer: Send + Sync {
    /// Takes one event with its exact bytes. Must not block for long; a panic is caught and
    /// logged.
    fn committed(&self, event: &Envelope, body: &[u8]);
}
