//! What was sent to a task, and what became of it: every message is taken exactly once, and
//! no item of any kind twice.

use std::collections::{BTreeMap, BTreeSet};

use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;

use super::wake::Wake;

/// An item as it is delivered.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// Who sends it.
    pub actor: &'a str,
    /// When the store took it.
    pub at: Timestamp,
    /// What.
    pub item: &'a Item,
    /// Under which key.
    pub key: &'a str,
}

/// An item in an inbox.
#[derive(Debug, Clone)]
pub struct Lying {
    pub actor: String,
    pub at: Timestamp,
    pub item: Item,
    key: String,
}

/// The inbox of one task, as its store said that it filled and emptied.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Items by position.
    there: BTreeMap<u64, Lying>,
    taken: BTreeSet<u64>,
    /// Texts of messages that are on record.
    said: BTreeSet<String>,
    /// Texts of messages whose senders were told that they are delivered.
    promised: BTreeSet<String>,
    /// Texts of messages whose senders were told that the task is over.
    turned_down: BTreeSet<String>,
    pub cancel_promised: bool,
}

impl Inbox {
    /// The newest position.
    pub fn tail(&self) -> u64 {
        self.there.last_key_value().map_or(0, |(position, _)| *position)
    }

    /// The store put an item there, or says that it did so before.
    pub fn delivered(&mut self, position: u64, sent: &Sent<'_>, fresh: bool) -> Result<(), String> {
        let Sent { actor, at, item, key } = *sent;
        if !fresh {
            return match self.there.get(&position) {
                Some(there) if there.key == key && there.item == *item => Ok(()),
                _ => Err(format!("key {key} is said to be at {position}, where it is not")),
            };
        }
        if let Some((at, _)) = self.there.iter().find(|(_, there)| there.key == key) {
            return Err(format!("key {key} was delivered at {position}, it is at {at} already"));
        }
        if position != self.tail() + 1 {
            return Err(format!("an item was put at {position}, the tail is {}", self.tail()));
        }
        if let Item::Child { child, .. } = item
            && self.there.values().any(|there| matches!(&there.item, Item::Child { child: told, .. } if told == child))
        {
            return Err(format!("the end of {child} is told twice"));
        }
        self.there.insert(position, Lying { actor: actor.into(), at, item: item.clone(), key: key.into() });
        Ok(())
    }

    /// An append takes an item.
    pub fn take(&mut self, position: u64) -> Result<&Lying, String> {
        let taken =
            self.there.get(&position).ok_or_else(|| format!("item {position} was taken but never delivered"))?;
        if !self.taken.insert(position) {
            return Err(format!("item {position} was taken twice"));
        }
        Ok(taken)
    }

    /// What lies at a position and is not taken.
    pub fn lying(&self, position: u64) -> Option<&Item> {
        self.there.get(&position).filter(|_| !self.taken.contains(&position)).map(|there| &there.item)
    }

    /// What lies there and is not taken, in order.
    fn untaken_items(&self) -> impl Iterator<Item = &Item> {
        self.there.iter().filter(|(position, _)| !self.taken.contains(position)).map(|(_, there)| &there.item)
    }

    /// How many untaken items carry a key.
    pub fn carrying(&self, key: &str) -> u64 {
        self.untaken_items().filter(|item| key_of(item).as_deref() == Some(key)).count() as u64
    }

    /// The position of an untaken cancel among the items up to `seen`.
    pub fn cancel_up_to(&self, seen: u64) -> Option<u64> {
        let mut up_to = self.there.range(..=seen).filter(|(position, _)| !self.taken.contains(position));
        up_to.find(|(_, there)| matches!(there.item, Item::Cancel { .. })).map(|(position, _)| *position)
    }

    /// Positions that a claim must hand out.
    pub fn untaken(&self) -> Vec<u64> {
        self.there.keys().filter(|position| !self.taken.contains(position)).copied().collect()
    }

