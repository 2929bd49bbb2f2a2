//! The calls of a store, by name: what layers and faults speak of.

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
    /// `clock` of the content store
    Clock,
    /// `aged`
    Aged,
    /// `remove`
    Remove,
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
            | Self::Put
            | Self::Remove => true,
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
            | Self::Get
            | Self::Clock
            | Self::Aged => false,
        }
    }
}
