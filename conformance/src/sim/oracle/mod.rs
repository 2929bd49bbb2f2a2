//! The judge of a simulated world: it is told of everything that the store hands out and
//! writes, of everything that tools do, and of what senders were promised, and checks after
//! every append what has to hold (section 19 of the design). It reads stored bytes by itself
//! and uses nothing of the kernel's fold.

mod account;
mod book;
mod claims;
mod doings;
mod event;
mod family;
mod force;
mod hold;
mod inbox;
mod jobs;
mod log;
mod reckoning;
mod rounds;
mod waits;
mod wake;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plica_kernel::id::{Seq, TaskId};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_ports::store::{Batch, Claim, Delivered, Row, StoredEvent};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use account::Account;
use book::Book;
pub use event::{Contents, references};
use event::{Event, sha256};
pub use inbox::Sent;
use jobs::row_wakes;
use log::{Status, Surroundings};
use reckoning::finish_task;
pub use waits::Need;

use super::agents::Plans;
use super::equipment::Equipment;
use super::outside::Outside;
use super::time::WorldClock;
use super::tools::Kind;

/// Something that must hold does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The task, or what else it is about.
    pub task: String,
    /// When, in milliseconds from the beginning.
    pub at_ms: u128,
    /// What is wrong, in words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ms: {}", self.task, self.at_ms, self.what)
    }
}

#[derive(Debug, Default)]
struct Books {
    ledger: String,
    tasks: BTreeMap<TaskId, Book>,
    /// Content that was found to be there, and its size.
    found: BTreeMap<String, u64>,
    /// What each process has.
    equipment: BTreeMap<String, Arc<Equipment>>,
    violation: Option<Violation>,
    trace: Vec<String>,
}

/// The judge.
#[derive(Debug)]
pub struct Oracle {
    books: Mutex<Books>,
    plans: Arc<Plans>,
    outside: Arc<Outside>,
    clock: Arc<WorldClock>,
    traced: bool,
    /// Whether an observer keeps its place in every log.
    observed: bool,
    broken: Notify,
    needs: UnboundedSender<(TaskId, Need)>,
    open_needs: Arc<AtomicUsize>,
}

impl Oracle {
    /// A judge of a world that begins; `traced` keeps a line of everything it hears. What
    /// tasks ask of people goes to `needs`.
    pub fn new(
        plans: Arc<Plans>,
        outside: Arc<Outside>,
        clock: Arc<WorldClock>,
        ledger: String,
        traced: bool,
        needs: UnboundedSender<(TaskId, Need)>,
    ) -> Self {
        let books = Mutex::new(Books { ledger, ..Books::default() });
        Self {
            books,
            plans,
            outside,
            clock,
            traced,
            observed: false,
            broken: Notify::new(),
            needs,
            open_needs: Arc::default(),
        }
    }

    /// The same, of a world in which an observer keeps its place in every log.
    #[must_use]
    pub fn observed(self) -> Self {
        Self { observed: true, ..self }
    }

    /// A process starts that has these tools.
    pub fn equipped(&self, instance: &str, equipment: Arc<Equipment>) {
        self.note(|| format!("{instance} starts with {equipment:?}"));
        self.books().equipment.insert(instance.to_owned(), equipment);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes something in the trace.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if self.traced {
            let line = format!("{:>8} ms  {}", self.clock.elapsed().as_millis(), line());
            self.books().trace.push(line);
        }
    }

    /// The trace so far.
    pub fn trace(&self) -> Vec<String> {
        self.books().trace.clone()
    }

    /// The first thing that did not hold.
    pub fn violation(&self) -> Option<Violation> {
        self.books().violation.clone()
    }

    /// Returns once something does not hold.
    pub async fn broken(&self) {
        if self.violation().is_none() {
            self.broken.notified().await;
        }
    }

    /// Something does not hold.
    pub fn violated(&self, task: &str, what: String) {
        self.note(|| format!("VIOLATION {task}: {what}"));
        let at_ms = self.clock.elapsed().as_millis();
        self.books().violation.get_or_insert(Violation { task: task.to_owned(), at_ms, what });
        self.broken.notify_one();
    }

    /// Checks something about a task, in its book.
    fn check(&self, task: &TaskId, check: impl FnOnce(&mut Book) -> Result<(), String>) {
        let checked = check(self.books().tasks.entry(task.clone()).or_default());
        if let Err(what) = checked {
            self.violated(task.as_str(), what);
        }
    }

