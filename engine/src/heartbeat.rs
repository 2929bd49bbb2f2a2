//! Leases kept alive, and what is heard with each renewal: the inbox and the loss of a claim.

use std::collections::BTreeSet;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU8, AtomicU64, Ordering},
};
use std::time::Duration;

use plica_kernel::id::{Position, TaskId};
use plica_kernel::state::Task;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::WakeKey;
use plica_ports::Clock;
use plica_ports::store::{Claim, Claimed, Conflict, Store, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::time::StoreTime;

/// Whether a hold does nothing but keep background jobs alive for a task that waits (ST-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rest {
    /// It works on the task.
    None,
    /// The task goes on by itself: once a job has ended, or at a time.
    ForItself,
    /// The task waits for someone: a person, an event, another task.
    ForOthers,
}

/// What a claim's holder and its heartbeat share.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) claim: Claim,
    /// Said once the claim is lost: the step ends and appends nothing more (RC-6).
    pub(crate) lost: CancellationToken,
    /// Said when the worker does not wait any longer for people who might wake the task: jobs that
    /// it keeps for a task that rests are ended, and the claim is handed back.
    pub(crate) part: CancellationToken,
    /// Wakes the step when the inbox moved.
    pub(crate) news: Notify,
    rest: AtomicU8,
    /// Tells the worker that there is room for another task.
    rested: Arc<Notify>,
    tail: AtomicU64,
    /// On the worker's clock, measured from the sending of the last accepted claim or renewal.
    deadline: Mutex<Duration>,
    time: Mutex<StoreTime>,
    /// Whether the same worker holds the task under a newer claim.
    superseded: Mutex<bool>,
}

impl Hold {
    /// A hold that was asked for when the worker's clock showed `sent`.
    pub(crate) fn new(claimed: &Claimed, sent: Duration, now: Duration, lease: Duration, rested: Arc<Notify>) -> Self {
        Self {
            claim: claimed.claim.clone(),
            lost: CancellationToken::new(),
            part: CancellationToken::new(),
            rest: AtomicU8::new(Rest::None as u8),
            rested,
            news: Notify::new(),
            tail: AtomicU64::new(claimed.verdict.inbox_tail.0),
            deadline: Mutex::new(sent + lease),
            time: Mutex::new(StoreTime::new(claimed.verdict.now, now)),
            superseded: Mutex::new(false),
        }
    }

    /// When this worker has to take its lease for over, on its own clock.
    pub(crate) fn deadline(&self) -> Duration {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn extend(&self, deadline: Duration) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }

    /// The store's time when the worker's clock shows `at`.
    pub(crate) fn store_time(&self, at: Duration) -> Timestamp {
        self.time.lock().unwrap_or_else(PoisonError::into_inner).at(at)
    }

    /// The store said that it is `now` when the worker's clock showed `at`.
    pub(crate) fn heard(&self, now: Timestamp, at: Duration) {
        *self.time.lock().unwrap_or_else(PoisonError::into_inner) = StoreTime::new(now, at);
    }

    /// Shows something to observers that keep their place, unless a newer hold of this worker does
    /// so: what they keep of a task is of one claim at a time (EN-5).
    pub(crate) fn show(&self, show: impl FnOnce()) {
        let superseded = self.superseded.lock().unwrap_or_else(PoisonError::into_inner);
        if !*superseded {
            show();
        }
    }

    /// The worker was given the task anew: this hold is lost, and what it was just showing is
    /// shown before the newer one shows anything.
    fn supersede(&self) {
        *self.superseded.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.lost.cancel();
    }

    /// The task waits while its jobs live.
    pub(crate) fn rest(&self, task: &Task) {
        let wake = task.wake();
        let has = |wanted: fn(&WakeKey) -> bool| wake.any.iter().any(|alternative| wanted(&alternative.key));
        // Where an answer is missing the end of a job brings the task no further.
        let answered = !has(|key| matches!(key, WakeKey::Answer(_)));
        let by_itself = wake.at.is_some() || has(|key| *key == WakeKey::Background) && answered;
        let rest = if by_itself { Rest::ForItself } else { Rest::ForOthers };
        if self.rest.swap(rest as u8, Ordering::AcqRel) == Rest::None as u8 {
            self.rested.notify_one();
        }
    }

    /// There may be something to do.
    pub(crate) fn go_on(&self) {
        self.rest.store(Rest::None as u8, Ordering::Release);
    }

