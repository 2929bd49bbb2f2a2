//! Two handles on one store, as two processes have: whatever one was told holds for the other.

use std::sync::Arc;

use plica_kernel::body::Blob;
use plica_kernel::id::{Epoch, Position, Seq};
use plica_kernel::row::Status;
use plica_kernel::wake::{Wake, WakeKey};
use plica_ports::Store;
use plica_ports::store::{AppendError, CommitFate, Conflict, Delivered, rules};

use crate::{Bench, LEASE, Subject};

/// A bench and the other handle; `None` when its lack is declared.
async fn pair(subject: Subject) -> Option<(Bench, Arc<dyn Store>)> {
    let second = subject.second().cloned()?;
    Some((Bench::new(subject).await, second))
}

/// ST-9: both handles show the same name, rows, logs, inboxes, fates, holds and workers, at once.
pub async fn st_9_two_handles_are_one_store(subject: Subject) {
    let Some((bench, second)) = pair(subject).await else { return };
    let ada = bench.worker("ada");
    assert_eq!(second.ledger().await.as_ref(), Ok(bench.ledger()));
    let mut log = bench.task().await;
    let claimed = bench.hold(&ada, &log.id).await;
    let batch = log.noting(&claimed, "by one");
    bench.append(&claimed, &batch).await;
    log.accept(&batch);
    assert_eq!(second.settle(&log.id, log.row.seq, &log.row.hash).await, Ok(CommitFate::Written));
    let batch = log.noting(&claimed, "by the other");
    second.append(&claimed.claim, &batch).await.expect("a claim is a claim on every handle");
    log.accept(&batch);
    bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    bench.store().register(&ada, &[], LEASE).await.expect("a worker registers");
    assert_eq!(second.row(&log.id).await, Ok(Some(bench.row(&log.id).await)));
    assert_eq!(second.read(&log.id, Seq(1), usize::MAX).await, Ok(bench.events(&log.id).await));
    assert_eq!(bench.events(&log.id).await.len(), 3);
    assert_eq!(second.inbox(&log.id, Position(0)).await, Ok(bench.untaken(&log.id).await));
    assert_eq!(second.held_by(&ada).await, Ok(vec![log.id.clone()]));
    assert_eq!(second.workers().await, bench.store().workers().await);
}

/// ST-5: who claims on one handle fences off who claimed on the other.
pub async fn st_5_a_claim_of_another_handle_fences(subject: Subject) {
    let Some((bench, second)) = pair(subject).await else { return };
    let log = bench.task().await;
    let stalled = bench.hold_shortly(&bench.worker("ada"), &log.id).await;
    bench.lapse(&stalled).await;
    let mut request = bench.request(&bench.worker("bob"), 1);
    request.task = Some(log.id.clone());
    let taken = second.claim(&request).await.expect("claiming works").pop().expect("the task is due");
    assert_eq!(taken.claim.epoch, Epoch(2));
    let stale = Conflict::FenceStale { task: log.id.clone(), claimed: Epoch(1), current: Epoch(2) };
    assert_eq!(bench.refused(&stalled, &log.noting(&stalled, "too late")).await, stale);
    let renewed = bench.store().renew(std::slice::from_ref(&stalled.claim), LEASE).await.expect("renewing works");
    assert_eq!(renewed.verdicts, [Err(stale)]);
    second.append(&taken.claim, &log.noting(&taken, "in time")).await.expect("the holder appends");
}

