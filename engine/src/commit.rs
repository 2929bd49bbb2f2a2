//! The commit path: the one place that holds a claim and can append (HO-4).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use plica_kernel::decide::{Drafted, Sent};
use plica_kernel::id::Position;
use plica_kernel::limits::{BODY_AGE_MAX_MS, READBACK_TRIES_MAX};
use plica_kernel::state::Task;
use plica_ports::store::{
    AppendError, Appended, Batch, ClaimAfter, CommitFate, Conflict, Delivery, NewTask, StoreError, Verdict,
};

use crate::client::new_child;
use crate::heartbeat::Hold;
use crate::host::Host;
use crate::outage::Outage;

/// What became of an append.
#[derive(Debug)]
pub(crate) enum Committed {
    /// It is on record; says whether the claim still holds.
    Written {
        /// Whether the claim still holds.
        held: bool,
    },
    /// The inbox holds something newer: look at it and decide again.
    Reconsider,
    /// The claim is lost; nothing of this append counts.
    Lost(String),
    /// The store refuses the append for a reason that is a bug of ours.
    Refused(String),
}

/// First and longest wait between tries while the store is unavailable.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Writes appends under one claim.
pub(crate) struct Committer<'a> {
    pub(crate) host: &'a Host,
    pub(crate) hold: &'a Arc<Hold>,
    pub(crate) lease: Duration,
    /// Told of every append that was written, and of every try that the store's silence cost.
    pub(crate) outage: &'a Outage,
}

