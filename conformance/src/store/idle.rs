//! Claims that come to nothing (ST-18) and tasks that are blocked (RC-9).

use std::time::Duration;

use plica_kernel::id::Seq;
use plica_kernel::limits::{IDLE_CLAIMS_MAX, idle_backoff_ms};
use plica_kernel::row::Blocked;
use plica_ports::store::{AppendError, Conflict};

use crate::{BRIEF_LEASE, Bench, LEASE, SHORT_LEASE, Subject};

/// ST-18: the row counts claims since the last append, handed back or lapsed; an append sets
/// the count to zero.
pub async fn st_18_claims_without_an_append_are_counted(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    assert_eq!(bench.row(&log.id).await.idle_claims, 0);
    let first = bench.hold(&bench.worker("ada"), &log.id).await;
    bench.release(&first, None).await;
    assert_eq!(bench.row(&log.id).await.idle_claims, 1);
    let second = bench.hold_shortly(&bench.worker("ada"), &log.id).await;
    bench.lapse(&second).await;
    let third = bench.hold(&bench.worker("bob"), &log.id).await;
    assert_eq!(bench.row(&log.id).await.idle_claims, 3);
    bench.append(&third, &log.noting(&third, "at last")).await;
    assert_eq!(bench.row(&log.id).await.idle_claims, 0);
    bench.release(&third, None).await;
    assert!(bench.is_claimable(&log.id).await, "who appended does not wait");
}

/// ST-18: a claim that is handed back with a not-before does not count.
pub async fn st_18_a_claim_handed_back_for_later_is_not_counted(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let log = bench.task().await;
    for _ in 0..2 {
        let claimed = bench.hold(&ada, &log.id).await;
        bench.release(&claimed, None).await;
    }
    for _ in 0..12 {
        let claimed = bench.hold(&ada, &log.id).await;
        let now = bench.now().await;
        bench.release(&claimed, Some(now)).await;
        assert_eq!(bench.row(&log.id).await.idle_claims, 2);
    }
    assert!(bench.is_claimable(&log.id).await);
}

/// ST-18: nor does one that is taken up again by the process instance that held the last,
/// whether it adopts it or claims it after its lease.
pub async fn st_18_a_claim_taken_up_again_is_not_counted(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let log = bench.task().await;
    let mut claimed = bench.hold_shortly(&ada, &log.id).await;
    for _ in 0..12 {
        bench.lapse(&claimed).await;
        claimed = bench.hold_shortly(&ada, &log.id).await;
        assert_eq!(bench.row(&log.id).await.idle_claims, 1);
    }
    for _ in 0..12 {
        let adopted = bench.store().adopt(&ada, &log.id, LEASE).await.expect("adopting works");
        assert!(adopted.is_some());
        assert_eq!(bench.row(&log.id).await.idle_claims, 1);
    }
}

/// ST-18: after the third claim the next one waits: from its release, or, when the lease runs
/// out before that, from the claim.
pub async fn st_18_from_the_third_on_the_next_claim_waits(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let log = bench.task().await;
    for _ in 0..2 {
        let claimed = bench.hold(&ada, &log.id).await;
        bench.release(&claimed, None).await;
        assert!(bench.is_claimable(&log.id).await, "the first two wait for nothing");
    }
    let third = bench.hold_shortly(&ada, &log.id).await;
    let due = third.verdict.now.plus_millis(idle_backoff_ms(3));
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(due.max(third.lease_until)), "held, it waits too");
    let renewed = bench.store().renew(std::slice::from_ref(&third.claim), LEASE).await.expect("renewing works");
    let until = renewed.now.plus_millis(LEASE.as_millis() as u64);
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(until));
    let released = bench.release(&third, None).await;
    let due = released.now.plus_millis(idle_backoff_ms(3));
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(due));
    bench.until(due).await;
    let fourth = bench.try_hold(&ada, &log.id, BRIEF_LEASE).await.expect("the task is claimable");
    let row = bench.row(&log.id).await;
    let due = fourth.verdict.now.plus_millis(idle_backoff_ms(4));
    assert_eq!((row.idle_claims, row.claimable_at), (4, Some(due.max(fourth.lease_until))));
    bench.append(&fourth, &log.noting(&fourth, "at last")).await;
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(fourth.lease_until), "who appended does not wait");
}

/// ST-18: the waits double to thirty seconds, the tenth claim blocks the task as poison and
/// hands nothing out, and unblocking starts afresh.
pub async fn st_18_the_tenth_claim_blocks_the_task(subject: Subject) {
    let bench = Bench::new(subject).await;
    if bench.subject.time().is_none() {
        return;
    }
    let log = bench.task().await;
    for count in 1..IDLE_CLAIMS_MAX {
        let worker = bench.worker(&format!("victim-{count}"));
        let claimed = bench.try_hold(&worker, &log.id, SHORT_LEASE).await.expect("the task is claimable");
        let wait = Duration::from_millis(idle_backoff_ms(count)).max(SHORT_LEASE);
        let due = claimed.verdict.now.plus_millis(wait.as_millis() as u64);
        let row = bench.row(&log.id).await;
        assert_eq!((row.idle_claims, row.claimable_at), (count, Some(due)));
        bench.until(due).await;
    }
    let ada = bench.worker("ada");
    assert!(bench.claim(&bench.request(&ada, 9)).await.is_empty(), "poison was handed out");
    let row = bench.row(&log.id).await;
    assert_eq!((row.blocked, row.claimable_at, row.holder), (Some(Blocked::Poison), None, None));
    bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    assert!(bench.try_hold(&ada, &log.id, LEASE).await.is_none(), "an item does not lift a block");
    assert!(bench.store().unblock(&log.id).await.expect("unblocking works"));
    let row = bench.row(&log.id).await;
    assert_eq!((row.blocked, row.idle_claims), (None, 0));
    bench.hold(&ada, &log.id).await;
}

/// RC-9: a holder blocks its task: the claim is over and nobody is handed the task until it is
/// unblocked.
pub async fn st_18_a_holder_may_block_its_task(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    let log = bench.task().await;
    let why = Blocked::UnreadableLog { rule: "hash mismatch".into(), seq: Seq(1) };
    let claimed = bench.hold(&ada, &log.id).await;
    bench.store().block(&claimed.claim, &why).await.expect("a holder may block");
    let row = bench.row(&log.id).await;
    assert_eq!((row.blocked, row.claimable_at, row.holder), (Some(why.clone()), None, None));
    let lost = Conflict::LeaseRequired { task: log.id.clone() };
    assert_eq!(bench.refused(&claimed, &log.noting(&claimed, "x")).await, lost);
    let again = bench.store().block(&claimed.claim, &Blocked::Poison).await;
    assert_eq!(again, Err(AppendError::Conflict(lost)));
    assert!(bench.try_hold(&bob, &log.id, LEASE).await.is_none());
    bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    assert_eq!(bench.row(&log.id).await.claimable_at, None);
    assert!(bench.store().unblock(&log.id).await.expect("unblocking works"));
    assert!(!bench.store().unblock(&log.id).await.expect("unblocking works"), "there was no block any more");
    assert_eq!(bench.hold(&bob, &log.id).await.items.len(), 1);
}
