//! How long a claim holds and how it ends (ST-2, ST-5).

use std::time::Duration;

use plica_kernel::id::{Epoch, Position};
use plica_kernel::wake::{Wake, WakeKey};
use plica_ports::store::{AppendError, Claim, ClaimAfter, Conflict, StoreError, Token};

use crate::{Bench, LEASE, SHORT_LEASE, Subject};

/// ST-2: one call renews all claims of a worker; each verdict, in the order asked, is the
/// inbox's tail or why the claim is lost, and the store's time comes with them.
pub async fn st_2_renew_extends_every_claim_that_holds(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let (first, second, third) = (bench.task().await, bench.task().await, bench.task().await);
    let kept = bench.hold(&ada, &first.id).await;
    let released = bench.hold(&ada, &second.id).await;
    let forged = bench.hold(&ada, &third.id).await;
    bench.release(&released, None).await;
    bench.deliver(&first.id, &bench.message("hi"), "k1").await;
    let claims = [
        Claim { token: Token([9; 32]), ..forged.claim.clone() },
        kept.claim.clone(),
        released.claim,
        Claim { epoch: Epoch(8), ..forged.claim.clone() },
        Claim { task: bench.fresh_id(), ..forged.claim.clone() },
    ];
    let longer = LEASE * 2;
    let renewed = bench.store().renew(&claims, longer).await.expect("renewing works");
    let until = renewed.now.plus_millis(longer.as_millis() as u64);
    let [forgery, held, lost, future, nowhere] = &renewed.verdicts[..] else { panic!("one verdict a claim") };
    assert_eq!(*forgery, Err(Conflict::LeaseTokenMismatch { task: third.id.clone() }));
    assert_eq!(*held, Ok(Position(1)));
    assert_eq!(*lost, Err(Conflict::LeaseRequired { task: second.id.clone() }));
    assert!(matches!(future, Err(Conflict::FenceUnknown { .. })));
    assert!(nowhere.is_err());
    let row = bench.row(&first.id).await;
    assert_eq!((row.lease_until, row.claimable_at, row.epoch), (Some(until), Some(until), Epoch(1)));
    assert_eq!(bench.row(&third.id).await.lease_until, Some(forged.lease_until), "a refused renewal extends nothing");
    let nothing = bench.store().renew(&[], LEASE).await.expect("renewing works");
    assert!(nothing.verdicts.is_empty());
}

/// ST-5: a lease that ran out while nobody else claimed can be renewed, and the worker goes
/// on under the same epoch.
pub async fn st_5_an_expired_lease_can_be_renewed(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let claimed = bench.hold_shortly(&bench.worker("ada"), &log.id).await;
    bench.lapse(&claimed).await;
    let batch = log.noting(&claimed, "goes on");
    assert!(matches!(bench.refused(&claimed, &batch).await, Conflict::LeaseExpired { .. }));
    let renewed = bench.store().renew(std::slice::from_ref(&claimed.claim), LEASE).await.expect("renewing works");
    assert_eq!(renewed.verdicts, [Ok(Position(0))]);
    assert!(bench.try_hold(&bench.worker("bob"), &log.id, LEASE).await.is_none());
    bench.append(&claimed, &batch).await;
}

/// ST-5: a worker that wakes after another has claimed is refused whatever it tries, and the
/// other goes on untouched.
pub async fn st_5_a_worker_that_stalled_is_refused(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let stalled = bench.hold_shortly(&bench.worker("ada"), &log.id).await;
    bench.lapse(&stalled).await;
    let holder = bench.hold(&bench.worker("bob"), &log.id).await;
    assert_eq!(holder.claim.epoch, Epoch(2));
    assert_ne!(holder.claim.run, stalled.claim.run);
    assert_ne!(holder.claim.token, stalled.claim.token);
    let stale = Conflict::FenceStale { task: log.id.clone(), claimed: Epoch(1), current: Epoch(2) };
    assert_eq!(bench.refused(&stalled, &log.noting(&stalled, "x")).await, stale);
    let renewed = bench.store().renew(std::slice::from_ref(&stalled.claim), LEASE).await.expect("renewing works");
    assert_eq!(renewed.verdicts, [Err(stale.clone())]);
    let released = bench.store().release(&stalled.claim, None).await;
    assert_eq!(released, Err(AppendError::Conflict(stale)));
    assert_eq!(bench.row(&log.id).await.holder, Some(bench.worker("bob")));
    bench.append(&holder, &log.noting(&holder, "y")).await;
}