    /// Content that the oracle has not seen yet.
    pub fn unseen(&self, references: Vec<(String, u64)>) -> Vec<(String, u64)> {
        let books = self.books();
        references.into_iter().filter(|(sha256, _)| !books.found.contains_key(sha256)).collect()
    }

    /// Content that an event cites was looked for; `None` when it is not there.
    pub fn found(&self, task: &TaskId, (wanted, size): &(String, u64), bytes: Option<&[u8]>) {
        let right = bytes.is_some_and(|bytes| bytes.len() as u64 == *size && sha256(&[bytes]) == *wanted);
        if right {
            self.books().found.insert(wanted.clone(), *size);
        } else {
            self.violated(task.as_str(), format!("content {wanted} of {size} bytes is cited but not there"));
        }
    }

    /// The log grew by these events, which cite `contents`.
    pub fn grew(&self, task: &TaskId, stored: &[StoredEvent], contents: &Contents) {
        let Some(plan) = self.plans.of(task) else {
            return self.violated(task.as_str(), "a task that nobody planned".into());
        };
        let ledger = self.books().ledger.clone();
        let (has, lacks) = self.holders(task);
        for one in stored {
            self.note(|| format!("{task} {} {}", one.seq, String::from_utf8_lossy(&one.body)));
            let around = Surroundings {
                task: task.as_str(),
                ledger: &ledger,
                plan: &plan,
                contents,
                outside: &self.outside,
                has: has.as_deref(),
                lacks,
            };
            let event = Event::read(task.as_str(), one);
            if let Ok(event) = &event
                && event.kind == "TaskForked"
            {
                self.branch(task, event);
            }
            self.check(task, |book| book.push(&event?, &around));
        }
        self.check(task, |book| {
            book.log.append_ends()?;
            let run = book.log.run.clone();
            book.log.jobs.append_ends(&run, &book.inbox)
        });
        self.pass_on(task);
    }

    /// What the process has that holds a task, and whether it lacks a plugin for good.
    fn holders(&self, task: &TaskId) -> (Option<Arc<Equipment>>, bool) {
        let books = self.books();
        let Some(book) = books.tasks.get(task) else { return (None, false) };
        let has = book.holds.now.as_ref().and_then(|hold| books.equipment.get(&hold.instance)).cloned();
        (has, book.holds.lacks_for_good())
    }

    /// Where a task may go back to.
    pub fn landings(&self, task: &TaskId) -> Vec<Seq> {
        let books = self.books();
        books.tasks.get(task).into_iter().flat_map(|book| book.landings.keys()).map(|seq| Seq(*seq)).collect()
    }

    /// How many needs nobody has seen to yet; whoever does so takes it down.
    pub fn open_needs(&self) -> Arc<AtomicUsize> {
        self.open_needs.clone()
    }

    /// Positions from which on the inbox of a task is not known.
    pub fn inbox_tail(&self, task: &TaskId) -> u64 {
        self.books().tasks.get(task).map_or(0, |book| book.inbox.tail())
    }

    /// Seq of the last event that is known.
    pub fn head(&self, task: &TaskId) -> u64 {
        self.books().tasks.get(task).map_or(0, |book| book.log.seq)
    }

    /// Whether a task is over, or waits for nothing but people, and nothing is left to do.
    pub fn has_ended(&self, task: &TaskId) -> bool {
        let books = self.books();
        books.tasks.get(task).is_some_and(|book| {
            let works = book.inbox.has_work(book.log.status.is_over(), &book.log.wake);
            // One that is kept while it rests is handed back, or its lease ends and another looks.
            // One that is kept for a job that never ends by itself rests all the same.
            let kept = if book.log.jobs.any_open() {
                !book.log.jobs.last(task, &self.outside)
            } else {
                book.holds.now.is_some()
            };
            let behind = self.observed && book.watch.is_behind();
            book.log.rests() && !works && !kept && !behind
        })
    }

