//! Writing, one batch at a time: what has piled up is taken together, each request runs in its
//! own savepoint with its own verdict, all is committed once, and only then answered.

use std::cell::Cell;
use std::sync::Arc;

use plica_kernel::id::LedgerId;
use plica_kernel::time::Timestamp;
use plica_ports::store::StoreError;
use rusqlite::Connection;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::connect::{Opened, Place};
use crate::error::{Fail, Lost, is_busy, store_error};
use crate::migrations::{MIGRATIONS, version_of};
use crate::watch::Pulse;

mod desk;

use desk::Desk;

/// What the work of one request has: an open transaction under the write lock.
#[derive(Debug)]
pub(crate) struct Tx<'a> {
    /// The connection.
    pub conn: &'a Connection,
    /// The store's time, taken after the lock (ST-6).
    pub now: Timestamp,
    /// The store's name.
    pub ledger: &'a LedgerId,
    /// Whether the time moved at which some task may be claimed, or who holds it.
    due: &'a Cell<bool>,
}

impl Tx<'_> {
    /// Notes that those are to look again who wait for something to claim.
    pub(crate) fn moves_due(&self) {
        self.due.set(true);
    }
}

/// What a write is beside its work.
#[derive(Debug)]
pub(crate) enum Kind<T, E> {
    /// Makes the store where there is none; durable when answered.
    Creates,
    /// Where there is no store it is answered so; durable when answered.
    Writes(Result<T, E>),
    /// The same, but it need not survive a power cut, so it costs no flush of its own: who holds
    /// what. The cut ends every holder, and whatever one does outside comes after an append, whose
    /// flush takes its claim along, so nothing outside sees an epoch twice.
    Holds(Result<T, E>),
    /// The same for what is no news to anybody.
    Lazy(Result<T, E>),
    /// Creates, and need not survive a power cut.
    LazyCreates,
}

/// The handle through which requests reach whoever writes.
#[derive(Debug)]
pub(crate) struct Writer {
    desk: Arc<Desk>,
    in_place: bool,
}

impl Writer {
    /// Starts the thread; it ends when the handle is dropped. With `in_place` a request that
    /// finds nobody writing is written by its own thread, where that may block.
    pub(crate) fn start(place: Arc<Place>, pulse: Arc<Pulse>, in_place: bool) -> Result<Self, StoreError> {
        let desk = Arc::new(Desk::new(Pen { place, pulse, opened: None, flushing: true }));
        let served = Arc::clone(&desk);
        std::thread::Builder::new()
            .name("plica-sqlite".into())
            .spawn(move || served.serve())
            .map_err(|error| StoreError::Unavailable(format!("the writer thread cannot be started: {error}")))?;
        Ok(Self { desk, in_place })
    }

    /// Runs `work` in the next transaction. It may run more than once, each time on a
    /// transaction in which nothing of an earlier run is left.
    pub(crate) async fn submit<T, E>(
        &self,
        kind: Kind<T, E>,
        work: impl FnMut(&Tx<'_>) -> Result<T, Fail<E>> + Send + 'static,
    ) -> Result<T, Lost<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let stopped = || "the writer has stopped";
        let job = Box::new(Request { kind, work, verdict: None, reply });
        if !self.desk.has_room().await {
            return Err(Lost::Store(StoreError::Unavailable(stopped().into())));
        }
        if self.in_place && may_block() {
            if let Some(turn) = self.desk.take_turn(job) {
                tokio::task::block_in_place(|| turn.write());
            }
        } else {
            self.desk.hand_in(job);
        }
        answer.await.unwrap_or_else(|_| Err(Lost::Unknown(stopped().into())))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.desk.close();
    }
}

/// What became of one request inside its savepoint.
enum Step {
    Keep,
    Undo,
    Broke(rusqlite::Error),
}

/// How a request is answered.
enum End {
    /// By its own verdict.
    Committed,
    /// There is no store.
    Absent,
    /// Nothing was written.
    Failed(StoreError),
    /// Nobody knows.
    Unknown(String),
}

