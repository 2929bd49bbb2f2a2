//! What is delivered, and when it is gone (ST-7, ST-8).

use plica_kernel::event::CallStatus;
use plica_kernel::id::{CallId, Epoch, Position, RunId, Seq};
use plica_kernel::ledger::Identity;
use plica_kernel::limits::ITEM_BYTES_MAX;
use plica_kernel::row::Status;
use plica_kernel::wake::Item;
use plica_ports::store::{DeliverError, Delivered, StoreError};

use crate::{Bench, Subject};

/// The items that a task which is over still takes.
fn outliving() -> [Item; 3] {
    let run = RunId::new("a-run").expect("an id");
    let identity = Identity { attempt: 1, fence: Epoch(1), generation: 0, resume: 0, run };
    [
        Item::Rewind { to_seq: Seq(1) },
        Item::Reopen { reason: Some("more to do".into()) },
        Item::Evidence {
            action: Seq(1),
            call: CallId { decision: Seq(1), index: 0 },
            identity,
            output: "late".into(),
            status: CallStatus::Ok,
        },
    ]
}

/// ST-7: an item needs no claim, keeps its sender, gets the store's time and the next
/// position, and reads back as it was sent, U+0000 and all (EV-6).
pub async fn st_7_an_item_is_kept_as_sent(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let sent = Item::Event { data: Some("\u{0} \"\\ \u{1F980} {\"a\":1}".into()), event: "kind \u{0}".into() };
    let before = bench.now().await;
    let first = bench.deliver(&log.id, &sent, "k1").await;
    assert_eq!(first, Delivered { position: Position(1), fresh: true });
    assert_eq!(bench.deliver(&log.id, &bench.message("hi"), "k2").await.position, Position(2));
    let items = bench.untaken(&log.id).await;
    assert_eq!(items.len(), 2);
    assert_eq!((&items[0].item, items[0].position), (&sent, Position(1)));
    assert_eq!((items[0].actor.as_str(), items[0].dedup.as_str()), ("user:ada", "k1"));
    assert!(items[0].at >= before && items[1].at >= items[0].at);
    let later = bench.store().inbox(&log.id, Position(1)).await.expect("inboxes can be read");
    assert_eq!(later, items[1..]);
    assert_eq!(bench.row(&log.id).await.inbox_tail, Position(2));
    assert_eq!(bench.events(&log.id).await.len(), 1, "a delivery is no event");
}

/// ST-7: the same key with the same item is told where the first went; nothing is added.
pub async fn st_7_a_key_delivers_once(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (log, other) = (bench.task().await, bench.task().await);
    bench.deliver(&log.id, &bench.event("x"), "k0").await;
    let first = bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    let again = bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    assert_eq!(again, Delivered { position: first.position, fresh: false });
    assert_eq!(bench.row(&log.id).await.inbox_tail, first.position);
    assert!(bench.deliver(&other.id, &bench.message("bye"), "k1").await.fresh, "a key is a task's own");
}

/// ST-7: the same key with another item is a conflict, and the first stands.
pub async fn st_7_a_key_with_another_item_is_a_conflict(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    bench.deliver(&log.id, &bench.message("first"), "k1").await;
    for other in [bench.message("second"), bench.event("first"), Item::Cancel { reason: None }] {
        let refused = bench.store().deliver(&log.id, "user:ada", &other, &bench.key("k1")).await;
        assert_eq!(refused, Err(DeliverError::KeyConflict { task: log.id.clone(), key: bench.key("k1") }));
    }
    let items = bench.untaken(&log.id).await;
    assert_eq!(items.into_iter().map(|item| item.item).collect::<Vec<_>>(), [bench.message("first")]);
}

/// ST-7: the items alone are compared: whoever repeats one under its key is told where the first
/// went, and the first sender stands.
pub async fn st_7_a_key_asks_for_the_item_alone(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let first = bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    for sender in ["user:bob", "tool:Post", "task:another"] {
        let again = bench.store().deliver(&log.id, sender, &bench.message("hi"), &bench.key("k1")).await;
        assert_eq!(again, Ok(Delivered { fresh: false, ..first }), "{sender}");
    }
    let items = bench.untaken(&log.id).await;
    assert_eq!(items.into_iter().map(|item| item.actor).collect::<Vec<_>>(), ["user:ada"]);
}

/// ST-7: a key holds for the life of the task: also when its item is taken and when the task
/// is over.
pub async fn st_7_a_key_holds_for_the_life_of_the_task(subject: Subject) {
    let bench = Bench::new(subject).await;
    let mut log = bench.task().await;
    let first = bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    let again = Delivered { fresh: false, ..first };
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let mut batch = log.noting(&claimed, "took it");
    batch.consumed = vec![first.position];
    bench.append(&claimed, &batch).await;
    log.accept(&batch);
    assert_eq!(bench.deliver(&log.id, &bench.message("hi"), "k1").await, again);
    let other = bench.store().deliver(&log.id, "user:ada", &bench.message("ho"), &bench.key("k1")).await;
    assert!(matches!(other, Err(DeliverError::KeyConflict { .. })));
    bench.append(&claimed, &log.completing(&claimed)).await;
    assert_eq!(bench.deliver(&log.id, &bench.message("hi"), "k1").await, again, "a sender may repeat itself");
}

