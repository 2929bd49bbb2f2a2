//! The resident worker: claims tasks, drives each, keeps their leases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use plica_kernel::id::{InstanceId, Queue, TaskId, WorkerId};
use plica_kernel::limits::NEWER_VERSION_REST_MS;
use plica_kernel::row::Status;
use plica_kernel::wake::WakeKey;
use plica_ports::store::{
    ClaimError, ClaimRequest, Claimed, Outlook, Page, Row, StoreError, TaskFilter, Worker as WorkerIdentity,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::WorkerError;
use crate::heartbeat::{Hold, Holds};
use crate::host::Host;
use crate::outage::Outage;
use crate::plugins::Lacks;
use crate::step::{Drive, Ended};

/// How often held tasks' inboxes are looked at: a cancel reaches its holder within a second.
const GLANCE: Duration = Duration::from_millis(250);
/// Longest wait for work before looking again, where the end of others' work ends this worker too.
const POLL: Duration = Duration::from_secs(1);
/// The same for a worker that goes on whatever others do: the store tells it of work.
const RESIDENT_POLL: Duration = Duration::from_secs(5);
/// Wait after the store was unavailable.
const PAUSE: Duration = Duration::from_millis(500);

/// Tells a worker to stop: it begins nothing new, lets calls end, hands its claims back.
#[derive(Debug, Clone, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// One that nobody has said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says it.
    pub fn stop(&self) {
        self.0.cancel();
    }
}

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Who it is.
    pub identity: WorkerIdentity,
    /// The queues it serves; empty means every queue.
    pub queues: Vec<Queue>,
    /// How long a claim holds unless renewed; it is renewed every third of that.
    pub lease: Duration,
    /// Tasks at once.
    pub concurrency: usize,
    /// Ends when nothing in its queues runs and nothing will become claimable by itself.
    pub until_idle: bool,
    /// Drives this task and no other, to its end or until it waits for someone.
    pub only: Option<TaskId>,
}

impl WorkerOptions {
    /// A resident worker of this name that serves every queue, holds tasks for 30 s at a time
    /// and works on four at once.
    ///
    /// Its process is not told to the store, so its tasks are free once their leases are over
    /// and not before: a host that knows its process says so in `identity`.
    pub fn new(name: WorkerId) -> Self {
        let identity = WorkerIdentity {
            id: name,
            instance: new_instance_id(),
            host: "localhost".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            process: None,
        };
        Self {
            identity,
            queues: Vec::new(),
            lease: Duration::from_secs(30),
            concurrency: 4,
            until_idle: false,
            only: None,
        }
    }

    /// The same, but it ends when there is nothing left to do.
    #[must_use]
    pub fn until_idle(self) -> Self {
        Self { until_idle: true, ..self }
    }
}

fn new_instance_id() -> InstanceId {
    InstanceId::new(uuid::Uuid::now_v7().to_string()).expect("UUID text is a valid id")
}

/// A worker on a host.
pub struct Worker {
    host: Arc<Host>,
    options: WorkerOptions,
}

/// Why and how long a task is left alone.
struct LeftAlone {
    until: Duration,
    /// Whether this worker will not do anything with it, ever.
    for_good: bool,
}

/// What the loop keeps beside its options.
struct Running {
    holds: Arc<Holds>,
    tasks: JoinSet<(TaskId, Ended)>,
    /// Tasks that are for a newer version or a worker with other plugins, and until when they
    /// are left alone.
    left_alone: BTreeMap<TaskId, LeftAlone>,
    outage: Arc<Outage>,
    /// Claims that came to nothing because this worker lacks a plugin.
    lacks: Arc<Lacks>,
}

impl Worker {
    /// A worker on `host`.
    pub fn new(host: Arc<Host>, options: WorkerOptions) -> Self {
        Self { host, options }
    }

    /// Works until it is told to stop; with `until_idle` or `only` until there is nothing left
    /// to do.
    ///
    /// # Errors
    /// When the store cannot be used at all, or (with `until_idle` or `only`) when 30 s passed
    /// without a committed append because it was unavailable (ST-10).
    pub async fn run(&self, stop: Stop) -> Result<(), WorkerError> {
        let mut running = Running {
            holds: Arc::new(Holds::default()),
            tasks: JoinSet::new(),
            left_alone: BTreeMap::new(),
            outage: Arc::new(Outage::default()),
            lacks: Arc::new(Lacks::default()),
        };
        self.register().await?;
        let mut heart = JoinSet::new();
        heart.spawn(beat(self.host.clone(), running.holds.clone(), self.options.clone()));
        let ended = self.work(&mut running, &stop).await;
        // Whatever ended the loop, what is still held is handed back before the heart stops.
        stop.0.cancel();
        if let Err(WorkerError::Unavailable { .. }) = ended {
            running.holds.give_up();
        }
        while running.tasks.join_next().await.is_some() {}
        heart.abort_all();
        if let Err(error) = self.host.store.deregister(&self.options.identity).await {
            tracing::debug!(%error, "the worker could not be deregistered");
        }
        ended
    }

