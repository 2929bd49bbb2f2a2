//! Noticing commits: of this handle at once, of others by `NOTIFY`, and by looking all the same,
//! so that everything works, only later, while nobody can be heard.
//!
//! What is made known is a hint and never part of a transaction that writes: `NOTIFY` in one
//! would make all commits of the database wait for each other. Hints of appends are gathered for
//! a moment and sent together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plica_kernel::id::{Position, Queue, Seq, TaskId};
use plica_kernel::time::Timestamp;
use plica_ports::store::{Outlook, StoreError};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::connect::{Hearing, Place};
use crate::session::{Session, Sessions};
use crate::{PostgresStore, read};

/// How long hints of appends are gathered.
const GATHER: Duration = Duration::from_millis(5);
/// The longest hint that is sent with names; PostgreSQL takes less than 8,000 bytes.
const HINT_BYTES_MAX: usize = 7_900;
/// Hints that a slow listener may lag behind before it is told that it missed some.
const BACKLOG: usize = 256;
/// How often a task that is watched is looked at while nobody can be heard: three quarters of
/// what ST-11 allows.
const LOOK_EVERY: Duration = Duration::from_millis(75);
/// The same while others can be heard, in case a hint was lost.
const LOOK_ANYWAY_EVERY: Duration = Duration::from_secs(1);
/// How often work is looked for while it is waited for, heard or not.
const LOOK_FOR_WORK_EVERY: Duration = Duration::from_secs(1);
/// How often, while something is held, it is looked whether its holder is gone.
const GONE_EVERY: Duration = Duration::from_millis(500);
/// The longest wait: what is longer is for ever, and would overflow the clock.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long waiting takes when something is due from the start.
const PAUSE: Duration = Duration::from_millis(50);
/// The first pause before a broken connection is made again, and the longest.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What a commit may mean to whoever waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Something can be claimed from then on.
    due: Option<Timestamp>,
    /// The tasks with news; none: it may be any.
    tasks: Option<Vec<String>>,
}

impl Beat {
    /// News of these tasks; from `due` on one of them can be claimed.
    pub(crate) fn of<'a>(tasks: impl IntoIterator<Item = &'a TaskId>, due: Option<Timestamp>) -> Self {
        Self { due, tasks: Some(tasks.into_iter().map(|task| task.as_str().to_owned()).collect()) }
    }

    /// Anything may have happened.
    fn any() -> Self {
        Self { due: Some(Timestamp::default()), tasks: None }
    }

    fn is_about(&self, task: &TaskId) -> bool {
        self.tasks.as_ref().is_none_or(|tasks| tasks.iter().any(|told| told == task.as_str()))
    }

    fn join(&mut self, other: Self) {
        self.due = self.due.into_iter().chain(other.due).min();
        match (&mut self.tasks, other.tasks) {
            (Some(tasks), Some(more)) => {
                tasks.extend(more.into_iter().filter(|task| !tasks.contains(task)).collect::<Vec<_>>())
            }
            (tasks, _) => *tasks = None,
        }
    }

    /// As it is sent: who sends it, when something is due, which tasks; white space in between,
    /// since no id holds any.
    fn written(&self, sender: &str) -> String {
        let due = self.due.map_or_else(|| "-".to_owned(), |due| due.micros().to_string());
        let tasks = self.tasks.as_ref().map(|tasks| tasks.join(" "));
        match tasks {
            Some(tasks) if tasks.len() + sender.len() + due.len() < HINT_BYTES_MAX => format!("{sender} {due} {tasks}"),
            _ => format!("{sender} {due} *"),
        }
    }

    /// Reads a hint, but not one of `own`. What cannot be read may mean anything.
    fn read(text: &str, own: &str) -> Option<Self> {
        let mut words = text.split(' ');
        if words.next() == Some(own) {
            return None;
        }
        let due = match words.next() {
            Some("-") => None,
            Some(micros) => Some(Timestamp::from_micros(micros.parse().unwrap_or(0))),
            None => return Some(Self::any()),
        };
        let tasks: Vec<_> = words.map(str::to_owned).collect();
        let is_any = tasks.iter().any(|task| task == "*");
        Some(Self { due, tasks: (!is_any).then_some(tasks) })
    }
}

