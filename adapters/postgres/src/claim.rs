//! Handing out tasks (ST-1, ST-12, ST-16, ST-18).

use std::time::{Duration, Instant};

use plica_kernel::canonical::Hash;
use plica_kernel::id::{Epoch, Position, Queue, RunId, Seq, TaskId};
use plica_kernel::limits::{IDLE_CLAIMS_MAX, idle_backoff_ms};
use plica_kernel::row::Blocked;
use plica_ports::store::{Claim, ClaimError, ClaimRequest, Claimed, StoreError, Token, Verdict, Worker};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::PostgresStore;
use crate::error::Lost;
use crate::rows::{get, hash, id, int, items, micros, number, time, to_json};
use crate::workers;
use crate::writer::{Absent, Call};

/// Tasks that one call hands out at most: more would only wait in the worker.
const CLAIMS_MAX: usize = 256;

/// How long a task rests after so many idle claims, for each count, in microseconds.
pub(crate) fn rests() -> Vec<i64> {
    (0..IDLE_CLAIMS_MAX).map(|idle| int(idle_backoff_ms(idle) * 1000)).collect()
}

/// What becomes of a task after one idle claim too many.
fn poison() -> Result<String, StoreError> {
    to_json(&Blocked::Poison).map_err(StoreError::Unusable)
}

/// Secrets that are not handed out yet.
struct Drawn {
    tokens: Vec<Token>,
    runs: Vec<RunId>,
}

impl Drawn {
    fn of(count: usize) -> Result<Self, StoreError> {
        let mut drawn = Self { tokens: Vec::with_capacity(count), runs: Vec::with_capacity(count) };
        for _ in 0..count {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes)
                .map_err(|error| StoreError::Unavailable(format!("no random bytes for a token: {error}")))?;
            drawn.tokens.push(Token(bytes));
            let run = RunId::new(Uuid::now_v7().to_string());
            drawn.runs.push(run.map_err(|error| StoreError::Unavailable(error.to_string()))?);
        }
        Ok(drawn)
    }

    fn hashes(&self) -> Vec<Hash> {
        self.tokens.iter().map(Token::hash).collect()
    }

    fn runs(&self) -> Vec<&str> {
        self.runs.iter().map(RunId::as_str).collect()
    }

    /// The claim of a row: the secret is the one whose hash the database wrote down.
    fn claimed(&self, row: &Row) -> Result<Claimed, StoreError> {
        let run = id(row, "run", RunId::new)?;
        let unknown = || StoreError::Unusable("the database names a claim that was not asked for".into());
        let nth = self.runs.iter().position(|drawn| *drawn == run).ok_or_else(unknown)?;
        let token = self.tokens.get(nth).ok_or_else(unknown)?.clone();
        Ok(Claimed {
            claim: Claim { task: id(row, "id", TaskId::new)?, epoch: Epoch(number(row, "epoch")?), run, token },
            seq: Seq(number(row, "seq")?),
            hash: hash(row, "hash")?,
            items: items(row, "items")?,
            verdict: Verdict { now: time(row, "now")?, inbox_tail: Position(number(row, "inbox_tail")?) },
            lease_until: time(row, "lease_until")?,
        })
    }
}

/// Claims a second from which on a burst is assumed.
const BURST: u32 = 64;
/// How long a mark is trusted.
const TRUSTED: Duration = Duration::from_secs(1);
/// Marks that leave nothing out.
const ANYWHERE: [i64; 4] = [i64::MIN; 4];

/// Low-water marks: in each class, when what was claimed last became due.
///
/// What is claimed leaves dead entries at the front of the index, and they stay while any old
/// snapshot is open; in a burst every claim would walk over all of those that the claims before it
/// left. So in a burst claims begin where the last one found something. What became due before
/// that, and came late, is found by the next claim that finds too little, or after a second.
#[derive(Debug)]
pub(crate) struct Marks {
    queues: Vec<Queue>,
    since: Instant,
    claims: u32,
    is_burst: bool,
    lows: [i64; 4],
}

impl Default for Marks {
    fn default() -> Self {
        Self { queues: Vec::new(), since: Instant::now(), claims: 0, is_burst: false, lows: ANYWHERE }
    }
}

