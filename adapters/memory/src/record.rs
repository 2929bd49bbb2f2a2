//! One task: its row, its log and its inbox.

use std::collections::BTreeMap;

use plica_kernel::canonical::Hash;
use plica_kernel::envelope::SealedEvent;
use plica_kernel::event::EventType;
use plica_kernel::id::{DedupKey, Epoch, Position, RunId, TaskId};
use plica_kernel::limits::idle_backoff_ms;
use plica_kernel::row::{Blocked, Projection};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::InboxItem;
use plica_ports::store::rules::{LockedRow, Standing, claimable_at, is_woken};
use plica_ports::store::{Facts, Row, StoredEvent, Verdict, Worker};

/// Who holds a task.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) worker: Worker,
    pub(crate) run: RunId,
    pub(crate) token: Hash,
    pub(crate) acquired_at: Timestamp,
    pub(crate) lease_until: Timestamp,
}

/// Everything that is kept of one task.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) facts: Facts,
    pub(crate) row: Projection,
    pub(crate) updated_at: Timestamp,
    pub(crate) epoch: Epoch,
    /// None once released; a lease that ran out leaves it, so that it can be renewed.
    pub(crate) hold: Option<Hold>,
    /// Not to be claimed before this time while ready or running; set anew by every release.
    pub(crate) not_before: Option<Timestamp>,
    /// Not to be claimed before this time, whatever the status (ST-18).
    pub(crate) idle_until: Option<Timestamp>,
    pub(crate) idle_claims: u32,
    pub(crate) blocked: Option<Blocked>,
    pub(crate) claimable_at: Option<Timestamp>,
    pub(crate) log: Vec<(EventType, StoredEvent)>,
    /// Untaken items, in order.
    pub(crate) untaken: Vec<InboxItem>,
    pub(crate) inbox_tail: Position,
    /// Where each key's item went, and the hash of that item: for the life of the task.
    pub(crate) delivered: BTreeMap<DedupKey, (Position, Hash)>,
}

impl Record {
    /// A new task.
    pub(crate) fn new(facts: Facts, row: Projection, events: &[SealedEvent], now: Timestamp) -> Self {
        let mut record = Self {
            not_before: facts.not_before,
            facts,
            row,
            updated_at: now,
            epoch: Epoch(0),
            hold: None,
            idle_until: None,
            idle_claims: 0,
            blocked: None,
            claimable_at: None,
            log: Vec::new(),
            untaken: Vec::new(),
            inbox_tail: Position(0),
            delivered: BTreeMap::new(),
        };
        record.write(events);
        record.claimable_at = record.due(now);
        record
    }

    /// Adds events to the log.
    pub(crate) fn write(&mut self, events: &[SealedEvent]) {
        self.log.extend(
            events
                .iter()
                .map(|event| (event.kind, StoredEvent { seq: event.seq, hash: event.hash, body: event.body.clone() })),
        );
    }

    /// The columns that verdicts depend on.
    pub(crate) fn locked(&self) -> LockedRow {
        LockedRow {
            epoch: self.epoch,
            token: self.hold.as_ref().map(|hold| hold.token),
            lease_until: self.hold.as_ref().map(|hold| hold.lease_until),
            seq: self.row.seq,
            hash: self.row.hash,
            inbox_tail: self.inbox_tail,
        }
    }

    /// What every verdict brings along.
    pub(crate) fn verdict(&self, now: Timestamp) -> Verdict {
        Verdict { now, inbox_tail: self.inbox_tail }
    }

    /// When the task may next be claimed, as it stands now.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let standing = Standing {
            status: self.row.status,
            lease_until: self.hold.as_ref().map(|hold| hold.lease_until),
            woken: is_woken(self.row.status, &self.row.wake, &self.untaken),
            wake_at: self.row.wake.at,
            not_before: self.not_before,
            blocked: self.blocked.is_some(),
        };
        claimable_at(&standing, now).map(|time| self.idle_until.map_or(time, |floor| time.max(floor)))
    }

    /// Starts the wait that the number of claims without an append asks for (ST-18). It runs
    /// from the claim while that is held, so a lease longer than the wait hides it, and from
    /// the release when the claim is handed back.
    pub(crate) fn rest(&mut self, now: Timestamp) {
        let wait = idle_backoff_ms(self.idle_claims);
        self.idle_until = (wait > 0).then(|| now.plus_millis(wait));
    }

    /// Ends the hold.
    pub(crate) fn release(&mut self, not_before: Option<Timestamp>, now: Timestamp) {
        self.hold = None;
        self.not_before = not_before;
        if not_before.is_some() {
            // Such a claim does not count. An append since then has set the count to zero.
            self.idle_claims = self.idle_claims.saturating_sub(1);
            self.idle_until = None;
        } else {
            self.rest(now);
        }
        self.claimable_at = self.due(now);
    }

    /// The row as readers see it.
    pub(crate) fn to_row(&self, id: &TaskId) -> Row {
        let hold = self.hold.as_ref();
        Row {
            id: id.clone(),
            facts: self.facts.clone(),
            projection: self.row.clone(),
            updated_at: self.updated_at,
            epoch: self.epoch,
            holder: hold.map(|hold| hold.worker.clone()),
            run: hold.map(|hold| hold.run.clone()),
            acquired_at: hold.map(|hold| hold.acquired_at),
            lease_until: hold.map(|hold| hold.lease_until),
            claimable_at: self.claimable_at,
            inbox_tail: self.inbox_tail,
            idle_claims: self.idle_claims,
            blocked: self.blocked.clone(),
        }
    }
}