/// Beats after every commit that this handle makes or hears of.
pub(crate) struct Pulse {
    shared: Arc<Shared>,
    /// The task that listens, once somebody waits.
    listener: Mutex<Option<AbortHandle>>,
}

struct Shared {
    place: Arc<Place>,
    sessions: Arc<Sessions>,
    beats: broadcast::Sender<Beat>,
    /// What tells our own hints from those of others.
    sender: String,
    /// Whether others can be heard now.
    hears: AtomicBool,
    /// What is gathered to be sent.
    gathered: Mutex<Option<Beat>>,
}

/// A listener's ear: beats since it was made are heard, however late it listens.
pub(crate) struct Ear {
    beats: broadcast::Receiver<Beat>,
}

impl Ear {
    /// The next beat.
    pub(crate) async fn hear(&mut self) -> Beat {
        match self.beats.recv().await {
            Ok(beat) => beat,
            Err(RecvError::Lagged(_)) => Beat::any(),
            // The sender lives as long as the store, which whoever waits here has borrowed.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Pulse {
    pub(crate) fn new(place: Arc<Place>, sessions: Arc<Sessions>) -> Self {
        let shared = Shared {
            place,
            sessions,
            beats: broadcast::Sender::new(BACKLOG),
            sender: Uuid::now_v7().simple().to_string(),
            hears: AtomicBool::new(false),
            gathered: Mutex::default(),
        };
        Self { shared: Arc::new(shared), listener: Mutex::default() }
    }

    /// Begins to listen.
    pub(crate) fn listen(&self) -> Ear {
        let beats = self.shared.beats.subscribe();
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.is_none() && matches!(self.shared.place.hearing, Hearing::On(_)) {
            *listener = Some(tokio::spawn(listen(Arc::clone(&self.shared))).abort_handle());
        }
        Ear { beats }
    }

    /// Makes news known to this handle at once and to others a moment later.
    pub(crate) fn tell(&self, news: Beat) {
        // Nobody may be listening here.
        let _ = self.shared.beats.send(news.clone());
        if matches!(self.shared.place.hearing, Hearing::Off) {
            return;
        }
        let mut gathered = self.shared.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gathered) = &mut *gathered {
            gathered.join(news);
        } else {
            *gathered = Some(news);
            tokio::spawn(send(Arc::clone(&self.shared)));
        }
    }

    /// Makes news known on a connection, right behind what it was sent before. It is a hint:
    /// that it could not be sent does not matter to anybody.
    pub(crate) async fn announce(&self, client: &Session, news: Option<&Beat>) {
        if let Some(news) = news {
            announce(&self.shared, client, news).await;
            let _ = self.shared.beats.send(news.clone());
        }
    }

    /// How often a watched task is looked at.
    fn look_every(&self) -> Duration {
        if self.shared.hears.load(Ordering::Acquire) { LOOK_ANYWAY_EVERY } else { LOOK_EVERY }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            listener.abort();
        }
    }
}

async fn announce(shared: &Shared, client: &Session, news: &Beat) {
    if matches!(shared.place.hearing, Hearing::Off) {
        return;
    }
    // It need not survive a crash, so it waits for no flush.
    let sql = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)";
    let hint = news.written(&shared.sender);
    if let Err(error) = client.query(sql, &[(&shared.place.schema, Type::TEXT), (&hint, Type::TEXT)]).await {
        tracing::debug!(%error, "a hint was not sent");
    }
}

