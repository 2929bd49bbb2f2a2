//! What came back from outside, as the kernel takes it in.

use std::time::Duration;

use plica_kernel::decide::{
    self, Act, Answer, Aside, Composer, Draft, Drafted, Foreseen, Inputs, RecordError, Refusal, Stamp,
};
use plica_kernel::event::RequestStatus;
use plica_kernel::id::Seq;
use plica_kernel::limits::{MODEL_RETRY_AFTER_MAX_MS, model_backoff_ms};
use plica_kernel::state::{ActionKind, Phase, Task};
use plica_ports::{ModelError, PolicyView, Reply, StopReason};

use super::Step;
use super::foresee::add_foreseen;
use crate::act::{Broken, Happened, Outcome, millis};
use crate::compose::COMPOSER;
use crate::plan::plan_calls;

impl Step<'_> {
    pub(super) fn stamp(&self) -> Stamp {
        let claim = &self.drive.hold.claim;
        Stamp { now: self.drive.now(), epoch: claim.epoch, run: claim.run.clone() }
    }

    /// Puts what came back and what follows from it into a draft, up to the next thing that
    /// the outside world has to do.
    ///
    /// `due` is what observers want on record by now.
    pub(super) fn decide(&self, due: &Aside) -> Result<(Option<Drafted>, Act), RecordError> {
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
}

/// Between half of the back-off and the whole of it, by the request's own identity: the same
/// on every try to record it, and spread over tasks.
fn jittered(backoff_ms: u64, task: &Task, action: Seq) -> u64 {
    let seed = plica_kernel::canonical::content_hash(format!("{}:{action}", task.id()).as_bytes());
    let spread = u64::from(u16::from_be_bytes([seed.as_bytes()[0], seed.as_bytes()[1]]));
    backoff_ms / 2 + backoff_ms / 2 * spread / u64::from(u16::MAX)
}