/// ST-3: of two appends to one head on two handles at the same time one is written.
pub async fn st_3_one_of_two_handles_appends_to_a_head(subject: Subject) {
    let Some((bench, second)) = pair(subject).await else { return };
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    for round in 0..20 {
        let stores = [bench.store().clone(), second.clone()];
        let batches = ["left", "right"].map(|side| log.noting(&claimed, &format!("{side} {round}")));
        let mut racing = Vec::new();
        for (store, batch) in stores.into_iter().zip(batches.clone()) {
            let claim = claimed.claim.clone();
            racing.push(tokio::spawn(async move { store.append(&claim, &batch).await }));
        }
        let mut written = Vec::new();
        for (racer, batch) in racing.into_iter().zip(&batches) {
            match racer.await.expect("the writer ends well") {
                Ok(_) => written.push(batch),
                Err(AppendError::Conflict(Conflict::RevisionConflict { .. })) => {}
                Err(other) => panic!("refused by {other:?}"),
            }
        }
        let [winner] = written[..] else { panic!("{} batches were written", written.len()) };
        log.accept(winner);
        assert_eq!(bench.row(&log.id).await.projection, log.row);
    }
}

/// ST-7: senders on two handles deliver one item under one key once.
pub async fn st_7_two_handles_deliver_once(subject: Subject) {
    let Some((bench, second)) = pair(subject).await else { return };
    let log = bench.task().await;
    let mut senders = Vec::new();
    for number in 0..20 {
        let store = if number % 2 == 0 { bench.store().clone() } else { second.clone() };
        let (task, item, key) = (log.id.clone(), bench.message("hi"), bench.key("k1"));
        senders.push(tokio::spawn(async move { store.deliver(&task, "user:ada", &item, &key).await }));
    }
    let mut fresh = 0;
    for sender in senders {
        let Delivered { position, fresh: is_fresh } =
            sender.await.expect("the sender ends well").expect("the item is taken");
        assert_eq!(position, Position(1));
        fresh += usize::from(is_fresh);
    }
    assert_eq!((fresh, bench.untaken(&log.id).await.len()), (1, 1));
}

/// ST-7: an item delivered on one handle wakes a task that was suspended on the other.
pub async fn st_7_a_delivery_by_another_handle_wakes(subject: Subject) {
    let Some((bench, second)) = pair(subject).await else { return };
    let log = bench.sleeper(Wake::on(WakeKey::Event("go".into()))).await;
    second.deliver(&log.id, "user:ada", &bench.event("no"), &bench.key("k1")).await.expect("the item is taken");
    assert_eq!(bench.row(&log.id).await.claimable_at, None, "not what it waits for");
    second.deliver(&log.id, "user:ada", &bench.event("go"), &bench.key("k2")).await.expect("the item is taken");
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    assert_eq!((claimed.items.len(), claimed.verdict.inbox_tail), (2, Position(2)));
    assert_eq!(bench.row(&log.id).await.projection.status, Status::Waiting, "waking is the holder's to record");
}

/// ST-16: creations under one key on two handles at the same time make one task.
pub async fn st_16_two_handles_create_once(subject: Subject) {
    let Some((bench, second)) = pair(subject).await else { return };
    let mut racing = Vec::new();
    for store in [bench.store().clone(), second] {
        let (_, mut task) = bench.draft(|_| ()).await;
        task.key = Some((bench.key("once"), rules::fingerprint(&[b"the same request"])));
        racing.push(tokio::spawn(async move { store.create(task).await }));
    }
    let mut created = Vec::new();
    for racer in racing {
        created.push(racer.await.expect("the creator ends well").expect("one is made, the other told of it"));
    }
    assert_eq!(created[0].id, created[1].id);
    assert_eq!(created.iter().filter(|created| created.fresh).count(), 1);
}

/// CO-2: a body is there for every handle once the event that cites it is.
pub async fn co_2_a_body_is_there_for_another_handle(subject: Subject) {
    let Some((bench, second)) = pair(subject).await else { return };
    let (Some(_), Some(elsewhere)) = (bench.subject.content(), second.content()) else { return };
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let blob = Blob::new("text/plain", "a body ".repeat(1_000).into_bytes());
    let mut batch = log.noting(&claimed, "cites");
    batch.blobs = vec![blob.clone()];
    bench.append(&claimed, &batch).await;
    assert_eq!(elsewhere.get(&blob.reference).await, Ok(blob.bytes));
}
