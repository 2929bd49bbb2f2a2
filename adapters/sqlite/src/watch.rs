//! Noticing commits: of this process at once, of others by `PRAGMA data_version`, which reads
//! no table, and only while somebody watches.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plica_kernel::id::{Position, Queue, Seq, TaskId};
use plica_kernel::time::Timestamp;
use plica_ports::store::{Outlook, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::connect::{FileId, Opened, Place};
use crate::{SqliteStore, read};

/// How often commits of other processes are looked for: well within what ST-11 allows, and not so often
/// that a worker with nothing to do is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// How often, while something is held, it is looked whether its holder is gone.
const GONE_EVERY: Duration = Duration::from_millis(500);
/// The longest wait: what is longer is for ever, and would overflow the clock.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long waiting takes when something is due from the start.
const PAUSE: Duration = Duration::from_millis(50);

/// Beats after every commit that this process makes or notices.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// After each.
    beats: watch::Sender<u64>,
    /// After those that may make something claimable, or end that.
    due_beats: watch::Sender<u64>,
    place: Arc<Place>,
    /// How many watch; the thread that looks runs while there is one.
    watchers: Mutex<Watchers>,
}

#[derive(Debug, Default)]
struct Watchers {
    count: usize,
    looking: bool,
}

/// A watcher's ear: beats since it was made are heard, however late it listens.
#[derive(Debug)]
pub(crate) struct Ear {
    beats: watch::Receiver<u64>,
    pulse: Arc<Pulse>,
}

impl Pulse {
    pub(crate) fn new(place: Arc<Place>) -> Self {
        Self { beats: watch::Sender::new(0), due_beats: watch::Sender::new(0), place, watchers: Mutex::default() }
    }

    /// Says that something was committed, and whether it may have made something claimable.
    pub(crate) fn beat(&self, moves_due: bool) {
        self.beats.send_modify(|beats| *beats = beats.wrapping_add(1));
        if moves_due {
            self.due_beats.send_modify(|beats| *beats = beats.wrapping_add(1));
        }
    }

    /// Begins to watch for any commit.
    fn listen(self: &Arc<Self>) -> Result<Ear, StoreError> {
        self.ear(self.beats.subscribe())
    }

    /// Begins to watch for what may be claimed.
    fn listen_for_due(self: &Arc<Self>) -> Result<Ear, StoreError> {
        self.ear(self.due_beats.subscribe())
    }

    fn ear(self: &Arc<Self>, beats: watch::Receiver<u64>) -> Result<Ear, StoreError> {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        if !watchers.looking {
            let pulse = Arc::clone(self);
            std::thread::Builder::new()
                .name("plica-sqlite-watch".into())
                .spawn(move || pulse.look())
                .map_err(|error| StoreError::Unavailable(format!("the watching thread cannot be started: {error}")))?;
            watchers.looking = true;
        }
        watchers.count += 1;
        Ok(Ear { beats, pulse: Arc::clone(self) })
    }

    /// Looks for commits of others until nobody watches.
    fn look(&self) {
        let mut opened: Option<Opened> = None;
        let mut seen = None;
        while self.is_watched() {
            let sight = self.sight(&mut opened);
            if seen.replace(sight) != Some(sight) {
                self.beat(true);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// What another process's commit changes: the file and its data version. What cannot be
    /// looked at now looks like no file: whoever watches meets the error when it reads.
    fn sight(&self, opened: &mut Option<Opened>) -> Option<(FileId, i64)> {
        let file = self.place.look().ok().flatten()?;
        if opened.as_ref().is_none_or(|opened| opened.file != file) {
            *opened = self.place.reader().ok().flatten();
        }
        let conn = &opened.as_ref()?.conn;
        let version = conn.prepare_cached("PRAGMA data_version").and_then(|mut it| it.query_row([], |row| row.get(0)));
        match version {
            Ok(version) => Some((file, version)),
            Err(_) => {
                *opened = None;
                None
            }
        }
    }

    fn is_watched(&self) -> bool {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.looking = watchers.count > 0;
        watchers.looking
    }
}

impl Ear {
    /// Returns at the next beat, or at once if there was one since the last call.
    pub(crate) async fn hear(&mut self) {
        if self.beats.changed().await.is_err() {
            // The sender lives as long as `pulse`, which this ear holds.
            std::future::pending().await
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.pulse.watchers.lock().unwrap_or_else(PoisonError::into_inner).count -= 1;
    }
}

impl SqliteStore {
    /// Returns when head or inbox tail of a task have moved, or after `timeout` (ST-11).
    pub(crate) async fn watch_task(
        &self,
        task: &TaskId,
        after: Seq,
        tail: Position,
        timeout: Duration,
    ) -> Result<bool, StoreError> {
        let until = Instant::now() + timeout.min(WAIT_MAX);
        let mut ear = self.pulse.listen()?;
        loop {
            let asked = task.clone();
            let head = self.read(move |conn| read::head(conn, &asked)).await?.flatten();
            let (seq, newest) = head.ok_or_else(|| StoreError::UnknownTask(task.clone()))?;
            if seq > after || newest > tail {
                return Ok(true);
            }
            if tokio::time::timeout_at(until, ear.hear()).await.is_err() {
                return Ok(false);
            }
        }
    }

    /// Returns when something may be due in `queues`, or after `timeout`.
    pub(crate) async fn wait_due(&self, queues: &[Queue], timeout: Duration) -> Result<(), StoreError> {
        let until = Instant::now() + timeout.min(WAIT_MAX);
        let mut ear = self.pulse.listen_for_due()?;
        let mut is_first = true;
        loop {
            let (outlook, lease_end) = self.sight(queues).await?;
            if outlook.next.is_some_and(|next| next <= outlook.now) {
                // What is due already was most likely left alone on purpose by whoever waits
                // here: a pause keeps it from asking again and again.
                if is_first {
                    tokio::time::sleep_until(until.min(Instant::now() + PAUSE)).await;
                }
                return Ok(());
            }
            is_first = false;
            let mut look_at = until;
            if let Some(next) = outlook.next.into_iter().chain(lease_end).min() {
                look_at = look_at.min(Instant::now() + Duration::from_millis(next.millis_since(outlook.now) + 1));
            }
            if outlook.held > 0 {
                // A process that is gone tells nobody.
                look_at = look_at.min(Instant::now() + GONE_EVERY);
            }
            let heard = tokio::time::timeout_at(look_at, ear.hear()).await.is_ok();
            if !heard && Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// The outlook, and when the first of the leases that hold ends.
    pub(crate) async fn sight(&self, queues: &[Queue]) -> Result<(Outlook, Option<Timestamp>), StoreError> {
        let (queues, time) = (queues.to_vec(), self.place.time.clone());
        let seen = self.read(move |conn| read::outlook(conn, &queues, time.now())).await?;
        Ok(seen.unwrap_or_else(|| (Outlook { held: 0, next: None, now: self.place.time.now() }, None)))
    }
}
