//! Batches, good and bad in every way.

use plica_kernel::body::Blob;
use plica_kernel::canonical::{Domain, Hash};
use plica_kernel::id::{Position, Seq};
use plica_kernel::limits::EVENT_BYTES_MAX;
use plica_kernel::wake::{Alternative, Wake, WakeKey};
use plica_ports::store::{Batch, ClaimAfter, Claimed, Delivery, NewTask, rules};

use super::op::{After, Append, Seen, Take, What, Wrong};
use super::play::{Play, Twins};
use super::shape;
use crate::{Log, note, opening_facts};

impl Play {
    /// The batch that `append` asks for, and the logs of its children; the same for both stores.
    pub(super) async fn batch(&mut self, append: &Append, twins: &Twins) -> Option<(Batch, Vec<Log>)> {
        let mut claimed = twins.left.clone();
        claimed.claim.run = shape::run();
        let now = self.now().await;
        let mut known = self.tasks.iter().find(|known| known.log.id == claimed.claim.task)?.clone();
        if let Some(Wrong::ForeignTask(pick)) = append.wrong {
            known = shape::one(&self.tasks, pick)?.clone();
        }
        let log = if matches!(append.wrong, Some(Wrong::OldHead)) { &known.old } else { &known.log };
        let mut batch = match append.what {
            What::Notes(count) => log.batch(&claimed, (0..count).map(|number| note(&number.to_string())).collect()),
            What::Suspend => log.suspending(&claimed, shape::wake(append.wake, now)),
            What::Wake => log.waking(&claimed),
            What::Complete => log.completing(&claimed),
            What::Rewind => log.rewinding(&claimed),
        };
        self.take(append, &claimed, &mut batch).await;
        batch.deliveries = append.deliveries.iter().filter_map(|picks| self.delivery(*picks)).collect();
        batch.claim = match append.after {
            After::ByStatus => ClaimAfter::ByStatus,
            After::Release => ClaimAfter::Release { not_before: None },
            After::ReleaseUntil(pick) => ClaimAfter::Release { not_before: Some(shape::due(pick, now)) },
            After::Retain => ClaimAfter::Retain,
        };
        if let Some(pick) = append.body {
            batch.blobs = vec![Blob::new("text/plain", vec![b'x'; pick % 3_000])];
        }
        let mut logs = Vec::new();
        for _ in 0..append.children {
            let (log, child) = self.child(&batch).await;
            logs.push(log);
            batch.children.push(child);
        }
        self.spoil_batch(&mut batch, append.wrong).await;
        Some((batch, logs))
    }

    async fn take(&self, append: &Append, claimed: &Claimed, batch: &mut Batch) {
        let there = self.left().inbox(&batch.task, Position(0)).await.unwrap_or_default();
        let there: Vec<Position> = there.into_iter().map(|item| item.position).collect();
        let first = there.first().copied();
        batch.consumed = match append.take {
            Take::Nothing => Vec::new(),
            Take::All => there,
            Take::First => first.into_iter().collect(),
            Take::FirstTwice => first.into_iter().chain(first).collect(),
            Take::WhatIsNotThere => vec![Position(99)],
        };
        let tails = self.left().inbox_tails(std::slice::from_ref(&batch.task)).await.unwrap_or_default();
        batch.seen = match append.seen {
            Seen::AtTheClaim => claimed.verdict.inbox_tail,
            Seen::Now => tails.first().copied().unwrap_or_default(),
            Seen::Nothing => Position(0),
        };
    }

    fn delivery(&self, (task, item, key): (usize, usize, usize)) -> Option<Delivery> {
        let task = shape::one(&self.tasks, task)?.log.id.clone();
        Some(Delivery { task, actor: "task:sender".into(), item: shape::item(item), dedup: Self::key(key) })
    }

    async fn child(&mut self, batch: &Batch) -> (Log, NewTask) {
        let mut facts = opening_facts(self.now().await);
        facts.parent = Some(batch.task.clone());
        let id = self.fresh_id();
        Log::begin(&self.ledger, &id, facts)
    }

    async fn spoil_batch(&mut self, batch: &mut Batch, wrong: Option<Wrong>) {
        let other = Hash::from_bytes([5; 32]);
        match wrong {
            None | Some(Wrong::Claim(_) | Wrong::ForeignTask(_) | Wrong::OldHead) => {}
            Some(Wrong::OtherHeadHash) => batch.after_hash = other,
            Some(Wrong::NoEvents) => batch.events.clear(),
            Some(Wrong::Gap) => batch.events[0].seq = Seq(batch.events[0].seq.0 + 1),
            Some(Wrong::OtherHash) => batch.events[0].hash = other,
            Some(Wrong::Oversize) => {
                if let Some(last) = batch.events.last_mut() {
                    last.body.resize(EVENT_BYTES_MAX + 1, b' ');
                    last.hash = Domain::Event.hash(&last.body);
                    batch.row.hash = last.hash;
                }
            }
            Some(Wrong::RowElsewhere) => batch.row.seq = batch.row.seq.next(),
            Some(Wrong::TooManyAlternatives) => {
                batch.row.wake.any = vec![Alternative { key: WakeKey::Background, need: 1 }; 9];
            }
            Some(Wrong::UnreadableWake) => batch.row.wake = Wake::on(WakeKey::Event(String::new())),
            Some(Wrong::FalseBody) => {
                let mut blob = Blob::new("text/plain", b"one".to_vec());
                blob.bytes = b"two".to_vec();
                batch.blobs.push(blob);
            }
            Some(Wrong::UnwritableDelivery) => batch.deliveries.push(Delivery {
                task: batch.task.clone(),
                actor: "task:sender".into(),
                item: shape::unwritable(),
                dedup: Self::key(0),
            }),
            Some(wrong) => self.spoil_children(batch, wrong).await,
        }
    }

    /// Adds a child that is wrong; no batch with one is written.
    async fn spoil_children(&mut self, batch: &mut Batch, wrong: Wrong) {
        let (_, mut child) = self.child(batch).await;
        match wrong {
            Wrong::TakenChild => {
                let facts = child.facts.clone();
                if let Some(taken) = shape::one(&self.tasks, batch.events.len()) {
                    child = Log::begin(&self.ledger, &taken.log.id, facts).1;
                }
            }
            Wrong::ForeignChild => child.facts.parent = Some(self.fresh_id()),
            Wrong::KeyedChild => child.key = Some((Self::key(0), rules::fingerprint(&[]))),
            _ => batch.children.push(child.clone()),
        }
        batch.children.push(child);
    }
}
