//! The decorators on the memory store: switched off they keep every clause, switched on they do
//! what they say.

use std::sync::Arc;
use std::time::Duration;

use plica_conformance::faults::{Call, Fault, Faults, Faulty, Switched};
use plica_conformance::{Bench, Capability, ContentSubject, LEASE, Subject};
use plica_kernel::id::{Position, Seq};
use plica_kernel::time::Timestamp;
use plica_memory::{ManualClock, MemoryStore};
use plica_ports::Store;
use plica_ports::store::{
    AppendError, ClaimError, CommitFate, Conflict, CreateError, DeliverError, Delivered, Delivery, StoreError,
};

const START: Timestamp = Timestamp::from_micros(1_796_031_682_123_456);

/// Every kind of fault.
const KINDS: [Fault; 8] = [
    Fault::Unavailable,
    Fault::LostAfterCommit,
    Fault::LostBeforeCommit,
    Fault::LostOnItsWay,
    slow(3),
    Fault::DeliveredTwice,
    Fault::Adrift(Duration::from_millis(5)),
    Fault::Twice,
];

const fn slow(millis: u64) -> Fault {
    Fault::Delay { before: Duration::from_millis(millis), after: Duration::from_millis(2 * millis) }
}

/// A memory store behind a decorator.
fn behind(faults: Arc<dyn Faults>) -> Subject {
    let clock = Arc::new(ManualClock::new(START));
    let store = Faulty::new(Arc::new(MemoryStore::with(clock.clone(), 1)), faults);
    Subject::new(Arc::new(store)).with_time(move |by| clock.advance(by)).lacking(Capability::SecondHandle)
}

/// All kinds at once, each in a decorator of its own, one around the other.
mod switched_off {
    use super::*;

    async fn subject() -> Subject {
        let clock = Arc::new(ManualClock::new(START));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::with(clock.clone(), 1));
        let wrap = |inner, fault| Arc::new(Faulty::new(inner, Arc::new(Switched::new(fault)))) as Arc<dyn Store>;
        let store = KINDS.into_iter().fold(store, wrap);
        Subject::new(store).with_time(move |by| clock.advance(by)).lacking(Capability::SecondHandle)
    }

    async fn contents() -> ContentSubject {
        let clock = Arc::new(ManualClock::new(START));
        let store = Arc::new(MemoryStore::with(clock.clone(), 1));
        let damaged = store.clone();
        let wrapped = Faulty::new(store, Arc::new(Switched::new(Fault::Unavailable)));
        ContentSubject::new(Arc::new(wrapped)).with_time(move |by| clock.advance(by)).with_damage(move |reference| {
            assert_eq!(damaged.damage(reference), Ok(true), "there is a body to damage");
        })
    }

    plica_conformance::store_suite!(subject);
    plica_conformance::content_suite!(contents);
}

/// A store that is slow keeps every clause all the same.
mod always_slow {
    use super::*;

    async fn subject() -> Subject {
        behind(Arc::new(|_| Some(Fault::Delay { before: Duration::from_micros(1), after: Duration::from_micros(1) })))
    }

    plica_conformance::store_suite!(subject);
}

/// A store to which everything is delivered twice keeps every clause all the same: nobody can
/// tell, since a key delivers once.
mod always_delivered_twice {
    use super::*;

    async fn subject() -> Subject {
        behind(Arc::new(|_| Some(Fault::DeliveredTwice)))
    }

    plica_conformance::store_suite!(subject);
}

/// A bench whose store has this fault when it is switched on.
async fn bench_with(fault: Fault) -> (Bench, Arc<Switched>) {
    let switched = Arc::new(Switched::new(fault));
    (Bench::new(behind(switched.clone())).await, switched)
}

/// ST-9: of a commit whose answer is lost the caller hears neither success nor failure, and
/// reading back tells what became of it.
#[tokio::test]
async fn st_9_a_lost_append_is_there_or_not() {
    for (fault, fate) in
        [(Fault::LostAfterCommit, CommitFate::Written), (Fault::LostBeforeCommit, CommitFate::NotThere)]
    {
        let (bench, switched) = bench_with(fault).await;
        let log = bench.task().await;
        let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
        let batch = log.noting(&claimed, "lost");
        switched.strike(1);
        let lost = bench.store().append(&claimed.claim, &batch).await;
        assert!(matches!(&lost, Err(AppendError::CommitUnknown { task, .. }) if *task == log.id), "{lost:?}");
        assert_eq!(bench.store().settle(&log.id, batch.row.seq, &batch.row.hash).await, Ok(fate));
        let again = bench.store().append(&claimed.claim, &batch).await;
        assert_eq!(again.is_ok(), fate == CommitFate::NotThere, "the identical batch may be tried again: {again:?}");
        assert_eq!((bench.row(&log.id).await.projection, switched.struck()), (batch.row, 1));
    }
}

