//! Canonical bytes: the one place that says how a value becomes text that is hashed.
//!
//! The format is RFC 8785 (JSON Canonicalization Scheme) output restricted to what every
//! JSON reader keeps intact (EV-1):
//!
//! * names unique and sorted by their UTF-16 code units; no white space; UTF-8, no BOM;
//! * only `"`, `\` and U+0000–U+001F are escaped, with the short form where JSON has one,
//!   else `\u00xx` in lower case;
//! * integers within ±(2^53−1) and no other numbers;
//! * nesting at most [`DEPTH_MAX`].
//!
//! A text is accepted if and only if it parses strictly and would be written back as the
//! same bytes. [`from_slice`] checks that in the same pass that decodes, also for members
//! that the target type ignores; [`to_vec`] can write nothing else, whatever order a
//! struct declares its fields in (EV-2).

mod buffer;
mod digest;
mod parse;
mod scan;
mod write;

#[cfg(test)]
mod tests;

pub use digest::{Domain, Hash, Hasher, content_hash, genesis_hash};
pub(crate) use parse::from_slice_with;
pub use parse::{Raw, check, from_slice};
pub(crate) use write::{Written, to_vec_of};
pub use write::{string_len, to_vec};

/// The deepest nesting of arrays and objects that is read or written.
pub const DEPTH_MAX: usize = 32;

/// The largest integer either way: 2^53 − 1, which every JSON reader keeps exact.
pub const INTEGER_MAX: i64 = (1 << 53) - 1;

/// Why a text is not canonical, or a value cannot be written as canonical text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// The text departs from the canonical form.
    #[error("not canonical at byte {offset}: {rule}")]
    Form {
        /// Offset in bytes of the first departure.
        offset: usize,
        /// The rule that is broken.
        rule: &'static str,
    },
    /// The text is canonical but does not have the shape asked for.
    #[error("wrong shape at byte {offset}: {message}")]
    Shape {
        /// Offset in bytes at which the mismatch was noticed.
        offset: usize,
        /// What was expected.
        message: alloc::string::String,
    },
    /// The value has no canonical form: a float, an integer out of range, nesting too deep,
    /// or a map key that is not text.
    #[error("no canonical form: {0}")]
    Unrepresentable(alloc::string::String),
}
