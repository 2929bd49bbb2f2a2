//! Plugins and definitions in force (RC-8, EN-8).

use alloc::{string::String, vec::Vec};

use super::WORD_BYTES_MAX;
use crate::body::{Body, ContentRef};
use crate::canonical::to_vec;
use crate::decide::draft::{Draft, RecordError, Sent, clip};
use crate::envelope::Origin;
use crate::event::{AgentRevised, Budget, ExtensionRecorded, PluginPin, PluginsPinned};
use crate::id::Position;
use crate::limits::{DETAIL_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::wake::{InboxItem, Item};

/// Records what of `in_force`, the plugins of this worker, is not on record as it is: all of it
/// before the first request, another version after a takeover. It stands before the request or
/// call that begins with it, in the same append; what began before it is never settled by
/// another version.
pub(in crate::decide) fn pin(draft: &mut Draft, in_force: &[PluginPin]) -> Result<(), RecordError> {
    let pinned = &draft.task().governance().pins;
    let new: Vec<PluginPin> = in_force.iter().filter(|pin| !pinned.contains(pin)).cloned().collect();
    let mut rest = new.as_slice();
    while !rest.is_empty() {
        let fits = fitting(rest)?;
        let (now, later) = rest.split_at(fits);
        draft.push("engine", Origin::Engine, None, PluginsPinned { plugins: now.to_vec() })?;
        rest = later;
    }
    Ok(())
}

/// How many of the first pins fit into one payload, one at least.
fn fitting(pins: &[PluginPin]) -> Result<usize, RecordError> {
    let mut size = to_vec(&PluginsPinned { plugins: Vec::new() })?.len();
    for (count, pin) in pins.iter().enumerate() {
        size += to_vec(pin)?.len() + 1;
        if size > PAYLOAD_BYTES_MAX {
            return Ok(count.max(1));
        }
    }
    Ok(pins.len())
}

/// A record of a plugin (EN-9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginRecord {
    /// The plugin.
    pub plugin: String,
    /// The record's kind; the last of each kind is kept in the state.
    pub kind: String,
    /// The record, as text.
    pub body: String,
}

/// What plugins return beside their results: it goes into the append of the event that it
/// belongs to, so a crash leaves all of it or none (EN-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aside {
    /// Records.
    pub records: Vec<PluginRecord>,
    /// Items for other tasks.
    pub sent: Vec<Sent>,
}

impl Aside {
    /// Whether nothing was returned.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.sent.is_empty()
    }
}

/// Records what observers made of the events they were shown, and how far that was: all of it
/// in one append (EN-5).
///
/// # Errors
/// When something does not fit.
pub fn observed(draft: &mut Draft, aside: Aside) -> Result<(), RecordError> {
    put_aside(draft, Origin::Observer, aside)
}

/// Appends the records of plugins and sends what they send.
pub(super) fn put_aside(draft: &mut Draft, origin: Origin, aside: Aside) -> Result<(), RecordError> {
    aside.sent.into_iter().for_each(|sent| draft.send(sent));
    aside.records.into_iter().try_for_each(|record| extend(draft, origin, record))
}

fn extend(draft: &mut Draft, origin: Origin, record: PluginRecord) -> Result<(), RecordError> {
    let body = Body::text(&record.body, draft.blobs());
    let kind = clip(&record.kind, WORD_BYTES_MAX);
    let record = ExtensionRecorded { body, kind, plugin: clip(&record.plugin, WORD_BYTES_MAX) };
    let actor = alloc::format!("plugin:{}", record.plugin);
    draft.push(&actor, origin, None, record).map(|_| ())
}

/// What a new definition comes to.
#[derive(Debug, Clone)]
pub struct Revision {
    /// The agent's name.
    pub agent: String,
    /// The definition's caps.
    pub budget: Budget,
    /// Whether a finished turn waits for the next message.
    pub interactive: bool,
}

/// Takes the order at `position` to move the task to another definition: it is in force from
/// the next request on, or the refusal is on record with its reason (EN-8).
///
/// # Errors
/// When there is no such order, or the task is in the middle of a step.
pub fn revise(
    draft: &mut Draft,
    position: Position,
    items: &[InboxItem],
    checked: Result<Revision, String>,
) -> Result<(), RecordError> {
    let item = items.iter().find(|item| item.position == position).ok_or_else(|| draft.misplaced("no such item"))?;
    let Item::Revise { definition } = &item.item else { return Err(draft.misplaced("the item revises nothing")) };
    let revised = revised(draft, definition.clone(), checked);
    draft.push(&item.actor, Origin::System, None, revised)?;
    draft.consume(position);
    Ok(())
}

fn revised(draft: &Draft, definition: ContentRef, checked: Result<Revision, String>) -> AgentRevised {
    match checked {
        Ok(Revision { agent, budget, interactive }) => {
            AgentRevised { agent, budget, definition, interactive, refused: None }
        }
        Err(why) => AgentRevised {
            agent: draft.task().agent().into(),
            budget: Budget::default(),
            definition,
            interactive: false,
            refused: Some(clip(&why, DETAIL_BYTES_MAX)),
        },
    }
}
