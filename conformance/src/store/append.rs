//! What an append is checked against, and in which order (ST-3).

use plica_kernel::canonical::{Domain, Hash};
use plica_kernel::id::{Epoch, Position, RunId, Seq};
use plica_kernel::row::Status;
use plica_kernel::wake::{Wake, WakeKey};
use plica_ports::store::{AppendError, Claimed, Conflict, Token};

use crate::{Bench, Subject, note};

/// The same claim with another token.
fn forged(claimed: &Claimed) -> Claimed {
    let mut forged = claimed.clone();
    forged.claim.token = Token([7; 32]);
    forged
}

fn waiting() -> Wake {
    Wake::on(WakeKey::Event("go".into()))
}

/// ST-3: what is appended is stored as its exact bytes under its hash, follows the head, and
/// leaves the row that the batch brings.
pub async fn st_3_an_append_stores_exact_bytes_and_the_row(subject: Subject) {
    let bench = Bench::new(subject).await;
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.batch(&claimed, vec![note("one"), note("zwei \u{0} \u{1F980}"), note("three")]);
    let appended = bench.append(&claimed, &batch).await;
    assert!(appended.held, "a batch that neither suspends nor ends keeps the claim");
    assert!(appended.verdict.now >= claimed.verdict.now);
    log.accept(&batch);
    let stored = bench.events(&log.id).await;
    assert_eq!(stored.len(), 4);
    for (event, stored) in batch.events.iter().zip(&stored[1..]) {
        assert_eq!((event.seq, event.hash, &event.body), (stored.seq, stored.hash, &stored.body));
        assert_eq!(Domain::Event.hash(&stored.body), stored.hash);
    }
    let row = bench.row(&log.id).await;
    assert_eq!(row.projection, log.row);
    assert_eq!(row.updated_at, appended.verdict.now);
    assert_eq!(row.run, Some(claimed.claim.run.clone()));
    bench.append(&claimed, &log.noting(&claimed, "four")).await;
    assert_eq!(bench.row(&log.id).await.projection.seq, Seq(5));
}

/// ST-3: only a claim appends: one made up for a task that was never claimed is refused.
pub async fn st_3_there_is_no_append_without_a_claim(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (lure, log) = (bench.task().await, bench.task().await);
    let mut made_up = bench.hold(&bench.worker("ada"), &lure.id).await;
    made_up.claim.task = log.id.clone();
    let batch = log.noting(&made_up, "x");
    assert!(matches!(bench.refused(&made_up, &batch).await, Conflict::FenceUnknown { .. }));
    made_up.claim.epoch = Epoch(0);
    assert_eq!(bench.refused(&made_up, &batch).await, Conflict::LeaseRequired { task: log.id.clone() });
}

/// ST-3: an epoch older than the row's is `FenceStale`, naming both.
pub async fn st_3_an_old_epoch_is_stale(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let old = bench.hold_shortly(&bench.worker("ada"), &log.id).await;
    bench.lapse(&old).await;
    bench.hold(&bench.worker("bob"), &log.id).await;
    let expected = Conflict::FenceStale { task: log.id.clone(), claimed: Epoch(1), current: Epoch(2) };
    assert_eq!(bench.refused(&old, &log.noting(&old, "x")).await, expected);
}

/// ST-3: an epoch that was never given out is `FenceUnknown`, naming both.
pub async fn st_3_an_epoch_from_the_future_is_unknown(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let mut claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    claimed.claim.epoch = Epoch(9);
    let expected = Conflict::FenceUnknown { task: log.id.clone(), claimed: Epoch(9), current: Epoch(1) };
    assert_eq!(bench.refused(&claimed, &log.noting(&claimed, "x")).await, expected);
}

/// ST-3: a released claim is `LeaseRequired`.
pub async fn st_3_a_released_claim_is_refused(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    bench.release(&claimed, None).await;
    let expected = Conflict::LeaseRequired { task: log.id.clone() };
    assert_eq!(bench.refused(&claimed, &log.noting(&claimed, "x")).await, expected);
}

/// ST-3: whoever does not know the token is refused, whatever else he knows; the run's id
/// proves nothing.
pub async fn st_3_a_wrong_token_is_refused(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let expected = Conflict::LeaseTokenMismatch { task: log.id.clone() };
    assert_eq!(bench.refused(&forged(&claimed), &log.noting(&claimed, "x")).await, expected);
    let mut other_run = claimed.clone();
    other_run.claim.run = RunId::new("another").expect("an id");
    bench.append(&other_run, &log.noting(&claimed, "x")).await;
}

/// ST-3: by the store's clock, a lease that ran out is `LeaseExpired`, naming when.
pub async fn st_3_an_expired_lease_is_refused(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let claimed = bench.hold_shortly(&bench.worker("ada"), &log.id).await;
    bench.lapse(&claimed).await;
    let expected = Conflict::LeaseExpired { task: log.id.clone(), at: claimed.lease_until };
    assert_eq!(bench.refused(&claimed, &log.noting(&claimed, "x")).await, expected);
    assert!(expected.is_recoverable());
}

