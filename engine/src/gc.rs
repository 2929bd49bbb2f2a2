//! Collection of content that nothing on record reaches (CO-3).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use plica_kernel::body::{ContentRef, MEDIA_DEFINITION, MEDIA_SEGMENT, MEDIA_STATE};
use plica_kernel::canonical::Hash;
use plica_kernel::cited::{cited, may_cite};
use plica_kernel::id::{Position, Seq, TaskId};
use plica_kernel::limits::{GRACE_MIN_MS, GRACE_MS, REMOVED_BYTES_MAX};
use plica_kernel::time::Timestamp;
use plica_ports::store::{Page, TaskFilter};
use plica_ports::{ContentError, ContentStore, KeptBody, Store};
use serde::de::IgnoredAny;

use crate::act::millis;
use crate::client::Client;
use crate::error::{ClientError, LoadError};
use crate::load::read_event;

/// Rows, bodies and events that are read at once.
const ROWS: usize = 500;
const BODIES: usize = 500;
const EVENTS: usize = 1_000;

/// What is to be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcOptions {
    /// Content that was put more recently stays, whatever reaches it; at least
    /// [`GRACE_MIN_MS`], since some writer may be about to cite it.
    pub grace: Duration,
    /// Remove nothing and say what would be removed; the grace is then free.
    pub dry_run: bool,
}

impl Default for GcOptions {
    /// Everything that nobody has put for a day.
    fn default() -> Self {
        Self { grace: Duration::from_millis(GRACE_MS), dry_run: false }
    }
}

/// What a collection came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// Tasks that were looked at.
    pub tasks: u64,
    /// Events that were looked at.
    pub events: u64,
    /// Bodies that they reach.
    pub reached: u64,
    /// Bodies that were removed, or would be.
    pub bodies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Tasks with a definition that cannot be read: whatever it may cite was kept.
    pub damaged: BTreeSet<TaskId>,
}

impl Client {
    /// Removes content that nothing reaches: no event of any task, over or not, no snapshot, no
    /// untaken inbox item, and nothing that these cite in their turn. Workers may run meanwhile.
    /// `progress` hears of every task that was looked at.
    ///
    /// Nothing is ever removed from a log, so a fork reaches what its source does. One removal
    /// may break off or run beside another: the next finds the rest.
    ///
    /// # Errors
    /// [`ClientError::Grace`] for too short a grace. [`ClientError::Unreached`] when something
    /// that may cite content cannot be read, be it an event or a plan of files to be put back;
    /// nothing was removed then. A snapshot that cannot be read is passed over, as folds pass it
    /// over (SN-1); of a definition see [`Collected::damaged`].
    pub async fn gc(
        &self,
        options: GcOptions,
        progress: &mut (dyn FnMut(&Collected) + Send),
    ) -> Result<Collected, ClientError> {
        let min = Duration::from_millis(GRACE_MIN_MS);
        if options.grace < min && !options.dry_run {
            return Err(ClientError::Grace { min });
        }
        let (store, content) = (&**self.store(), self.content()?);
        // Told before anything is looked at: whoever cites what is not reached from there puts it
        // after this time, or has put it too short a while before.
        let before = back(content.clock().await?, options.grace);
        let (reached, read) = (HashSet::new(), HashSet::new());
        let mut mark = Mark { store, content, reached, read, damaged: BTreeSet::new() };
        let mut collected = Collected::default();
        mark.all(&mut collected, progress).await?;
        collected.damaged = mark.damaged;
        sweep(content, &mark.reached, before, options.dry_run, &mut collected).await?;
        Ok(collected)
    }
}

fn back(now: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(millis(by)).unwrap_or(i64::MAX).saturating_mul(1_000);
    Timestamp::from_micros(now.micros().saturating_sub(micros))
}

/// What is reached. It keeps a hash a body and reads one body at a time.
struct Mark<'a> {
    store: &'a dyn Store,
    content: &'a dyn ContentStore,
    reached: HashSet<Hash>,
    /// Those that were read for what they cite.
    read: HashSet<Hash>,
    /// Tasks with a definition that cannot be read.
    damaged: BTreeSet<TaskId>,
}