/// ST-9: an append that is still on its way gets there before the next one, which meets its own
/// bytes, whatever was read back in between.
#[tokio::test]
async fn st_9_an_append_on_its_way_arrives_before_the_next() {
    let (bench, switched) = bench_with(Fault::LostOnItsWay).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.noting(&claimed, "on its way");
    switched.strike(1);
    let lost = bench.store().append(&claimed.claim, &batch).await;
    assert!(matches!(lost, Err(AppendError::CommitUnknown { .. })), "{lost:?}");
    let fate = bench.store().settle(&log.id, batch.row.seq, &batch.row.hash).await;
    assert_eq!(fate, Ok(CommitFate::NotThere));
    let own =
        Conflict::RevisionConflict { task: log.id.clone(), expected: Seq(1), seq: batch.row.seq, hash: batch.row.hash };
    assert_eq!(bench.store().append(&claimed.claim, &batch).await, Err(AppendError::Conflict(own)));
    assert_eq!(bench.row(&log.id).await.projection, batch.row);
}

/// ST-9, ST-16: the answers of the other writes are lost alike, and each can be found out or
/// made again.
#[tokio::test]
async fn st_9_other_lost_commits_are_there_or_not() {
    for (fault, written) in [(Fault::LostAfterCommit, true), (Fault::LostBeforeCommit, false)] {
        let (bench, switched) = bench_with(fault).await;
        let (store, ada) = (bench.store().clone(), bench.worker("ada"));
        let (log, task) = bench.draft(|_| ()).await;
        switched.strike(1);
        assert!(matches!(store.create(task.clone()).await, Err(CreateError::CommitUnknown { .. })));
        assert_eq!(store.row(&log.id).await.expect("rows can be read").is_some(), written);
        if !written {
            store.create(task).await.expect("it is created now");
        }
        switched.strike(1);
        let lost = store.deliver(&log.id, "user:ada", &bench.message("hi"), &bench.key("k1")).await;
        assert!(matches!(lost, Err(DeliverError::CommitUnknown { .. })));
        let again = bench.deliver(&log.id, &bench.message("hi"), "k1").await;
        assert_eq!(again, Delivered { position: Position(1), fresh: !written });
        switched.strike(1);
        let lost = store.claim(&bench.request(&ada, 1)).await;
        assert!(matches!(lost, Err(ClaimError::CommitUnknown(_))));
        let held = store.held_by(&ada).await.expect("holds can be read");
        assert_eq!(held.len(), usize::from(written));
        let adopted = store.adopt(&ada, &log.id, LEASE).await.expect("adopting works");
        assert_eq!(adopted.is_some(), written);
        let claimed = match adopted {
            Some(claimed) => claimed,
            None => bench.hold(&ada, &log.id).await,
        };
        switched.strike(1);
        let lost = store.renew(std::slice::from_ref(&claimed.claim), 2 * LEASE).await;
        assert!(matches!(lost, Err(StoreError::Unavailable(_))));
        let until = bench.row(&log.id).await.lease_until;
        assert_eq!(until > Some(claimed.lease_until), written);
        switched.strike(1);
        assert!(matches!(store.release(&claimed.claim, None).await, Err(AppendError::CommitUnknown { .. })));
        assert_eq!(bench.row(&log.id).await.holder.is_none(), written);
    }
}

/// ST-10: nothing gets through to a store that cannot be reached, neither writes nor reads.
#[tokio::test]
async fn st_10_an_unreachable_store_answers_nothing() {
    let (bench, outage) = bench_with(Fault::Unavailable).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let before = bench.row(&log.id).await;
    outage.switch_on();
    let store = bench.store();
    let batch = log.noting(&claimed, "not now");
    let refused = store.append(&claimed.claim, &batch).await;
    assert!(matches!(refused, Err(AppendError::Store(StoreError::Unavailable(_)))), "{refused:?}");
    assert!(matches!(store.row(&log.id).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.now().await, Err(StoreError::Unavailable(_))));
    let claim = store.claim(&bench.request(&bench.worker("bob"), 1)).await;
    assert!(matches!(claim, Err(ClaimError::Store(StoreError::Unavailable(_)))), "{claim:?}");
    let content = store.content().expect("the store behind keeps content");
    let blob = plica_kernel::body::Blob::new("text/plain", b"x".to_vec());
    assert!(matches!(content.put(&blob).await, Err(plica_ports::ContentError::Unavailable(_))));
    assert_eq!(outage.struck(), 5);
    outage.switch_off();
    assert_eq!(bench.row(&log.id).await, before);
    bench.append(&claimed, &batch).await;
    assert!(matches!(content.get(&blob.reference).await, Err(plica_ports::ContentError::Missing(_))));
}

