//! Background jobs: each ends once on record, as what became of it outside, and the model is
//! told of that once (ST-13).

use std::collections::BTreeMap;
use std::time::Duration;

use plica_kernel::id::{Seq, TaskId};
use plica_kernel::row::Projection;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_ports::store::Row;

use super::event::Event;
use super::inbox::Inbox;
use super::log::{Status, Surroundings};
use super::{Book, Oracle};
use crate::sim::outside::Outside;
use crate::sim::processes::Process;
use crate::sim::tools::Kind;

/// How long a process may go on that should be gone: until its worker, which perhaps cannot reach
/// the store, has to take the longest lease for over, and has told it to end.
const GRACE: Duration = Duration::from_secs(40);

/// A job that is on record.
#[derive(Debug, Clone)]
struct Job {
    call: String,
    /// The run of the holder that started it.
    run: String,
    /// The event that records its end.
    ended: Option<u64>,
    /// Whether the model knows of that, or need not.
    told: bool,
}

/// The background jobs of one task, by id.
#[derive(Debug, Clone, Default)]
pub struct Jobs {
    all: BTreeMap<u64, Job>,
    /// What was known of them when the attempt in progress was planned.
    planned: BTreeMap<u64, Job>,
}

impl Jobs {
    /// Takes an event that is about jobs, or goes on with the task; `append` is where its append
    /// began.
    pub fn push(&mut self, event: &Event, append: u64, around: &Surroundings<'_>) -> Result<(), String> {
        match event.kind.as_str() {
            "BackgroundJobStarted" => self.started(event, around),
            "BackgroundJobEnded" => self.ended(event, around),
            "MessagesAppended" => self.told(event),
            "ContextPlanComposed" => {
                self.planned.clone_from(&self.all);
                self.is_told_of_all(event, event.seq)
            }
            "StepAttemptAbandoned" if event.payload["verdict"] == "redrive" => {
                let planned = std::mem::take(&mut self.planned);
                self.known_as_in(&planned);
                Ok(())
            }
            // Those that end with their task are told to nobody.
            "TaskCompleted" => self.is_told_of_all(event, append),
            _ => Ok(()),
        }
    }

    fn started(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        let (call, seq) = (event.text("call")?, event.seq);
        let process = around.outside.process(&format!("{}:{call}", around.task));
        if process.is_none_or(|process| process.epoch != event.epoch) {
            return Err(format!("job {seq} of call {call} is on record, and nothing was started under it"));
        }
        if event.text("tool")? != Kind::Start.name() || self.all.values().any(|job| job.call == call) {
            return Err(format!("job {seq} is another one of call {call}"));
        }
        let job = Job { call: call.to_owned(), run: event.run.clone(), ended: None, told: false };
        self.all.insert(seq, job);
        Ok(())
    }

    fn ended(&mut self, event: &Event, around: &Surroundings<'_>) -> Result<(), String> {
        let id = event.action.unwrap_or_default();
        let job = self.all.get_mut(&id).ok_or_else(|| format!("job {id} ends and was never started"))?;
        if let Some(before) = job.ended.replace(event.seq) {
            return Err(format!("job {id} ends at event {before} and at event {}", event.seq));
        }
        let how = event.text("how")?;
        let seen = around.outside.process(&format!("{}:{}", around.task, job.call)).and_then(|one| {
            let (end, code) = one.end()?;
            Some((end.to_string(), code.map(i64::from), one.output()))
        });
        let right = if event.actor == "engine" {
            // Only its own holder can end it, and nobody else lose it.
            how == if job.run == event.run { "killed" } else { "lost" }
        } else {
            let said = (how.to_owned(), event.payload["code"].as_i64(), event.body("output", around.contents)?);
            seen.as_ref() == Some(&said)
        };
        if right { Ok(()) } else { Err(format!("job {id} of run {} ends as {event:?}, seen was {seen:?}", job.run)) }
    }

    fn told(&mut self, event: &Event) -> Result<(), String> {
        for id in event.payload["jobs"].as_array().into_iter().flatten() {
            let id = id.as_u64().or_else(|| id.as_str()?.parse().ok()).unwrap_or_default();
            match self.all.get_mut(&id) {
                Some(job) if job.ended.is_some() && !job.told => job.told = true,
                job => return Err(format!("event {} tells of job {id}, which is {job:?}", event.seq)),
            }
        }
        Ok(())
    }

    fn is_told_of_all(&self, event: &Event, before: u64) -> Result<(), String> {
        let untold = |job: &&Job| !job.told && job.ended.is_some_and(|ended| ended < before);
        match self.all.values().find(untold) {
            Some(job) => Err(format!("{} {} goes on without a word on {job:?}", event.kind, event.seq)),
            None => Ok(()),
        }
    }

    /// The conversation goes on from where `landing` was known.
    pub fn went_back(&mut self, landing: &Self) {
        self.known_as_in(&landing.all);
    }

