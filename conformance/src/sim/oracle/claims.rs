//! Who holds a task: claims that are handed out, renewed and handed back, and blocks.

use std::time::Duration;

use plica_kernel::id::TaskId;
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_ports::store::{Claim, Claimed, Renewed, Worker};

use super::Oracle;
use super::hold::Hold;
use super::log::Status;

impl Oracle {
    /// A claim was handed out.
    pub fn claimed(&self, worker: &Worker, claimed: &Claimed, adopted: bool) {
        let claim = &claimed.claim;
        let until = claimed.lease_until;
        let has = self.books().equipment.get(worker.instance.as_str()).cloned().unwrap_or_default();
        self.note(|| format!("{} claims {} epoch {} until {until}", worker.instance, claim.task, claim.epoch));
        self.check(&claim.task, |book| {
            let among = |wanted: fn(&Item) -> bool| claimed.items.iter().any(|item| wanted(&item.item));
            let ends = among(|item| matches!(item, Item::Cancel { .. } | Item::Rewind { .. }));
            let hold = Hold {
                instance: worker.instance.to_string(),
                epoch: claim.epoch.0,
                run: claim.run.to_string(),
                until,
                lacks: !ends && !book.log.status.is_over() && book.log.rounds.force.is_lacking(&has),
                excused: among(|item| matches!(item, Item::Revise { .. })),
            };
            if hold.lacks {
                book.holds.taken_in_vain(&hold.instance, book.log.seq);
            }
            if book.blocked {
                return Err("a blocked task was handed out".into());
            }
            // An order to stop waits for no not-before, which only holds a working task back.
            let works = matches!(book.log.status, Status::Ready | Status::Running);
            if !works || book.inbox.is_told_to_stop() {
                book.holds.forget_not_before();
            }
            book.holds.taken(hold, claimed.verdict.now, adopted)?;
            if (claimed.seq.0, claimed.hash.to_string()) != (book.log.seq, book.log.hash.clone()) {
                return Err(format!("handed out with head {}, the log ends at {}", claimed.seq, book.log.seq));
            }
            let items: Vec<u64> = claimed.items.iter().map(|item| item.position.0).collect();
            let untaken = book.inbox.untaken();
            if items == untaken {
                Ok(())
            } else {
                Err(format!("handed out with items {items:?}, there are {untaken:?}"))
            }
        });
    }

    /// Leases were renewed, or not.
    pub fn renewed(&self, claims: &[Claim], lease: Duration, renewed: &Renewed) {
        let micros = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX);
        let until = Timestamp::from_micros(renewed.now.micros().saturating_add(micros));
        for (claim, verdict) in claims.iter().zip(&renewed.verdicts) {
            self.note(|| format!("renewal of {} epoch {}: {verdict:?}", claim.task, claim.epoch));
            if verdict.is_ok() {
                self.check(&claim.task, |book| book.holds.renewed(claim.epoch.0, claim.run.as_str(), until));
            }
        }
    }

    /// A claim was handed back.
    pub fn released(&self, claim: &Claim, not_before: Option<Timestamp>) {
        self.note(|| format!("{} epoch {} is handed back until {not_before:?}", claim.task, claim.epoch));
        self.check(&claim.task, |book| {
            // One that waits or is over stays as it is.
            let works = matches!(book.log.status, Status::Ready | Status::Running);
            let unseen = self.observed && !works && not_before.is_none() && book.watch.is_behind();
            book.holds.released(claim.epoch.0, claim.run.as_str(), not_before, works)?;
            if unseen {
                Err(format!("handed back before its observer was told: {}", book.watch.behind()))
            } else {
                Ok(())
            }
        });
        self.let_go(&claim.task, claim.epoch.0);
    }

    /// A task was blocked by its holder.
    pub fn blocked(&self, claim: &Claim, why: &Blocked) {
        self.violated(claim.task.as_str(), format!("blocked: {why}"));
    }

    /// Someone lifts the block of a task that is poison; says whether it may be that.
    pub fn unblocking(&self, task: &TaskId) {
        self.check(task, |book| {
            let poison = book.holds.is_poison();
            book.holds.unblocked();
            if poison { Ok(()) } else { Err("blocked as poison after fewer than ten claims in vain".into()) }
        });
    }
}
