//! Beginning what a decision calls for: requests, calls, looks, files put back.

use plica_kernel::body::Body;
use plica_kernel::decide::{self, Act, Draft, Orphan};
use plica_kernel::event::{Failure, FailureReason};
use plica_kernel::id::{CallId, Seq};
use plica_kernel::limits::BACKOFF_HELD_MAX_MS;
use plica_kernel::time::Timestamp;
use plica_ports::store::ClaimAfter;

use super::{Ended, Step};
use crate::act::{self, Broken, Happened, Outcome};
use crate::commit::Committed;
use crate::compose::{ComposeError, text_of};
use crate::error::LoadError;
use crate::{plugins, rewind};

impl Step<'_> {
    /// Begins what the decision calls for and is not under way yet; an end hands back.
    pub(super) async fn begin(&mut self, act: &Act) -> Option<Ended> {
        match act {
            Act::Ask(action) => self.begin_request(*action).await,
            Act::Run(calls) => self.begin_calls(calls, false).await,
            Act::Settle(calls) => {
                if self.after_crash.is_none()
                    && let Err(error) = self.read_crash().await
                {
                    return Some(self.cannot_read(&error).await);
                }
                self.begin_calls(calls, true).await
            }
            Act::Prepare(position) => match self.prepare_rewind(*position).await {
                Ok(()) => {
                    self.drive.hold.news.notify_one();
                    None
                }
                Err(error) => Some(self.cannot_read(&error).await),
            },
            Act::Restore(seq) => self.restore(*seq).await,
            Act::WaitUntil(due) if self.stopping || self.is_long(*due) => {
                self.release(Some(*due)).await;
                Some(Ended::HandedBack)
            }
            // A revision is recorded where it is decided on.
            Act::WaitUntil(_) | Act::Revise(_) => None,
            // Live jobs end with the hold, so it outlasts the wait (ST-13).
            Act::Rest if self.keeps_jobs() => {
                let ended = self.record_observed().await;
                if ended.is_none() {
                    self.drive.hold.rest(&self.task);
                }
                ended
            }
            Act::Rest | Act::Over => {
                if *act == Act::Rest {
                    tracing::debug!(task = %self.task.id(), "suspended_without_wake_event");
                }
                self.hand_back_observed().await
            }
            Act::HandBack => Some(self.leave().await),
        }
    }

    /// Whether a back-off is too long to hold the claim meanwhile; one that keeps jobs alive holds
    /// it all the same.
    fn is_long(&self, due: Timestamp) -> bool {
        due.millis_since(self.drive.now()) > BACKOFF_HELD_MAX_MS && !self.jobs.keep(&self.task)
    }

    /// Whether this hold keeps jobs alive through a wait.
    fn keeps_jobs(&self) -> bool {
        !self.stopping && !self.parting && self.jobs.keep(&self.task)
    }

    /// What the step needs of the log cannot be had now: the task is left alone for a moment.
    pub(super) async fn cannot_read(&self, error: &LoadError) -> Ended {
        tracing::warn!(task = %self.task.id(), %error, "the task is set aside");
        self.set_aside().await;
        Ended::Unavailable(error.to_string())
    }

    /// Puts files back, as the plan on record says (SN-8).
    async fn restore(&mut self, seq: Seq) -> Option<Ended> {
        let Some(restoring) = self.task.governance().restoring.clone() else { return Some(Ended::Lost) };
        let host = self.drive.host.clone();
        let content = match host.content() {
            Ok(content) => content,
            Err(error) => return Some(Ended::Unavailable(error.to_string())),
        };
        let plan = match rewind::read_plan(content, self.task.id(), &restoring.plan).await {
            Ok(plan) => plan,
            Err(error) => return Some(self.cannot_read(&error).await),
        };
        let go_on = || !self.drive.hold.lost.is_cancelled() && self.may_start();
        match rewind::restore(content, host.files.as_deref(), &plan, go_on).await {
            Ok(Some((restored, left))) => {
                self.pending.push(Happened { action: seq, what: Ok(Outcome::Restored { restored, left }) });
                self.drive.hold.news.notify_one();
                None
            }
            Ok(None) => Some(Ended::Lost),
            Err(error) => {
                self.set_aside().await;
                Some(Ended::Unavailable(error.to_string()))
            }
        }
    }

    /// Nothing starts once the worker's own deadline has passed (EN-2).
    fn may_start(&self) -> bool {
        self.drive.host.clock.monotonic() < self.drive.hold.deadline()
    }

    /// Leaves the task to another holder; for a while if that has to be one with other plugins.
    async fn leave(&self) -> Ended {
        let lacking = plugins::lacking(&self.task, &self.setup.pins);
        if self.unusable.is_some() || lacking.is_empty() {
            return self.hand_back().await;
        }
        tracing::warn!(task = %self.task.id(), lacking = lacking.join(", "), "left to a worker that has what it needs");
        self.put_off(act::millis(self.drive.lease)).await;
        Ended::LacksPlugins
    }

    /// Leaves what is open to the next holder.
    pub(super) async fn hand_back(&self) -> Ended {
        self.release(None).await;
        Ended::HandedBack
    }

    /// Hands the task back once what observers made of it is on record, for those that keep their
    /// place (EN-5); `None` when something came that is to be looked at first.
    async fn hand_back_observed(&mut self) -> Option<Ended> {
        self.jobs.end_all().await;
        if self.followers.owed(self.task.id()).is_empty() {
            return Some(self.hand_back().await);
        }
        self.record_observed().await
    }

    /// Records what observers made of a task that rests, for those that keep their place; the claim
    /// goes with it, unless it keeps jobs alive. `None` when it is still held.
    async fn record_observed(&mut self) -> Option<Ended> {
        let records = self.followers.owed(self.task.id());
        if records.is_empty() {
            return None;
        }
        let mut draft = Draft::new(self.task.clone(), self.stamp());
        let drafted = match decide::observed(&mut draft, records.clone()) {
            Ok(()) => draft.finish(),
            Err(error) => Err(error),
        };
        let drafted = match drafted {
            Ok(drafted) => drafted,
            Err(error) => return Some(self.hand_back_unobserved(&error.to_string()).await),
        };
        let after = if self.keeps_jobs() { ClaimAfter::Retain } else { ClaimAfter::ByStatus };
        let committer = self.drive.committer();
        match committer.commit(&mut self.task, &drafted, self.seen, after).await {
            Committed::Written { held } => {
                self.followers.recorded(&records);
                self.followers.show(&drafted);
                (!held).then_some(Ended::HandedBack)
            }
            Committed::Reconsider => None,
            Committed::Lost(_) => Some(Ended::Lost),
            Committed::Refused(why) => Some(self.hand_back_unobserved(&why).await),
        }
    }

    /// What an observer wants on record and cannot be is its own affair.
    async fn hand_back_unobserved(&self, why: &str) -> Ended {
        tracing::warn!(task = %self.task.id(), why, "what observers want on record cannot be recorded");
        self.hand_back().await
    }

    async fn begin_request(&mut self, action: Seq) -> Option<Ended> {
        if self.flight.is_launched(action) {
            return None;
        }
        if self.flight.is_broken_off(action) {
            return Some(self.hand_back().await);
        }
        if !self.may_start() {
            return Some(Ended::Lost);
        }
        let (Some(definition), Some(model)) = (self.setup.definition(), &self.setup.model) else {
            return Some(Ended::Lost);
        };
        let attempt = self.task.governance().action(action).map_or(1, |open| open.identity.attempt);
        let tools = self.setup.tool_specs.clone();
        let content = match self.drive.host.content() {
            Ok(content) => content,
            Err(error) => return Some(Ended::Unavailable(error.to_string())),
        };
        match self.composition.request(&self.task, definition, tools, attempt, content).await {
            Ok(request) => {
                let host = &self.drive.host;
                self.flight.launch(
                    action,
                    act::ask(host.clock.clone(), model.clone(), request, action, host.audience.clone()),
                );
                None
            }
            Err(ComposeError::Unavailable(why)) => {
                self.set_aside().await;
                Some(Ended::Unavailable(why))
            }
            Err(ComposeError::Content(why)) => {
                self.fail_with_content(action, why);
                None
            }
        }
    }

    /// What the log cites cannot be had: the action fails the turn (RC-9).
    fn fail_with_content(&mut self, action: Seq, why: String) {
        let failure = Failure { detail: Some(why), reason: FailureReason::ContentError };
        self.pending.push(Happened { action, what: Err(Broken(failure)) });
        self.drive.hold.news.notify_one();
    }

    async fn begin_calls(&mut self, calls: &[(CallId, Seq)], orphans: bool) -> Option<Ended> {
        for (call, action) in calls {
            if self.flight.is_launched(*action) || self.looked.contains_key(action) {
                continue;
            }
            if self.stopping || self.flight.is_broken_off(*action) {
                return Some(self.hand_back().await);
            }
            if !self.may_start() {
                return Some(Ended::Lost);
            }
            let Some((tool, args, attempt)) = self.call_on_record(*call) else { return Some(Ended::Lost) };
            let content = match self.drive.host.content() {
                Ok(content) => content,
                Err(error) => return Some(Ended::Unavailable(error.to_string())),
            };
            let args = match text_of(&args, content).await {
                Ok(args) => args,
                Err(ComposeError::Unavailable(why)) => {
                    self.set_aside().await;
                    return Some(Ended::Unavailable(why));
                }
                Err(ComposeError::Content(why)) => {
                    self.fail_with_content(*action, why);
                    return None;
                }
            };
            self.launch_call(*call, *action, &tool, args, attempt, orphans);
        }
        None
    }

    fn launch_call(&mut self, call: CallId, action: Seq, tool: &str, args: String, attempt: u32, orphan: bool) {
        let Some(definition) = self.setup.definition() else {
            return self.flight.launch(action, async { Outcome::Orphan(Box::new(Orphan::Lost)) });
        };
        let host = &self.drive.host;
        let context = act::context(
            &self.task,
            &self.drive.hold,
            definition,
            call,
            attempt,
            self.jobs.view(&self.task),
            &self.flight.stop,
        );
        let found = host.tool_of(definition, tool).map(|tool| tool.tool.clone());
        if orphan {
            // What began with another version of the tool is not looked up by this one.
            let found = found.filter(|_| plugins::is_in_force(&self.task, &self.setup.pins, tool));
            return self.flight.launch(action, act::look(found, args, context));
        }
        match found {
            Some(found) => self.flight.launch(action, act::run(host.clock.clone(), found, args, context)),
            None => {
                let outcome = act::without(tool);
                self.flight.launch(action, async { outcome });
            }
        }
    }

    /// The tool, the arguments and the attempt of a call, as its start recorded them.
    fn call_on_record(&self, call: CallId) -> Option<(String, Body, u32)> {
        if let Some(rerun) = self.task.runtime().rerun.as_ref().filter(|rerun| rerun.call == call) {
            return Some((rerun.tool.clone(), rerun.args.clone(), rerun.starts));
        }
        let round = self.task.runtime().round.as_ref()?;
        let begun = round.calls.get(call.index as usize)?;
        Some((begun.tool.clone(), begun.args.clone()?, begun.starts))
    }
}