/// Sends what has been gathered.
async fn send(shared: Arc<Shared>) {
    tokio::time::sleep(GATHER).await;
    let client = shared.sessions.get(&shared.place).await;
    let news = shared.gathered.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (client, news) {
        (Ok(client), Some(news)) => announce(&shared, &client, &news).await,
        (Err(error), _) => tracing::debug!(%error, "a hint was not sent"),
        (Ok(_), None) => {}
    }
}

/// Hears what others make known, on a connection of its own that is made again whenever it
/// breaks.
async fn listen(shared: Arc<Shared>) {
    let Hearing::On(target) = &shared.place.hearing else { return };
    let mut pause = RECONNECT.0;
    loop {
        match hear(&shared, target).await {
            // It could be heard for a while.
            Ok(()) => pause = RECONNECT.0,
            Err(error) => tracing::debug!(%error, "nobody can be heard; what others commit is looked for"),
        }
        shared.hears.store(false, Ordering::Release);
        tokio::time::sleep(jittered(pause)).await;
        pause = (pause * 2).min(RECONNECT.1);
    }
}

/// Hears until the connection ends. That others can be heard is believed once a hint of our own,
/// sent on another connection, has come back: through a pooler that hands out connections by
/// transaction `LISTEN` succeeds, and nothing is ever heard.
async fn hear(shared: &Arc<Shared>, target: &crate::connect::Target) -> Result<(), tokio_postgres::Error> {
    let (client, mut messages) = target.connect().await?;
    let sql = format!("LISTEN \"{}\"", shared.place.schema);
    let mut asked = std::pin::pin!(client.batch_execute(&sql));
    let mut is_listening = false;
    loop {
        let message = tokio::select! {
            listening = &mut asked, if !is_listening => {
                listening?;
                is_listening = true;
                tokio::spawn(probe(Arc::clone(shared)));
                continue;
            }
            message = messages.next() => message,
        };
        match message {
            Some(Ok(AsyncMessage::Notification(hint))) => {
                if !shared.hears.swap(true, Ordering::AcqRel) {
                    // Whatever was committed until now nobody heard of.
                    let _ = shared.beats.send(Beat::any());
                }
                if let Some(beat) = Beat::read(hint.payload(), &shared.sender) {
                    let _ = shared.beats.send(beat);
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "the connection that listens is broken");
                return Ok(());
            }
            None => return Ok(()),
        }
    }
}

/// Sends a hint that says nothing, to hear whether it comes back.
async fn probe(shared: Arc<Shared>) {
    match shared.sessions.get(&shared.place).await {
        Ok(client) => announce(&shared, &client, &Beat::of([], None)).await,
        Err(error) => tracing::debug!(%error, "it was not tried whether others can be heard"),
    }
}

/// Up to a quarter shorter, so that hosts that started together do not look together for ever.
fn jittered(wait: Duration) -> Duration {
    let mut dice = [0; 1];
    // Without random bytes nobody is early, which does no harm.
    let _ = getrandom::fill(&mut dice);
    wait - wait * u32::from(dice[0]) / 1024
}

impl PostgresStore {
    /// Returns when head or inbox tail of a task have moved, or after `timeout` (ST-11).
    pub(crate) async fn watch_task(
        &self,
        task: &TaskId,
        after: Seq,
        tail: Position,
        timeout: Duration,
    ) -> Result<bool, StoreError> {
        let until = Instant::now() + timeout.min(WAIT_MAX);
        let mut ear = self.pulse.listen();
        loop {
            let head = read::head(self, task).await?;
            let (seq, newest) = head.ok_or_else(|| StoreError::UnknownTask(task.clone()))?;
            if seq > after || newest > tail {
                return Ok(true);
            }
            let look_at = until.min(Instant::now() + jittered(self.pulse.look_every()));
            let news = async { while !ear.hear().await.is_about(task) {} };
            if tokio::time::timeout_at(look_at, news).await.is_err() && Instant::now() >= until {
                return Ok(false);
            }
        }
    }

