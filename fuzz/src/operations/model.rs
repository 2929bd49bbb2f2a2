//! What is expected of a store, and the store itself.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plica_conformance::{Log, note, opening_facts};
use plica_kernel::canonical::Hash;
use plica_kernel::decode::decode;
use plica_kernel::id::{Epoch, LedgerId, Position, Seq, TaskId};
use plica_kernel::limits::IDLE_CLAIMS_MAX;
use plica_kernel::row::Status;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{Alternative, Item, Wake, WakeKey};
use plica_memory::{ManualClock, MemoryStore};
use plica_ports::Store;
use plica_ports::store::{
    AppendError, Batch, ClaimRequest, Claimed, Conflict, DeliverError, Page, StoredEvent, TaskFilter, Verdict,
};

use super::worker;

/// Tasks there may be.
const TASKS: usize = 3;
/// How long a claim holds.
const LEASE: Duration = Duration::from_secs(1);

/// What the model knows of one task.
struct Known {
    log: Log,
    /// Hashes of the events, in order.
    written: Vec<Hash>,
    epoch: Epoch,
    /// Which of the claims ever given out may write.
    holder: Option<usize>,
    lease_until: Timestamp,
    /// Claims since the last append.
    idle_claims: u32,
    delivered: BTreeMap<String, Position>,
    taken: BTreeSet<Position>,
}

/// The store and what is known of it.
pub(super) struct Model {
    store: MemoryStore,
    clock: Arc<ManualClock>,
    ledger: LedgerId,
    tasks: Vec<Known>,
    /// Every claim ever given out, with its task.
    claims: Vec<(usize, Claimed)>,
}

/// The memory store never waits for anything but time, and nothing here asks it to.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the memory store waited"),
    }
}

