//! Writing a batch, whole or not at all (ST-3, ST-4, ST-7, ST-8).

use std::collections::BTreeSet;

use plica_kernel::id::{Position, Seq};
use plica_kernel::time::Timestamp;
use plica_ports::store::rules::check_append;
use plica_ports::store::sound::check_batch;
use plica_ports::store::{AppendError, Appended, Batch, Claim, ClaimAfter, Conflict};

use crate::record::Record;
use crate::world::World;

impl World {
    /// Writes a batch. Every check comes before the first change, so a refusal leaves nothing.
    pub(crate) fn append(&mut self, claim: &Claim, batch: &Batch, now: Timestamp) -> Result<Appended, AppendError> {
        let invalid = |rule| AppendError::Invalid { task: batch.task.clone(), rule };
        check_batch(claim, batch).map_err(invalid)?;
        let record = self.task(&batch.task)?;
        check_append(&record.locked(), claim, batch, now)?;
        check_consumed(record, &batch.consumed).map_err(invalid)?;
        self.check_children(batch)?;

        for blob in &batch.blobs {
            self.contents.keep(blob, now);
        }
        self.change(&batch.task, |record| write(record, batch, now))?;
        for child in &batch.children {
            self.insert(child, now);
        }
        for delivery in &batch.deliveries {
            // Whatever keeps an item from its receiver never fails the append (ST-7).
            let _ = self.deliver(&delivery.task, &delivery.actor, &delivery.item, &delivery.dedup, now);
        }
        let appended = self.change(&batch.task, |record| settle_claim(record, batch, now))?;
        Ok(appended)
    }

    /// A child's id that is taken is a conflict: someone else wrote what this writer is about
    /// to write.
    fn check_children(&self, batch: &Batch) -> Result<(), Conflict> {
        for child in &batch.children {
            if let Ok(there) = self.task(&child.id) {
                let (seq, hash) = (there.row.seq, there.row.hash);
                return Err(Conflict::RevisionConflict { task: child.id.clone(), expected: Seq(0), seq, hash });
            }
        }
        Ok(())
    }
}

/// Whether each consumed item is there to be taken, once.
fn check_consumed(record: &Record, consumed: &[Position]) -> Result<(), String> {
    let mut left: BTreeSet<Position> = record.untaken.iter().map(|item| item.position).collect();
    match consumed.iter().find(|position| !left.remove(position)) {
        Some(position) => Err(format!("item {position} is not there to be taken")),
        None => Ok(()),
    }
}

fn write(record: &mut Record, batch: &Batch, now: Timestamp) {
    record.write(&batch.events);
    record.row = batch.row.clone();
    record.updated_at = now;
    record.untaken.retain(|item| !batch.consumed.contains(&item.position));
    record.idle_claims = 0;
    record.idle_until = None;
}

/// What becomes of the claim, after the batch's own deliveries: the wake test is the same as
/// that of a delivery, so it does not matter which of the two came first (ST-7).
fn settle_claim(record: &mut Record, batch: &Batch, now: Timestamp) -> Appended {
    match batch.claim {
        ClaimAfter::Release { not_before } => record.release(not_before, now),
        ClaimAfter::ByStatus if batch.rests() => record.release(None, now),
        ClaimAfter::ByStatus | ClaimAfter::Retain => record.claimable_at = record.due(now),
    }
    Appended { verdict: record.verdict(now), held: record.hold.is_some() }
}