/// A slow call takes its time on the way there and back, and is done in between.
#[tokio::test(start_paused = true)]
async fn a_delay_lies_before_and_after_the_call() {
    let (bench, delay) = bench_with(slow(1_000)).await;
    let log = bench.task().await;
    let began = tokio::time::Instant::now();
    delay.strike(1);
    let (store, task, item, key) = (bench.store().clone(), log.id.clone(), bench.message("hi"), bench.key("k1"));
    let sending = tokio::spawn(async move { store.deliver(&task, "user:ada", &item, &key).await });
    tokio::time::sleep(Duration::from_millis(999)).await;
    assert!(bench.untaken(&log.id).await.is_empty(), "not there yet");
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(bench.untaken(&log.id).await.len(), 1);
    assert!(!sending.is_finished(), "the answer is on its way");
    sending.await.expect("the sender ends well").expect("the item is taken");
    assert_eq!(began.elapsed(), Duration::from_secs(3));
}

/// ST-7: what is delivered twice is there once, with an append too.
#[tokio::test]
async fn st_7_a_duplicate_reaches_the_store_and_is_taken_once() {
    let (bench, twice) = bench_with(Fault::DeliveredTwice).await;
    let (log, other) = (bench.task().await, bench.task().await);
    twice.switch_on();
    let first = bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    assert_eq!(first, Delivered { position: Position(1), fresh: true });
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let mut batch = log.noting(&claimed, "sends");
    let (task, actor, item) = (other.id.clone(), "task:sender".into(), bench.event("x"));
    batch.deliveries = vec![Delivery { task, actor, item, dedup: bench.key("k1") }];
    bench.append(&claimed, &batch).await;
    assert_eq!(twice.struck(), 2, "nothing else was struck");
    for log in [&log, &other] {
        assert_eq!((bench.untaken(&log.id).await.len(), bench.row(&log.id).await.inbox_tail), (1, Position(1)));
    }
    assert_eq!(bench.events(&log.id).await.len() as u64, Seq(2).0);
}

/// ST-9: an append that is adrift is there later, whatever its sender has done since.
#[tokio::test(start_paused = true)]
async fn st_9_an_append_adrift_arrives_later() {
    let (bench, adrift) = bench_with(Fault::Adrift(Duration::from_millis(5))).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.noting(&claimed, "adrift");
    adrift.strike(1);
    let lost = bench.store().append(&claimed.claim, &batch).await;
    assert!(matches!(lost, Err(AppendError::CommitUnknown { .. })), "{lost:?}");
    assert_eq!(bench.row(&log.id).await.projection.seq, claimed.seq, "not there yet");
    tokio::time::sleep(Duration::from_millis(6)).await;
    assert_eq!(bench.row(&log.id).await.projection, batch.row);
}

/// Whoever gives up waiting for a slow request does not call it back.
#[tokio::test(start_paused = true)]
async fn a_slow_request_arrives_without_its_sender() {
    let (bench, delay) = bench_with(slow(5)).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.noting(&claimed, "slow");
    delay.strike(1);
    let sent = bench.store().append(&claimed.claim, &batch);
    assert!(tokio::time::timeout(Duration::from_millis(1), sent).await.is_err(), "its sender gives up");
    tokio::time::sleep(Duration::from_millis(6)).await;
    assert_eq!(bench.row(&log.id).await.projection, batch.row);
}

/// ST-3, ST-7: a request that arrives twice is carried out once, and the first answer counts.
#[tokio::test]
async fn st_3_st_7_a_request_that_arrives_twice_is_carried_out_once() {
    let (bench, twice) = bench_with(Fault::Twice).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.noting(&claimed, "twice");
    twice.switch_on();
    bench.append(&claimed, &batch).await;
    let delivered = bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    assert!(delivered.fresh);
    assert_eq!((bench.events(&log.id).await.len() as u64, twice.struck()), (batch.row.seq.0, 2));
    assert_eq!(bench.row(&log.id).await.inbox_tail, Position(1));
}

/// A switched fault strikes as many of the calls that it concerns as it was told to.
#[test]
fn a_switched_fault_strikes_what_it_concerns() {
    let lost = Switched::new(Fault::LostAfterCommit).only(&[Call::Append, Call::Read]);
    assert_eq!(lost.strikes(Call::Append), None, "it is off when it is new");
    lost.strike(2);
    assert_eq!(lost.strikes(Call::Read), None, "a read has no commit to lose");
    assert_eq!(lost.strikes(Call::Deliver), None, "not meant");
    assert_eq!(lost.strikes(Call::Append), Some(Fault::LostAfterCommit));
    assert_eq!(lost.strikes(Call::Append), Some(Fault::LostAfterCommit));
    assert_eq!(lost.strikes(Call::Append), None);
    lost.switch_on();
    assert!((0..99).all(|_| lost.strikes(Call::Append).is_some()));
    lost.switch_off();
    assert_eq!((lost.strikes(Call::Append), lost.struck()), (None, 101));
}