/// ST-7: twenty senders of one item under one key at the same time deliver it once.
pub async fn st_7_racing_senders_deliver_once(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let mut senders = Vec::new();
    for _ in 0..20 {
        let (store, task) = (bench.store().clone(), log.id.clone());
        let (item, key) = (bench.message("hi"), bench.key("k1"));
        senders.push(tokio::spawn(async move { store.deliver(&task, "user:ada", &item, &key).await }));
    }
    let mut fresh = 0;
    for sender in senders {
        let delivered = sender.await.expect("the sender ends well").expect("the item is taken");
        assert_eq!(delivered.position, Position(1));
        fresh += usize::from(delivered.fresh);
    }
    assert_eq!((fresh, bench.row(&log.id).await.inbox_tail), (1, Position(1)));
}

/// ST-7: a task that is over refuses everything but rewind, reopening and late evidence.
pub async fn st_7_a_task_that_is_over_says_so(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.finished().await;
    let refused = [
        bench.message("hi"),
        bench.event("x"),
        Item::Cancel { reason: None },
        Item::Interrupt { reason: None },
        Item::Close { reason: None },
    ];
    for item in refused {
        let answer = bench.store().deliver(&log.id, "user:ada", &item, &bench.key("k1")).await;
        let (task, status) = (log.id.clone(), Status::Completed);
        assert_eq!(answer, Err(DeliverError::TaskOver { task, status, kind: item.kind() }));
    }
    let row = bench.row(&log.id).await;
    assert_eq!((row.inbox_tail, row.claimable_at), (Position(0), None));
}

/// ST-7: each of those that it takes makes it claimable until an append takes the item.
pub async fn st_7_what_outlives_a_task_makes_it_claimable(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    for item in outliving() {
        let mut log = bench.finished().await;
        assert_eq!(bench.row(&log.id).await.claimable_at, None);
        let delivered = bench.deliver(&log.id, &item, "k1").await;
        assert!(bench.is_claimable(&log.id).await, "{} does not make it claimable", item.kind());
        let claimed = bench.hold(&ada, &log.id).await;
        bench.release(&claimed, None).await;
        assert!(bench.is_claimable(&log.id).await, "untaken, it stays claimable");
        let claimed = bench.hold(&ada, &log.id).await;
        let mut batch = log.rewinding(&claimed);
        (batch.consumed, batch.row.status) = (vec![delivered.position], Status::Completed);
        bench.append(&claimed, &batch).await;
        log.accept(&batch);
        assert_eq!(bench.row(&log.id).await.claimable_at, None, "taken, it is over again, and nobody's");
    }
}

/// ST-7: an item larger than a store may have to keep is refused, one just as large is not; so is
/// one that cannot be written down; and a task that does not exist takes none.
pub async fn st_7_what_cannot_be_delivered_is_refused(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let frame = br#"{"kind":"message","text":""}"#.len();
    let largest = bench.message(&"x".repeat(ITEM_BYTES_MAX - frame));
    let larger = bench.message(&"x".repeat(ITEM_BYTES_MAX - frame + 1));
    let refused = bench.store().deliver(&log.id, "user:ada", &larger, &bench.key("k1")).await;
    assert_eq!(refused, Err(DeliverError::TooLarge { task: log.id.clone(), size: ITEM_BYTES_MAX + 1 }));
    assert_eq!(bench.row(&log.id).await.inbox_tail, Position(0));
    assert!(bench.deliver(&log.id, &largest, "k1").await.fresh);
    let unwritable = Item::Rewind { to_seq: Seq(u64::MAX) };
    let refused = bench.store().deliver(&log.id, "user:ada", &unwritable, &bench.key("k2")).await;
    assert!(matches!(refused, Err(DeliverError::Invalid { .. })), "{refused:?}");
    assert_eq!(bench.row(&log.id).await.inbox_tail, Position(1));
    let nobody = bench.fresh_id();
    let unknown = bench.store().deliver(&nobody, "user:ada", &bench.message("hi"), &bench.key("k1")).await;
    assert_eq!(unknown, Err(DeliverError::Store(StoreError::UnknownTask(nobody))));
}

/// ST-8: an item is seen by every claim until the append that takes it; then by none.
pub async fn st_8_an_item_is_gone_when_an_append_takes_it(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    let log = bench.task().await;
    for key in ["k1", "k2", "k3"] {
        bench.deliver(&log.id, &bench.event(key), key).await;
    }
    let first = bench.hold_shortly(&ada, &log.id).await;
    bench.lapse(&first).await;
    let second = bench.hold(&bob, &log.id).await;
    assert_eq!((first.items.len(), &first.items), (3, &second.items), "what was not taken comes again");
    let mut batch = log.noting(&second, "took two of three");
    batch.consumed = vec![Position(3), Position(1)];
    bench.append(&second, &batch).await;
    let left = bench.untaken(&log.id).await;
    assert_eq!(left, second.items[1..2]);
    bench.release(&second, None).await;
    let third = bench.hold(&ada, &log.id).await;
    assert_eq!(third.items, left);
    assert_eq!(third.verdict.inbox_tail, Position(3), "the tail counts what was taken");
}

/// ST-8: a refused append takes nothing.
pub async fn st_8_a_refused_append_takes_nothing(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    let old = bench.hold_shortly(&bench.worker("ada"), &log.id).await;
    bench.lapse(&old).await;
    let new = bench.hold(&bench.worker("bob"), &log.id).await;
    let mut batch = log.noting(&old, "too late");
    batch.consumed = vec![Position(1)];
    bench.refused(&old, &batch).await;
    assert_eq!(bench.untaken(&log.id).await, new.items);
}