    /// Returns when something may be due in `queues`, or after `timeout`.
    pub(crate) async fn wait_due(&self, queues: &[Queue], timeout: Duration) -> Result<(), StoreError> {
        let until = Instant::now() + timeout.min(WAIT_MAX);
        let mut ear = self.pulse.listen();
        let mut is_first = true;
        loop {
            let (outlook, lease_end) = self.sight(queues).await?;
            let seen = Instant::now();
            if outlook.next.is_some_and(|next| next <= outlook.now) {
                // What is due already was most likely left alone on purpose by whoever waits
                // here: a pause keeps it from asking again and again.
                if is_first {
                    tokio::time::sleep_until(until.min(Instant::now() + PAUSE)).await;
                }
                return Ok(());
            }
            is_first = false;
            // The store's time as an instant of ours.
            let instant = |time: Timestamp| seen + Duration::from_millis(time.millis_since(outlook.now) + 1);
            let mut look_at = until.min(seen + jittered(LOOK_FOR_WORK_EVERY));
            if let Some(next) = outlook.next.into_iter().chain(lease_end).min() {
                look_at = look_at.min(instant(next));
            }
            if outlook.held > 0 && self.options.processes.is_some() {
                // A process that is gone tells nobody.
                look_at = look_at.min(seen + GONE_EVERY);
            }
            // A hint that something will be due needs no look before it is.
            while let Ok(beat) = tokio::time::timeout_at(look_at, ear.hear()).await {
                if let Some(due) = beat.due {
                    look_at = look_at.min(if due <= outlook.now { Instant::now() } else { instant(due) });
                }
            }
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// The outlook, and when the first of the leases that hold ends.
    pub(crate) async fn sight(&self, queues: &[Queue]) -> Result<(Outlook, Option<Timestamp>), StoreError> {
        match read::outlook(self, queues).await? {
            Some(seen) => Ok(seen),
            None => Ok((Outlook { held: 0, next: None, now: self.time().await? }, None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str) -> TaskId {
        TaskId::new(id).expect("an id")
    }

    #[test]
    fn st_11_a_hint_reads_as_it_was_written() {
        let beats = [
            Beat::of([&task("a"), &task("b.1.1")], None),
            Beat::of([&task("a")], Some(Timestamp::from_micros(7))),
            Beat::any(),
        ];
        for beat in beats {
            let written = beat.written("someone");
            assert_eq!(Beat::read(&written, "me"), Some(beat.clone()), "{written}");
            assert_eq!(Beat::read(&written, "someone"), None);
        }
        assert_eq!(Beat::read("what is this", "me").map(|beat| beat.due), Some(Some(Timestamp::from_micros(0))));
        assert_eq!(Beat::read("", "me"), Some(Beat::any()));
    }

    #[test]
    fn st_11_a_hint_is_never_longer_than_postgres_takes() {
        let mut beat = Beat::of([&task("a")], None);
        let ids: Vec<_> = (0..2000).map(|n| task(&format!("01890000-0000-7000-8000-{n:012}"))).collect();
        beat.join(Beat::of(&ids, Some(Timestamp::from_micros(3))));
        let read = Beat::read(&beat.written("someone"), "me").expect("a hint");
        assert_eq!(read, Beat { due: Some(Timestamp::from_micros(3)), tasks: None });
    }

    #[test]
    fn st_11_hints_that_are_gathered_lose_nothing() {
        let mut beat = Beat::of([&task("a")], Some(Timestamp::from_micros(9)));
        beat.join(Beat::of([&task("a"), &task("b")], Some(Timestamp::from_micros(4))));
        assert_eq!(beat, Beat::of([&task("a"), &task("b")], Some(Timestamp::from_micros(4))));
        assert!(beat.is_about(&task("b")) && !beat.is_about(&task("c")));
        beat.join(Beat::any());
        assert!(beat.is_about(&task("c")));
    }
}
