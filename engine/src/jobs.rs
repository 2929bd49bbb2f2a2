//! Background jobs that a worker runs for a task that it holds: no longer than it holds it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::id::{CallId, DedupKey, RunId, Seq};
use plica_kernel::limits::JOBS_MAX;
use plica_kernel::state::{EndedJob, Task};
use plica_kernel::wake::Item;
use plica_ports::store::DeliverError;
use plica_ports::{JobExit, JobSlot, JobState, Jobs, KnownJob, RunningJob, TaskJobs};
use tokio::task::{JoinHandle, JoinSet};

use crate::compose::text_of;
use crate::heartbeat::Hold;
use crate::host::Host;

/// Wait between tries to say that a job has ended.
const PAUSE: Duration = Duration::from_millis(500);

/// The live jobs of one hold, by id. Dropping it ends them.
pub(crate) struct LiveJobs {
    host: Arc<Host>,
    hold: Arc<Hold>,
    live: Mutex<BTreeMap<Seq, Live>>,
    slots: Arc<Slots>,
}

/// A job whose start is on record.
struct Live {
    job: RunningJob,
    what: String,
    /// Waits for its end and says so to the task.
    watcher: JoinHandle<()>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl LiveJobs {
    pub(crate) fn new(host: Arc<Host>, hold: Arc<Hold>) -> Self {
        Self { host, hold, live: Mutex::default(), slots: Arc::default() }
    }

    /// Whether this hold keeps something alive for the task as it stands: its claim then outlasts
    /// a wait (ST-13).
    pub(crate) fn keep(&self, task: &Task) -> bool {
        open(task, &self.hold.claim.run).next().is_some()
    }

    /// What tools see of the task's jobs, as it stands.
    pub(crate) fn view(&self, task: &Task) -> TaskJobs {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let live = live.iter().map(|(id, live)| (*id, (live.job.clone(), live.what.clone()))).collect();
        let ended = task.governance().jobs.clone();
        TaskJobs::new(View { host: self.host.clone(), live, ended, slots: self.slots.clone() })
    }

    /// Brings what runs in line with an append that was written: jobs whose start it records are
    /// kept, those that it closed are ended before anything else is done. Those of `started` whose
    /// start is not on record end with their last handle.
    pub(crate) async fn settle(&self, task: &Task, started: Vec<(CallId, RunningJob)>) {
        let closed: Vec<Live> = {
            let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
            for (call, job) in started {
                let begun = open(task, &self.hold.claim.run).find(|(_, open)| open.call == call);
                if let Some((id, open)) = begun.filter(|(id, _)| !live.contains_key(id)) {
                    let watcher = self.watch(task, id, &open.tool, job.clone());
                    live.insert(id, Live { job, what: open.what.clone(), watcher });
                }
            }
            let ids: Vec<Seq> = open(task, &self.hold.claim.run).map(|(id, _)| id).collect();
            live.extract_if(.., |id, _| !ids.contains(id)).map(|(_, live)| live).collect()
        };
        end(closed).await;
    }

    /// Ends all of them: the hold is about to.
    pub(crate) async fn end_all(&self) {
        let live = std::mem::take(&mut *self.live.lock().unwrap_or_else(PoisonError::into_inner));
        end(live.into_values().collect()).await;
    }

    /// Ends all of them and has their ends said to the task: whatever they change they have changed.
    pub(crate) async fn conclude(&self) {
        let live = std::mem::take(&mut *self.live.lock().unwrap_or_else(PoisonError::into_inner));
        let mut ending = JoinSet::new();
        for mut live in live.into_values() {
            ending.spawn(async move {
                live.job.kill().await;
                // One that was aborted or panicked leaves its job to be lost.
                let _ = (&mut live.watcher).await;
            });
        }
        tokio::select! {
            () = async { while ending.join_next().await.is_some() {} } => {}
            () = self.hold.lost.cancelled() => {}
        }
    }

    /// Ends all of them at once, whatever they are about: the claim is lost (RC-6).
    pub(crate) fn drop_all(&self) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Says to the task that a job has ended, once it has: durable before anything comes of it.
    fn watch(&self, task: &Task, id: Seq, tool: &str, job: RunningJob) -> JoinHandle<()> {
        let (host, hold, task, actor) =
            (self.host.clone(), self.hold.clone(), task.id().clone(), format!("tool:{tool}"));
        tokio::spawn(async move {
            let JobExit { code, how, output } = job.ended().await;
            let item = Item::Job { code, how, job: id, output };
            let Ok(dedup) = DedupKey::new(format!("job:{id}")) else { return };
            loop {
                match host.store.deliver(&task, &actor, &item, &dedup).await {
                    Ok(delivered) => return hold.moved(delivered.position),
                    Err(DeliverError::Store(error)) => {
                        tracing::warn!(%task, job = %id, %error, "the end of a background job could not be delivered: trying again");
                        host.clock.sleep(PAUSE).await;
                    }
                    Err(error) => {
                        return tracing::debug!(%task, job = %id, %error, "nobody takes the end of a background job");
                    }
                }
            }
        })
    }
}

/// The jobs that the task counts as run by this hold.
fn open<'a>(task: &'a Task, run: &RunId) -> impl Iterator<Item = (Seq, &'a plica_kernel::state::OpenJob)> {
    let mine = task.governance().open_jobs().filter(move |(action, _)| action.identity.run == *run);
    mine.map(|(action, job)| (action.seq, job))
}

/// Ends jobs, all at the same time.
async fn end(jobs: Vec<Live>) {
    let mut ending = JoinSet::new();
    for live in jobs {
        live.watcher.abort();
        let job = live.job.clone();
        ending.spawn(async move { job.kill().await });
    }
    while ending.join_next().await.is_some() {}
}

/// Places for jobs: as many are taken as there are clones beside the first.
#[derive(Default)]
struct Slots(Mutex<Arc<()>>);

impl Slots {
    fn take(&self) -> Option<Arc<()>> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (Arc::strong_count(&slots) <= JOBS_MAX).then(|| Arc::clone(&slots))
    }
}

/// The jobs of a task as a call of it sees them.
struct View {
    host: Arc<Host>,
    live: BTreeMap<Seq, (RunningJob, String)>,
    ended: Vec<EndedJob>,
    slots: Arc<Slots>,
}

#[async_trait]
impl Jobs for View {
    fn slot(&self) -> Option<JobSlot> {
        self.slots.take().map(JobSlot::new)
    }

    async fn job(&self, id: Seq) -> Result<Option<KnownJob>, String> {
        if let Some((job, what)) = self.live.get(&id) {
            // It may have ended and that not be on record yet.
            let state = ended_now(job).map_or_else(|| JobState::Running(job.clone()), JobState::Ended);
            return Ok(Some(KnownJob { state, what: what.clone() }));
        }
        let Some(ended) = self.ended.iter().find(|ended| ended.job == id) else { return Ok(None) };
        let content = self.host.content().map_err(|error| error.to_string())?;
        let output = text_of(&ended.output, content).await.map_err(|error| error.to_string())?;
        let state = JobState::Ended(JobExit { code: ended.code, how: ended.how, output });
        Ok(Some(KnownJob { state, what: ended.started.what.clone() }))
    }
}

/// How a job ended, if it has.
fn ended_now(job: &RunningJob) -> Option<JobExit> {
    match pin!(job.ended()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(exit) => Some(exit),
        Poll::Pending => None,
    }
}
