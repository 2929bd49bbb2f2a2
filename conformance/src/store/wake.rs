//! What makes a waiting task claimable, whatever comes first (ST-6, ST-7).

use plica_kernel::event::ApprovalVerdict;
use plica_kernel::id::{CallId, Position, Seq};
use plica_kernel::row::Status;
use plica_kernel::wake::{Alternative, Item, Wake, WakeKey};
use plica_ports::store::{AppendError, Conflict};

use crate::{Bench, LEASE, Subject};

fn event_wake(kind: &str) -> Wake {
    Wake::on(WakeKey::Event(kind.into()))
}

fn call(decision: u64, index: u32) -> CallId {
    CallId { decision: Seq(decision), index }
}

/// ST-7: the item that is waited for makes the task claimable; another does not.
pub async fn st_7_the_item_that_is_waited_for_wakes(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.sleeper(event_wake("go")).await;
    assert_eq!(bench.row(&log.id).await.claimable_at, None, "a task that waits for an event is not claimable");
    bench.deliver(&log.id, &bench.event("stop"), "k1").await;
    let late = Item::Answer { call: call(2, 0), text: "go".into() };
    bench.deliver(&log.id, &late, "k2").await;
    assert_eq!(bench.row(&log.id).await.claimable_at, None, "payloads do not match, only keys");
    assert!(bench.try_hold(&bench.worker("ada"), &log.id, LEASE).await.is_none());
    bench.deliver(&log.id, &bench.event("go"), "k3").await;
    assert!(bench.is_claimable(&log.id).await);
    assert_eq!(bench.hold(&bench.worker("ada"), &log.id).await.items.len(), 3);
}

/// ST-7: an alternative that needs several items waits for that many untaken ones.
pub async fn st_7_a_group_wakes_once_all_have_come(subject: Subject) {
    let bench = Bench::new(subject).await;
    let group = Alternative { key: WakeKey::Answer(Seq(2)), need: 3 };
    let log = bench.sleeper(Wake { any: vec![group], at: None }).await;
    let verdict = |index| Item::Verdict { call: call(2, index), reason: None, verdict: ApprovalVerdict::Approve };
    bench.deliver(&log.id, &verdict(0), "k0").await;
    bench.deliver(&log.id, &verdict(1), "k1").await;
    bench.deliver(&log.id, &verdict(1), "k1").await;
    let other = Item::Verdict { call: call(3, 0), reason: None, verdict: ApprovalVerdict::Deny };
    bench.deliver(&log.id, &other, "k3").await;
    assert_eq!(bench.row(&log.id).await.claimable_at, None, "the same delivery again is not another one");
    bench.deliver(&log.id, &verdict(2), "k2").await;
    assert!(bench.is_claimable(&log.id).await);
}

/// ST-7: any of up to eight alternatives wakes.
pub async fn st_7_any_alternative_wakes(subject: Subject) {
    let bench = Bench::new(subject).await;
    let any: Vec<_> = (0..8).map(|number| Alternative { key: WakeKey::Event(format!("e{number}")), need: 1 }).collect();
    let log = bench.sleeper(Wake { any, at: None }).await;
    bench.deliver(&log.id, &bench.event("e8"), "k8").await;
    assert_eq!(bench.row(&log.id).await.claimable_at, None);
    bench.deliver(&log.id, &bench.event("e7"), "k7").await;
    assert!(bench.is_claimable(&log.id).await);
}

/// ST-7: an item that steers wakes whatever is waited for; late evidence does not.
pub async fn st_7_an_item_that_steers_wakes(subject: Subject) {
    let bench = Bench::new(subject).await;
    let steering = [
        bench.message("hi"),
        Item::Cancel { reason: None },
        Item::Interrupt { reason: None },
        Item::Rewind { to_seq: Seq(1) },
        Item::Close { reason: None },
        Item::Reopen { reason: None },
    ];
    for item in steering {
        let log = bench.sleeper(event_wake("go")).await;
        bench.deliver(&log.id, &item, "k1").await;
        assert!(bench.is_claimable(&log.id).await, "{} does not steer", item.kind());
    }
}

/// ST-7: a delivery to a task that is ready, running or held changes nothing about when it is
/// claimable.
pub async fn st_7_an_item_leaves_what_is_awake_alone(subject: Subject) {
    let bench = Bench::new(subject).await;
    let far = bench.now().await.plus_millis(3_600_000);
    let (ready, later) = (bench.task().await, bench.task_with(|facts| facts.not_before = Some(far)).await);
    let due = bench.row(&ready.id).await.claimable_at;
    for log in [&ready, &later] {
        bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    }
    assert_eq!(bench.row(&ready.id).await.claimable_at, due, "a delivery moved a task in its queue");
    assert_eq!(bench.row(&later.id).await.claimable_at, Some(far));
    let claimed = bench.hold(&bench.worker("ada"), &ready.id).await;
    bench.deliver(&ready.id, &bench.message("ho"), "k2").await;
    assert_eq!(bench.row(&ready.id).await.claimable_at, Some(claimed.lease_until));
}