impl Mark<'_> {
    async fn all(
        &mut self,
        collected: &mut Collected,
        progress: &mut (dyn FnMut(&Collected) + Send),
    ) -> Result<(), ClientError> {
        let mut page = Page::first(ROWS);
        loop {
            let rows = self.store.tasks(&TaskFilter::default(), &page).await?;
            for row in &rows {
                let events = self.task(&row.id).await.map_err(|error| match error {
                    LoadError::Store(error) => ClientError::Store(error),
                    error => ClientError::Unreached(error),
                })?;
                collected.tasks += 1;
                collected.events += events;
                collected.reached = self.reached.len() as u64;
                progress(collected);
            }
            match rows.last() {
                Some(last) if rows.len() == ROWS => page.after = Some((last.facts.created_at, last.id.clone())),
                _ => return Ok(()),
            }
        }
    }

    /// Marks what a task reaches; how many events it has. The inbox is read first: an item that
    /// is taken meanwhile is in an event by then.
    async fn task(&mut self, task: &TaskId) -> Result<u64, LoadError> {
        for item in self.store.inbox(task, Position(0)).await? {
            self.reach(task, item.item.references().into_iter().cloned().collect()).await?;
        }
        let (mut from, mut events) = (Seq(1), 0);
        loop {
            let page = self.store.read(task, from, EVENTS).await?;
            for stored in &page {
                let event = read_event(task, stored)?;
                self.reach(task, event.payload.references().into_iter().cloned().collect()).await?;
            }
            events += page.len() as u64;
            match page.last() {
                Some(last) if page.len() == EVENTS => from = last.seq.next(),
                _ => return Ok(events),
            }
        }
    }

    /// Marks these and all that they cite.
    async fn reach(&mut self, task: &TaskId, references: Vec<ContentRef>) -> Result<(), LoadError> {
        let mut left = references;
        while let Some(reference) = left.pop() {
            self.reached.insert(reference.sha256);
            // The same bytes may be cited as a text first and as what they are later.
            if may_cite(&reference.media) && self.read.insert(reference.sha256) {
                left.extend(self.cited_by(task, &reference).await?);
            }
        }
        Ok(())
    }

    async fn cited_by(&mut self, task: &TaskId, reference: &ContentRef) -> Result<Vec<ContentRef>, LoadError> {
        let error = match self.content.get(reference).await {
            // What was never canonical is read by nobody, and so cites nothing.
            Ok(bytes) => return Ok(cited(&bytes).unwrap_or_default()),
            Err(error) => error,
        };
        let is_snapshots = matches!(reference.media.as_str(), MEDIA_STATE | MEDIA_SEGMENT);
        match error {
            ContentError::Missing(_) | ContentError::Corrupt(_) if is_snapshots => {
                tracing::warn!(%task, %error, "passed over: a snapshot's content cannot be had");
                Ok(Vec::new())
            }
            ContentError::Missing(_) | ContentError::Corrupt(_) if reference.media == MEDIA_DEFINITION => {
                tracing::warn!(%task, %error, "whatever a definition may cite is kept: this one cannot be read");
                self.damaged.insert(task.clone());
                // Another task that has it is named too.
                self.read.remove(&reference.sha256);
                Ok(Vec::new())
            }
            source => Err(LoadError::Content { task: task.clone(), source }),
        }
    }
}

/// Whether a definition that cannot be read may cite the body: definitions cite definitions and
/// scripts, and both are JSON objects. A body that cannot be read may be anything.
async fn may_be_of_a_definition(content: &dyn ContentStore, body: &KeptBody) -> Result<bool, ClientError> {
    let reference = ContentRef { media: String::new(), sha256: body.sha256, size: body.size };
    match content.get(&reference).await {
        Ok(bytes) => Ok(serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(&bytes).is_ok()),
        Err(ContentError::Missing(_)) => Ok(false),
        Err(ContentError::Corrupt(_)) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Removes, or counts, what was put before `before` and is not reached.
async fn sweep(
    content: &dyn ContentStore,
    reached: &HashSet<Hash>,
    before: Timestamp,
    dry_run: bool,
    collected: &mut Collected,
) -> Result<(), ClientError> {
    let mut after: Option<Hash> = None;
    loop {
        let page = content.aged(before, after.as_ref(), BODIES).await?;
        after = page.last().map(|last| last.sha256);
        let is_full = page.len() == BODIES;
        let mut garbage = Vec::new();
        for body in page.into_iter().filter(|body| !reached.contains(&body.sha256)) {
            if collected.damaged.is_empty() || !may_be_of_a_definition(content, &body).await? {
                garbage.push(body);
            }
        }
        for lot in lots(&garbage) {
            let (bodies, bytes) = if dry_run {
                (lot.len() as u64, lot.iter().map(|body| body.size).sum())
            } else {
                let hashes: Vec<Hash> = lot.iter().map(|body| body.sha256).collect();
                let removed = content.remove(&hashes, before).await?;
                (removed.bodies, removed.bytes)
            };
            collected.bodies += bodies;
            collected.bytes += bytes;
        }
        if !is_full {
            return Ok(());
        }
    }
}

/// Cuts what is to be removed into lots that keep no writer waiting for long.
fn lots(mut bodies: &[KeptBody]) -> Vec<&[KeptBody]> {
    let mut lots = Vec::new();
    while !bodies.is_empty() {
        let mut bytes = 0;
        let fits = bodies.iter().take_while(|body| {
            bytes += body.size;
            bytes <= REMOVED_BYTES_MAX
        });
        let (lot, rest) = bodies.split_at(fits.count().max(1));
        lots.push(lot);
        bodies = rest;
    }
    lots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_3_a_lot_is_bounded_by_its_bytes() {
        let of = |size: u64| KeptBody { sha256: Hash::from_bytes([0; 32]), size };
        let sizes = [5, REMOVED_BYTES_MAX - 5, 1, 2 * REMOVED_BYTES_MAX, 3, 4].map(of);
        let counts: Vec<usize> = lots(&sizes).into_iter().map(<[KeptBody]>::len).collect();
        assert_eq!(counts, [2, 1, 1, 2]);
        assert!(lots(&[]).is_empty());
    }
}
