//! Who gets which task (ST-1, ST-12).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plica_kernel::id::{Epoch, Position, TaskId};
use plica_kernel::wake::{Wake, WakeKey};
use plica_ports::Store;
use plica_ports::store::{ClaimRequest, Claimed, Facts};

use crate::{Bench, LEASE, Subject};

fn ids(claimed: &[Claimed]) -> Vec<TaskId> {
    claimed.iter().map(|claimed| claimed.claim.task.clone()).collect()
}

/// ST-1: a claim raises the epoch, names the holder and the lease, and returns the head, the
/// untaken items in order and a token of which the row shows nothing.
pub async fn st_1_a_claim_brings_head_items_and_a_secret(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    bench.deliver(&log.id, &bench.message("one"), "k1").await;
    bench.deliver(&log.id, &bench.event("two"), "k2").await;
    let worker = bench.worker("ada");
    let claimed = bench.hold(&worker, &log.id).await;
    assert_eq!(claimed.claim.task, log.id);
    assert_eq!(claimed.claim.epoch, Epoch(1));
    assert_eq!((claimed.seq, claimed.hash), (log.row.seq, log.row.hash));
    let items: Vec<_> =
        claimed.items.iter().map(|item| (item.position, item.item.kind(), item.dedup.as_str())).collect();
    assert_eq!(items, [(Position(1), "message", "k1"), (Position(2), "event", "k2")]);
    assert_eq!(claimed.items[0].actor, "user:ada");
    assert_eq!(claimed.verdict.inbox_tail, Position(2));
    assert_eq!(claimed.lease_until, claimed.verdict.now.plus_millis(LEASE.as_millis() as u64));
    let row = bench.row(&log.id).await;
    assert_eq!(row.epoch, Epoch(1));
    assert_eq!(row.holder, Some(worker));
    assert_eq!(row.run, Some(claimed.claim.run.clone()));
    assert_eq!(row.acquired_at, Some(claimed.verdict.now));
    assert_eq!(row.lease_until, Some(claimed.lease_until));
    assert_eq!(row.claimable_at, Some(claimed.lease_until), "a held task is claimable at its lease's end");
}

/// ST-1: a not-before time keeps a task from being claimed, by name too, until the store's
/// clock shows it.
pub async fn st_1_nothing_is_claimed_before_its_time(subject: Subject) {
    let bench = Bench::new(subject).await;
    let due = bench.now().await.plus_millis(150);
    let later = bench.now().await.plus_millis(3_600_000);
    let soon = bench.task_with(|facts| facts.not_before = Some(due)).await;
    let far = bench.task_with(|facts| facts.not_before = Some(later)).await;
    let worker = bench.worker("ada");
    assert_eq!(bench.row(&soon.id).await.claimable_at, Some(due));
    let early = bench.claim(&bench.request(&worker, 9)).await;
    // A clock that cannot be moved may have got there already on a machine that stalled.
    assert!(early.iter().all(|claimed| claimed.verdict.now >= due), "claimed before its time");
    if early.is_empty() {
        bench.until(due).await;
        assert_eq!(ids(&bench.claim(&bench.request(&worker, 9)).await), [soon.id]);
    }
    assert!(bench.try_hold(&worker, &far.id, LEASE).await.is_none());
}

/// ST-1: a worker gets tasks of its queues; no queues means every queue.
pub async fn st_1_queues_bound_what_is_claimed(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (red, blue) = (bench.queue("red"), bench.queue("blue"));
    let first = bench.task_with(|facts| facts.queue = red.clone()).await;
    let second = bench.task_with(|facts| facts.queue = blue.clone()).await;
    let third = bench.task_with(|facts| facts.queue = bench.queue("green")).await;
    let worker = bench.worker("ada");
    let within = |queues: &[_]| ClaimRequest { queues: queues.to_vec(), ..bench.request(&worker, 9) };
    assert_eq!(ids(&bench.claim(&within(std::slice::from_ref(&blue))).await), [second.id]);
    assert!(bench.claim(&within(std::slice::from_ref(&blue))).await.is_empty());
    let foreign = ClaimRequest { task: Some(third.id.clone()), ..within(&[red.clone(), blue]) };
    assert!(bench.claim(&foreign).await.is_empty(), "a named task of another queue was handed out");
    assert_eq!(
        ids(&bench.claim(&within(&[])).await).into_iter().collect::<BTreeSet<_>>(),
        BTreeSet::from([first.id, third.id])
    );
}

/// ST-1: class 0 comes first and class 3 last; within a class, what has been due for longest.
pub async fn st_1_classes_come_in_order_then_the_longest_due(subject: Subject) {
    let bench = Bench::new(subject).await;
    let now = bench.now().await;
    let mut expected = Vec::new();
    for (priority, due) in [(3, 10), (2, 30), (0, 20), (2, 10), (1, 40), (0, 5)] {
        let facts = |facts: &mut Facts| {
            facts.priority = priority;
            facts.not_before = Some(now.plus_millis(due));
        };
        expected.push(((priority, due), bench.task_with(facts).await.id));
    }
    expected.sort();
    bench.until(now.plus_millis(40)).await;
    let worker = bench.worker("ada");
    let claimed = bench.claim(&bench.request(&worker, 9)).await;
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids(&claimed), expected);
}