    /// An append was acknowledged; its events, which cite `contents`, were shown by
    /// [`Self::grew`] before.
    pub fn appended(&self, claim: &Claim, batch: &Batch, contents: &Contents, (now, held): (Timestamp, bool)) {
        if let Err(what) = self.family(batch) {
            self.violated(claim.task.as_str(), what);
        }
        self.check(&claim.task, |book| {
            let lacks = book.holds.lacks();
            book.holds.appended(claim.epoch.0, claim.run.as_str(), now, !held)?;
            if (book.log.seq, &book.log.hash) != (batch.row.seq.0, &batch.row.hash.to_string()) {
                return Err(format!("acknowledged up to event {}, the log ends at {}", batch.row.seq, book.log.seq));
            }
            row_wakes(book, &batch.row)?;
            let cancel = book.inbox.cancel_up_to(batch.seen.0);
            let recent = take(&mut book.log.recent);
            let mut account = Account::new(&recent, contents, &book.log.rounds.waits);
            for position in &batch.consumed {
                account.settle(position.0, book.inbox.take(position.0)?)?;
            }
            account.close()?;
            if lacks && !recent.iter().any(needs_no_plugin) {
                return Err("a worker that lacks a plugin goes on with the task".into());
            }
            book.holds.lacks_no_more();
            if self.observed && !held && book.watch.is_behind() {
                return Err(format!("handed back before its observer was told: {}", book.watch.behind()));
            }
            let rewound = recent.iter().any(|event| event.kind == "TaskRewound") || book.inbox.is_told_to_go_back();
            if let Some(position) = cancel.filter(|_| !book.log.status.is_over() && !rewound) {
                return Err(format!("went on after its holder had seen cancel {position}"));
            }
            let rests = book.log.status.is_over() || book.log.status == Status::Waiting;
            if rests && book.inbox.tail() > batch.seen.0 {
                return Err(format!(
                    "suspended or ended over item {}, which its holder had not seen",
                    book.inbox.tail()
                ));
            }
            Ok(())
        });
        if !held {
            self.let_go(&claim.task, claim.epoch.0);
        }
    }

    /// An append was not acknowledged: nothing of it may be there.
    pub fn refused(&self, claim: &Claim, why: &str, grew_by: usize) {
        self.note(|| format!("{} epoch {} append refused: {why}", claim.task, claim.epoch));
        if grew_by > 0 {
            self.violated(claim.task.as_str(), format!("{grew_by} events of a refused append were written: {why}"));
        }
    }

    /// The store took an item, or says that it has it.
    pub fn delivered(&self, task: &TaskId, sent: &Sent<'_>, delivered: Delivered) {
        let Sent { actor, item, key, .. } = *sent;
        self.note(|| {
            format!("{task} item {} {key} by {actor} fresh {} {item:.80?}", delivered.position, delivered.fresh)
        });
        self.check(task, |book| {
            if delivered.fresh && book.log.status.is_over() && !inbox::outlives(item) {
                return Err(format!("item {key} was taken in after the end"));
            }
            book.inbox.delivered(delivered.position.0, sent, delivered.fresh)
        });
    }

    /// A sender was told that its item is delivered.
    pub fn promised(&self, task: &TaskId, item: &Item) {
        self.check(task, |book| {
            book.inbox.promise(item);
            Ok(())
        });
    }

    /// A sender was told that the task is over.
    pub fn turned_down(&self, task: &TaskId, item: &Item) {
        self.check(task, |book| {
            book.inbox.turn_down(item);
            if book.log.status.is_over() { Ok(()) } else { Err("an item was turned down before the end".into()) }
        });
    }

    /// The world has come to its end: what was begun has ended, and nothing was lost.
    pub fn finish(&self, rows: &[Row]) {
        for plan in self.plans.all() {
            let row = rows.iter().find(|row| row.id == plan.id);
            self.check(&plan.id, |book| finish_task(book, row, self.observed));
        }
        for (key, effect) in self.outside.all() {
            let once = Kind::named(&effect.tool).is_some_and(|kind| kind.is_retry_safe()) || effect.begun <= 1;
            if !once || effect.landed > 1 {
                self.violated(&key, format!("happened more than once: {effect:?}"));
            }
        }
    }
}

/// Whether the event needs no plugin, or ends the need for one: an end, a way back, another
/// definition (RC-8).
fn needs_no_plugin(event: &Event) -> bool {
    let failed = event.kind == "TaskFailed" && event.payload["reason"] == "plugin_missing";
    failed || matches!(event.kind.as_str(), "TaskCancelled" | "TaskRewound" | "AgentRevised")
}
