//! Where a run is cut, and who reacts to what is on record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use plica_conformance::layer::{Call, Layer};
use plica_kernel::decode::decode;
use plica_kernel::envelope::Envelope;
use plica_kernel::event::EventType;
use plica_kernel::id::{DedupKey, Seq, TaskId};
use plica_kernel::wake::Item;
use plica_ports::Store;
use plica_ports::store::{AppendError, Appended, Batch, Claim, StoreError};
use tokio::sync::Notify;

use crate::cases::{FIRST_JOB, FIRST_TURN, another};

/// How an append is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The worker dies before it is written.
    Before,
    /// The worker dies after it was written, before it hears of that.
    After,
    /// It is written, and the worker is told that its fate is unknown.
    UnknownWritten,
    /// It is not written, and the worker is told that its fate is unknown.
    UnknownNotWritten,
}

impl Mode {
    pub const ALL: [Self; 4] = [Self::Before, Self::After, Self::UnknownWritten, Self::UnknownNotWritten];
}

/// A layer that cuts the `at`-th append of one worker.
pub struct Cut {
    inner: Arc<dyn Store>,
    at: usize,
    mode: Mode,
    appends: AtomicUsize,
    cut: AtomicBool,
    dead: AtomicBool,
    died: Notify,
}

impl Cut {
    pub fn new(inner: Arc<dyn Store>, at: usize, mode: Mode) -> Self {
        Self {
            inner,
            at,
            mode,
            appends: AtomicUsize::new(0),
            cut: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            died: Notify::new(),
        }
    }

    /// Appends that were asked for.
    pub fn appends(&self) -> usize {
        self.appends.load(Ordering::Relaxed)
    }

    /// Whether the cut was made.
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Returns once the worker is dead.
    pub async fn died(&self) {
        self.died.notified().await;
    }

    async fn die<T>(&self) -> T {
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_one();
        std::future::pending().await
    }
}

#[async_trait]
impl Layer for Cut {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn enter(&self, _: Call) -> Result<Duration, StoreError> {
        if self.dead.load(Ordering::Relaxed) { std::future::pending().await } else { Ok(Duration::ZERO) }
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let unknown = || Err(AppendError::CommitUnknown { task: batch.task.clone(), detail: "cut".into() });
        let number = self.appends.fetch_add(1, Ordering::Relaxed) + 1;
        // One that the store refuses is no place to cut, and does not count.
        if number != self.at || matches!(self.mode, Mode::After | Mode::UnknownWritten) {
            let appended = self.inner.append(claim, batch).await;
            if appended.is_err() {
                self.appends.fetch_sub(1, Ordering::Relaxed);
            }
            if number != self.at || appended.is_err() {
                return appended;
            }
        }
        self.cut.store(true, Ordering::Relaxed);
        match self.mode {
            Mode::Before | Mode::After => self.die().await,
            Mode::UnknownWritten | Mode::UnknownNotWritten => unknown(),
        }
    }
}

/// What someone sends once an event is on record; none for any other event.
pub type Reaction = fn(&Envelope) -> Option<Item>;

/// A layer that sends each reaction once, as soon as the event it reacts to is on record and
/// before anyone else hears of it, so that the same happens in every run.
pub struct People {
    pub inner: Arc<dyn Store>,
    pub reactions: &'static [Reaction],
}

impl People {
    async fn first_job(&self, task: &TaskId) -> Option<Seq> {
        let log = self.inner.read(task, Seq(1), usize::MAX).await.expect("the log can be read");
        let started = log.iter().find(|stored| {
            let event = decode(&stored.body, &stored.hash).expect("what was written can be read");
            event.kind() == EventType::BackgroundJobStarted
        });
        started.map(|stored| stored.seq)
    }

    /// Back to where the first turn ended, which is another event in every run.
    async fn to_first_turn(&self, task: &TaskId) -> Item {
        let log = self.inner.read(task, Seq(1), usize::MAX).await.expect("the log can be read");
        let ended = log.iter().find(|stored| {
            let event = decode(&stored.body, &stored.hash).expect("what was written can be read");
            event.kind() == EventType::TaskSuspended
        });
        Item::Rewind { to_seq: ended.expect("a turn has ended").seq }
    }
}

#[async_trait]
impl Layer for People {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let mut appended = self.inner.append(claim, batch).await?;
        for sealed in &batch.events {
            let event = decode(&sealed.body, &sealed.hash).expect("what was written can be read");
            for (number, reaction) in self.reactions.iter().enumerate() {
                let Some(item) = reaction(&event) else { continue };
                let item = match item {
                    Item::Rewind { to_seq: FIRST_TURN } => self.to_first_turn(&batch.task).await,
                    Item::Job { code, how, job: FIRST_JOB, output } => match self.first_job(&batch.task).await {
                        Some(job) => Item::Job { code, how, job, output },
                        // The call that was to start it was cut off.
                        None => continue,
                    },
                    Item::Revise { .. } => {
                        // Whoever orders it puts the definition first.
                        let content = self.inner.content().expect("the store keeps content");
                        content.put(&another()).await.expect("it is put");
                        item
                    }
                    item => item,
                };
                let key = DedupKey::new(format!("reaction-{number}")).expect("a word and a number");
                // Whoever reacted once does not do so again, and a task that is over hears nothing.
                if let Ok(delivered) = self.inner.deliver(&batch.task, "user:tester", &item, &key).await {
                    appended.verdict.inbox_tail = appended.verdict.inbox_tail.max(delivered.position);
                }
            }
        }
        Ok(appended)
    }
}
