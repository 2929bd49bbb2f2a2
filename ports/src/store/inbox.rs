use plica_kernel::id::Position;

/// How a delivery ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// The item's place in the inbox.
    pub position: Position,
    /// Whether it was put there by this call; otherwise the same item came before.
    pub fresh: bool,
}
