//! What is one transaction with an append: bodies, children, deliveries, the claim's end
//! (ST-4, ST-15, CO-2).

use std::time::Duration;

use plica_kernel::body::Blob;
use plica_kernel::id::Position;
use plica_kernel::limits::AGE_STEP_MAX_MS;
use plica_kernel::row::Status;
use plica_kernel::wake::{Wake, WakeKey};
use plica_ports::store::{Batch, ClaimAfter, Conflict, Delivery, StoreError};
use plica_ports::{ContentError, Store};

use crate::{BRIEF_LEASE, Bench, LEASE, Log, Subject};

fn waiting() -> Wake {
    Wake::on(WakeKey::Event("go".into()))
}

fn delivery(bench: &Bench, to: &Log, kind: &str, key: &str) -> Delivery {
    Delivery { task: to.id.clone(), actor: "task:sender".into(), item: bench.event(kind), dedup: bench.key(key) }
}

/// ST-4: a batch that suspends or ends the task releases the claim unless it says otherwise.
pub async fn st_4_a_suspend_or_an_end_releases(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    for ends in [false, true] {
        let log = bench.task().await;
        let claimed = bench.hold(&ada, &log.id).await;
        let batch = if ends { log.completing(&claimed) } else { log.suspending(&claimed, waiting()) };
        assert!(!bench.append(&claimed, &batch).await.held);
        let row = bench.row(&log.id).await;
        assert_eq!((row.holder, row.run, row.lease_until, row.claimable_at), (None, None, None, None));
        assert_eq!(row.projection, batch.row);
        let mut after = log.clone();
        after.accept(&batch);
        let refused = bench.refused(&claimed, &after.noting(&claimed, "x")).await;
        assert_eq!(refused, Conflict::LeaseRequired { task: log.id });
    }
}

/// ST-4: a batch may release the claim whatever it does, at once or from a time on.
pub async fn st_4_a_batch_may_release(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let mut log = bench.task().await;
    let claimed = bench.hold(&ada, &log.id).await;
    let batch = log.noting(&claimed, "back at once");
    let at_once = Batch { claim: ClaimAfter::Release { not_before: None }, ..batch };
    assert!(!bench.append(&claimed, &at_once).await.held);
    log.accept(&at_once);
    assert!(bench.is_claimable(&log.id).await);
    let claimed = bench.hold(&ada, &log.id).await;
    let due = bench.now().await.plus_millis(3_600_000);
    let mut later = log.noting(&claimed, "back later");
    later.claim = ClaimAfter::Release { not_before: Some(due) };
    assert!(!bench.append(&claimed, &later).await.held);
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(due));
}

/// ST-4, ST-13: a batch that suspends may keep the claim: the task waits under its holder,
/// who renews and appends as before; when the lease ends the task is claimable at once.
pub async fn st_13_a_waiting_task_may_stay_held(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    let mut log = bench.task().await;
    let claimed = bench.hold(&ada, &log.id).await;
    let mut batch = log.suspending(&claimed, waiting());
    batch.claim = ClaimAfter::Retain;
    assert!(bench.append(&claimed, &batch).await.held);
    log.accept(&batch);
    let row = bench.row(&log.id).await;
    assert_eq!((row.projection.status, row.holder), (Status::Waiting, Some(ada)));
    assert_eq!(row.claimable_at, Some(claimed.lease_until), "claimable at the lease's end");
    bench.deliver(&log.id, &bench.event("go"), "k1").await;
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(claimed.lease_until), "only the holder is handed the wake");
    let mut woken = log.waking(&claimed);
    (woken.consumed, woken.seen) = (vec![Position(1)], Position(1));
    assert!(bench.append(&claimed, &woken).await.held);

    let log = bench.task().await;
    let brief = bench.try_hold(&bob, &log.id, BRIEF_LEASE).await.expect("the task is claimable");
    let mut batch = log.suspending(&brief, waiting());
    batch.claim = ClaimAfter::Retain;
    bench.append(&brief, &batch).await;
    bench.lapse(&brief).await;
    assert!(bench.is_claimable(&log.id).await, "a kept claim that ran out leaves the task claimable");
}

