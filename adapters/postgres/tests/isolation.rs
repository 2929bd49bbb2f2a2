//! What happens while another transaction stands still between its lock and its commit: real
//! calls of the store are stopped there by a trigger, and the clause must hold all the same.

use std::sync::Arc;
use std::time::Duration;

use plica_conformance::{Bench, Capability, LEASE, Subject};
use plica_kernel::id::{Position, Seq};
use plica_kernel::wake::{Wake, WakeKey};
use plica_pgserver::Fresh;
use plica_ports::Store;
use plica_ports::store::{AppendError, CommitFate, Conflict, Delivery};
use plica_postgres::{OpenOptions, PostgresStore};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// Stops whoever has just written a row of `tasks` in the way that `pauses` names, as long as
/// someone holds the lock that it asks for: after its locks and checks, before its commit.
const PAUSE: &str = "CREATE TABLE plica.pauses (how text NOT NULL); \
    CREATE FUNCTION plica.pause() RETURNS trigger LANGUAGE plpgsql AS $$ \
    BEGIN \
        IF EXISTS (SELECT 1 FROM plica.pauses WHERE how = CASE \
            WHEN NEW.inbox_tail > OLD.inbox_tail THEN 'deliver' \
            WHEN NEW.seq > OLD.seq THEN 'append' \
            WHEN NEW.epoch > OLD.epoch THEN 'claim' \
            WHEN NEW.lease_until > OLD.lease_until THEN 'renew' END) THEN \
            PERFORM pg_advisory_xact_lock_shared(hashtext('plica.pause')); \
        END IF; \
        RETURN NEW; \
    END $$; \
    CREATE TRIGGER pause AFTER UPDATE ON plica.tasks FOR EACH ROW EXECUTE FUNCTION plica.pause();";

/// How long a wait may take before it counts as hanging; nothing takes this long.
const HANG: Duration = Duration::from_secs(60);

/// A store whose calls can be stopped half-way.
struct Stage {
    bench: Bench,
    fresh: Arc<Fresh>,
    /// Who holds the lock that stopped calls wait for.
    holder: Client,
}

impl Stage {
    /// A fresh one; `None` where there is no server.
    async fn set() -> Option<Self> {
        let fresh = Arc::new(plica_pgserver::shared()?.fresh());
        let open = || PostgresStore::open(&fresh.url(), OpenOptions::default()).expect("a URL is a URL");
        let subject = Subject::new(Arc::new(open())).with_second(Arc::new(open())).lacking(Capability::Time);
        let bench = Bench::new(subject).await;
        let holder = fresh.connect().await;
        holder.batch_execute(&fresh.sql(PAUSE)).await.expect("the trigger is made");
        Some(Self { bench, fresh, holder })
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.bench.store())
    }

    /// From now on whoever writes in this way stops.
    async fn stop(&self, how: &str) {
        let sql = "SELECT pg_advisory_lock(hashtext('plica.pause')); INSERT INTO plica.pauses VALUES ('HOW')";
        self.holder.batch_execute(&self.fresh.sql(sql).replace("HOW", how)).await.expect("calls can be stopped");
    }

    /// Whoever stopped goes on, and nobody stops any more.
    async fn go_on(&self) {
        let sql = "DELETE FROM plica.pauses; SELECT pg_advisory_unlock(hashtext('plica.pause'))";
        self.holder.batch_execute(&self.fresh.sql(sql)).await.expect("calls go on");
    }

    /// Returns once a connection waits for what `kind` of lock, in this schema's pause or behind
    /// it; says which.
    async fn waiting(&self, kind: &str) -> i32 {
        let sql = "SELECT activity.pid FROM pg_stat_activity AS activity \
            WHERE activity.wait_event_type = 'Lock' AND activity.wait_event = $1 AND activity.query LIKE $2";
        let ours = format!("%{}%", self.fresh.schema());
        let look = async {
            loop {
                let rows = self.holder.query(sql, &[&kind, &ours]).await.expect("the server tells who waits");
                if let Some(row) = rows.first() {
                    return row.get(0);
                }
                tokio::task::yield_now().await;
            }
        };
        match tokio::time::timeout(HANG, look).await {
            Ok(pid) => pid,
            Err(_) => panic!("no call waits for a lock ({kind}): {:#?}", self.doings().await),
        }
    }

    /// What the connections of this schema do and wait for.
    async fn doings(&self) -> Vec<String> {
        let sql = "SELECT concat_ws(' ', pid, state, wait_event_type, wait_event, now() - query_start, query) \
            FROM pg_stat_activity WHERE query LIKE $1";
        let rows = self.holder.query(sql, &[&format!("%{}%", self.fresh.schema())]).await;
        rows.expect("the server tells what is done").iter().map(|row| row.get(0)).collect()
    }

    /// Returns once a call has stopped.
    async fn stopped(&self) -> i32 {
        self.waiting("advisory").await
    }

    /// Returns once another call waits for the one that has stopped.
    async fn queued(&self) {
        self.waiting("transactionid").await;
    }
}