impl Model {
    pub(super) fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1)));
        let store = MemoryStore::with(clock.clone(), 1);
        let ledger = at_once(store.ledger()).expect("a store has a name");
        Self { store, clock, ledger, tasks: Vec::new(), claims: Vec::new() }
    }

    fn now(&self) -> Timestamp {
        at_once(self.store.now()).expect("a store tells the time")
    }

    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(super) fn create(&mut self, choice: usize) {
        if self.tasks.len() == TASKS {
            return;
        }
        let id = TaskId::new(format!("task-{}", self.tasks.len())).expect("an id");
        let mut facts = opening_facts(self.now());
        facts.priority = (choice % 4) as u8;
        let (log, task) = Log::begin(&self.ledger, &id, facts);
        let written = task.events.iter().map(|event| event.hash).collect();
        at_once(self.store.create(task.clone())).expect("a sound task is created");
        assert!(at_once(self.store.create(task)).is_err(), "an id is taken once");
        self.tasks.push(Known {
            log,
            written,
            epoch: Epoch(0),
            holder: None,
            lease_until: Timestamp::from_micros(0),
            idle_claims: 0,
            delivered: BTreeMap::new(),
            taken: BTreeSet::new(),
        });
    }

    pub(super) fn claim(&mut self, choice: usize, named: Option<usize>) {
        let task = match named {
            Some(index) if self.tasks.is_empty() || index >= usize::MAX / 2 => return,
            Some(index) => Some(self.tasks[index % self.tasks.len()].log.id.clone()),
            None => None,
        };
        let request = ClaimRequest {
            worker: worker(choice),
            queues: Vec::new(),
            lease: LEASE,
            max: 1 + choice / 2 % 3,
            task,
            except: Vec::new(),
        };
        let now = self.now();
        for claimed in at_once(self.store.claim(&request)).expect("claiming works") {
            let index = self.index_of(&claimed.claim.task);
            let known = &self.tasks[index];
            assert!(known.holder.is_none() || known.lease_until <= now, "a held task is handed out");
            self.held(index, claimed);
        }
        self.see_blocked(now);
    }

    /// A claim too many takes a task from whoever let its lease run out, and hands it to nobody.
    fn see_blocked(&mut self, now: Timestamp) {
        for known in self.tasks.iter_mut().filter(|known| known.holder.is_some()) {
            let row = at_once(self.store.row(&known.log.id)).expect("rows can be read").expect("the task has a row");
            if row.blocked.is_some() {
                assert!(known.idle_claims + 1 >= IDLE_CLAIMS_MAX, "a task is blocked too soon");
                assert!(known.lease_until <= now, "a held task is blocked");
                known.holder = None;
            }
        }
    }

    fn index_of(&self, task: &TaskId) -> usize {
        self.tasks.iter().position(|known| known.log.id == *task).expect("only tasks that were made are handed out")
    }

    fn held(&mut self, index: usize, claimed: Claimed) {
        let known = &mut self.tasks[index];
        assert_eq!(claimed.claim.epoch, known.epoch.next(), "a claim raises the epoch by one");
        assert_eq!((claimed.seq, claimed.hash), (known.log.row.seq, known.log.row.hash));
        assert!(claimed.items.iter().all(|item| !known.taken.contains(&item.position)), "an item is seen again");
        assert_eq!(claimed.items.len() + known.taken.len(), known.delivered.len(), "an item is not seen");
        known.epoch = claimed.claim.epoch;
        known.idle_claims += 1;
        known.lease_until = claimed.lease_until;
        known.holder = Some(self.claims.len());
        self.claims.push((index, claimed));
    }

    pub(super) fn adopt(&mut self, choice: usize) {
        if self.tasks.is_empty() {
            return;
        }
        let index = choice / 2 % self.tasks.len();
        let id = self.tasks[index].log.id.clone();
        if let Some(claimed) = at_once(self.store.adopt(&worker(choice), &id, LEASE)).expect("adopting works") {
            self.held(index, claimed);
        }
    }

    /// A claim by the input's choice, live or not, and its task.
    fn chosen(&self, choice: usize) -> Option<(usize, usize)> {
        let claim = choice % self.claims.len().max(1);
        self.claims.get(claim).map(|(task, _)| (claim, *task))
    }

    /// By which rule a write of this claim must be refused, before its batch is looked at.
    fn refusal(&self, claim: usize, task: usize) -> Option<&'static str> {
        let known = &self.tasks[task];
        if self.claims[claim].1.claim.epoch < known.epoch {
            Some("stale")
        } else if known.holder != Some(claim) {
            Some("released")
        } else if known.lease_until <= self.now() {
            Some("expired")
        } else {
            None
        }
    }

    /// Appends what `make` makes of the log as it is, and compares the verdict.
    fn append(&mut self, choice: usize, fits: impl Fn(Status) -> bool, make: impl Fn(&Log, &Claimed) -> Batch) {
        let Some((claim, task)) = self.chosen(choice) else { return };
        if !fits(self.tasks[task].log.row.status) {
            return;
        }
        let batch = make(&self.tasks[task].log, &self.claims[claim].1);
        let expected = self.refusal(claim, task);
        let moved = batch.suspends_or_ends() && (self.tasks[task].delivered.len() as u64) > batch.seen.0;
        let appended = at_once(self.store.append(&self.claims[claim].1.claim, &batch));
        match appended {
            Ok(appended) => {
                assert_eq!(expected, None, "a claim that may not write has written");
                assert!(!moved, "a task came to rest over an item that its holder did not see");
                assert_eq!(appended.held, !batch.rests());
                self.written(claim, task, &batch, appended.verdict);
            }
            Err(AppendError::Conflict(conflict)) => {
                let rule = match conflict {
                    Conflict::FenceStale { .. } => "stale",
                    Conflict::LeaseRequired { .. } => "released",
                    Conflict::LeaseExpired { .. } => "expired",
                    Conflict::InboxMoved { .. } if moved => return assert_eq!(expected, None),
                    other => panic!("refused by {other}"),
                };
                assert_eq!(Some(rule), expected);
            }
            Err(other) => panic!("a sound batch is refused: {other}"),
        }
    }

    fn written(&mut self, claim: usize, task: usize, batch: &Batch, verdict: Verdict) {
        let known = &mut self.tasks[task];
        known.log.accept(batch);
        known.idle_claims = 0;
        known.written.extend(batch.events.iter().map(|event| event.hash));
        for position in &batch.consumed {
            assert!(known.taken.insert(*position), "an item is taken twice");
        }
        if batch.rests() {
            known.holder = None;
        }
        self.claims[claim].1.verdict = verdict;
    }

    pub(super) fn note(&mut self, choice: usize) {
        self.append(choice, |status| !status.is_over(), |log, claimed| log.noting(claimed, &"n".repeat(choice)));
    }

    pub(super) fn suspend(&mut self, choice: usize) {
        let wake = match choice / 4 % 4 {
            0 => Wake::default(),
            1 => Wake::on(WakeKey::Message),
            2 => Wake { any: Vec::new(), at: Some(self.now().plus_millis(choice as u64)) },
            _ => Wake { any: vec![Alternative { key: WakeKey::Event("bell".into()), need: 2 }], at: None },
        };
        let working = |status| matches!(status, Status::Ready | Status::Running);
        self.append(choice, working, |log, claimed| log.suspending(claimed, wake.clone()));
    }

    pub(super) fn wake(&mut self, choice: usize) {
        self.append(choice, |status| status == Status::Waiting, Log::waking);
    }

    pub(super) fn complete(&mut self, choice: usize) {
        self.append(choice, |status| !status.is_over(), Log::completing);
    }

    /// Takes the oldest item that is there, with a note.
    pub(super) fn take_item(&mut self, choice: usize) {
        let Some((_, task)) = self.chosen(choice) else { return };
        let untaken = at_once(self.store.inbox(&self.tasks[task].log.id, Position(0))).expect("inboxes can be read");
        let Some(item) = untaken.first() else { return };
        let position = item.position;
        self.append(
            choice,
            |status| !status.is_over(),
            |log, claimed| {
                let mut batch = log.batch(claimed, vec![note("taken")]);
                batch.consumed.push(position);
                batch.seen = batch.seen.max(position);
                batch
            },
        );
    }

    pub(super) fn deliver(&mut self, choice: usize) {
        if self.tasks.is_empty() {
            return;
        }
        let index = choice % self.tasks.len();
        let item = match choice / 4 % 4 {
            0 => Item::Message { text: "hello".into() },
            1 => Item::Event { data: None, event: "bell".into() },
            2 => Item::Cancel { reason: None },
            _ => Item::Reopen { reason: None },
        };
        // Few keys, so that they come up again; each always with the same item.
        let key = format!("{}-{}", item.kind(), choice / 16);
        let known = &mut self.tasks[index];
        let delivered = at_once(self.store.deliver(&known.log.id, "user:ada", &item, &key.parse().expect("a key")));
        match (delivered, known.delivered.get(&key)) {
            (Ok(delivered), Some(first)) => assert_eq!((delivered.position, delivered.fresh), (*first, false)),
            (Ok(delivered), None) => {
                assert!(delivered.fresh && delivered.position == Position(known.delivered.len() as u64 + 1));
                assert!(!known.log.row.status.is_over() || item.outlives_the_task());
                known.delivered.insert(key, delivered.position);
            }
            (Err(DeliverError::TaskOver { .. }), None) => {
                assert!(known.log.row.status.is_over() && !item.outlives_the_task());
            }
            (Err(error), _) => panic!("an item is refused: {error}"),
        }
    }

    pub(super) fn release(&mut self, choice: usize) {
        let Some((claim, task)) = self.chosen(choice) else { return };
        let expected = self.refusal(claim, task).filter(|rule| *rule != "expired");
        let not_before = (choice.is_multiple_of(3)).then(|| self.now().plus_millis(choice as u64));
        let released = at_once(self.store.release(&self.claims[claim].1.claim, not_before));
        assert_eq!(released.is_ok(), expected.is_none());
        if released.is_ok() {
            self.tasks[task].holder = None;
        }
    }

    pub(super) fn renew(&mut self, choice: usize) {
        let Some((claim, task)) = self.chosen(choice) else { return };
        let expected = self.refusal(claim, task).filter(|rule| *rule != "expired");
        let claims = [self.claims[claim].1.claim.clone()];
        let renewed = at_once(self.store.renew(&claims, LEASE)).expect("renewing works");
        assert_eq!(renewed.verdicts[0].is_ok(), expected.is_none());
        if expected.is_none() {
            self.tasks[task].lease_until = renewed.now.plus_millis(LEASE.as_millis() as u64);
        }
    }

    /// What readers see of each log's end and row is what was written.
    pub(super) fn check(&self) {
        for known in &self.tasks {
            let written = known.written.len() as u64;
            let stored = self.read(known, Seq(written.saturating_sub(1).max(1)));
            let last = stored.last().expect("a log has a beginning");
            let event = decode(&last.body, &last.hash).expect("what was written decodes");
            assert_eq!((last.seq, Some(&last.hash)), (Seq(written), known.written.last()), "a log has changed");
            assert_eq!((event.seq, event.epoch <= known.epoch), (Seq(written), true));
            if let [before, _] = &stored[..] {
                assert_eq!(event.prev, before.hash, "the chain is broken");
            }
            let row = at_once(self.store.row(&known.log.id)).expect("rows can be read").expect("the task has a row");
            assert_eq!((row.projection, row.epoch), (known.log.row.clone(), known.epoch));
            assert_eq!(row.inbox_tail, Position(known.delivered.len() as u64));
        }
    }

    /// What readers see in the end is all that was ever written.
    pub(super) fn check_whole(&self) {
        for known in &self.tasks {
            let stored = self.read(known, Seq(1));
            assert!(stored.iter().map(|event| event.hash).eq(known.written.iter().copied()), "a log has changed");
        }
        let listed = at_once(self.store.tasks(&TaskFilter::default(), &Page::first(TASKS + 1)));
        assert_eq!(listed.expect("tasks can be listed").len(), self.tasks.len());
    }

    fn read(&self, known: &Known, from: Seq) -> Vec<StoredEvent> {
        at_once(self.store.read(&known.log.id, from, usize::MAX)).expect("logs can be read")
    }
}
