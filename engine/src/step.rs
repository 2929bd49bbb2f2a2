//! One claimed task, step by step: ask the kernel what is next, do it, append.

mod begin;
mod flight;
mod foresee;
mod foresight;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plica_kernel::decide::{
    self, Act, AfterCrash, Answer, Aside, Composer, Draft, Drafted, Foreseen, Inputs, Orphan, Prepared, RecordError,
    Refusal, Spawn, Stamp,
};
use plica_kernel::event::{CallStatus, Failure, FailureReason, RequestStatus};
use plica_kernel::id::{CallId, DedupKey, Position, Seq};
use plica_kernel::limits::{MODEL_RETRY_AFTER_MAX_MS, RECONSIDER_MAX, model_backoff_ms};
use plica_kernel::row::{Blocked, Status};
use plica_kernel::state::{ActionKind, Phase, Task};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::store::rules::is_woken;
use plica_ports::store::{AppendError, ClaimAfter, Claimed, StoreError};
use plica_ports::{ModelError, PolicyView, Reply, StopReason};
use tokio_util::sync::CancellationToken;

use crate::act::{Broken, Happened, Outcome, millis};
use crate::commit::{Committed, Committer};
use crate::compose::{COMPOSER, Composition};
use crate::error::LoadError;
use crate::follow::Followers;
use crate::heartbeat::Hold;
use crate::host::Host;
use crate::jobs::LiveJobs;
use crate::load::{LoadOptions, load};
use crate::outage::Outage;
use crate::plan::plan_calls;
use crate::plugins::{self, Lacks};
use crate::revise;
use crate::setup::{Setup, SetupError};
use flight::Flight;
use foresee::add_foreseen;

/// How long a task is left alone that could not go on because something was out of reach.
const OUTAGE_REST_MS: u64 = 1_000;
/// How long running calls are waited for once the worker is to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// How a worker's hold of a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Handed back: it waits, is over, or is for another holder.
    HandedBack,
    /// Lost to another holder, or to the store's silence.
    Lost,
    /// Only a newer version can read it.
    NewerVersion,
    /// It needs plugins that this worker has not.
    LacksPlugins,
    /// The store cannot be reached.
    Unavailable(String),
}

/// What a step is driven with.
#[derive(Clone)]
pub(crate) struct Drive {
    pub(crate) host: Arc<Host>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) lease: Duration,
    /// Said when the worker is to stop: nothing new is begun.
    pub(crate) stop: CancellationToken,
    pub(crate) outage: Arc<Outage>,
    pub(crate) lacks: Arc<Lacks>,
}

impl Drive {
    /// Drives the claimed task until it is handed back or lost.
    pub(crate) async fn run(self, claimed: Claimed) -> Ended {
        let task = match self.load(&claimed).await {
            Ok(task) => task,
            Err(ended) => return ended,
        };
        let setup = Setup::read(&self.host, &task).await;
        let (setup, unusable) = match setup {
            Ok(setup) => (setup, None),
            Err(SetupError::Unavailable(why)) => {
                self.set_aside().await;
                return Ended::Unavailable(why);
            }
            Err(SetupError::Unusable(failure)) => (Setup::none(), Some(failure)),
        };
        let lacking = plugins::lacking(&task, &setup.pins);
        let needs = unusable.is_none() && !lacking.is_empty() && !needs_no_plugin(&task, &claimed.items);
        if needs && !self.lacks.is_one_too_many(&task) {
            tracing::warn!(task = %task.id(), lacking = lacking.join(", "), "left to a worker that has what it needs");
            self.put_off(millis(self.lease)).await;
            return Ended::LacksPlugins;
        }
        let followers = match Followers::resume(&self.host, &self.hold, &task).await {
            Ok(followers) => followers,
            Err(why) => {
                self.set_aside().await;
                return Ended::Unavailable(why);
            }
        };
        let seen = claimed
            .items
            .last()
            .map_or(claimed.verdict.inbox_tail, |item| item.position.max(claimed.verdict.inbox_tail));
        let mut step = Step {
            drive: &self,
            task,
            setup,
            unusable,
            items: claimed.items,
            seen,
            pending: Vec::new(),
            flight: Flight::default(),
            jobs: LiveJobs::new(self.host.clone(), self.hold.clone()),
            composition: Composition::default(),
            followers,
            spawns: BTreeMap::new(),
            foreseen: OfCalls::default(),
            rewinds: BTreeMap::new(),
            looked: BTreeMap::new(),
            after_crash: None,
            stopping: false,
            parting: false,
            reconsidered: 0,
        };
        if needs {
            return step.fail(plugins::missing(&lacking)).await;
        }
        step.go().await
    }