fn go() -> Wake {
    Wake::on(WakeKey::Event("go".into()))
}

async fn done<T>(call: JoinHandle<T>) -> T {
    call.await.expect("the call ends well")
}

/// ST-7: a delivery that comes while a suspend has made its wake test, but not committed, waits
/// and then wakes the task.
#[tokio::test(flavor = "multi_thread")]
async fn st_7_a_delivery_behind_a_suspend_wakes() {
    let Some(stage) = Stage::set().await else { return };
    let log = stage.bench.task().await;
    let claimed = stage.bench.hold(&stage.bench.worker("ada"), &log.id).await;
    let batch = log.suspending(&claimed, go());
    stage.stop("append").await;
    let (store, claim) = (stage.store(), claimed.claim.clone());
    let suspend = tokio::spawn(async move { store.append(&claim, &batch).await });
    stage.stopped().await;
    let (store, task, item, key) = (stage.store(), log.id.clone(), stage.bench.event("go"), stage.bench.key("k"));
    let deliver = tokio::spawn(async move { store.deliver(&task, "user:ada", &item, &key).await });
    stage.queued().await;
    stage.go_on().await;
    assert!(!done(suspend).await.expect("the suspend is written").held);
    assert!(done(deliver).await.expect("the item is taken").fresh);
    assert!(stage.bench.is_claimable(&log.id).await, "the wake was lost");
}

/// ST-3: a suspend that comes while a delivery is not yet committed waits, and is then refused:
/// it has not seen the item.
#[tokio::test(flavor = "multi_thread")]
async fn st_3_a_suspend_behind_a_delivery_sees_it() {
    let Some(stage) = Stage::set().await else { return };
    let log = stage.bench.task().await;
    let claimed = stage.bench.hold(&stage.bench.worker("ada"), &log.id).await;
    stage.stop("deliver").await;
    let (store, task, item, key) = (stage.store(), log.id.clone(), stage.bench.event("go"), stage.bench.key("k"));
    let deliver = tokio::spawn(async move { store.deliver(&task, "user:ada", &item, &key).await });
    stage.stopped().await;
    let (store, claim, batch) = (stage.store(), claimed.claim.clone(), log.suspending(&claimed, go()));
    let suspend = tokio::spawn(async move { store.append(&claim, &batch).await });
    stage.queued().await;
    stage.go_on().await;
    assert!(done(deliver).await.expect("the item is taken").fresh);
    let moved = Conflict::InboxMoved { task: log.id.clone(), tail: Position(1) };
    assert_eq!(done(suspend).await, Err(AppendError::Conflict(moved)));
}

/// ST-5: a renewal that comes while another worker's claim is not yet committed waits, and then
/// knows that its claim is lost.
#[tokio::test(flavor = "multi_thread")]
async fn st_5_a_renewal_behind_a_claim_is_lost() {
    let Some(stage) = Stage::set().await else { return };
    let log = stage.bench.task().await;
    let stalled = stage.bench.hold_shortly(&stage.bench.worker("ada"), &log.id).await;
    stage.bench.lapse(&stalled).await;
    stage.stop("claim").await;
    let (store, request) = (stage.store(), stage.bench.request(&stage.bench.worker("bob"), 1));
    let claim = tokio::spawn(async move { store.claim(&request).await });
    stage.stopped().await;
    let (store, held) = (stage.store(), stalled.claim.clone());
    let renew = tokio::spawn(async move { store.renew(&[held], LEASE).await });
    stage.queued().await;
    stage.go_on().await;
    assert_eq!(done(claim).await.expect("claiming works").len(), 1);
    let stale = Conflict::FenceStale {
        task: log.id.clone(),
        claimed: stalled.claim.epoch,
        current: stalled.claim.epoch.next(),
    };
    assert_eq!(done(renew).await.expect("renewing works").verdicts, [Err(stale)]);
}