/// ST-1: a request gets at most `max` tasks, and none for a `max` of 0.
pub async fn st_1_at_most_so_many_are_claimed(subject: Subject) {
    let bench = Bench::new(subject).await;
    for _ in 0..5 {
        bench.task().await;
    }
    let worker = bench.worker("ada");
    assert!(bench.claim(&bench.request(&worker, 0)).await.is_empty());
    let first = ids(&bench.claim(&bench.request(&worker, 2)).await);
    let second = ids(&bench.claim(&bench.request(&worker, 9)).await);
    assert_eq!((first.len(), second.len()), (2, 3));
    assert_eq!(first.into_iter().chain(second).collect::<BTreeSet<_>>().len(), 5);
}

/// ST-1, RC-9: a request can name one task, and tasks to pass over.
pub async fn st_1_a_named_task_and_exceptions_are_respected(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (first, second, third) = (bench.task().await, bench.task().await, bench.task().await);
    let worker = bench.worker("ada");
    let without = ClaimRequest { except: vec![first.id.clone(), third.id.clone()], ..bench.request(&worker, 9) };
    assert_eq!(ids(&bench.claim(&without).await), [second.id]);
    assert!(bench.claim(&ClaimRequest { task: Some(first.id.clone()), ..without }).await.is_empty());
    assert_eq!(bench.hold(&worker, &third.id).await.claim.task, third.id);
    let stranger = bench.fresh_id();
    assert!(bench.try_hold(&worker, &stranger, LEASE).await.is_none(), "a task that does not exist was handed out");
    assert_eq!(bench.row(&first.id).await.holder, None);
}

/// ST-1: two workers never get the same task.
pub async fn st_1_two_workers_never_get_the_same_task(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    race(&bench, bench.store().clone(), bench.store().clone(), [bench.request(&ada, 3), bench.request(&bob, 3)]).await;
    let log = bench.task().await;
    bench.hold(&ada, &log.id).await;
    assert!(bench.try_hold(&bob, &log.id, LEASE).await.is_none(), "a held task was handed out again");
    assert!(bench.try_hold(&ada, &log.id, LEASE).await.is_none(), "a held task was handed out again to its holder");
}

/// ST-1: nor do two workers on two handles, as two processes have.
pub async fn st_1_two_handles_never_get_the_same_task(subject: Subject) {
    let bench = Bench::new(subject).await;
    let Some(second) = bench.subject.second().cloned() else { return };
    assert_eq!(second.ledger().await.expect("a store tells its name"), *bench.ledger());
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    race(&bench, bench.store().clone(), second, [bench.request(&ada, 3), bench.request(&bob, 3)]).await;
}

/// Two workers that claim at the same time until nothing is left share forty tasks.
async fn race(bench: &Bench, left: Arc<dyn Store>, right: Arc<dyn Store>, [ada, bob]: [ClaimRequest; 2]) {
    let mut all = BTreeSet::new();
    for _ in 0..40 {
        all.insert(bench.task().await.id);
    }
    let (left, right) = (tokio::spawn(drain(left, ada)), tokio::spawn(drain(right, bob)));
    let mut taken = left.await.expect("the first worker ends well");
    taken.extend(right.await.expect("the second worker ends well"));
    assert_eq!(taken.len(), all.len(), "a task was handed out twice, or not at all");
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), all);
}

/// Claims until nothing is left.
async fn drain(store: Arc<dyn Store>, request: ClaimRequest) -> Vec<TaskId> {
    let mut taken = Vec::new();
    loop {
        let claimed = store.claim(&request).await.expect("claiming works");
        if claimed.is_empty() {
            return taken;
        }
        taken.extend(ids(&claimed));
        tokio::task::yield_now().await;
    }
}

/// ST-12: tasks that wait are not among those looked at: however many sleep, a claim finds
/// the one that is ready, and nothing else.
pub async fn st_12_sleepers_are_never_handed_out(subject: Subject) {
    let bench = Bench::new(subject).await;
    let alarm = bench.now().await.plus_millis(3_600_000);
    for number in 0..20 {
        let wake = Wake::on(WakeKey::Event("never".into()));
        bench.sleeper(Wake { at: (number % 2 == 0).then_some(alarm), ..wake }).await;
    }
    let ready = bench.task().await;
    let request = ClaimRequest { lease: Duration::from_secs(5), ..bench.request(&bench.worker("ada"), 99) };
    assert_eq!(ids(&bench.claim(&request).await), [ready.id]);
}