    /// Folds the task, and deals with one that cannot be folded (RC-9).
    async fn load(&self, claimed: &Claimed) -> Result<Task, Ended> {
        let id = &claimed.claim.task;
        let content = self.host.content().map_err(|error| Ended::Unavailable(error.to_string()))?;
        let whole = LoadOptions { whole: true, ..LoadOptions::default() };
        let mut loaded = load(&*self.host.store, content, id, whole).await;
        if let Err(LoadError::Content { source, .. }) = &loaded {
            // A snapshot whose segments are gone is slower, never wrong (SN-2).
            tracing::warn!(task = %id, %source, "snapshot passed over: folding from the first event");
            loaded = load(&*self.host.store, content, id, LoadOptions { ignore_snapshots: true, ..whole }).await;
        }
        let unreadable = match loaded {
            Ok(task) if (task.head().seq, task.head().hash) == (claimed.seq, claimed.hash) => return Ok(task),
            Ok(task) => Blocked::UnreadableLog {
                rule: format!("the log ends with event {} but the row with event {}", task.head().seq, claimed.seq),
                seq: task.head().seq.next().min(claimed.seq),
            },
            Err(LoadError::Unreadable { seq, rule, .. }) => Blocked::UnreadableLog { rule, seq },
            Err(LoadError::UnknownTask(_)) => Blocked::UnreadableLog { rule: "the log is empty".into(), seq: Seq(1) },
            Err(error @ LoadError::NewerVersion { .. }) => {
                tracing::warn!(task = %id, %error, "handed back");
                self.put_off(millis(self.lease)).await;
                return Err(Ended::NewerVersion);
            }
            Err(LoadError::Content { source, .. }) => {
                self.set_aside().await;
                return Err(Ended::Unavailable(source.to_string()));
            }
            Err(LoadError::Store(error)) => {
                self.set_aside().await;
                return Err(Ended::Unavailable(error.to_string()));
            }
        };
        match self.host.store.block(&self.hold.claim, &unreadable).await {
            Ok(()) => {
                tracing::error!(task = %id, why = %unreadable, "blocked: nothing is appended to a log that cannot be verified");
                Err(Ended::HandedBack)
            }
            // Whoever took the task over meanwhile is why the log is not as it was at the claim.
            Err(AppendError::Conflict(conflict)) => {
                tracing::warn!(task = %id, %conflict, "claim lost before the task was folded");
                Err(Ended::Lost)
            }
            Err(error) => Err(Ended::Unavailable(error.to_string())),
        }
    }

    /// Hands the claim back; when that fails the lease decides.
    pub(crate) async fn release(&self, not_before: Option<Timestamp>) {
        if let Err(error) = self.host.store.release(&self.hold.claim, not_before).await {
            tracing::warn!(task = %self.hold.claim.task, %error, "the claim could not be handed back: its lease will end it");
        }
    }

    /// Hands the claim back for a moment: an outage is no fault of the task, so the claim must
    /// not count towards poison (ST-18).
    async fn set_aside(&self) {
        self.put_off(OUTAGE_REST_MS).await;
    }

    /// Hands the claim back for so long, so that it does not count towards poison (ST-18). Nothing
    /// hands out again what rests, and observers that keep their place may not have seen all of it
    /// yet: then the lease ends the claim, and the task is claimed once more (EN-5).
    async fn put_off(&self, ms: u64) {
        if self.host.is_followed() && self.rests().await.unwrap_or(true) {
            return tracing::debug!(task = %self.hold.claim.task, "left to the end of its lease: observers may be behind");
        }
        self.release(Some(self.now().plus_millis(ms))).await;
    }

    /// Whether the task waits or is over, and nothing in its inbox changes that.
    async fn rests(&self) -> Result<bool, StoreError> {
        let (store, task) = (&self.host.store, &self.hold.claim.task);
        let Some(row) = store.row(task).await? else { return Err(StoreError::UnknownTask(task.clone())) };
        let rests = row.projection.status == Status::Waiting || row.projection.status.is_over();
        let items = store.inbox(task, Position(0)).await?;
        Ok(rests && !is_woken(row.projection.status, &row.projection.wake, &items))
    }

