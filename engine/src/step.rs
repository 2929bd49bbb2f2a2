//! One claimed task, step by step: ask the kernel what is next, do it, append.

mod begin;
mod drive;
mod flight;
mod foresee;
mod foresight;
mod record;

use std::collections::BTreeMap;
use std::time::Duration;

use plica_kernel::decide::{self, Act, AfterCrash, Draft, Drafted, Foreseen, Orphan, Prepared, Spawn};
use plica_kernel::event::{CallStatus, Failure, FailureReason};
use plica_kernel::id::{CallId, DedupKey, Position, Seq};
use plica_kernel::limits::RECONSIDER_MAX;
use plica_kernel::row::Status;
use plica_kernel::state::{ActionKind, Task};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::store::ClaimAfter;

use crate::act::{Happened, Outcome, millis};
use crate::commit::Committed;
use crate::compose::Composition;
use crate::follow::Followers;
use crate::jobs::LiveJobs;
use crate::plugins;
use crate::revise;
use crate::setup::{Setup, SetupError};
use drive::OUTAGE_REST_MS;
pub(crate) use drive::{Drive, Ended};
use flight::Flight;

/// How long running calls are waited for once the worker is to stop.
const DRAIN: Duration = Duration::from_secs(5);

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
    /// task rests until their records have landed (EN-5). So do live jobs: they end before the claim
    /// does, whether the worker goes on or is to stop (ST-13).
    async fn commit(&mut self, drafted: &Drafted, after: ClaimAfter) -> Committed {
        let status = drafted.task.status();
        let rests = status == Status::Waiting || status.is_over();
        let keeps = status == Status::Waiting && self.jobs.keep(&drafted.task);
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
        let checked = match revise::check_content(content, &self.task, self.setup.definition(), definition).await {
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
