//! The task row: what a store keeps of a task beside its log, as far as the kernel computes
//! it.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::canonical::Hash;
use crate::id::Seq;
use crate::wake::Wake;

/// Where a task stands. Who holds it is the row's affair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Created or woken; its next step can be taken.
    Ready,
    /// In the middle of a turn.
    Running,
    /// Suspended.
    Waiting,
    /// Done.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl Status {
    /// Whether the task is over.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The word as recorded.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of this word.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Ready, Self::Running, Self::Waiting, Self::Completed, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|status| status.name() == name)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the row holds of the state after an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// Seq of the last event.
    pub seq: Seq,
    /// Its hash.
    pub hash: Hash,
    /// The status.
    pub status: Status,
    /// What wakes the task; empty unless it waits. With live background jobs its time has come
    /// already: nobody but their holder may leave the task waiting (ST-13).
    pub wake: Wake,
    /// Whether the conversation is closed.
    pub closed: bool,
}

/// Why a task is not claimable until someone unblocks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Blocked {
    /// Ten claims in a row without an append (ST-18).
    Poison,
    /// The log cannot be verified (RC-9).
    UnreadableLog {
        /// The rule that is broken.
        rule: String,
        /// Where.
        seq: Seq,
    },
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poison => f.write_str("poison: ten claims in a row ended without an append"),
            Self::UnreadableLog { rule, seq } => write!(f, "unreadable log: event {seq}: {rule}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn st_11_a_status_is_one_word() {
        for (status, name, over) in [
            (Status::Ready, "ready", false),
            (Status::Running, "running", false),
            (Status::Waiting, "waiting", false),
            (Status::Completed, "completed", true),
            (Status::Failed, "failed", true),
            (Status::Cancelled, "cancelled", true),
        ] {
            assert_eq!((status.name(), status.to_string().as_str(), status.is_over()), (name, name, over));
            assert_eq!(Status::named(name), Some(status));
        }
        assert_eq!(["", "Ready", "over"].map(Status::named), [None; 3]);
    }
}