    fn now(&self) -> Timestamp {
        self.hold.store_time(self.host.clock.monotonic())
    }

    fn committer(&self) -> Committer<'_> {
        Committer { host: &self.host, hold: &self.hold, lease: self.lease, outage: &self.outage }
    }
}

/// Whether a task is over, is to end, or is to move to another definition before anything else is
/// done with it: no plugin is needed for that.
fn needs_no_plugin(task: &Task, items: &[InboxItem]) -> bool {
    let frees = |item: &InboxItem| match item.item {
        Item::Cancel { .. } | Item::Rewind { .. } => true,
        Item::Revise { .. } => task.is_between_steps(),
        _ => false,
    };
    task.status().is_over() || items.iter().any(frees)
}

struct Step<'a> {
    drive: &'a Drive,
    task: Task,
    setup: Setup,
    /// Why the definition cannot be used: the next thing that needs it fails the turn.
    unusable: Option<Failure>,
    items: Vec<InboxItem>,
    seen: Position,
    /// What came back from outside and is not on record yet.
    pending: Vec<Happened>,
    flight: Flight,
    /// Background jobs that this hold runs.
    jobs: LiveJobs,
    composition: Composition,
    /// Observers that keep their place in the log.
    followers: Followers,
    /// What approved calls that spawn a child come to.
    spawns: BTreeMap<CallId, Result<Spawn, String>>,
    /// What calls that are about to start will change.
    foreseen: OfCalls,
    /// What rewinds come to, by the item that asks.
    rewinds: BTreeMap<Position, Result<Prepared, String>>,
    /// What was found of calls that a former holder left open, by their start.
    looked: BTreeMap<Seq, Orphan>,
    /// What becomes of the attempt they belong to, once it is known.
    after_crash: Option<AfterCrash>,
    stopping: bool,
    /// Whether the worker no longer waits for people who might wake the task.
    parting: bool,
    /// Appends in a row that were refused because the inbox had moved.
    reconsidered: u32,
}

/// What was foreseen of calls: of those of a reply by its request, of others by themselves.
#[derive(Default)]
struct OfCalls {
    replies: BTreeMap<Seq, Vec<Foreseen>>,
    calls: BTreeMap<CallId, Foreseen>,
}

/// What a round of deciding came to.
enum Turned {
    /// Go on waiting for this.
    Wait(Act),
    /// Decide again.
    Again,
    /// The hold has ended.
    End(Ended),
}