    /// The model is told again of what it takes to run as things were `then`, and of nothing else.
    fn known_as_in(&mut self, then: &BTreeMap<u64, Job>) {
        for (id, job) in &mut self.all {
            job.told = then.get(id).is_none_or(|then| then.told);
        }
    }

    fn open(&self) -> impl Iterator<Item = (u64, &Job)> {
        self.all.iter().filter(|(_, job)| job.ended.is_none()).map(|(id, job)| (*id, job))
    }

    /// Whether some are not known to have ended.
    pub fn any_open(&self) -> bool {
        self.open().next().is_some()
    }

    /// Whether those that are open go on until someone ends them.
    pub fn last(&self, task: &TaskId, outside: &Outside) -> bool {
        self.open().all(|(_, job)| outside.process(&format!("{task}:{}", job.call)).is_some_and(|one| one.lasts()))
    }

    /// Whether the model is still to be told of some.
    pub fn any_untold(&self) -> bool {
        self.all.values().any(|job| job.ended.is_some() && !job.told)
    }

    /// What a former holder ran is lost before its successor writes anything else, unless an end
    /// lies in the inbox.
    pub fn append_ends(&self, run: &str, inbox: &Inbox) -> Result<(), String> {
        let said = |id: u64| inbox.holds(|item| matches!(item, Item::Job { job, .. } if job.0 == id));
        match self.open().find(|(id, job)| job.run != run && !said(*id)) {
            Some((id, job)) => Err(format!("run {run} goes on, and job {id} is not lost: {job:?}")),
            None => Ok(()),
        }
    }
}

impl Oracle {
    /// The last job of a task that is on record.
    pub fn last_job(&self, task: &TaskId) -> Option<Seq> {
        self.books().tasks.get(task)?.log.jobs.all.last_key_value().map(|(id, _)| Seq(*id))
    }

    /// Tasks that wait with live jobs.
    pub fn waiting_with_jobs(&self) -> Vec<TaskId> {
        let books = self.books();
        let waits = |book: &Book| book.log.status == Status::Waiting && book.log.jobs.any_open();
        books.tasks.iter().filter(|(_, book)| waits(book)).map(|(task, _)| task.clone()).collect()
    }

    /// Nothing outside outlives the hold that it is of, or its end on record.
    pub fn look_at_processes(&self) {
        let now = self.clock.elapsed();
        for process in self.outside.processes() {
            let should_be_gone = self.books().tasks.get(&process.task).is_none_or(|book| !may_run(book, &process));
            let overdue = process.overdue(now, should_be_gone && process.runs());
            if overdue > GRACE {
                let key = format!("{}:{}", process.task, process.call);
                self.violated(process.task.as_str(), format!("the job of {key} is alive for {overdue:?} too long"));
            }
        }
    }

    /// The hold is handed back: whatever is on record as run by it is gone.
    pub(super) fn let_go(&self, task: &TaskId, epoch: u64) {
        for process in self.outside.processes().iter().filter(|one| one.task == *task && one.epoch == epoch) {
            let open = |book: &Book| book.log.jobs.open().any(|(_, job)| job.call == process.call);
            if process.runs() && self.books().tasks.get(task).is_some_and(open) {
                self.violated(task.as_str(), format!("handed back while its job of call {} is alive", process.call));
            }
        }
    }

    /// A task with live jobs that waits is due whenever nobody holds it (ST-13).
    pub fn row_shown(&self, row: &Row, now: Timestamp) {
        self.check(&row.id, |book| {
            if book.log.status != Status::Waiting || !book.log.jobs.any_open() || book.blocked {
                return Ok(());
            }
            let due = match &book.holds.now {
                Some(hold) if hold.until > now => row.claimable_at == Some(hold.until),
                // Times on record are a holder's reckoning, which may be a little ahead of the store.
                _ => row.claimable_at.is_some_and(|at| at <= now || at.to_string() <= book.log.at),
            };
            if due { Ok(()) } else { Err(format!("waits with live jobs at {now}, and is due later: {row:?}")) }
        });
    }
}

/// Whether the process may be alive, as its task's log and holds stand.
fn may_run(book: &Book, process: &Process) -> bool {
    let held = book.holds.now.as_ref().is_some_and(|hold| hold.epoch == process.epoch);
    let on_record = book.log.jobs.all.values().find(|job| job.call == process.call);
    let answered = || book.log.rounds.calls.get(&process.call).is_some_and(|call| call.answer.is_some());
    held && on_record.map_or_else(|| !answered(), |job| job.ended.is_none())
}

/// The row's time is the log's, but for a task that waits with live jobs, which is due.
pub fn row_wakes(book: &Book, row: &Projection) -> Result<(), String> {
    let log = &book.log;
    let at = row.wake.at.map(|at| at.to_string());
    let waits = log.status == Status::Waiting;
    let right = match &at {
        _ if !waits => true,
        Some(at) if log.jobs.any_open() => *at <= log.at,
        _ => !log.jobs.any_open() && at == log.wake.at,
    };
    if right { Ok(()) } else { Err(format!("the row wakes at {at:?}, the log waits for {:?}", log.wake)) }
}
