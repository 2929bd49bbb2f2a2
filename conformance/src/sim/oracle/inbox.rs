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
    /// Texts whose senders were told that they are delivered.
    promised: BTreeSet<String>,
    /// Texts whose senders were told that the task is over.
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

    /// A sender was told that its item is delivered; a cancel has no text.
    pub fn promise(&mut self, text: Option<&str>) {
        match text {
            Some(text) => {
                self.promised.insert(text.to_owned());
            }
            None => self.cancel_promised = true,
        }
    }

    /// A sender was told that the task is over.
    pub fn turn_down(&mut self, text: Option<&str>) {
        self.turned_down.extend(text.map(str::to_owned));
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
    /// whatever steers, or for a task that is over what outlives it (ST-7).
    pub fn has_work(&self, over: bool) -> bool {
        let works = |item: &Item| if over { outlives(item) } else { !matches!(item, Item::Evidence { .. }) };
        self.there.iter().any(|(position, (_, item))| !self.taken.contains(position) && works(item))
    }

    /// Nothing was lost, and nothing that was turned down is on record.
    pub fn settled(&self, over: bool) -> Result<(), String> {
        if self.has_work(over) {
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

fn brief(text: &str) -> &str {
    text.get(..40).unwrap_or(text)
}