/// A request, its types out of sight of the loop.
trait Job: Send {
    fn creates(&self) -> bool;
    fn flushes(&self) -> bool;
    fn is_news(&self) -> bool;
    fn run(&mut self, tx: &Tx<'_>) -> Step;
    fn fail(&mut self, error: StoreError);
    fn answer(self: Box<Self>, end: End);
}

struct Request<T, E, F> {
    kind: Kind<T, E>,
    work: F,
    verdict: Option<Result<T, Lost<E>>>,
    reply: oneshot::Sender<Result<T, Lost<E>>>,
}

impl<T, E, F> Job for Request<T, E, F>
where
    T: Send,
    E: Send,
    F: FnMut(&Tx<'_>) -> Result<T, Fail<E>> + Send,
{
    fn creates(&self) -> bool {
        matches!(self.kind, Kind::Creates | Kind::LazyCreates)
    }

    fn flushes(&self) -> bool {
        matches!(self.kind, Kind::Creates | Kind::Writes(_))
    }

    fn is_news(&self) -> bool {
        self.flushes() || matches!(self.kind, Kind::Holds(_))
    }

    fn run(&mut self, tx: &Tx<'_>) -> Step {
        let (verdict, step) = match (self.work)(tx) {
            Ok(value) => (Some(Ok(value)), Step::Keep),
            Err(Fail::Refused(error)) => (Some(Err(Lost::Refused(error))), Step::Undo),
            Err(Fail::Sql(error)) => (None, Step::Broke(error)),
        };
        self.verdict = verdict;
        step
    }

    fn fail(&mut self, error: StoreError) {
        self.verdict = Some(Err(Lost::Store(error)));
    }

    fn answer(self: Box<Self>, end: End) {
        let verdict = match (end, self.kind) {
            (End::Committed, _) => self.verdict.unwrap_or_else(|| Err(Lost::Unknown("the writer lost count".into()))),
            (End::Absent, Kind::Writes(absent) | Kind::Holds(absent) | Kind::Lazy(absent)) => {
                absent.map_err(Lost::Refused)
            }
            (End::Absent, Kind::Creates | Kind::LazyCreates) => {
                Err(Lost::Store(StoreError::Unavailable("the store was not created".into())))
            }
            (End::Failed(error), _) => Err(Lost::Store(error)),
            (End::Unknown(detail), _) => Err(Lost::Unknown(detail)),
        };
        // Nobody listens when the caller was dropped; what was committed stands all the same.
        let _ = self.reply.send(verdict);
    }
}

/// How a try to commit a batch ended.
enum Outcome {
    Committed,
    Absent,
    /// The transaction could not be begun.
    Failed(StoreError),
    /// An error ended the transaction: nothing of the batch was written.
    Void(StoreError),
    Unknown(String),
}

/// What it takes to write: there is one, so that one request or batch is written at a time.
#[derive(Debug)]
struct Pen {
    place: Arc<Place>,
    pulse: Arc<Pulse>,
    opened: Option<Opened>,
    /// Whether commits of the connection are flushed.
    flushing: bool,
}

impl Pen {
    /// Commits `batch`, with what `more` adds to it while the lock is waited for, and answers.
    fn write(&mut self, mut batch: Vec<Box<dyn Job>>, more: impl FnMut(&mut Vec<Box<dyn Job>>)) {
        let outcome = self.attempt(&mut batch, more);
        if !matches!(outcome, Outcome::Void(_)) || batch.len() == 1 {
            return answer(batch, outcome);
        }
        for job in batch {
            let mut alone = vec![job];
            let outcome = self.attempt(&mut alone, |_| ());
            answer(alone, outcome);
        }
    }

    /// Runs and commits `batch` in one transaction. Requests that arrived while the lock was
    /// waited for join it by `more`, when there is a flush to share.
    fn attempt(&mut self, batch: &mut Vec<Box<dyn Job>>, more: impl FnMut(&mut Vec<Box<dyn Job>>)) -> Outcome {
        let outcome = self.transact(batch, more);
        // Whatever broke may have left the connection in a state of which we know nothing; the
        // next batch gets a new one.
        if !matches!(outcome, Outcome::Committed | Outcome::Absent) {
            self.opened = None;
        }
        outcome
    }

    fn transact(&mut self, batch: &mut Vec<Box<dyn Job>>, mut more: impl FnMut(&mut Vec<Box<dyn Job>>)) -> Outcome {
        match self.connect(batch.iter().any(|job| job.creates())) {
            Ok(true) => {}
            Ok(false) => return Outcome::Absent,
            Err(error) => return Outcome::Failed(error),
        }
        let flush = batch.iter().any(|job| job.flushes());
        match self.begin(flush) {
            Ok(version) if version == version_of(MIGRATIONS) => {}
            Ok(version) => return Outcome::Failed(self.place.newer(version)),
            Err(error) => return Outcome::Failed(store_error(&self.place.path, &error)),
        }
        if flush {
            more(batch);
        }
        let Some(Opened { conn, ledger, .. }) = &self.opened else { return Outcome::Absent };
        let (before, due) = (conn.total_changes(), Cell::new(false));
        // A request that is alone needs no savepoint: the transaction is its own.
        let is_alone = batch.len() == 1;
        for job in batch.iter_mut() {
            let tx = Tx { conn, now: self.place.time.now(), ledger, due: &due };
            let ran =
                if is_alone { run(&self.place, &tx, job.as_mut()) } else { run_apart(&self.place, &tx, job.as_mut()) };
            match ran {
                Ok(Ran::Undone) if is_alone => match execute(conn, "ROLLBACK") {
                    Ok(()) => return Outcome::Committed,
                    Err(error) => return Outcome::Void(store_error(&self.place.path, &error)),
                },
                Ok(_) => {}
                Err(error) => return Outcome::Void(store_error(&self.place.path, &error)),
            }
        }
        let is_news = batch.iter().any(|job| job.is_news()) && conn.total_changes() != before;
        match execute(conn, "COMMIT") {
            Ok(()) => {
                // Renewals are no news to anybody, and a claim that found nothing must not wake
                // those that wait for something to claim.
                if is_news {
                    self.pulse.beat(due.get());
                }
                Outcome::Committed
            }
            Err(error) => Outcome::Unknown(store_error(&self.place.path, &error).to_string()),
        }
    }

    /// Makes sure that the open connection is one to the file that the path names now; says
    /// whether there is a store.
    fn connect(&mut self, create: bool) -> Result<bool, StoreError> {
        let file = self.place.look()?;
        if self.opened.as_ref().is_some_and(|opened| Some(opened.file) != file) {
            self.opened = None;
        }
        if self.opened.is_none() {
            self.opened = self.place.writer(create)?;
            self.flushing = true;
        }
        Ok(self.opened.is_some())
    }

    /// Takes the write lock; says which schema version is there.
    fn begin(&mut self, flush: bool) -> rusqlite::Result<i64> {
        let Some(Opened { conn, .. }) = &self.opened else { return Ok(version_of(MIGRATIONS)) };
        if flush != self.flushing {
            conn.pragma_update(None, "synchronous", if flush { "FULL" } else { "NORMAL" })?;
            self.flushing = flush;
        }
        execute(conn, "BEGIN IMMEDIATE")?;
        // Another process may have brought the file to a newer schema since it was opened.
        conn.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
    }
}

fn answer(batch: Vec<Box<dyn Job>>, outcome: Outcome) {
    for job in batch {
        job.answer(match &outcome {
            Outcome::Committed => End::Committed,
            Outcome::Absent => End::Absent,
            Outcome::Failed(error) | Outcome::Void(error) => End::Failed(error.clone()),
            Outcome::Unknown(detail) => End::Unknown(detail.clone()),
        });
    }
}

/// What is to become of what one request wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ran {
    Kept,
    Undone,
}

/// Runs one request.
///
/// # Errors
/// When the whole transaction is void.
fn run(place: &Place, tx: &Tx<'_>, job: &mut dyn Job) -> rusqlite::Result<Ran> {
    match job.run(tx) {
        Step::Keep => return Ok(Ran::Kept),
        Step::Undo => {}
        // SQLite ends the transaction by itself on a full disk, a failing device and the like.
        Step::Broke(error) if tx.conn.is_autocommit() || is_busy(&error) => return Err(error),
        Step::Broke(error) => job.fail(store_error(&place.path, &error)),
    }
    Ok(Ran::Undone)
}

/// Runs one request in its savepoint, which is gone afterwards.
///
/// # Errors
/// When the whole transaction is void.
fn run_apart(place: &Place, tx: &Tx<'_>, job: &mut dyn Job) -> rusqlite::Result<Ran> {
    execute(tx.conn, "SAVEPOINT request")?;
    let ran = run(place, tx, job)?;
    if ran == Ran::Undone {
        execute(tx.conn, "ROLLBACK TO request")?;
    }
    execute(tx.conn, "RELEASE request")?;
    Ok(ran)
}

/// Whether this thread may wait for the disk: one of tokio's multi-thread runtime may, whose other
/// work goes on elsewhere meanwhile.
pub(crate) fn may_block() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(|_| ())
}

#[cfg(test)]
mod tests;