    /// Says that a worker is alive. One that drives a single task is none for others to count
    /// on: it will not take theirs.
    async fn register(&self) -> Result<(), StoreError> {
        let options = &self.options;
        if options.only.is_some() {
            return Ok(());
        }
        match self.host.store.register(&options.identity, &options.queues, options.lease).await {
            Err(StoreError::Unavailable(why)) => {
                tracing::warn!(why, "the worker could not be registered");
                Ok(())
            }
            registered => registered,
        }
    }

    async fn work(&self, running: &mut Running, stop: &Stop) -> Result<(), WorkerError> {
        loop {
            self.reap(running);
            if stop.0.is_cancelled() {
                return Ok(());
            }
            match self.claim(running, stop).await {
                Ok(0) => {}
                Ok(_) => continue,
                Err(error) => self.put_up_with(running, error)?,
            }
            if let Some(waiting) = running.holds.waiting_for_others(running.tasks.len())
                && !running.outage.is_out_of_reach()
            {
                match self.is_done(running, &waiting).await {
                    Ok(true) if waiting.is_empty() => return Ok(()),
                    // Nobody will come: jobs end, and the next claim finds them lost.
                    Ok(true) => running.holds.part(),
                    Ok(false) => {}
                    Err(error) => self.put_up_with(running, error.into())?,
                }
            }
            self.wait(running, stop).await?;
        }
    }

    /// Takes in the tasks that ended.
    fn reap(&self, running: &mut Running) {
        while let Some(joined) = running.tasks.try_join_next() {
            self.ended(running, joined);
        }
    }

    fn ended(&self, running: &mut Running, joined: Result<(TaskId, Ended), tokio::task::JoinError>) {
        match joined {
            Ok((task, Ended::NewerVersion)) => {
                let until = self.host.clock.monotonic() + Duration::from_millis(NEWER_VERSION_REST_MS);
                running.left_alone.insert(task, LeftAlone { until, for_good: true });
            }
            // A task that was woken is due at once, whatever it was handed back with.
            Ok((task, Ended::LacksPlugins)) => {
                let until = self.host.clock.monotonic() + self.options.lease;
                running.left_alone.insert(task, LeftAlone { until, for_good: false });
            }
            Ok((_, Ended::Unavailable(why))) => running.outage.appends_fail(self.host.clock.monotonic(), &why),
            Ok((_, Ended::HandedBack | Ended::Lost)) => {}
            Err(error) => tracing::error!(%error, "a step broke off: its lease will end the claim"),
        }
    }

    /// Claims what there is room for and starts to drive it; says how many.
    async fn claim(&self, running: &mut Running, stop: &Stop) -> Result<usize, ClaimError> {
        let room = self.room(running);
        if room == 0 {
            return Ok(0);
        }
        let now = self.host.clock.monotonic();
        running.left_alone.retain(|_, alone| alone.until > now);
        let request = ClaimRequest {
            worker: self.options.identity.clone(),
            queues: self.options.queues.clone(),
            lease: self.options.lease,
            max: room,
            task: self.options.only.clone(),
            except: running.left_alone.keys().cloned().collect(),
        };
        let mut count = self.claim_as(running, stop, &request).await?;
        if count == 0 && self.options.only.is_some() {
            // Driving a task is driving its children too: it waits for them.
            for child in self.claimable_descendants().await? {
                count += self.claim_as(running, stop, &ClaimRequest { task: Some(child), ..request.clone() }).await?;
                if self.room(running) == 0 {
                    break;
                }
            }
        }
        running.outage.claims_work();
        Ok(count)
    }

    /// How many more tasks may be worked on. Holds that only keep jobs alive leave room for others.
    fn room(&self, running: &Running) -> usize {
        let resting = running.holds.resting().min(RESTING_MAX);
        self.options.concurrency.saturating_sub(running.tasks.len().saturating_sub(resting))
    }