/// ST-13: the row of a task that waits with live background jobs has a timer that has gone off. Its
/// holder keeps it from everyone; however the claim ends, the task is claimable at once, and the
/// next holder that suspends it with its own wake leaves it waiting.
pub async fn st_13_a_task_whose_jobs_lost_their_holder_is_claimable_at_once(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    let due = Wake { at: Some(bench.now().await), ..waiting() };
    for released in [true, false] {
        let mut log = bench.task().await;
        let lease = if released { LEASE } else { BRIEF_LEASE };
        let claimed = bench.try_hold(&ada, &log.id, lease).await.expect("the task is claimable");
        let mut batch = log.suspending(&claimed, due.clone());
        batch.claim = ClaimAfter::Retain;
        assert!(bench.append(&claimed, &batch).await.held);
        log.accept(&batch);
        assert_eq!(bench.row(&log.id).await.claimable_at, Some(claimed.lease_until), "nobody but its holder");
        if released {
            assert!(!bench.is_claimable(&log.id).await);
            bench.release(&claimed, None).await;
        } else {
            bench.lapse(&claimed).await;
        }
        let next = bench.hold(&bob, &log.id).await;
        let woken = log.waking(&next);
        assert!(bench.append(&next, &woken).await.held);
        log.accept(&woken);
        let batch = log.suspending(&next, waiting());
        assert!(!bench.append(&next, &batch).await.held);
        assert_eq!(bench.row(&log.id).await.claimable_at, None, "it waits on");
        bench.deliver(&log.id, &bench.event("go"), "k1").await;
        assert!(bench.is_claimable(&log.id).await);
    }
}

/// ST-4, WA-5: children are created with the parent's event, claimable like any task.
pub async fn st_4_children_come_with_their_parents_event(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let log = bench.task().await;
    let claimed = bench.hold(&ada, &log.id).await;
    let (first, first_task) = bench.draft_child(&log.id).await;
    let (second, second_task) = bench.draft_child(&log.id).await;
    let mut batch = log.noting(&claimed, "spawns");
    batch.children = vec![first_task, second_task];
    batch.deliveries = vec![delivery(&bench, &second, "hello", "k1")];
    bench.append(&claimed, &batch).await;
    for child in [&first, &second] {
        let row = bench.row(&child.id).await;
        assert_eq!(row.facts.parent, Some(log.id.clone()));
        assert_eq!(row.projection, child.row);
        assert_eq!(bench.events(&child.id).await.len(), 1);
    }
    let held = bench.hold(&ada, &second.id).await;
    assert_eq!(held.items.len(), 1, "a delivery reaches a child of the same append");
    assert!(bench.hold(&ada, &first.id).await.items.is_empty());
}

/// ST-4: a refused batch leaves nothing: no event, body, child or delivery, and takes no item.
pub async fn st_4_a_refused_batch_leaves_no_trace(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (log, other) = (bench.task().await, bench.task().await);
    bench.deliver(&log.id, &bench.event("mine"), "k1").await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let (child, child_task) = bench.draft_child(&log.id).await;
    let (taken, taken_task) = bench.draft_child(&log.id).await;
    let mut making = log.noting(&claimed, "spawns one");
    making.children = vec![taken_task.clone()];
    bench.append(&claimed, &making).await;
    let mut log = log;
    log.accept(&making);

    let blob = Blob::new("text/plain", b"a body nobody cites".to_vec());
    let mut batch = log.noting(&claimed, "spawns two, one of them again");
    batch.blobs = vec![blob.clone()];
    (batch.consumed, batch.seen) = (vec![Position(1)], Position(1));
    batch.deliveries = vec![delivery(&bench, &other, "never", "k2")];
    batch.children = vec![child_task, taken_task];
    let refused = bench.refused(&claimed, &batch).await;
    assert!(matches!(refused, Conflict::RevisionConflict { .. }), "a taken child's id is {refused}");
    assert_eq!(bench.store().row(&child.id).await.expect("rows can be read"), None, "the other child was created");
    assert_eq!(bench.row(&taken.id).await.projection, taken.row);
    assert_eq!(bench.row(&other.id).await.inbox_tail, Position(0), "a delivery was made");
    assert_eq!(bench.untaken(&log.id).await.len(), 1);
    if let Some(content) = bench.subject.content() {
        let missing = content.get(&blob.reference).await;
        assert_eq!(missing, Err(ContentError::Missing(blob.reference)), "a body was kept");
    }
}

/// CO-2, ST-4: a store that keeps content too writes a batch's bodies, its children's and a
/// new task's with the events that cite them.
pub async fn co_2_bodies_are_written_with_their_events(subject: Subject) {
    let bench = Bench::new(subject).await;
    let Some(content) = bench.subject.content() else { return };
    let blob = |text: &str| Blob::new("text/plain", text.repeat(2_000).into_bytes());
    let (log, mut task) = bench.draft(|_| ()).await;
    task.blobs = vec![blob("root")];
    bench.store().create(task).await.expect("a sound task is created");
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let (_, mut child) = bench.draft_child(&log.id).await;
    child.blobs = vec![blob("child")];
    let mut batch = log.noting(&claimed, "cites");
    batch.blobs = vec![blob("batch"), blob("batch")];
    batch.children = vec![child];
    bench.append(&claimed, &batch).await;
    for text in ["root", "child", "batch"] {
        let blob = blob(text);
        assert_eq!(content.get(&blob.reference).await, Ok(blob.bytes), "{text}");
    }
}

