//! Holding tasks: claim, adopt, renew, release, block (ST-1, ST-2, ST-9, ST-18).

use std::time::Duration;

use plica_kernel::id::{Epoch, TaskId};
use plica_kernel::limits::IDLE_CLAIMS_MAX;
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_ports::store::rules::check_claim;
use plica_ports::store::{AppendError, Claim, ClaimRequest, Claimed, Conflict, Renewed, StoreError, Verdict, Worker};

use crate::record::{Hold, Record};
use crate::world::{World, serves};

impl World {
    /// Takes tasks to work on.
    pub(crate) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Result<Vec<Claimed>, StoreError> {
        let mut claimed = Vec::new();
        // A task that is looked at is never due afterwards (held or blocked), so this ends.
        loop {
            let candidates = self.candidates(request, request.max - claimed.len(), now);
            if candidates.is_empty() {
                return Ok(claimed);
            }
            for task in candidates {
                claimed.extend(self.take(&request.worker, &task, request.lease, now)?);
            }
        }
    }

    fn candidates(&self, request: &ClaimRequest, max: usize, now: Timestamp) -> Vec<TaskId> {
        if let Some(named) = &request.task {
            let due = self.task(named).is_ok_and(|record| {
                record.claimable_at.is_some_and(|time| time <= now) && serves(&request.queues, &record.facts.queue)
            });
            let taken = max > 0 && due && !request.except.contains(named);
            return taken.then(|| named.clone()).into_iter().collect();
        }
        let due = self.due(&request.queues, Some(now)).map(|(_, id)| id);
        due.filter(|id| !request.except.contains(id)).take(max).cloned().collect()
    }

    /// Takes up a task that `worker` holds already, lease or not.
    pub(crate) fn adopt(
        &mut self,
        worker: &Worker,
        task: &TaskId,
        lease: Duration,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError> {
        if !self.task(task).is_ok_and(|record| is_held_by(record, worker)) {
            return Ok(None);
        }
        self.take(worker, task, lease, now)
    }

    /// Hands a task to `worker`; `None` when that would be one claim too many.
    ///
    /// A claim is not counted when the row still names the same process as holder: whoever
    /// takes its own hold up again has not died of it. One that was released in between is
    /// counted, so a worker that keeps handing a task back does not spin on it.
    fn take(
        &mut self,
        worker: &Worker,
        task: &TaskId,
        lease: Duration,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError> {
        let (token, run) = (self.draw.token(), self.draw.run());
        self.change(task, |record| {
            if !is_held_by(record, worker) {
                record.idle_claims += 1;
                record.rest(now);
            }
            if record.idle_claims >= IDLE_CLAIMS_MAX {
                record.blocked = Some(Blocked::Poison);
                record.hold = None;
                record.claimable_at = record.due(now);
                return None;
            }
            let lease_until = lease_end(now, lease);
            record.epoch = record.epoch.next();
            record.hold = Some(Hold {
                worker: worker.clone(),
                run: run.clone(),
                token: token.hash(),
                acquired_at: now,
                lease_until,
            });
            record.claimable_at = record.due(now);
            Some(hand_out(record, Claim { task: task.clone(), epoch: record.epoch, run, token }, lease_until, now))
        })
    }

    /// Extends leases.
    pub(crate) fn renew(&mut self, claims: &[Claim], lease: Duration, now: Timestamp) -> Renewed {
        let verdicts = claims.iter().map(|claim| {
            let renewed = self.change(&claim.task, |record| {
                check_claim(&record.locked(), claim)?;
                if let Some(hold) = &mut record.hold {
                    hold.lease_until = lease_end(now, lease);
                }
                record.claimable_at = record.due(now);
                Ok(record.inbox_tail)
            });
            // A store without the task never gave out any epoch of it.
            let unknown = Conflict::FenceUnknown { task: claim.task.clone(), claimed: claim.epoch, current: Epoch(0) };
            renewed.unwrap_or(Err(unknown))
        });
        Renewed { now, verdicts: verdicts.collect() }
    }

    /// Hands a claim back.
    pub(crate) fn release(
        &mut self,
        claim: &Claim,
        not_before: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Verdict, AppendError> {
        self.change(&claim.task, |record| {
            check_claim(&record.locked(), claim)?;
            record.release(not_before, now);
            Ok(record.verdict(now))
        })?
    }

    /// Blocks a held task.
    pub(crate) fn block(&mut self, claim: &Claim, why: &Blocked, now: Timestamp) -> Result<(), AppendError> {
        self.change(&claim.task, |record| {
            check_claim(&record.locked(), claim)?;
            record.blocked = Some(why.clone());
            record.release(None, now);
            Ok(())
        })?
    }

    /// Lifts a block and forgets the claims counted.
    pub(crate) fn unblock(&mut self, task: &TaskId, now: Timestamp) -> Result<bool, StoreError> {
        self.change(task, |record| {
            let blocked = record.blocked.take().is_some();
            record.idle_claims = 0;
            record.idle_until = None;
            // What was due already keeps its place in the queue.
            record.claimable_at = [record.claimable_at, record.due(now)].into_iter().flatten().min();
            blocked
        })
    }
}

/// Whether the row names this process as holder.
pub(crate) fn is_held_by(record: &Record, worker: &Worker) -> bool {
    record.hold.as_ref().is_some_and(|hold| hold.worker.instance == worker.instance)
}

/// The end of a lease that begins now: at least the next microsecond, so that no lease is
/// over before it begins.
fn lease_end(now: Timestamp, lease: Duration) -> Timestamp {
    let micros = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX).max(1);
    Timestamp::from_micros(now.micros().saturating_add(micros))
}

fn hand_out(record: &Record, claim: Claim, lease_until: Timestamp, now: Timestamp) -> Claimed {
    Claimed {
        claim,
        seq: record.row.seq,
        hash: record.row.hash,
        items: record.untaken.clone(),
        verdict: record.verdict(now),
        lease_until,
    }
}