/// ST-1: a claim that comes while a renewal of an expired lease is not yet committed passes the
/// task over, and does not wait.
#[tokio::test(flavor = "multi_thread")]
async fn st_1_a_claim_waits_for_nobody() {
    let Some(stage) = Stage::set().await else { return };
    let log = stage.bench.task().await;
    let stalled = stage.bench.hold_shortly(&stage.bench.worker("ada"), &log.id).await;
    stage.bench.lapse(&stalled).await;
    stage.stop("renew").await;
    let (store, held) = (stage.store(), stalled.claim.clone());
    let renew = tokio::spawn(async move { store.renew(&[held], LEASE).await });
    stage.stopped().await;
    // The renewal stands still all the while.
    assert!(stage.bench.claim(&stage.bench.request(&stage.bench.worker("bob"), 1)).await.is_empty());
    let other = stage.bench.task().await;
    let claimed = stage.bench.claim(&stage.bench.request(&stage.bench.worker("bob"), 1)).await;
    assert_eq!(claimed.first().map(|claimed| &claimed.claim.task), Some(&other.id));
    assert!(!renew.is_finished());
    stage.go_on().await;
    assert_eq!(done(renew).await.expect("renewing works").verdicts, [Ok(Position(0))]);
    assert!(stage.bench.claim(&stage.bench.request(&stage.bench.worker("bob"), 1)).await.is_empty());
}

/// A clock that stands still until it is moved, instead of the server's.
const CLOCK: &str = "CREATE TABLE plica.test_clock (micros bigint NOT NULL); \
    INSERT INTO plica.test_clock VALUES (1796031682123456); \
    CREATE OR REPLACE FUNCTION plica.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS \
    $$ SELECT micros FROM plica.test_clock $$;";

/// ST-1, ST-6: a claim of one task by name that has to wait for a delivery has its whole lease from
/// when it has the task, and not a part of it from when it asked.
#[tokio::test(flavor = "multi_thread")]
async fn st_6_a_claim_that_waited_has_its_whole_lease() {
    let Some(stage) = Stage::set().await else { return };
    stage.holder.batch_execute(&stage.fresh.sql(CLOCK)).await.expect("the clock is replaced");
    let log = stage.bench.task().await;
    stage.stop("deliver").await;
    let (store, task, item, key) = (stage.store(), log.id.clone(), stage.bench.event("go"), stage.bench.key("k"));
    let deliver = tokio::spawn(async move { store.deliver(&task, "user:ada", &item, &key).await });
    stage.stopped().await;
    let (store, mut request) = (stage.store(), stage.bench.request(&stage.bench.worker("bob"), 1));
    request.task = Some(log.id.clone());
    let lease = request.lease;
    let claim = tokio::spawn(async move { store.claim(&request).await });
    stage.queued().await;
    let sql = "UPDATE plica.test_clock SET micros = micros + 10000000";
    stage.holder.batch_execute(&stage.fresh.sql(sql)).await.expect("time passes");
    let now = stage.bench.now().await;
    stage.go_on().await;
    assert!(done(deliver).await.expect("the item is taken").fresh);
    let claimed = done(claim).await.expect("claiming works").pop().expect("the task is due");
    let millis = u64::try_from(lease.as_millis()).expect("a lease is short");
    assert_eq!((claimed.verdict.now, claimed.lease_until), (now, now.plus_millis(millis)));
    assert_eq!(claimed.items.len(), 1, "what it waited for is there");
}