impl Marks {
    /// Where a claim in these queues may begin.
    fn begin(&mut self, queues: &[Queue]) -> [i64; 4] {
        if self.since.elapsed() >= TRUSTED || self.queues != queues {
            let is_burst = self.claims >= BURST && self.queues == queues;
            *self = Self { queues: queues.to_vec(), is_burst, ..Self::default() };
        }
        self.claims = self.claims.saturating_add(1);
        self.is_burst |= self.claims >= BURST;
        if self.is_burst { self.lows } else { ANYWHERE }
    }

    /// Notes where something was found.
    fn found(&mut self, rows: &[Row]) -> Result<(), StoreError> {
        for row in rows.iter().rev() {
            let class = usize::try_from(get::<i16>(row, "class")?).unwrap_or_default();
            if let Some(low) = self.lows.get_mut(class) {
                *low = get(row, "was_due")?;
            }
        }
        Ok(())
    }
}

/// Takes tasks to work on.
pub(crate) async fn claim(store: &PostgresStore, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
    let most = request.max.min(CLAIMS_MAX);
    let marks = if request.task.is_some() { ANYWHERE } else { store.marks().begin(&request.queues) };
    let mut claimed = some(store, request, most, &[], marks).await?;
    match more(store, request, most, marks, &mut claimed).await {
        // What is held already would lie until its lease ends if nobody heard of it. After a commit in
        // doubt whoever asked looks for all that it holds (ST-9).
        Err(ClaimError::Store(error)) if !claimed.is_empty() => {
            tracing::warn!(%error, "no more work could be looked for; what was claimed before is handed out");
            Ok(claimed)
        }
        Err(error) => Err(error),
        Ok(()) => Ok(claimed),
    }
}

/// Adds what a first look has passed over, up to `most` in all: what came late, and what is held by
/// processes that are known to be gone.
async fn more(
    store: &PostgresStore,
    request: &ClaimRequest,
    most: usize,
    marks: [i64; 4],
    claimed: &mut Vec<Claimed>,
) -> Result<(), ClaimError> {
    if claimed.len() < most && marks != ANYWHERE {
        claimed.extend(some(store, request, most - claimed.len(), &[], ANYWHERE).await?);
    }
    if claimed.len() < most {
        // Nothing is due any more; but what is held may be held by nobody.
        let gone = workers::gone(store).await?;
        if !gone.is_empty() {
            claimed.extend(some(store, request, most - claimed.len(), &gone, ANYWHERE).await?);
        }
    }
    Ok(())
}

/// Takes up to `most` that became due at `marks` or later; `gone` are the processes known to be
/// gone.
async fn some(
    store: &PostgresStore,
    request: &ClaimRequest,
    most: usize,
    gone: &[i64],
    marks: [i64; 4],
) -> Result<Vec<Claimed>, ClaimError> {
    if most == 0 {
        return Ok(Vec::new());
    }
    let drawn = Drawn::of(most)?;
    let hashes = drawn.hashes();
    let call = Call::of("claim")
        .text(workers::columns(&request.worker)?)
        .texts(request.queues.iter().map(Queue::as_str).collect::<Vec<_>>())
        .text(request.task.as_ref().map(TaskId::as_str))
        .texts(request.except.iter().map(TaskId::as_str).collect::<Vec<_>>())
        .int(micros(request.lease))
        .many_bytes(hashes.iter().map(|hash| &hash.as_bytes()[..]).collect())
        .texts(drawn.runs())
        .ints(rests())
        .text(poison()?)
        .ints(gone.to_vec())
        .ints(marks.to_vec());
    let rows = store.write(Absent::Say, &call, None).await.map_err(Lost::claim)?.unwrap_or_default();
    if request.task.is_none() {
        store.marks().found(&rows)?;
    }
    Ok(rows.iter().map(|row| drawn.claimed(row)).collect::<Result<_, _>>()?)
}

/// Takes up again what this same instance holds (ST-9).
pub(crate) async fn adopt(
    store: &PostgresStore,
    worker: &Worker,
    task: &TaskId,
    lease: Duration,
) -> Result<Option<Claimed>, ClaimError> {
    let drawn = Drawn::of(1)?;
    let hashes = drawn.hashes();
    let call = Call::of("adopt")
        .text(workers::columns(worker)?)
        .text(task.as_str())
        .int(micros(lease))
        .bytes(hashes.first().map(|hash| &hash.as_bytes()[..]))
        .text(drawn.runs().first().copied())
        .ints(rests())
        .text(poison()?);
    let rows = store.write(Absent::Say, &call, None).await.map_err(Lost::claim)?.unwrap_or_default();
    Ok(rows.first().map(|row| drawn.claimed(row)).transpose()?)
}