/// ST-7, EN-6: whoever stops a task waits for no not-before: not for that of its creation, not
/// for a back-off, and not when the order came while the task was held.
pub async fn st_7_an_order_to_stop_waits_for_no_not_before(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let far = bench.now().await.plus_millis(3_600_000);
    for item in [Item::Cancel { reason: None }, Item::Interrupt { reason: None }] {
        let log = bench.task_with(|facts| facts.not_before = Some(far)).await;
        bench.deliver(&log.id, &item, "k1").await;
        assert!(bench.is_claimable(&log.id).await, "{} waits", item.kind());
        let (before, after) = (bench.task().await, bench.task().await);
        let claimed = bench.hold(&ada, &before.id).await;
        bench.deliver(&before.id, &item, "k1").await;
        assert_eq!(bench.row(&before.id).await.claimable_at, Some(claimed.lease_until), "a held task is its holder's");
        bench.release(&claimed, Some(far)).await;
        assert!(bench.is_claimable(&before.id).await, "{} came before the release", item.kind());
        bench.release(&bench.hold(&ada, &after.id).await, Some(far)).await;
        assert_eq!(bench.row(&after.id).await.claimable_at, Some(far));
        bench.deliver(&after.id, &item, "k1").await;
        assert!(bench.is_claimable(&after.id).await, "{} came after the release", item.kind());
    }
}

/// ST-7: a suspend makes the same test: items that lie there already, seen but untaken, make
/// the task claimable at once.
pub async fn st_7_a_suspend_makes_the_same_test(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    for (item, wakes) in [(bench.event("go"), true), (bench.message("hi"), true), (bench.event("stop"), false)] {
        let log = bench.task().await;
        bench.deliver(&log.id, &item, "k1").await;
        let claimed = bench.hold(&ada, &log.id).await;
        let batch = log.suspending(&claimed, event_wake("go"));
        assert!(!bench.append(&claimed, &batch).await.held);
        assert_eq!(bench.is_claimable(&log.id).await, wakes, "{item:?}");
        if wakes {
            assert_eq!(bench.hold(&ada, &log.id).await.items, claimed.items);
        }
    }
    // What the suspend itself takes wakes nobody.
    let log = bench.task().await;
    bench.deliver(&log.id, &bench.event("go"), "k1").await;
    let claimed = bench.hold(&ada, &log.id).await;
    let mut batch = log.suspending(&claimed, event_wake("go"));
    batch.consumed = vec![Position(1)];
    bench.append(&claimed, &batch).await;
    assert_eq!(bench.row(&log.id).await.claimable_at, None);
}

/// ST-7: a delivery and a suspend at the same time: either the suspend is refused because the
/// inbox moved, or the task is woken; never is the wake lost.
pub async fn st_7_no_wake_is_lost_between_suspend_and_delivery(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    for _ in 0..30 {
        let log = bench.task().await;
        let claimed = bench.hold(&ada, &log.id).await;
        let batch = log.suspending(&claimed, event_wake("go"));
        let (store, task) = (bench.store().clone(), log.id.clone());
        let (item, key) = (bench.event("go"), bench.key("k1"));
        let sender = tokio::spawn(async move { store.deliver(&task, "user:ada", &item, &key).await });
        let (store, claim) = (bench.store().clone(), claimed.claim.clone());
        let writer = tokio::spawn(async move { store.append(&claim, &batch).await });
        sender.await.expect("the sender ends well").expect("the item is taken");
        match writer.await.expect("the writer ends well") {
            Ok(_) => assert!(bench.is_claimable(&log.id).await, "a wake was lost"),
            Err(AppendError::Conflict(Conflict::InboxMoved { tail, .. })) => assert_eq!(tail, Position(1)),
            Err(other) => panic!("refused by {other:?}"),
        }
    }
}

/// ST-7: once the append that wakes the task has taken the item, the same item wakes no
/// second time.
pub async fn st_7_no_item_wakes_twice(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let mut log = bench.sleeper(event_wake("go")).await;
    bench.deliver(&log.id, &bench.event("go"), "k1").await;
    let claimed = bench.hold(&ada, &log.id).await;
    let mut batch = log.waking(&claimed);
    batch.consumed = vec![Position(1)];
    assert!(bench.append(&claimed, &batch).await.held);
    log.accept(&batch);
    assert_eq!(bench.row(&log.id).await.projection.status, Status::Ready);
    bench.append(&claimed, &log.suspending(&claimed, event_wake("go"))).await;
    bench.deliver(&log.id, &bench.event("go"), "k1").await;
    assert_eq!(bench.row(&log.id).await.claimable_at, None);
    bench.deliver(&log.id, &bench.event("go"), "k2").await;
    assert!(bench.is_claimable(&log.id).await);
}

/// ST-6: a timer is due by the store's clock, not early, and stays due until it is recorded.
pub async fn st_6_a_timer_is_due_by_the_stores_clock(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let due = bench.now().await.plus_millis(200);
    let mut log = bench.sleeper(Wake { at: Some(due), ..event_wake("go") }).await;
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(due));
    if let Some(early) = bench.try_hold(&ada, &log.id, LEASE).await {
        assert!(early.verdict.now >= due, "a timer woke the task early");
        bench.release(&early, None).await;
    }
    bench.until(due).await;
    let claimed = bench.hold(&ada, &log.id).await;
    bench.release(&claimed, None).await;
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(due), "released unrecorded, it stays as it was");
    let claimed = bench.hold(&ada, &log.id).await;
    let batch = log.waking(&claimed);
    bench.append(&claimed, &batch).await;
    log.accept(&batch);
    bench.append(&claimed, &log.suspending(&claimed, event_wake("go"))).await;
    assert_eq!(bench.row(&log.id).await.claimable_at, None, "a timer fires once");
}

/// ST-7: an item wakes a sleeper before its timer.
pub async fn st_7_an_item_comes_before_the_timer(subject: Subject) {
    let bench = Bench::new(subject).await;
    let alarm = bench.now().await.plus_millis(3_600_000);
    let log = bench.sleeper(Wake { at: Some(alarm), ..event_wake("go") }).await;
    bench.deliver(&log.id, &bench.event("stop"), "k1").await;
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(alarm));
    bench.deliver(&log.id, &bench.event("go"), "k2").await;
    assert!(bench.is_claimable(&log.id).await);
}