    fn is_resting(&self, rest: Rest) -> bool {
        self.rest.load(Ordering::Acquire) == rest as u8
    }

    /// The newest item known to be in the inbox.
    pub(crate) fn tail(&self) -> Position {
        Position(self.tail.load(Ordering::Acquire))
    }

    /// The inbox is known to reach `tail`.
    pub(crate) fn moved(&self, tail: Position) {
        if self.tail.fetch_max(tail.0, Ordering::AcqRel) < tail.0 {
            self.news.notify_one();
        }
    }
}

/// The holds of one worker.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    all: Mutex<Vec<Arc<Hold>>>,
    /// Said when a hold begins to rest.
    pub(crate) rested: Arc<Notify>,
}

impl Holds {
    pub(crate) fn add(&self, hold: Arc<Hold>) {
        let mut holds = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        holds.iter().filter(|older| older.claim.task == hold.claim.task).for_each(|older| older.supersede());
        holds.push(hold);
    }

    pub(crate) fn remove(&self, claim: &Claim) {
        let mut holds = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|hold| hold.claim.run != claim.run);
    }

    fn all(&self) -> Vec<Arc<Hold>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Renews every lease in one statement (ST-2). A claim that is refused is lost; when the
    /// store cannot be reached nothing is known, and the holder's own deadline decides (ST-10).
    pub(crate) async fn renew(&self, store: &dyn Store, clock: &dyn Clock, lease: Duration) -> Result<(), StoreError> {
        let holds = self.all();
        if holds.is_empty() {
            return Ok(());
        }
        let claims: Vec<Claim> = holds.iter().map(|hold| hold.claim.clone()).collect();
        let sent = clock.monotonic();
        let renewed = store.renew(&claims, lease).await?;
        let heard_at = clock.monotonic();
        for (hold, verdict) in holds.iter().zip(renewed.verdicts) {
            match verdict {
                Ok(tail) => {
                    hold.extend(sent + lease);
                    hold.heard(renewed.now, heard_at);
                    hold.moved(tail);
                }
                Err(conflict) => lose(hold, &conflict),
            }
        }
        Ok(())
    }

    /// Looks whether any inbox moved: a cheap read, so that a cancel reaches its holder
    /// within a second (EN-6).
    pub(crate) async fn glance(&self, store: &dyn Store) -> Result<(), StoreError> {
        let holds = self.all();
        if holds.is_empty() {
            return Ok(());
        }
        let tasks: Vec<TaskId> = holds.iter().map(|hold| hold.claim.task.clone()).collect();
        for (hold, tail) in holds.iter().zip(store.inbox_tails(&tasks).await?) {
            hold.moved(tail);
        }
        Ok(())
    }

    /// How many holds only keep jobs alive.
    pub(crate) fn resting(&self) -> usize {
        self.all().iter().filter(|hold| !hold.is_resting(Rest::None)).count()
    }

    /// The tasks that wait for someone while this worker keeps their jobs alive, if there is
    /// nothing else that it does: `held` is how many tasks it works on.
    pub(crate) fn waiting_for_others(&self, held: usize) -> Option<BTreeSet<TaskId>> {
        let all = self.all();
        let waiting = all.len() == held && all.iter().all(|hold| hold.is_resting(Rest::ForOthers));
        waiting.then(|| all.iter().map(|hold| hold.claim.task.clone()).collect())
    }

    /// Has jobs ended and claims handed back of tasks that only wait for someone.
    pub(crate) fn part(&self) {
        for hold in self.all().iter().filter(|hold| hold.is_resting(Rest::ForOthers)) {
            hold.part.cancel();
        }
    }

    /// Gives up every hold: nothing more is appended under any.
    pub(crate) fn give_up(&self) {
        for hold in self.all() {
            hold.lost.cancel();
        }
    }

    /// Gives up every hold whose own deadline has passed.
    pub(crate) fn expire(&self, now: Duration) {
        for hold in self.all() {
            if hold.deadline() <= now && !hold.lost.is_cancelled() {
                tracing::warn!(task = %hold.claim.task, "lease ran out by this worker's own clock: the task is given up");
                hold.lost.cancel();
            }
        }
    }
}

/// A claim that was refused is lost, unless the step itself released it meanwhile.
fn lose(hold: &Hold, conflict: &Conflict) {
    if !matches!(conflict, Conflict::LeaseRequired { .. }) && !hold.lost.is_cancelled() {
        tracing::warn!(task = %hold.claim.task, %conflict, "claim lost");
        hold.lost.cancel();
    }
}