/// ST-9: a readback that comes while the append in doubt is not yet committed waits for its end:
/// one that commits after all was written.
#[tokio::test(flavor = "multi_thread")]
async fn st_9_a_readback_waits_for_a_late_commit() {
    let Some(stage) = Stage::set().await else { return };
    let mut log = stage.bench.task().await;
    let claimed = stage.bench.hold(&stage.bench.worker("ada"), &log.id).await;
    let batch = log.noting(&claimed, "late");
    stage.stop("append").await;
    let (store, claim, late) = (stage.store(), claimed.claim.clone(), batch.clone());
    let append = tokio::spawn(async move { store.append(&claim, &late).await });
    stage.stopped().await;
    log.accept(&batch);
    let (store, task, seq, hash) = (stage.store(), log.id.clone(), log.row.seq, log.row.hash);
    let settle = tokio::spawn(async move { store.settle(&task, seq, &hash).await });
    stage.queued().await;
    stage.go_on().await;
    assert_eq!(done(settle).await, Ok(CommitFate::Written));
    assert!(done(append).await.is_ok());
}

/// ST-9: an append whose connection is cut before its commit is in doubt, and the readback finds
/// that it was not written; the identical batch lands.
#[tokio::test(flavor = "multi_thread")]
async fn st_9_a_connection_that_is_cut_leaves_doubt_that_a_readback_settles() {
    let Some(stage) = Stage::set().await else { return };
    let log = stage.bench.task().await;
    let claimed = stage.bench.hold(&stage.bench.worker("ada"), &log.id).await;
    let batch = log.noting(&claimed, "cut off");
    stage.stop("append").await;
    let (store, claim, cut) = (stage.store(), claimed.claim.clone(), batch.clone());
    let append = tokio::spawn(async move { store.append(&claim, &cut).await });
    let backend = stage.stopped().await;
    let killed = stage.holder.query_one("SELECT pg_terminate_backend($1)", &[&backend]).await;
    assert!(killed.expect("the server ends a connection").get::<_, bool>(0));
    assert!(matches!(done(append).await, Err(AppendError::CommitUnknown { .. })));
    stage.go_on().await;
    let event = batch.events.first().expect("a note is an event");
    let store = stage.store();
    assert_eq!(store.settle(&log.id, event.seq, &event.hash).await, Ok(CommitFate::NotThere));
    store.append(&claimed.claim, &batch).await.expect("the identical batch lands");
    assert_eq!(store.settle(&log.id, event.seq, &event.hash).await, Ok(CommitFate::Written));
    assert_eq!(store.settle(&log.id, Seq(1), &event.hash).await, Ok(CommitFate::Superseded));
}

/// ST-15: of two appends that each deliver to the other's task, the second waits for the first
/// with no lock of its own that the first needs, so both land.
#[tokio::test(flavor = "multi_thread")]
async fn st_15_crossing_appends_queue_up() {
    let Some(stage) = Stage::set().await else { return };
    let ada = stage.bench.worker("ada");
    let logs = [stage.bench.task().await, stage.bench.task().await];
    let mut appends = Vec::new();
    for (own, other) in [(&logs[1], &logs[0]), (&logs[0], &logs[1])] {
        let claimed = stage.bench.hold(&ada, &own.id).await;
        let mut batch = own.noting(&claimed, "sends");
        batch.deliveries = vec![Delivery {
            task: other.id.clone(),
            actor: format!("task:{}", own.id),
            item: stage.bench.event("crossing"),
            dedup: stage.bench.key("k"),
        }];
        appends.push((claimed, batch));
    }
    stage.stop("append").await;
    let mut calls = Vec::new();
    for (claimed, batch) in appends {
        let store = stage.store();
        calls.push(tokio::spawn(async move { store.append(&claimed.claim, &batch).await }));
        // The first stops; the second waits behind it.
        match calls.len() {
            1 => assert!(stage.stopped().await > 0),
            _ => stage.queued().await,
        }
    }
    stage.go_on().await;
    for call in calls {
        done(call).await.expect("a crossing append is written");
    }
    for log in &logs {
        let row = stage.bench.row(&log.id).await;
        assert_eq!((row.projection.seq, row.inbox_tail), (Seq(2), Position(1)));
    }
}
