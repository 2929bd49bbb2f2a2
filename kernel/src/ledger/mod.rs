//! Who caused what, which result counts, and that nothing changed.

mod cause;
mod chain;
mod identity;
pub mod verify;

pub(crate) use cause::call_allowed_by;
pub use cause::{CauseError, check_links};
pub use chain::{ChainError, Head, check_chain};
pub use identity::{Admission, Identity, admit};