/// ST-3: a batch that does not continue the head, by seq or by hash, is `RevisionConflict`,
/// naming the head.
pub async fn st_3_a_batch_beside_the_head_is_refused(subject: Subject) {
    let bench = Bench::new(subject).await;
    let old = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &old.id).await;
    let mut log = old.clone();
    let batch = log.noting(&claimed, "first");
    bench.append(&claimed, &batch).await;
    log.accept(&batch);
    let conflict =
        |expected| Conflict::RevisionConflict { task: old.id.clone(), expected, seq: log.row.seq, hash: log.row.hash };
    assert_eq!(bench.refused(&claimed, &old.noting(&claimed, "second")).await, conflict(Seq(1)));
    assert_eq!(bench.refused(&claimed, &batch).await, conflict(Seq(1)), "the same batch was written twice");
    let mut ahead = log.clone();
    ahead.accept(&log.noting(&claimed, "never written"));
    assert_eq!(bench.refused(&claimed, &ahead.noting(&claimed, "third")).await, conflict(Seq(3)));
    let mut beside = log.noting(&claimed, "fourth");
    beside.after_hash = Hash::from_bytes([3; 32]);
    assert_eq!(bench.refused(&claimed, &beside).await, conflict(Seq(2)));
}

/// ST-3: a batch that suspends or ends the task is `InboxMoved` while an item lies untaken
/// that its writer has not seen; any other batch is written all the same.
pub async fn st_3_no_suspend_or_end_over_an_unseen_item(subject: Subject) {
    let bench = Bench::new(subject).await;
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    bench.deliver(&log.id, &bench.event("other"), "k1").await;
    let moved = Conflict::InboxMoved { task: log.id.clone(), tail: Position(1) };
    assert_eq!(bench.refused(&claimed, &log.suspending(&claimed, waiting())).await, moved);
    assert_eq!(bench.refused(&claimed, &log.completing(&claimed)).await, moved);
    assert!(moved.is_recoverable());
    let batch = log.noting(&claimed, "goes on");
    let appended = bench.append(&claimed, &batch).await;
    assert_eq!(appended.verdict.inbox_tail, Position(1), "every verdict tells the tail");
    log.accept(&batch);
    let mut seen = log.suspending(&claimed, waiting());
    seen.seen = Position(1);
    bench.append(&claimed, &seen).await;
    assert_eq!(bench.row(&log.id).await.projection.status, Status::Waiting);
}

/// ST-3: the checks come in order: epoch, released, token, lease, head, inbox; of a batch that
/// breaks several rules the first is named.
pub async fn st_3_checks_come_in_order(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    let log = bench.task().await;
    // A writer that is wrong about everything: head, inbox, token.
    let wrong = |claimed: &Claimed| {
        let mut ahead = log.clone();
        ahead.accept(&log.noting(claimed, "never written"));
        let mut batch = ahead.suspending(claimed, waiting());
        batch.seen = Position(0);
        batch
    };
    let first = bench.hold_shortly(&ada, &log.id).await;
    bench.deliver(&log.id, &bench.event("other"), "k1").await;
    bench.lapse(&first).await;
    let mut future = forged(&first);
    future.claim.epoch = Epoch(2);
    assert!(matches!(bench.refused(&future, &wrong(&first)).await, Conflict::FenceUnknown { .. }), "epoch first");
    let token = bench.refused(&forged(&first), &wrong(&first)).await;
    assert!(matches!(token, Conflict::LeaseTokenMismatch { .. }), "token before lease: {token}");
    let lease = bench.refused(&first, &wrong(&first)).await;
    assert!(matches!(lease, Conflict::LeaseExpired { .. }), "lease before head: {lease}");
    let second = bench.hold(&bob, &log.id).await;
    let epoch = bench.refused(&forged(&first), &wrong(&first)).await;
    assert!(matches!(epoch, Conflict::FenceStale { .. }), "epoch before token: {epoch}");
    let head = bench.refused(&second, &wrong(&second)).await;
    assert!(matches!(head, Conflict::RevisionConflict { .. }), "head before inbox: {head}");
    let mut unseen = log.suspending(&second, waiting());
    unseen.seen = Position(0);
    assert!(matches!(bench.refused(&second, &unseen).await, Conflict::InboxMoved { .. }));
    bench.release(&second, None).await;
    let released = bench.refused(&forged(&second), &wrong(&second)).await;
    assert!(matches!(released, Conflict::LeaseRequired { .. }), "released before token: {released}");
}

/// ST-3: of two appends to the same head at the same time one is written, whole.
pub async fn st_3_one_of_two_racing_appends_is_written(subject: Subject) {
    let bench = Bench::new(subject).await;
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    for _ in 0..20 {
        let batches = [log.noting(&claimed, "left"), log.batch(&claimed, vec![note("right"), note("hand")])];
        let appends = batches.clone().map(|batch| {
            let (store, claim) = (bench.store().clone(), claimed.claim.clone());
            tokio::spawn(async move { store.append(&claim, &batch).await })
        });
        let mut written = Vec::new();
        for (append, batch) in appends.into_iter().zip(&batches) {
            match append.await.expect("the writer ends well") {
                Ok(_) => written.push(batch),
                Err(AppendError::Conflict(Conflict::RevisionConflict { .. })) => {}
                Err(other) => panic!("refused by {other:?}"),
            }
        }
        let [winner] = written[..] else { panic!("{} batches were written", written.len()) };
        log.accept(winner);
        assert_eq!(bench.row(&log.id).await.projection, log.row);
    }
    assert_eq!(bench.events(&log.id).await.len() as u64, log.row.seq.0);
}