/// CO-3, CO-1: bodies that a new task, a batch or its children bring are young again, so that a
/// removal that runs beside them takes none, however old they were.
pub async fn co_3_bodies_that_come_with_events_outlive_a_removal(subject: Subject) {
    let bench = Bench::new(subject).await;
    let Some(content) = bench.subject.content() else { return };
    let blobs: Vec<Blob> =
        (0..12).map(|number| Blob::new("text/plain", format!("body {number}").into_bytes())).collect();
    for blob in &blobs {
        content.put(blob).await.expect("a body is kept");
    }
    let Some(advance) = bench.subject.time() else { return };
    advance(Duration::from_millis(2 * AGE_STEP_MAX_MS));
    let before = content.clock().await.expect("a clock can be read");
    let (store, named) = (bench.store().clone(), blobs.iter().map(|blob| blob.reference.sha256).collect::<Vec<_>>());
    let remover = tokio::spawn(async move {
        for hash in named.iter().cycle().take(10 * named.len()) {
            let content = store.content().expect("the store keeps content");
            content.remove(&[*hash], before).await.expect("bodies are removed");
        }
    });
    let (mut log, mut task) = bench.draft(|_| ()).await;
    task.blobs = blobs[..2].to_vec();
    bench.store().create(task).await.expect("a sound task is created");
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    for brought in blobs[2..].chunks(2) {
        let (_, mut child) = bench.draft_child(&log.id).await;
        child.blobs = brought[1..].to_vec();
        let mut batch = log.noting(&claimed, "cites");
        batch.blobs = brought[..1].to_vec();
        batch.children = vec![child];
        bench.append(&claimed, &batch).await;
        log.accept(&batch);
    }
    remover.await.expect("the remover ends well");
    for blob in blobs {
        assert_eq!(content.get(&blob.reference).await, Ok(blob.bytes));
    }
}

/// ST-7: a delivery inside an append never fails it: not when the receiver does not exist or
/// is over, not when its key is taken, not when it is the sender itself.
pub async fn st_7_a_delivery_inside_an_append_never_fails_it(subject: Subject) {
    let bench = Bench::new(subject).await;
    let over = bench.finished().await;
    let (log, other) = (bench.task().await, bench.task().await);
    let nobody = bench.draft(|_| ()).await.0;
    bench.deliver(&other.id, &bench.event("first"), "taken").await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let mut batch = log.noting(&claimed, "sends");
    batch.deliveries = vec![
        delivery(&bench, &nobody, "x", "k1"),
        delivery(&bench, &over, "x", "k1"),
        delivery(&bench, &other, "second", "taken"),
        delivery(&bench, &other, "third", "free"),
        delivery(&bench, &log, "self", "k1"),
    ];
    let appended = bench.append(&claimed, &batch).await;
    assert_eq!(appended.verdict.inbox_tail, Position(1), "the sender's own delivery counts");
    let unknown = bench.store().inbox(&nobody.id, Position(0)).await;
    assert_eq!(unknown, Err(StoreError::UnknownTask(nobody.id)));
    assert_eq!(bench.row(&over.id).await.inbox_tail, Position(0));
    let items = bench.untaken(&other.id).await;
    let items: Vec<_> = items.into_iter().map(|item| (item.item, item.actor)).collect();
    assert_eq!(items, [(bench.event("first"), "user:ada".into()), (bench.event("third"), "task:sender".into())]);
}

/// ST-15: tasks that append to each other at the same time never stop each other.
pub async fn st_15_crossing_appends_all_land(subject: Subject) {
    const ROUNDS: u64 = 25;
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let (left, right) = (bench.task().await, bench.task().await);
    let pair = [(left.clone(), right.clone()), (right.clone(), left.clone())];
    let mut writers = Vec::new();
    for (mut mine, theirs) in pair {
        let claimed = bench.hold(&ada, &mine.id).await;
        let batches: Vec<_> = (0..ROUNDS)
            .map(|round| {
                let mut batch = mine.noting(&claimed, "sends");
                batch.deliveries = vec![delivery(&bench, &theirs, "crossing", &format!("k{round}"))];
                mine.accept(&batch);
                batch
            })
            .collect();
        let store = bench.store().clone();
        writers.push(tokio::spawn(async move {
            for batch in batches {
                Store::append(&*store, &claimed.claim, &batch).await.expect("a crossing append is written");
            }
        }));
    }
    for writer in writers {
        writer.await.expect("the writer ends well");
    }
    for log in [left, right] {
        let row = bench.row(&log.id).await;
        assert_eq!((row.projection.seq.0, row.inbox_tail), (1 + ROUNDS, Position(ROUNDS)));
    }
}