impl Committer<'_> {
    /// Writes a finished draft and makes its state the task's; `after` is what becomes of the
    /// claim.
    pub(crate) async fn commit(
        &self,
        task: &mut Task,
        drafted: &Drafted,
        seen: Position,
        after: ClaimAfter,
    ) -> Committed {
        let put_at = self.host.clock.monotonic();
        if let Err(lost) = self.put_bodies(drafted).await {
            return lost;
        }
        let batch = Batch { claim: after, ..self.batch(drafted, seen) };
        let committed = self.append(&batch, drafted, put_at).await;
        if let Committed::Written { .. } = committed {
            *task = drafted.task.clone();
            self.outage.committed();
            self.observe(drafted);
        }
        committed
    }

    fn batch(&self, drafted: &Drafted, seen: Position) -> Batch {
        // A store that keeps content writes the bodies with the events (CO-2).
        let blobs = if self.host.content.is_some() { Vec::new() } else { drafted.blobs.clone() };
        Batch {
            task: self.hold.claim.task.clone(),
            after: drafted.after,
            after_hash: drafted.after_hash,
            events: drafted.events.clone(),
            blobs,
            row: drafted.task.projection(),
            consumed: drafted.consumed.clone(),
            seen,
            deliveries: drafted.sent.iter().map(delivery).collect(),
            children: drafted.children.iter().map(|child| self.child(child)).collect(),
            claim: ClaimAfter::ByStatus,
        }
    }

    fn child(&self, drafted: &Drafted) -> NewTask {
        let mut child = new_child(drafted.clone());
        if self.host.content.is_some() {
            child.blobs.clear();
        }
        child
    }

    /// Puts bodies before the event that cites them, where they live elsewhere (CO-2).
    async fn put_bodies(&self, drafted: &Drafted) -> Result<(), Committed> {
        let Some(content) = &self.host.content else { return Ok(()) };
        let bodies = drafted.blobs.iter().chain(drafted.children.iter().flat_map(|child| &child.blobs));
        for blob in bodies {
            let mut pause = PAUSE_MIN;
            loop {
                match content.put(blob).await {
                    Ok(()) => break,
                    Err(plica_ports::ContentError::Unavailable(why)) => self.pause(&mut pause, &why).await?,
                    Err(error) => return Err(Committed::Refused(error.to_string())),
                }
            }
        }
        Ok(())
    }

    async fn append(&self, batch: &Batch, drafted: &Drafted, mut put_at: Duration) -> Committed {
        let store = &*self.host.store;
        let mut pause = PAUSE_MIN;
        loop {
            if self.hold.lost.is_cancelled() {
                return Committed::Lost("the claim was lost".into());
            }
            let now = self.host.clock.monotonic();
            if now.saturating_sub(put_at) > Duration::from_millis(BODY_AGE_MAX_MS) {
                if let Err(lost) = self.put_bodies(drafted).await {
                    return lost;
                }
                put_at = now;
            }
            match store.append(&self.hold.claim, batch).await {
                Ok(appended) => return self.written(appended),
                Err(AppendError::Conflict(Conflict::InboxMoved { tail, .. })) => {
                    self.hold.moved(tail);
                    return Committed::Reconsider;
                }
                Err(AppendError::Conflict(Conflict::LeaseExpired { .. })) => {
                    if let Err(lost) = self.renew(&mut pause).await {
                        return lost;
                    }
                }
                // A head conflict against one's own bytes: an earlier try got there after all.
                Err(AppendError::Conflict(Conflict::RevisionConflict { task, seq, hash, .. }))
                    if (&task, seq, hash) == (&batch.task, batch.row.seq, batch.row.hash) =>
                {
                    return self.written_by_readback(batch);
                }
                Err(AppendError::Conflict(conflict)) => return self.lose(&conflict.to_string()),
                Err(AppendError::CommitUnknown { detail, .. }) => {
                    tracing::warn!(task = %batch.task, %detail, "fate of the commit unknown: reading back");
                    match self.settle(batch).await {
                        Some(CommitFate::Written) => return self.written_by_readback(batch),
                        Some(CommitFate::NotThere) => {}
                        Some(CommitFate::Superseded) | None => {
                            return self.lose("the fate of a commit could not be read back as ours");
                        }
                    }
                }
                Err(AppendError::Store(StoreError::Unavailable(why))) => {
                    if let Err(lost) = self.pause(&mut pause, &why).await {
                        return lost;
                    }
                }
                Err(error @ (AppendError::Invalid { .. } | AppendError::Store(_))) => {
                    return Committed::Refused(error.to_string());
                }
            }
        }
    }

    fn written(&self, Appended { verdict: Verdict { now, inbox_tail }, held }: Appended) -> Committed {
        self.hold.heard(now, self.host.clock.monotonic());
        self.hold.moved(inbox_tail);
        Committed::Written { held }
    }

    fn written_by_readback(&self, batch: &Batch) -> Committed {
        let held = match batch.claim {
            ClaimAfter::ByStatus => !batch.rests(),
            ClaimAfter::Retain => true,
            ClaimAfter::Release { .. } => false,
        };
        Committed::Written { held }
    }

    fn lose(&self, why: &str) -> Committed {
        self.hold.lost.cancel();
        Committed::Lost(why.to_owned())
    }

    /// Reads back what became of an append (ST-9); `None` when that cannot be read.
    async fn settle(&self, batch: &Batch) -> Option<CommitFate> {
        let mut pause = PAUSE_MIN;
        for _ in 0..READBACK_TRIES_MAX {
            match self.host.store.settle(&batch.task, batch.row.seq, &batch.row.hash).await {
                Ok(fate) => return Some(fate),
                Err(StoreError::Unavailable(why)) => self.pause(&mut pause, &why).await.ok()?,
                Err(_) => return None,
            }
        }
        None
    }

    /// A lease that ran out while nobody else claimed may be renewed (ST-5).
    async fn renew(&self, pause: &mut Duration) -> Result<(), Committed> {
        let sent = self.host.clock.monotonic();
        match self.host.store.renew(std::slice::from_ref(&self.hold.claim), self.lease).await {
            Ok(renewed) => match renewed.verdicts.into_iter().next() {
                Some(Ok(tail)) => {
                    self.hold.extend(sent + self.lease);
                    self.hold.moved(tail);
                    Ok(())
                }
                Some(Err(conflict)) => Err(self.lose(&conflict.to_string())),
                None => Err(self.lose("the store gave no verdict on a renewal")),
            },
            Err(StoreError::Unavailable(why)) => self.pause(pause, &why).await,
            Err(error) => Err(Committed::Refused(error.to_string())),
        }
    }

    /// Waits before another try while the store is unavailable; gives up once the lease is
    /// over by this worker's own clock (ST-10).
    async fn pause(&self, pause: &mut Duration, why: &str) -> Result<(), Committed> {
        let now = self.host.clock.monotonic();
        self.outage.appends_fail(now, why);
        if now >= self.hold.deadline() {
            return Err(self.lose(&format!("the store was unavailable until the lease was over: {why}")));
        }
        tracing::warn!(task = %self.hold.claim.task, why, "store unavailable: trying again");
        tokio::select! {
            biased;
            () = self.host.clock.sleep(*pause) => {}
            () = self.hold.lost.cancelled() => return Err(Committed::Lost("the claim was lost".into())),
        }
        *pause = (*pause * 2).min(PAUSE_MAX);
        Ok(())
    }

    /// Shows observers what was committed, outside every lock; their failure changes nothing
    /// (EN-5).
    fn observe(&self, drafted: &Drafted) {
        // Those that keep their place are shown it by the step, which knows their places.
        for observer in self.host.observers.iter().filter(|observer| observer.progress().is_none()) {
            for (event, sealed) in drafted.envelopes.iter().zip(&drafted.events) {
                let call = AssertUnwindSafe(|| observer.committed(event, &sealed.body));
                if catch_unwind(call).is_err() {
                    tracing::warn!(task = %event.task, seq = %event.seq, "an observer failed");
                }
            }
        }
    }
}

fn delivery(sent: &Sent) -> Delivery {
    Delivery { task: sent.task.clone(), actor: sent.actor.clone(), item: sent.item.clone(), dedup: sent.dedup.clone() }
}
