//! Stores that fail as stores do: decorators that lose the answer of a commit, are unreachable,
//! are slow, or deliver twice.
//!
//! [`Faulty`] wraps a store and asks a source of [`Faults`] at every call what is to go wrong
//! with it. A source is anything that decides: a [`Switched`] one gives one kind of fault while
//! it is on and so makes a decorator of each kind, a simulation draws from its seed. Where the
//! source stays silent the call goes through untouched, so that a decorator which is switched
//! off keeps every clause that the store keeps.
//!
//! ```
//! use std::sync::Arc;
//! use plica_conformance::faults::{Call, Fault, Faulty, Switched};
//! use plica_memory::MemoryStore as YourStore;
//!
//! let outage = Arc::new(Switched::new(Fault::Unavailable).only(&[Call::Append]));
//! let store = Faulty::new(Arc::new(YourStore::new()), outage.clone());
//! outage.strike(3); // the next three appends fail
//! ```

mod store;
mod switch;

use std::time::Duration;

use async_trait::async_trait;

pub use self::store::{Faulty, Striking};
pub use self::switch::Switched;
pub use crate::call::Call;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The store cannot be reached: the call never gets there.
    Unavailable,
    /// The commit's answer is lost after it was written (ST-9). The caller is told
    /// `CommitUnknown`, or `Unavailable` by a call that may simply be made again.
    LostAfterCommit,
    /// The same, but nothing was written.
    LostBeforeCommit,
    /// The same for an append that is still under way: it reaches the store just before the next
    /// one does, whatever was read back in between.
    LostOnItsWay,
    /// The same, but the request is on its way and arrives after so long, on tokio's clock.
    Adrift(Duration),
    /// The call takes so much longer, on tokio's clock. Whoever gives up waiting for a write does
    /// not call it back.
    Delay {
        /// On its way to the store.
        before: Duration,
        /// On its way back, when what it does is done.
        after: Duration,
    },
    /// What the call delivers arrives twice, under the same key; the caller hears of the first.
    DeliveredTwice,
    /// The whole request arrives twice; the caller hears of the first. A claim that did would hand
    /// out what nobody hears of, which is what a lost answer does.
    Twice,
}

impl Fault {
    /// Whether this can go wrong with the call; any other call goes through.
    pub const fn concerns(self, call: Call) -> bool {
        match self {
            Self::Unavailable | Self::Delay { .. } => true,
            Self::LostAfterCommit | Self::LostBeforeCommit | Self::Adrift(_) => call.writes(),
            Self::Twice => call.writes() && !matches!(call, Call::Claim | Call::Adopt),
            Self::LostOnItsWay => matches!(call, Call::Append),
            Self::DeliveredTwice => matches!(call, Call::Deliver | Call::Append),
        }
    }
}

/// Decides what goes wrong.
#[async_trait]
pub trait Faults: Send + Sync {
    /// What goes wrong with this call; it is asked once for each.
    fn strikes(&self, call: Call) -> Option<Fault>;

    /// Holds every call up for as long as its caller is out of action, on its way in and on its way
    /// out. Never returns once the caller is gone for good.
    async fn pass(&self) {}
}

impl<F: Fn(Call) -> Option<Fault> + Send + Sync> Faults for F {
    fn strikes(&self, call: Call) -> Option<Fault> {
        self(call)
    }
}