    /// A message of a person is on record.
    pub fn said(&mut self, text: &str) -> Result<(), String> {
        let sent = self.there.values().any(|there| matches!(&there.item, Item::Message { text: sent } if sent == text));
        if !sent {
            return Err(format!("{:?} is on record, but nobody sent it to this task", brief(text)));
        }
        if !self.said.insert(text.to_owned()) {
            return Err(format!("{:?} is on record twice", brief(text)));
        }
        Ok(())
    }

    /// A sender was told that its item is delivered.
    pub fn promise(&mut self, item: &Item) {
        match item {
            Item::Message { text } => {
                self.turned_down.remove(text);
                self.promised.insert(text.clone());
            }
            Item::Cancel { .. } => self.cancel_promised = true,
            _ => {}
        }
    }

    /// A sender was told that the task is over.
    pub fn turn_down(&mut self, item: &Item) {
        if let Item::Message { text } = item {
            self.turned_down.insert(text.clone());
        }
    }

    /// Whether a cancel lies there, taken or not.
    pub fn has_cancel(&self) -> bool {
        self.there.values().any(|there| matches!(there.item, Item::Cancel { .. }))
    }

    /// Whether such an item lies there untaken.
    pub fn holds(&self, such: impl Fn(&Item) -> bool) -> bool {
        self.untaken_items().any(such)
    }

    /// Whether an untaken cancel or interrupt lies there.
    pub fn is_told_to_stop(&self) -> bool {
        self.untaken_items()
            .any(|item| matches!(item, Item::Cancel { .. } | Item::Interrupt { .. } | Item::Rewind { .. }))
    }

    /// Whether an order to go back lies there.
    pub fn is_told_to_go_back(&self) -> bool {
        self.untaken_items().any(|item| matches!(item, Item::Rewind { .. }))
    }

    /// Whether something lies there that makes its task claimable until an append takes it:
    /// whatever steers or is waited for, or for a task that is over what outlives it (ST-7).
    pub fn has_work(&self, over: bool, wake: &Wake) -> bool {
        if over {
            return self.untaken_items().any(outlives);
        }
        self.untaken_items().any(steers) || wake.keys.iter().any(|(key, need)| self.carrying(key) >= (*need).max(1))
    }

    /// Nothing was lost, and nothing that was turned down is on record.
    pub fn settled(&self, over: bool, wake: &Wake) -> Result<(), String> {
        if self.has_work(over, wake) {
            return Err(format!("items {:?} are not taken", self.untaken()));
        }
        if let Some(lost) = self.promised.iter().find(|text| !self.said.contains(*text)) {
            return Err(format!("{:?} was delivered but is not on record", brief(lost)));
        }
        if let Some(text) = self.turned_down.iter().find(|text| self.said.contains(*text)) {
            return Err(format!("{:?} was turned down but is on record", brief(text)));
        }
        Ok(())
    }
}

/// Whether a task that is over still takes the item (ST-7).
pub fn outlives(item: &Item) -> bool {
    matches!(item, Item::Rewind { .. } | Item::Reopen { .. } | Item::Evidence { .. })
}

/// Whether the item makes a task claimable whatever it waits for (ST-7).
pub fn steers(item: &Item) -> bool {
    matches!(
        item,
        Item::Message { .. }
            | Item::Cancel { .. }
            | Item::Interrupt { .. }
            | Item::Rewind { .. }
            | Item::Close { .. }
            | Item::Reopen { .. }
            | Item::Revise { .. }
    )
}

/// The key by which waits name the item (section 11 of the design).
pub fn key_of(item: &Item) -> Option<String> {
    match item {
        Item::Message { .. } | Item::Resolve { .. } => Some("message".into()),
        Item::Answer { call, .. } | Item::Verdict { call, .. } => Some(format!("answer:{}", call.decision)),
        Item::Event { event, .. } => Some(format!("event:{event}")),
        Item::Child { background: true, .. } | Item::Job { .. } => Some("background".into()),
        Item::Child { call, .. } => Some(format!("group:{}", call.decision)),
        _ => None,
    }
}

fn brief(text: &str) -> &str {
    text.get(..40).unwrap_or(text)
}
