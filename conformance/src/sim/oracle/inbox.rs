//! What was sent to a task, and what became of it: every message is taken exactly once, and
//! no item of any kind twice.

use std::collections::{BTreeMap, BTreeSet};

use plica_kernel::wake::Item;

/// The inbox of one task, as its store said that it filled and emptied.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Items by position: the key and the item.
    there: BTreeMap<u64, (String, Item)>,
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
    pub fn delivered(&mut self, position: u64, key: &str, item: &Item, fresh: bool) -> Result<(), String> {
        if !fresh {
            return match self.there.get(&position) {
                Some((before, there)) if before == key && there == item => Ok(()),
                _ => Err(format!("key {key} is said to be at {position}, where it is not")),
            };
        }
        if let Some((at, _)) = self.there.iter().find(|(_, (before, _))| before == key) {
            return Err(format!("key {key} was delivered at {position}, it is at {at} already"));
        }
        if position != self.tail() + 1 {
            return Err(format!("an item was put at {position}, the tail is {}", self.tail()));
        }
        self.there.insert(position, (key.to_owned(), item.clone()));
        Ok(())
    }

    /// An append takes an item.
    pub fn take(&mut self, position: u64) -> Result<(), String> {
        if !self.there.contains_key(&position) {
            return Err(format!("item {position} was taken but never delivered"));
        }
        if !self.taken.insert(position) {
            return Err(format!("item {position} was taken twice"));
        }
        Ok(())
    }

    /// Positions that a claim must hand out.
    pub fn untaken(&self) -> Vec<u64> {
        self.there.keys().filter(|position| !self.taken.contains(position)).copied().collect()
    }

    /// A message of a person is on record.
    pub fn said(&mut self, text: &str) -> Result<(), String> {
        let sent = self.there.values().any(|(_, item)| matches!(item, Item::Message { text: sent } if sent == text));
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
        self.there.values().any(|(_, item)| matches!(item, Item::Cancel { .. }))
    }

    /// Whether an untaken cancel or interrupt lies there.
    pub fn is_told_to_stop(&self) -> bool {
        let stops = |item: &Item| matches!(item, Item::Cancel { .. } | Item::Interrupt { .. });
        self.there.iter().any(|(position, (_, item))| !self.taken.contains(position) && stops(item))
    }

    /// Whether something lies there that makes its task claimable until an append takes it:
    /// whatever steers or is waited for, or for a task that is over what outlives it (ST-7).
    pub fn has_work(&self, over: bool, wake: &[(String, u64)]) -> bool {
        let untaken = || self.there.iter().filter(|(position, _)| !self.taken.contains(position));
        let items = || untaken().map(|(_, (_, item))| item);
        if over {
            return items().any(outlives);
        }
        let carried = |key: &str| items().filter(|item| key_of(item).as_deref() == Some(key)).count() as u64;
        items().any(steers) || wake.iter().any(|(key, need)| carried(key) >= (*need).max(1))
    }

    /// Nothing was lost, and nothing that was turned down is on record.
    pub fn settled(&self, over: bool, wake: &[(String, u64)]) -> Result<(), String> {
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
fn steers(item: &Item) -> bool {
    matches!(
        item,
        Item::Message { .. }
            | Item::Cancel { .. }
            | Item::Interrupt { .. }
            | Item::Rewind { .. }
            | Item::Close { .. }
            | Item::Reopen { .. }
    )
}

/// The key by which waits name the item (section 11 of the design).
fn key_of(item: &Item) -> Option<String> {
    match item {
        Item::Message { .. } => Some("message".into()),
        Item::Answer { call, .. } | Item::Verdict { call, .. } => Some(format!("answer:{}", call.decision)),
        Item::Event { event, .. } => Some(format!("event:{event}")),
        Item::Child { background: true, .. } => Some("background".into()),
        Item::Child { call, .. } => Some(format!("group:{}", call.decision)),
        _ => None,
    }
}

fn brief(text: &str) -> &str {
    text.get(..40).unwrap_or(text)
}
