//! Waiting: what a task waits for, what arrives in its inbox, and whom that wakes.

mod item;
mod key;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use item::{InboxItem, Item};
pub use key::WakeKey;

use crate::body::Body;
use crate::id::Position;
use crate::limits::WAKE_ALTERNATIVES_MAX;
use crate::time::Timestamp;

/// One way to be woken: `need` untaken items that carry `key`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alternative {
    /// The key that items must carry.
    pub key: WakeKey,
    /// How many such items it takes.
    pub need: u32,
}

impl Alternative {
    /// How many items it takes: never none, which would wake a task for nothing.
    pub fn items(&self) -> usize {
        self.need.max(1) as usize
    }
}

/// What wakes a suspended task: any alternative, or the time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wake {
    /// At most 8 alternatives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any: Vec<Alternative>,
    /// Woken at this time by the store's clock, whatever came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Wake {
    /// Waits for one item with `key`.
    pub fn on(key: WakeKey) -> Self {
        Self { any: [Alternative { key, need: 1 }].into(), at: None }
    }

    /// Whether the condition has no more alternatives than a row can hold.
    pub fn fits(&self) -> bool {
        self.any.len() <= WAKE_ALTERNATIVES_MAX
    }

    /// Whether the untaken items that carry these keys satisfy some alternative, time apart.
    /// Only identity is compared, never what an item says.
    pub fn is_met<'a>(&self, keys: impl Iterator<Item = &'a WakeKey> + Clone) -> bool {
        self.any
            .iter()
            .any(|alternative| keys.clone().filter(|key| **key == alternative.key).count() >= alternative.items())
    }

    /// Whether `items` wake the task: some alternative is met, or one of them steers.
    pub fn is_woken_by(&self, items: &[InboxItem]) -> bool {
        items.iter().any(|item| item.item.steers())
            || self.any.iter().any(|alternative| {
                let carried = items.iter().filter(|item| item.item.key().as_ref() == Some(&alternative.key));
                carried.count() >= alternative.items()
            })
    }
}

/// What woke a task, as its log names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Woken {
    /// What the event from outside carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Body>,
    /// When it was due, for a timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// The key that was waited for; none for a timer or an item that steers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<WakeKey>,
    /// `timer`, or the kind of the item.
    pub kind: alloc::string::String,
    /// The inbox item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}
