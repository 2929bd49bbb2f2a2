//! The fault layer: switched off it is the store itself, switched on each fate does what it
//! says.

use std::sync::Arc;
use std::time::Duration;

use plica_conformance::fault::{Fate, FaultPlan, Quiet, Scripted, faulty};
use plica_conformance::layer::Call;
use plica_conformance::{BRIEF_LEASE, Capability, Log, Subject, opening_facts};
use plica_kernel::id::{DedupKey, InstanceId, Position, Seq, TaskId, WorkerId};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_memory::{ManualClock, MemoryStore};
use plica_ports::Store;
use plica_ports::store::{
    AppendError, ClaimError, ClaimRequest, Claimed, CommitFate, DeliverError, StoreError, Worker,
};

async fn subject() -> Subject {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_796_031_682_123_456)));
    let store = Arc::new(MemoryStore::with(clock.clone(), 1));
    Subject::new(Arc::new(faulty(store, Arc::new(Quiet))))
        .with_time(move |by| clock.advance(by))
        .lacking(Capability::SecondHandle)
}

plica_conformance::store_suite!(subject);

/// A store with one task, and the same store behind faults.
struct Bench {
    store: Arc<MemoryStore>,
    log: Log,
}

impl Bench {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new());
        let ledger = store.ledger().await.expect("a store in memory");
        let now = store.now().await.expect("a store in memory");
        let (log, task) = Log::begin(&ledger, &TaskId::new("a-task").expect("an id"), opening_facts(now));
        store.create(task).await.expect("a new task");
        Self { store, log }
    }

    fn behind(&self, call: Call, fate: Fate) -> impl Store + use<> {
        faulty(self.store.clone(), Arc::new(Scripted::new(call, [fate])))
    }

    async fn claim(&self) -> Claimed {
        self.store.claim(&request()).await.expect("a store in memory").remove(0)
    }

    async fn written(&self) -> usize {
        self.store.read(&self.log.id, Seq(2), usize::MAX).await.expect("a store in memory").len()
    }
}

fn request() -> ClaimRequest {
    let worker = Worker {
        id: WorkerId::new("w").expect("an id"),
        instance: InstanceId::new("w-1").expect("an id"),
        host: "here".into(),
        version: "test".into(),
        process: None,
    };
    ClaimRequest { worker, queues: Vec::new(), lease: BRIEF_LEASE, max: 1, task: None, except: Vec::new() }
}

/// ST-9: an append that is lost on its way is not there, one whose answer is lost is.
#[tokio::test]
async fn st_9_a_lost_append_may_or_may_not_be_written() {
    for (fate, expected) in [(Fate::LostBefore, CommitFate::NotThere), (Fate::LostAfter, CommitFate::Written)] {
        let bench = Bench::new().await;
        let claimed = bench.claim().await;
        let batch = bench.log.noting(&claimed, "x");
        let store = bench.behind(Call::Append, fate);
        let lost = store.append(&claimed.claim, &batch).await;
        assert!(matches!(lost, Err(AppendError::CommitUnknown { .. })), "{fate:?}: {lost:?}");
        let settled = store.settle(&bench.log.id, batch.row.seq, &batch.row.hash).await;
        assert_eq!(settled, Ok(expected), "{fate:?}");
    }
}

/// An append that is adrift is there later, whatever its sender has done since.
#[tokio::test(start_paused = true)]
async fn st_9_an_append_adrift_arrives_later() {
    let bench = Bench::new().await;
    let claimed = bench.claim().await;
    let store = bench.behind(Call::Append, Fate::Adrift(Duration::from_millis(5)));
    let lost = store.append(&claimed.claim, &bench.log.noting(&claimed, "x")).await;
    assert!(matches!(lost, Err(AppendError::CommitUnknown { .. })), "{lost:?}");
    assert_eq!(bench.written().await, 0);
    tokio::time::sleep(Duration::from_millis(6)).await;
    assert_eq!(bench.written().await, 1);
}

/// Whoever gives up waiting for a slow request does not call it back.
#[tokio::test(start_paused = true)]
async fn a_slow_request_arrives_without_its_sender() {
    let bench = Bench::new().await;
    let claimed = bench.claim().await;
    let store = bench.behind(Call::Append, Fate::Slow(Duration::from_millis(5)));
    let batch = bench.log.noting(&claimed, "x");
    let given_up = tokio::time::timeout(Duration::from_millis(1), store.append(&claimed.claim, &batch)).await;
    assert!(given_up.is_err());
    tokio::time::sleep(Duration::from_millis(6)).await;
    assert_eq!(bench.written().await, 1);
}

/// ST-3, ST-7: what arrives twice is there once.
#[tokio::test]
async fn st_3_st_7_what_arrives_twice_is_there_once() {
    let bench = Bench::new().await;
    let claimed = bench.claim().await;
    let store = bench.behind(Call::Append, Fate::Twice);
    store.append(&claimed.claim, &bench.log.noting(&claimed, "x")).await.expect("the first answer counts");
    assert_eq!(bench.written().await, 1);

    let store = bench.behind(Call::Deliver, Fate::Twice);
    let (item, key) = (Item::Message { text: "hello".into() }, DedupKey::new("k").expect("an id"));
    let delivered = store.deliver(&bench.log.id, "user", &item, &key).await.expect("the first answer counts");
    assert!(delivered.fresh);
    let inbox = bench.store.inbox(&bench.log.id, Position(0)).await.expect("a store in memory");
    assert_eq!(inbox.len(), 1);
}

/// ST-9: a claim whose answer is lost is held all the same, and can be taken up.
#[tokio::test]
async fn st_9_a_lost_claim_is_held() {
    let bench = Bench::new().await;
    let store = bench.behind(Call::Claim, Fate::LostAfter);
    let lost = store.claim(&request()).await;
    assert!(matches!(lost, Err(ClaimError::CommitUnknown(_))), "{lost:?}");
    assert_eq!(store.held_by(&request().worker).await, Ok(vec![bench.log.id.clone()]));
}

/// A store out of reach is asked nothing.
#[tokio::test]
async fn st_10_a_store_out_of_reach_writes_nothing() {
    let bench = Bench::new().await;
    let store = bench.behind(Call::Deliver, Fate::Unavailable);
    let (item, key) = (Item::Message { text: "hello".into() }, DedupKey::new("k").expect("an id"));
    let refused = store.deliver(&bench.log.id, "user", &item, &key).await;
    assert!(matches!(refused, Err(DeliverError::Store(StoreError::Unavailable(_)))), "{refused:?}");
    assert_eq!(bench.store.inbox(&bench.log.id, Position(0)).await, Ok(Vec::new()));
    assert_eq!(Quiet.fate(Call::Deliver), Fate::Clear);
}
