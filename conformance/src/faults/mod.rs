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
//! # use plica_ports::Store;
//! # fn open() -> Arc<dyn Store> { unimplemented!() }
//! # async fn example() {
//! let outage = Arc::new(Switched::new(Fault::Unavailable).only(&[Call::Append]));
//! let store = Faulty::new(open(), outage.clone());
//! outage.strike(3); // the next three appends fail
//! # }
//! ```

mod store;
mod switch;

use std::time::Duration;

pub use store::Faulty;
pub use switch::Switched;

/// A call of the store port, or of the content port of a store that keeps content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `ledger`
    Ledger,
    /// `now`
    Now,
    /// `create`
    Create,
    /// `claim`
    Claim,
    /// `renew`
    Renew,
    /// `release`
    Release,
    /// `append`
    Append,
    /// `settle`
    Settle,
    /// `deliver`
    Deliver,
    /// `inbox`
    Inbox,
    /// `inbox_tails`
    InboxTails,
    /// `read`
    Read,
    /// `baselines`
    Baselines,
    /// `row`
    Row,
    /// `tasks`
    Tasks,
    /// `watch`
    Watch,
    /// `wait_claimable`
    WaitClaimable,
    /// `outlook`
    Outlook,
    /// `held_by`
    HeldBy,
    /// `adopt`
    Adopt,
    /// `block`
    Block,
    /// `unblock`
    Unblock,
    /// `register`
    Register,
    /// `deregister`
    Deregister,
    /// `workers`
    Workers,
    /// `describe`
    Describe,
    /// `put`
    Put,
    /// `get`
    Get,
}

impl Call {
    /// Whether the call commits something, so that its answer can be lost.
    pub const fn writes(self) -> bool {
        match self {
            Self::Create
            | Self::Claim
            | Self::Renew
            | Self::Release
            | Self::Append
            | Self::Deliver
            | Self::Adopt
            | Self::Block
            | Self::Unblock
            | Self::Register
            | Self::Deregister
            | Self::Put => true,
            Self::Ledger
            | Self::Now
            | Self::Settle
            | Self::Inbox
            | Self::InboxTails
            | Self::Read
            | Self::Baselines
            | Self::Row
            | Self::Tasks
            | Self::Watch
            | Self::WaitClaimable
            | Self::Outlook
            | Self::HeldBy
            | Self::Workers
            | Self::Describe
            | Self::Get => false,
        }
    }
}

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
    /// The call takes so much longer, on tokio's clock.
    Delay {
        /// On its way to the store.
        before: Duration,
        /// On its way back, when what it does is done.
        after: Duration,
    },
    /// What the call delivers arrives twice, under the same key; the caller hears of the first.
    DeliveredTwice,
}

impl Fault {
    /// Whether this can go wrong with the call; any other call goes through.
    pub const fn concerns(self, call: Call) -> bool {
        match self {
            Self::Unavailable | Self::Delay { .. } => true,
            Self::LostAfterCommit | Self::LostBeforeCommit => call.writes(),
            Self::LostOnItsWay => matches!(call, Call::Append),
            Self::DeliveredTwice => matches!(call, Call::Deliver | Call::Append),
        }
    }
}

/// Decides what goes wrong.
pub trait Faults: Send + Sync {
    /// What goes wrong with this call; it is asked once for each.
    fn strikes(&self, call: Call) -> Option<Fault>;
}

impl<F: Fn(Call) -> Option<Fault> + Send + Sync> Faults for F {
    fn strikes(&self, call: Call) -> Option<Fault> {
        self(call)
    }
}