    async fn claim_as(&self, running: &mut Running, stop: &Stop, request: &ClaimRequest) -> Result<usize, ClaimError> {
        let sent = self.host.clock.monotonic();
        let claimed = match self.host.store.claim(request).await {
            Ok(claimed) => claimed,
            Err(ClaimError::CommitUnknown(why)) => {
                tracing::warn!(why, "fate of a claim unknown: asking what is held");
                self.adopt_own().await?
            }
            Err(error @ ClaimError::Store(_)) => return Err(error),
        };
        let count = claimed.len();
        for one in claimed {
            self.start(running, stop, one, sent);
        }
        Ok(count)
    }

    /// Rows of the children of the task that is driven, and of theirs.
    async fn descendants(&self) -> Result<Vec<Row>, StoreError> {
        let Some(task) = &self.options.only else { return Ok(Vec::new()) };
        let filter = TaskFilter { prefix: Some(format!("{task}.")), ..TaskFilter::default() };
        self.host.store.tasks(&filter, &Page::first(DESCENDANTS)).await
    }

    async fn claimable_descendants(&self) -> Result<Vec<TaskId>, StoreError> {
        let rows = self.descendants().await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.host.store.now().await?;
        let due = rows.into_iter().filter(|row| row.claimable_at.is_some_and(|at| at <= now));
        Ok(due.map(|row| row.id).collect())
    }

    /// Takes up what the store thinks this instance holds (ST-9). What it really holds it
    /// loses by that, and claims again.
    async fn adopt_own(&self) -> Result<Vec<Claimed>, ClaimError> {
        let mut adopted = Vec::new();
        for task in self.host.store.held_by(&self.options.identity).await? {
            adopted.extend(self.host.store.adopt(&self.options.identity, &task, self.options.lease).await?);
        }
        Ok(adopted)
    }

    fn start(&self, running: &mut Running, stop: &Stop, claimed: Claimed, sent: Duration) {
        let hold = Arc::new(Hold::new(
            &claimed,
            sent,
            self.host.clock.monotonic(),
            self.options.lease,
            running.holds.rested.clone(),
        ));
        running.holds.add(hold.clone());
        let drive = Drive {
            host: self.host.clone(),
            hold,
            lease: self.options.lease,
            stop: stop.0.clone(),
            outage: running.outage.clone(),
            lacks: running.lacks.clone(),
        };
        let holds = running.holds.clone();
        let task = claimed.claim.task.clone();
        running.tasks.spawn(async move {
            let claim = claimed.claim.clone();
            tracing::debug!(task = %claim.task, epoch = %claim.epoch, "claimed");
            let ended = drive.run(claimed).await;
            holds.remove(&claim);
            (task, ended)
        });
    }

    /// Whether the worker goes on until it is told to stop.
    fn is_resident(&self) -> bool {
        !self.options.until_idle && self.options.only.is_none()
    }

    /// Takes note of a store that cannot be reached; whatever else is wrong with it no waiting
    /// mends.
    fn put_up_with(&self, running: &Running, error: ClaimError) -> Result<(), WorkerError> {
        match error {
            ClaimError::CommitUnknown(why) | ClaimError::Store(StoreError::Unavailable(why)) => {
                tracing::warn!(why, "the store cannot be reached: trying again");
                running.outage.claims_fail(self.host.clock.monotonic(), &why);
                self.check_patience(running)
            }
            error @ ClaimError::Store(_) => Err(error.into()),
        }
    }

    /// A resident worker goes on trying, any other gives up once 30 s have passed without a
    /// committed append because the store was unavailable (ST-10).
    fn check_patience(&self, running: &Running) -> Result<(), WorkerError> {
        match running.outage.is_too_long() {
            Some((lasted, last)) if !self.is_resident() => {
                Err(WorkerError::Unavailable { seconds: lasted.as_secs(), last })
            }
            _ => Ok(()),
        }
    }

    /// Whether there is nothing left to do, here or by itself later; `waiting` are held tasks that
    /// wait for someone.
    async fn is_done(&self, running: &Running, waiting: &BTreeSet<TaskId>) -> Result<bool, StoreError> {
        if let Some(task) = &self.options.only {
            return self.is_at_rest(task, waiting).await;
        }
        if !self.options.until_idle {
            return Ok(false);
        }
        let Outlook { held, next, now } = self.host.store.outlook(&self.options.queues).await?;
        // What is due and was not handed out just now is among the tasks left alone.
        let alone = running.left_alone.values();
        let nothing_to_come =
            next.is_none_or(|due| due <= now && alone.len() > 0 && alone.clone().all(|alone| alone.for_good));
        Ok(held <= waiting.len() as u64 && nothing_to_come)
    }