impl Step<'_> {
    async fn go(&mut self) -> Ended {
        loop {
            let act = match self.turn().await {
                Turned::Wait(Act::Revise(position)) => match self.revise(position).await {
                    Turned::End(ended) => return self.end(ended).await,
                    Turned::Wait(_) | Turned::Again => continue,
                },
                Turned::Wait(act) => act,
                Turned::Again => continue,
                Turned::End(ended) => return self.end(ended).await,
            };
            if let Some(ended) = self.begin(&act).await {
                return self.end(ended).await;
            }
            self.wait(&act).await;
            if self.drive.hold.lost.is_cancelled() {
                return self.end(Ended::Lost).await;
            }
        }
    }

    /// Stops what is under way. Results that came after the claim was lost go to the inbox as
    /// late evidence, which is all that may still be sent (ID-3, RC-6).
    async fn end(&mut self, ended: Ended) -> Ended {
        if ended == Ended::Lost {
            let ready = self.flight.take_ready();
            self.pending.extend(ready);
            for happened in std::mem::take(&mut self.pending) {
                self.hand_in(&happened).await;
            }
        }
        self.flight.abort();
        self.jobs.drop_all();
        ended
    }

    /// Hands the claim back; what it kept alive ends first.
    async fn release(&self, not_before: Option<Timestamp>) {
        self.jobs.end_all().await;
        self.drive.release(not_before).await;
    }

    /// The same for so long.
    async fn put_off(&self, ms: u64) {
        self.jobs.end_all().await;
        self.drive.put_off(ms).await;
    }

    /// The same for a moment, as after an outage.
    async fn set_aside(&self) {
        self.put_off(OUTAGE_REST_MS).await;
    }

    async fn hand_in(&self, happened: &Happened) {
        // A job that a lost worker started is gone: the call has nothing to show for itself.
        let Ok(Outcome::Call { outcome, job: None }) = &happened.what else { return };
        let Some(open) = self.task.governance().action(happened.action) else { return };
        let ActionKind::Call(call) = open.what else { return };
        if !matches!(outcome.status, CallStatus::Ok | CallStatus::Error) {
            return;
        }
        let item = Item::Evidence {
            action: happened.action,
            call,
            identity: open.identity.clone(),
            output: outcome.output.clone(),
            status: outcome.status,
        };
        let Ok(dedup) = DedupKey::new(format!("evidence:{}:{}", happened.action, open.identity.fence)) else { return };
        match self.drive.host.store.deliver(self.task.id(), "engine", &item, &dedup).await {
            Ok(_) => {
                tracing::info!(task = %self.task.id(), %call, "a result came after the claim was lost: handed in as evidence")
            }
            Err(error) => tracing::warn!(task = %self.task.id(), %call, %error, "late evidence could not be handed in"),
        }
    }

    /// Appends; what observers keep their place for is shown to them, and keeps the claim when the
    /// task rests until their records have landed (EN-5).
    async fn commit(&mut self, drafted: &Drafted, after: ClaimAfter) -> Committed {
        let status = drafted.task.status();
        let rests = status == Status::Waiting || status.is_over();
        let keeps = status == Status::Waiting && self.jobs.keep(&drafted.task) && !self.stopping && !self.parting;
        let after = if rests && (keeps || !self.followers.is_empty()) { ClaimAfter::Retain } else { after };
        let committed = self.drive.committer().commit(&mut self.task, drafted, self.seen, after).await;
        if let Committed::Written { .. } = committed {
            self.followers.show(drafted);
            let started = self.pending.iter().filter_map(|happened| match &happened.what {
                Ok(Outcome::Call { job, .. }) => job.clone(),
                _ => None,
            });
            self.jobs.settle(&self.task, started.collect()).await;
        }
        committed
    }

    /// Records what came back, decides, commits.
    async fn turn(&mut self) -> Turned {
        if let Err(error) = self.look_at_inbox().await {
            self.set_aside().await;
            return Turned::End(Ended::Unavailable(error.to_string()));
        }
        self.stop_for_people().await;
        let due = self.followers.due(self.task.id());
        let (drafted, act) = match self.decide(&due) {
            Ok(decided) => decided,
            Err(bug) => return self.give_up(&bug.to_string()).await,
        };
        let Some(drafted) = drafted else {
            self.pending.clear();
            return Turned::Wait(act);
        };
        let consumed = drafted.consumed.clone();
        let claim = match act {
            // Files are put back while the task waits, before anyone else may go on with it.
            Act::Restore(_) => ClaimAfter::Retain,
            _ => ClaimAfter::ByStatus,
        };
        match self.commit(&drafted, claim).await {
            Committed::Written { held } => {
                self.followers.recorded(&due);
                self.pending.clear();
                self.reconsidered = 0;
                self.items.retain(|item| !consumed.contains(&item.position));
                self.rewinds.clear();
                self.foreseen = OfCalls::default();
                if self.task.governance().actions.is_empty() {
                    self.looked.clear();
                    self.after_crash = None;
                }
                if held { Turned::Wait(act) } else { Turned::End(Ended::HandedBack) }
            }
            Committed::Reconsider if self.reconsidered >= RECONSIDER_MAX => {
                tracing::warn!(task = %self.task.id(), "the inbox never stands still: the task is handed back");
                Turned::End(self.hand_back().await)
            }
            Committed::Reconsider => {
                self.reconsidered += 1;
                Turned::Again
            }
            Committed::Lost(why) => {
                tracing::warn!(task = %self.task.id(), why, "append refused: the task is given up");
                Turned::End(Ended::Lost)
            }
            Committed::Refused(why) => self.give_up(&why).await,
        }
    }

    /// Records whether the task moves to the definition that an order names, and goes on with
    /// what is in force then (EN-8).
    async fn revise(&mut self, position: Position) -> Turned {
        let host = &self.drive.host;
        let order = self.items.iter().find(|item| item.position == position).map(|item| &item.item);
        let (Ok(content), Some(Item::Revise { definition })) = (host.content(), order) else {
            return Turned::End(self.hand_back().await);
        };
        let checked = match revise::check_content(content, &self.task, self.setup.definition.as_ref(), definition).await
        {
            Ok(checked) => checked,
            Err(why) => {
                self.set_aside().await;
                return Turned::End(Ended::Unavailable(why));
            }
        };
        let mut draft = Draft::new(self.task.clone(), self.stamp());
        let drafted = match decide::revise(&mut draft, position, &self.items, checked) {
            Ok(()) => draft.finish(),
            Err(error) => Err(error),
        };
        let drafted = match drafted {
            Ok(drafted) => drafted,
            Err(bug) => return self.give_up(&bug.to_string()).await,
        };
        match self.commit(&drafted, ClaimAfter::Retain).await {
            Committed::Written { .. } => self.items.retain(|item| item.position != position),
            Committed::Reconsider => return Turned::Again,
            Committed::Lost(_) => return Turned::End(Ended::Lost),
            Committed::Refused(why) => return self.give_up(&why).await,
        }
        match Setup::read(&self.drive.host, &self.task).await {
            // A refusal leaves what this worker lacks in force.
            Ok(setup) if !plugins::lacking(&self.task, &setup.pins).is_empty() => {
                self.put_off(millis(self.drive.lease)).await;
                return Turned::End(Ended::LacksPlugins);
            }
            Ok(setup) => (self.setup, self.unusable) = (setup, None),
            Err(SetupError::Unusable(failure)) => (self.setup, self.unusable) = (Setup::none(), Some(failure)),
            Err(SetupError::Unavailable(why)) => {
                self.set_aside().await;
                return Turned::End(Ended::Unavailable(why));
            }
        }
        self.spawns.clear();
        Turned::Again
    }

    /// Fails the task before anything is done with it.
    async fn fail(&mut self, failure: Failure) -> Ended {
        loop {
            if let Err(error) = self.look_at_inbox().await {
                self.set_aside().await;
                return Ended::Unavailable(error.to_string());
            }
            match self.record_failure(failure.clone()).await {
                Turned::End(ended) => return ended,
                Turned::Wait(_) => return self.go().await,
                Turned::Again => {}
            }
        }
    }

    /// Something cannot be recorded, which is a bug: the turn fails; if not even that can be
    /// recorded the task is handed back for later.
    async fn give_up(&mut self, why: &str) -> Turned {
        tracing::error!(task = %self.task.id(), seq = %self.task.head().seq, why, "internal error");
        self.pending.clear();
        self.flight.abort();
        self.record_failure(Failure { detail: Some(why.to_owned()), reason: FailureReason::InternalError }).await
    }

    async fn record_failure(&mut self, failure: Failure) -> Turned {
        let mut draft = Draft::new(self.task.clone(), self.stamp());
        let drafted = match decide::fail(&mut draft, failure, &self.items) {
            Ok(()) => draft.finish(),
            Err(error) => Err(error),
        };
        if let Ok(drafted) = drafted {
            match self.commit(&drafted, ClaimAfter::ByStatus).await {
                Committed::Written { held: true } => {
                    self.items.retain(|item| !drafted.consumed.contains(&item.position));
                    return Turned::Wait(Act::Rest);
                }
                Committed::Written { held: false } => return Turned::End(Ended::HandedBack),
                Committed::Reconsider => return Turned::Again,
                Committed::Lost(_) | Committed::Refused(_) => {}
            }
        }
        // A claim that came to nothing, which counts towards poison (ST-18).
        self.release(None).await;
        Turned::End(Ended::HandedBack)
    }

    /// A cancel, an interrupt or a rewind stops what runs before it is recorded; what ended in time keeps
    /// its outcome.
    async fn stop_for_people(&mut self) {
        let stopped = self
            .items
            .iter()
            .any(|item| matches!(item.item, Item::Cancel { .. } | Item::Interrupt { .. } | Item::Rewind { .. }));
        if !stopped || self.flight.seqs.is_empty() {
            return;
        }
        if self.task.governance().model_action().is_some() {
            // Nobody waits for a reply that nobody will read.
            let ready = self.flight.take_ready();
            self.arrived(ready);
            self.flight.abort();
        } else {
            let ended = self.flight.wind_down(&self.drive.host).await;
            self.arrived(ended);
        }
    }

    fn stamp(&self) -> Stamp {
        let claim = &self.drive.hold.claim;
        Stamp { now: self.drive.now(), epoch: claim.epoch, run: claim.run.clone() }
    }

    /// Puts what came back and what follows from it into a draft, up to the next thing that
    /// the outside world has to do.
    ///
    /// `due` is what observers want on record by now.
    fn decide(&self, due: &Aside) -> Result<(Option<Drafted>, Act), RecordError> {
        let mut draft = Draft::new(self.task.clone(), self.stamp());
        if !due.is_empty() {
            let mut observed = draft.clone();
            match decide::observed(&mut observed, due.clone()) {
                Ok(()) => draft = observed,
                Err(error) => tracing::warn!(task = %self.task.id(), %error, "an observer's record does not fit"),
            }
        }
        for happened in &self.pending {
            self.record(&mut draft, happened)?;
        }
        self.settle(&mut draft)?;
        let stop_request = self
            .stopping
            .then(|| draft.task().governance().model_action().map(|open| (open.seq, open.identity.run.clone())));
        if let Some(Some((seq, run))) = stop_request
            && run == self.drive.hold.claim.run
        {
            decide::close_request(&mut draft, seq, RequestStatus::Cancelled)?;
        }
        let mut inputs = Inputs {
            now: self.drive.now(),
            items: self.items.clone(),
            run: self.drive.hold.claim.run.clone(),
            pins: self.setup.pins.clone(),
            spawns: self.spawns.clone(),
            foreseen: self.foreseen.calls.clone(),
            rewinds: self.rewinds.clone(),
            stopping: self.stopping,
            unusable: self.unusable.clone(),
        };
        let composer = Composer { version: COMPOSER.to_owned(), model: self.setup.model_name() };
        let act = decide::advance(&mut draft, &mut inputs, &composer)?;
        if draft.is_empty() {
            return Ok((None, act));
        }
        Ok((Some(draft.finish()?), act))
    }

    /// Settles what a former holder left open, all together, once all of it was looked for.
    fn settle(&self, draft: &mut Draft) -> Result<(), RecordError> {
        let run = &self.drive.hold.claim.run;
        let actions = draft.task().governance().actions.iter();
        let orphans = actions.filter(|open| open.identity.run != *run && matches!(open.what, ActionKind::Call(_)));
        let found = orphans.map(|open| Some((open.seq, self.looked.get(&open.seq)?.clone())));
        match (found.collect::<Option<Vec<_>>>(), &self.after_crash) {
            (Some(orphans), Some(after)) if !orphans.is_empty() => decide::settle_orphans(draft, &orphans, after),
            _ => Ok(()),
        }
    }

    fn record(&self, draft: &mut Draft, happened: &Happened) -> Result<(), RecordError> {
        if let Ok(Outcome::Restored { restored, left }) = &happened.what {
            return decide::restored(draft, *restored, left);
        }
        if draft.task().governance().action(happened.action).is_none() {
            // Settled meanwhile in another way, as by late evidence: there is nothing left to say.
            return Ok(());
        }
        match &happened.what {
            Ok(Outcome::Reply { reply, elapsed }) => match &**reply {
                Ok(reply) => {
                    let foreseen = self.foreseen.replies.get(&happened.action);
                    let answer = self.answer(draft.task(), reply, foreseen, *elapsed);
                    decide::reply(draft, happened.action, answer)
                }
                Err(error) => {
                    let refusal = self.refusal(draft.task(), happened.action, error, *elapsed);
                    decide::refusal(draft, happened.action, refusal)
                }
            },
            Ok(Outcome::Call { outcome, .. }) => decide::call_outcome(draft, happened.action, (**outcome).clone()),
            // Orphans are settled together; what was put back was recorded above.
            Ok(Outcome::Orphan(_) | Outcome::Restored { .. }) => Ok(()),
            Err(Broken(failure)) => decide::fail(draft, failure.clone(), &self.items),
        }
    }

    fn answer(&self, task: &Task, reply: &Reply, foreseen: Option<&Vec<Foreseen>>, elapsed: Duration) -> Answer {
        let (mut calls, aside) = plan_calls(&self.drive.host, &self.setup, task, &reply.blocks);
        add_foreseen(&mut calls, foreseen);
        let policy = self.drive.host.policy.as_ref();
        let patch = policy.and_then(|policy| {
            let patch = policy.patch(&PolicyView { task, reply: &reply.blocks })?;
            Some((policy.name().to_owned(), patch))
        });
        Answer {
            aside,
            blocks: reply.blocks.clone(),
            calls,
            cost_nano_usd: reply.cost_nano_usd,
            elapsed_ms: millis(elapsed),
            extra: reply.extra.clone(),
            patch,
            stop: reply.stop.name().to_owned(),
            truncated: reply.stop == StopReason::Length,
            usage: reply.usage,
        }
    }

    fn refusal(&self, task: &Task, action: Seq, error: &ModelError, elapsed: Duration) -> Refusal {
        let errors = match &task.runtime().phase {
            Phase::Request(request) => request.errors,
            _ => 0,
        };
        let retry_at = error.kind.is_retryable().then(|| {
            let asked = error.retry_after.map_or(0, millis).min(MODEL_RETRY_AFTER_MAX_MS);
            let backoff = jittered(model_backoff_ms(errors + 1), task, action);
            self.drive.now().plus_millis(asked.max(backoff))
        });
        Refusal {
            elapsed_ms: millis(elapsed),
            kind: error.kind.name().into(),
            message: error.message.clone(),
            retry_at,
        }
    }

    /// Waits until something came back, arrived, is due, or the worker is to stop.
    async fn wait(&mut self, act: &Act) {
        let clock = self.drive.host.clock.clone();
        let due = match act {
            Act::WaitUntil(due) => Some(*due),
            Act::Rest => self.task.wake().at,
            _ => None,
        };
        let due = due.map(|due| Duration::from_millis(due.millis_since(self.drive.now()) + 1));
        let timer = async {
            match due {
                Some(wait) => clock.sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.drive.hold.lost.cancelled() => {}
            happened = self.flight.next() => {
                let ready = self.flight.take_ready();
                self.arrived(std::iter::once(happened).chain(ready));
            }
            () = self.drive.hold.news.notified() => {}
            () = self.drive.hold.part.cancelled(), if !self.parting => {
                self.parting = true;
                self.jobs.end_all().await;
            }
            () = self.drive.stop.cancelled(), if !self.stopping => self.drain(act).await,
            () = timer => {}
        }
        self.drive.hold.go_on();
    }

    /// Takes in what came back. What was found of orphaned calls is kept until all of them were
    /// looked for.
    fn arrived(&mut self, happened: impl IntoIterator<Item = Happened>) {
        for happened in happened {
            if let Ok(Outcome::Orphan(orphan)) = happened.what {
                self.looked.insert(happened.action, *orphan);
            } else {
                self.pending.push(happened);
            }
        }
    }

    /// The worker is to stop: a request is broken off, calls get a moment to end by
    /// themselves and another to end when told to; then background jobs are ended.
    async fn drain(&mut self, act: &Act) {
        self.stopping = true;
        if matches!(act, Act::Ask(_)) {
            self.flight.abort();
        } else {
            self.land().await;
        }
        self.jobs.end_all().await;
    }

    /// Takes in what calls come to, for as long as one that is to stop waits for that.
    async fn land(&mut self) {
        let host = self.drive.host.clone();
        let grace = host.clock.sleep(DRAIN);
        tokio::pin!(grace);
        while !self.flight.seqs.is_empty() {
            tokio::select! {
                biased;
                happened = self.flight.next() => self.arrived([happened]),
                () = &mut grace => {
                    let ended = self.flight.wind_down(&host).await;
                    self.arrived(ended);
                }
            }
        }
    }
}

/// Between half of the back-off and the whole of it, by the request's own identity: the same
/// on every try to record it, and spread over tasks.
fn jittered(backoff_ms: u64, task: &Task, action: Seq) -> u64 {
    let seed = plica_kernel::canonical::content_hash(format!("{}:{action}", task.id()).as_bytes());
    let spread = u64::from(u16::from_be_bytes([seed.as_bytes()[0], seed.as_bytes()[1]]));
    backoff_ms / 2 + backoff_ms / 2 * spread / u64::from(u16::MAX)
}