/// ST-2: a ready task that is handed back is claimable at once, or from a time on; its claim
/// is over.
pub async fn st_2_release_hands_back(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    let log = bench.task().await;
    bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    let first = bench.hold(&ada, &log.id).await;
    let verdict = bench.release(&first, None).await;
    assert_eq!(verdict.inbox_tail, Position(1));
    let row = bench.row(&log.id).await;
    assert_eq!((row.holder, row.run, row.acquired_at, row.lease_until), (None, None, None, None));
    assert_eq!(row.epoch, Epoch(1), "the epoch stays");
    let again = bench.store().release(&first.claim, None).await;
    assert_eq!(again, Err(AppendError::Conflict(Conflict::LeaseRequired { task: log.id.clone() })));
    let second = bench.hold(&bob, &log.id).await;
    let due = bench.now().await.plus_millis(300);
    bench.release(&second, Some(due)).await;
    assert_eq!(bench.row(&log.id).await.claimable_at, Some(due));
    bench.until(due).await;
    assert_eq!(bench.hold(&ada, &log.id).await.claim.epoch, Epoch(3));
    let nobody = bench.fresh_id();
    let unknown = bench.store().release(&Claim { task: nobody.clone(), ..first.claim }, None).await;
    assert_eq!(unknown, Err(AppendError::Store(StoreError::UnknownTask(nobody))));
}

/// ST-2: a waiting or ended task that is handed back stays as it is.
pub async fn st_2_release_leaves_who_waits_or_is_over(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let alarm = bench.now().await.plus_millis(1);
    let far = bench.now().await.plus_millis(3_600_000);
    let wake = Wake { at: Some(alarm), ..Wake::on(WakeKey::Event("go".into())) };
    let log = bench.sleeper(wake.clone()).await;
    bench.until(alarm).await;
    let claimed = bench.hold(&ada, &log.id).await;
    bench.release(&claimed, Some(far)).await;
    let row = bench.row(&log.id).await;
    assert_eq!((row.projection.wake, row.claimable_at), (wake, Some(alarm)), "a not-before is for who can run");
    let mut over = bench.task().await;
    let claimed = bench.hold(&ada, &over.id).await;
    let mut batch = over.completing(&claimed);
    batch.claim = ClaimAfter::Retain;
    assert!(bench.append(&claimed, &batch).await.held);
    over.accept(&batch);
    bench.release(&claimed, None).await;
    assert_eq!(bench.row(&over.id).await.claimable_at, None);
}

/// ST-5: a lease that ran out may still be handed back while nobody else has claimed.
pub async fn st_5_an_expired_claim_can_be_handed_back(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let claimed = bench.hold_shortly(&bench.worker("ada"), &log.id).await;
    bench.lapse(&claimed).await;
    bench.release(&claimed, None).await;
    assert_eq!(bench.row(&log.id).await.holder, None);
}

/// ST-6: leases run by the store's clock, from the moment of the claim, to the microsecond.
pub async fn st_6_leases_run_by_the_stores_clock(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let before = bench.now().await;
    let claimed = bench.hold_shortly(&bench.worker("ada"), &log.id).await;
    let after = bench.now().await;
    assert!(before <= claimed.verdict.now && claimed.verdict.now <= after, "the clock runs back");
    let lease = Duration::from_micros((claimed.lease_until.micros() - claimed.verdict.now.micros()).unsigned_abs());
    assert_eq!(lease, SHORT_LEASE);
    bench.lapse(&claimed).await;
    bench.hold(&bench.worker("bob"), &log.id).await;
}