    /// Whether a task is over, blocked, or waits for someone.
    async fn is_at_rest(&self, task: &TaskId, waiting: &BTreeSet<TaskId>) -> Result<bool, StoreError> {
        let is_still = |row: &Row| is_still(row) || waiting.contains(&row.id);
        let Some(row) = self.host.store.row(task).await? else { return Err(StoreError::UnknownTask(task.clone())) };
        if !is_still(&row) {
            return Ok(false);
        }
        let descendants = self.descendants().await?;
        let waits_for_children = row.projection.status == Status::Waiting
            && row.projection.wake.any.iter().any(|one| matches!(one.key, WakeKey::Group(_) | WakeKey::Background));
        if waits_for_children {
            // It waits its children out, unless they too wait for someone.
            return Ok(descendants.iter().all(is_still));
        }
        if descendants.is_empty() {
            return Ok(true);
        }
        // Children that were told to stop are let do so.
        let now = self.host.store.now().await?;
        Ok(descendants
            .iter()
            .all(|row| waiting.contains(&row.id) || row.claimable_at.is_none_or(|at| at > now) && row.holder.is_none()))
    }

    /// Waits until a task ended, something may have become claimable, or it is to stop.
    async fn wait(&self, running: &mut Running, stop: &Stop) -> Result<(), WorkerError> {
        let room = self.room(running) > 0;
        let out_of_reach = running.outage.is_out_of_reach();
        let left_alone = &running.left_alone;
        let store = &self.host.store;
        let clock = &self.host.clock;
        let poll = if self.is_resident() { RESIDENT_POLL } else { POLL };
        let work = async {
            if out_of_reach {
                clock.sleep(PAUSE).await;
                return Ok(());
            }
            if !left_alone.is_empty() {
                // The store calls them claimable, so it would not let anybody wait.
                clock.sleep(PAUSE).await;
                return Ok(());
            }
            if !room {
                // Only the steps can tell of an outage now, and nobody but this loop gives up.
                clock.sleep(POLL).await;
                return Ok(());
            }
            store.wait_claimable(&self.options.queues, poll).await
        };
        let rested = running.holds.rested.clone();
        let joined = tokio::select! {
            biased;
            Some(joined) = running.tasks.join_next() => Some(joined),
            () = stop.0.cancelled() => None,
            () = rested.notified() => None,
            waited = work => {
                if let Err(error) = waited {
                    self.put_up_with(running, error.into())?;
                    clock.sleep(PAUSE).await;
                }
                None
            }
        };
        if let Some(joined) = joined {
            self.ended(running, joined);
        }
        self.check_patience(running)
    }
}

/// Whether a task neither runs nor will by itself.
fn is_still(row: &Row) -> bool {
    let status = row.projection.status;
    let rests = status.is_over() || status == Status::Waiting || row.blocked.is_some();
    rests && row.holder.is_none() && row.claimable_at.is_none()
}

/// Tasks whose background jobs a worker keeps alive while they wait without counting them as work;
/// further ones count.
const RESTING_MAX: usize = 256;
/// Descendants of a driven task that are looked at.
const DESCENDANTS: usize = 1_000;

/// The worker's heart: glances at inboxes, renews leases every third of their length, gives up
/// what this worker's own clock says is over.
async fn beat(host: Arc<Host>, holds: Arc<Holds>, options: WorkerOptions) {
    let every = options.lease / 3;
    let mut renewed = host.clock.monotonic();
    loop {
        host.clock.sleep(GLANCE.min(every / 2)).await;
        let now = host.clock.monotonic();
        if now.saturating_sub(renewed) >= every {
            match holds.renew(&*host.store, &*host.clock, options.lease).await {
                Ok(()) => renewed = now,
                Err(error) => tracing::warn!(%error, "leases could not be renewed: trying again"),
            }
            if options.only.is_none()
                && let Err(error) = host.store.register(&options.identity, &options.queues, options.lease).await
            {
                tracing::debug!(%error, "the worker could not say that it is alive");
            }
        } else if let Err(error) = holds.glance(&*host.store).await {
            tracing::debug!(%error, "inboxes could not be looked at");
        }
        holds.expire(host.clock.monotonic());
    }
}
