use serde::{Deserialize, Serialize};

use crate::id::{Epoch, RunId};

/// The identity of a result: under which hold, in which generation of the conversation, it
/// was made (section 7 of the design).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The n-th start of the request or call.
    pub attempt: u32,
    /// The claim's epoch.
    pub fence: Epoch,
    /// Rewinds and forks so far.
    pub generation: u32,
    /// Wakes so far inside the generation.
    pub resume: u32,
    /// The claim.
    pub run: RunId,
}

/// Whether a result counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It enters the projection.
    Current,
    /// Some part of its identity is older than its action's, or the action was rewound.
    Stale,
    /// The action already has an outcome.
    Late,
}

/// Judges a result that came under `result` for an action that began under `action`
/// (ID-1, ID-2): `open` says whether the action has no outcome yet, `rewound` whether it
/// was rewound. Stale is tested first.
///
/// Run ids have no order: one that differs under the same or a newer epoch cannot be this
/// action's, so it counts as older.
pub fn admit(action: &Identity, result: &Identity, open: bool, rewound: bool) -> Admission {
    if rewound || result != action {
        Admission::Stale
    } else if !open {
        Admission::Late
    } else {
        Admission::Current
    }
}
