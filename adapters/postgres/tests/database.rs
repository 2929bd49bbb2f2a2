//! What the port cannot show: the schema and its versions, what the database itself refuses, and
//! servers that go away.

use std::sync::Arc;

use plica_conformance::{Bench, Capability, LEASE, Subject};
use plica_kernel::id::{Position, Queue};
use plica_pgserver::{Fresh, Profile, Server, ServerError};
use plica_ports::Store;
use plica_ports::store::{ClaimError, ClaimRequest, Page, ProcessIdentity, StoreError, TaskFilter};
use plica_postgres::{OpenOptions, PostgresStore, Processes};

fn open(fresh: &Fresh) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(&fresh.url(), OpenOptions::default()).expect("a URL is a URL"))
}

async fn bench(fresh: Arc<Fresh>) -> Bench {
    let subject = Subject::new(open(&fresh)).with_second(open(&fresh)).lacking(Capability::Time);
    Bench::new(subject.keeping(fresh)).await
}

/// Everything in the schema, by name.
async fn objects(fresh: &Fresh) -> i64 {
    let sql = "SELECT count(*) FROM pg_namespace WHERE nspname = $1";
    fresh.connect().await.query_one(sql, &[&fresh.schema()]).await.expect("the catalogue can be read").get(0)
}

/// ST-16: whatever is read of a store that is not there, nothing comes into being.
#[tokio::test]
async fn st_16_reading_a_store_that_is_not_there_makes_nothing() {
    let Some(server) = plica_pgserver::shared() else { return };
    let (fresh, other) = (server.fresh(), Arc::new(server.fresh()));
    let store = open(&fresh);
    let elsewhere = bench(Arc::clone(&other)).await;
    let (log, ada) = (elsewhere.task().await, elsewhere.worker("ada"));
    let claimed = elsewhere.hold(&ada, &log.id).await;
    let unknown = Err(StoreError::UnknownTask(log.id.clone()));
    assert_eq!(store.row(&log.id).await, Ok(None));
    assert_eq!(store.read(&log.id, plica_kernel::id::Seq(1), 9).await, unknown);
    assert_eq!(store.tasks(&TaskFilter::default(), &Page::first(9)).await, Ok(Vec::new()));
    assert_eq!(store.inbox_tails(std::slice::from_ref(&log.id)).await, Ok(vec![Position(0)]));
    assert_eq!(store.workers().await, Ok(Vec::new()));
    assert_eq!(store.held_by(&ada).await, Ok(Vec::new()));
    assert_eq!(store.outlook(&[]).await.map(|outlook| outlook.next), Ok(None));
    assert!(store.now().await.is_ok() && store.describe().await.is_ok());
    assert!(store.claim(&elsewhere.request(&ada, 4)).await.is_ok_and(|claimed| claimed.is_empty()));
    assert!(
        store
            .renew(std::slice::from_ref(&claimed.claim), LEASE)
            .await
            .is_ok_and(|renewed| renewed.verdicts[0].is_err())
    );
    assert!(store.append(&claimed.claim, &log.noting(&claimed, "nowhere")).await.is_err());
    assert!(store.deliver(&log.id, "user:ada", &elsewhere.message("hi"), &elsewhere.key("k")).await.is_err());
    assert_eq!(store.deregister(&ada).await, Ok(()));
    assert_eq!(objects(&fresh).await, 0);
}

/// ST-14: of hosts that start at once on an empty database one makes the schema.
#[tokio::test(flavor = "multi_thread")]
async fn st_14_hosts_that_start_at_once_make_one_store() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    let hosts: Vec<_> = (0..8).map(|_| open(&fresh)).collect();
    let calls: Vec<_> = hosts.into_iter().map(|host| tokio::spawn(async move { host.ledger().await })).collect();
    let mut names = Vec::new();
    for call in calls {
        names.push(call.await.expect("the call ends well").expect("the store is made"));
    }
    names.dedup();
    assert_eq!(names.len(), 1);
}

/// Every row of the store, as text.
async fn rows(fresh: &Fresh) -> Vec<String> {
    let client = fresh.connect().await;
    let mut rows = Vec::new();
    for table in ["meta", "workers", "tasks", "events", "inbox", "content"] {
        let sql = fresh.sql(&format!("SELECT '{table} ' || row::text FROM plica.{table} AS row ORDER BY 1"));
        rows.extend(
            client.query(&sql, &[]).await.expect("the table is there").iter().map(|row| row.get::<_, String>(0)),
        );
    }
    rows
}

/// ST-14: a schema of a newer version is refused by every call, also on a handle that knew it
/// before, and named; nothing is written.
#[tokio::test]
async fn st_14_a_newer_schema_is_refused() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = Arc::new(server.fresh());
    let bench = bench(Arc::clone(&fresh)).await;
    let (log, ada) = (bench.task().await, bench.worker("ada"));
    let claimed = bench.hold(&ada, &log.id).await;
    let (_, another) = bench.draft(|_| ()).await;
    let client = fresh.connect().await;
    client.batch_execute(&fresh.sql("UPDATE plica.meta SET version = 99")).await.expect("a version is a number");
    let before = rows(&fresh).await;
    let refused = |said: String| assert!(said.contains("version 99"), "{said}");
    for store in [bench.store().clone(), open(&fresh)] {
        refused(store.row(&log.id).await.expect_err("reading").to_string());
        refused(store.ledger().await.expect_err("the name").to_string());
        refused(store.create(another.clone()).await.expect_err("a creation").to_string());
        refused(store.claim(&bench.request(&ada, 1)).await.expect_err("a claim").to_string());
        refused(store.append(&claimed.claim, &log.noting(&claimed, "late")).await.expect_err("an append").to_string());
        refused(store.renew(std::slice::from_ref(&claimed.claim), LEASE).await.expect_err("a renewal").to_string());
        refused(store.release(&claimed.claim, None).await.expect_err("a release").to_string());
        let item = bench.message("hi");
        refused(store.deliver(&log.id, "user:ada", &item, &bench.key("k")).await.expect_err("an item").to_string());
        refused(store.register(&ada, &[], LEASE).await.expect_err("a sign of life").to_string());
        refused(store.unblock(&log.id).await.expect_err("an unblocking").to_string());
    }
    assert_eq!(rows(&fresh).await, before);
    client.batch_execute(&fresh.sql("UPDATE plica.meta SET version = 1")).await.expect("a version is a number");
    bench.append(&claimed, &log.noting(&claimed, "in time")).await;
}

/// ST-16: a schema that some other program lives in is refused and not touched; an empty one,
/// which someone with the right to make schemas may have made, is used.
#[tokio::test]
async fn st_16_a_schema_of_others_is_not_touched() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    let client = fresh.connect().await;
    client.batch_execute(&format!("CREATE SCHEMA {}", fresh.schema())).await.expect("a schema is made");
    let store = open(&fresh);
    assert_eq!(store.tasks(&TaskFilter::default(), &Page::first(1)).await, Ok(Vec::new()));
    client.batch_execute(&fresh.sql("CREATE TABLE plica.theirs (x int)")).await.expect("a table is made");
    let Err(StoreError::Unusable(said)) = store.ledger().await else { panic!("it is theirs") };
    assert!(said.contains("not a store of this program"), "{said}");
    client.batch_execute(&fresh.sql("DROP TABLE plica.theirs")).await.expect("a table goes");
    assert!(store.ledger().await.is_ok());
}

/// ST-17: the database itself refuses to change or remove a recorded event, a task, or its id.
#[tokio::test]
async fn st_17_the_database_refuses_to_change_what_is_recorded() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = Arc::new(server.fresh());
    let bench = bench(Arc::clone(&fresh)).await;
    let log = bench.task().await;
    let before = bench.events(&log.id).await;
    let client = fresh.connect().await;
    let attacks = [
        "UPDATE plica.events SET body = ''",
        "UPDATE plica.events SET seq = seq",
        "DELETE FROM plica.events",
        "TRUNCATE plica.events",
        "INSERT INTO plica.events SELECT * FROM plica.events",
        "INSERT INTO plica.events SELECT * FROM plica.events ON CONFLICT (task, seq) DO UPDATE SET body = ''",
        "DELETE FROM plica.tasks",
        "TRUNCATE plica.tasks",
        "UPDATE plica.tasks SET id = 'other'",
    ];
    for attack in attacks {
        assert!(client.batch_execute(&fresh.sql(attack)).await.is_err(), "{attack}");
    }
    assert_eq!(bench.events(&log.id).await, before);
}

/// ST-16: what a process of this host holds that is known to be gone is claimable at once; what
/// one of another host holds is not.
#[tokio::test]
async fn st_16_what_a_process_that_is_gone_holds_is_due() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = Arc::new(server.fresh());
    let bench = bench(Arc::clone(&fresh)).await;
    let identity = |boot: &str, pid| ProcessIdentity { boot: boot.into(), namespace: "ns".into(), pid, started: 1 };
    let logs = [bench.task().await, bench.task().await, bench.task().await];
    for (log, process) in logs.iter().zip([identity("here", 13), identity("elsewhere", 13), identity("here", 14)]) {
        let mut worker = bench.worker(&format!("worker-{}-{}", process.boot, process.pid));
        worker.process = Some(process);
        bench.hold(&worker, &log.id).await;
    }
    // Number 13 is gone, wherever.
    let processes = Processes { own: identity("here", 7), is_gone: |process| process.pid == 13 };
    let options = OpenOptions { processes: Some(processes) };
    let store = PostgresStore::open(&fresh.url(), options).expect("a URL is a URL");
    let outlook = store.outlook(&[]).await.expect("the outlook can be read");
    assert_eq!((outlook.held, outlook.next), (2, Some(outlook.now)));
    let request = ClaimRequest { queues: vec![Queue::main()], ..bench.request(&bench.worker("ada"), 9) };
    let claimed = store.claim(&request).await.expect("claiming works");
    let tasks: Vec<_> = claimed.iter().map(|claimed| &claimed.claim.task).collect();
    assert_eq!(tasks, [&logs[0].id]);
}

/// ST-1: a claim that fails after it has got hold of something hands that out: nobody would hear of
/// it until its lease ends.
#[tokio::test]
async fn st_1_what_is_claimed_before_a_failure_is_handed_out() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = Arc::new(server.fresh());
    let bench = bench(Arc::clone(&fresh)).await;
    let own = ProcessIdentity { boot: "here".into(), namespace: "ns".into(), pid: 7, started: 1 };
    let options = OpenOptions { processes: Some(Processes { own, is_gone: |_| false }) };
    let store = PostgresStore::open(&fresh.url(), options).expect("a URL is a URL");
    let (ada, known) = (bench.worker("ada"), bench.task().await);
    bench.hold(&ada, &known.id).await;
    // Whether processes are gone, which is looked at for want of work, can be asked no more.
    let client = fresh.connect().await;
    client.batch_execute(&fresh.sql("ALTER TABLE plica.workers RENAME COLUMN boot TO shoe")).await.expect("renamed");
    assert!(matches!(store.claim(&bench.request(&ada, 9)).await, Err(ClaimError::Store(_))), "nothing is due");
    let log = bench.task().await;
    let claimed = store.claim(&bench.request(&ada, 9)).await.expect("one is due");
    assert_eq!(claimed.iter().map(|claimed| &claimed.claim.task).collect::<Vec<_>>(), [&log.id]);
}

/// ST-1: in a burst of claims, which begin where the one before found something, what became due
/// earlier and came late is found all the same, by the claim that finds too little.
#[tokio::test]
async fn st_1_a_burst_of_claims_leaves_nothing_behind() {
    let Some(server) = plica_pgserver::shared() else { return };
    let bench = bench(Arc::new(server.fresh())).await;
    let ada = bench.worker("ada");
    let long_ago = bench.now().await;
    for _ in 0..100 {
        bench.task().await;
        assert_eq!(bench.claim(&bench.request(&ada, 1)).await.len(), 1);
    }
    let late = bench.task_with(|facts| facts.not_before = Some(long_ago)).await;
    let claimed = bench.claim(&bench.request(&ada, 4)).await;
    assert_eq!(claimed.iter().map(|claimed| &claimed.claim.task).collect::<Vec<_>>(), [&late.id]);
}

/// What `doctor` shows tells whether anything is left lying.
#[tokio::test]
async fn the_store_describes_itself() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = Arc::new(server.fresh());
    let bench = bench(Arc::clone(&fresh)).await;
    let log = bench.task().await;
    let client = fresh.connect().await;
    let look = async || -> std::collections::BTreeMap<String, String> {
        bench.store().describe().await.expect("a store describes itself").into_iter().collect()
    };
    let said = look().await;
    let expected = [
        ("store", "postgres"),
        ("tls", "none"),
        ("tasks", "1"),
        ("due, with neither lease nor time", "0"),
        ("indexes missing or unfit", "none"),
        ("schema version", "1"),
    ];
    for (name, value) in expected {
        assert_eq!(said.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(said["longest due, not claimed"].ends_with(" ms"), "{said:?}");
    assert!(said.contains_key("indexes in use, and how often"), "{said:?}");
    client.batch_execute(&fresh.sql("DROP INDEX plica.tasks_due")).await.expect("an index goes");
    assert_eq!(look().await["indexes missing or unfit"], "tasks_due");
    let sql = format!("UPDATE plica.tasks SET claimable_at = NULL WHERE id = '{}'", log.id);
    client.batch_execute(&fresh.sql(&sql)).await.expect("the row is spoiled");
    let said = look().await;
    assert_eq!(
        (said["due, with neither lease nor time"].as_str(), said["longest due, not claimed"].as_str()),
        ("1", "none")
    );
}

/// ST-15: where transactions are serializable by default, what is rolled back for another's sake
/// is done again.
#[tokio::test(flavor = "multi_thread")]
async fn st_15_a_stricter_isolation_by_default_changes_nothing() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = Arc::new(server.fresh());
    let url = format!("{}&options=-cdefault_transaction_isolation%3Dserializable", fresh.url());
    let store = Arc::new(PostgresStore::open(&url, OpenOptions::default()).expect("a URL is a URL"));
    let bench = Bench::new(Subject::new(store).lacking(Capability::Time).keeping(fresh)).await;
    let log = bench.task().await;
    let senders: Vec<_> = (0..6)
        .map(|number| {
            let (store, task, item, key) =
                (bench.store().clone(), log.id.clone(), bench.message("hi"), bench.key(&format!("k{number}")));
            tokio::spawn(async move { store.deliver(&task, "user:ada", &item, &key).await })
        })
        .collect();
    for sender in senders {
        sender.await.expect("the sender ends well").expect("the item is taken");
    }
    assert_eq!(bench.row(&log.id).await.inbox_tail, Position(6));
}

/// ST-9, ST-10: a server that crashes is unavailable while it is away; what it had acknowledged
/// is there when it is back, on the same handles.
#[tokio::test(flavor = "multi_thread")]
async fn st_9_a_server_that_comes_back_has_what_it_acknowledged() {
    let server = match Server::start(Profile::Durable) {
        Ok(server) => server,
        Err(error @ ServerError::Missing) => return plica_pgserver::not_run(&error.to_string()),
        Err(error) => panic!("{error}"),
    };
    let bench = bench(Arc::new(server.fresh())).await;
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.noting(&claimed, "before the crash");
    bench.append(&claimed, &batch).await;
    log.accept(&batch);
    server.crash().expect("it stops");
    assert!(matches!(bench.store().row(&log.id).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(
        bench.store().renew(std::slice::from_ref(&claimed.claim), LEASE).await,
        Err(StoreError::Unavailable(_))
    ));
    server.restart().expect("it starts");
    assert_eq!(bench.row(&log.id).await.projection.seq, log.row.seq);
    bench.append(&claimed, &log.noting(&claimed, "after it")).await;
}

/// A place that nobody can connect to says so without the password: `Unusable` where waiting does
/// not help.
#[tokio::test]
async fn a_store_that_cannot_be_reached_says_why() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    let missing = fresh.url().replace("/postgres?", "/no_such_database?");
    let store = PostgresStore::open(&missing, OpenOptions::default()).expect("a URL is a URL");
    let Err(StoreError::Unusable(said)) = store.now().await else { panic!("there is no such database") };
    assert!(said.contains("no_such_database") && said.contains("check the URL"), "{said}");
    let nobody = "postgres://ada:hush@127.0.0.1:1/work";
    let store = PostgresStore::open(nobody, OpenOptions::default()).expect("a URL is a URL");
    let Err(StoreError::Unavailable(said)) = store.now().await else { panic!("nobody listens there") };
    assert!(!said.contains("hush"), "{said}");
    // The test server has no TLS.
    let store = PostgresStore::open(&format!("{}&sslmode=require", fresh.url()), OpenOptions::default());
    let Err(StoreError::Unusable(said)) = store.expect("a URL is a URL").now().await else { panic!("it has no TLS") };
    assert!(said.contains("sslmode=disable"), "{said}");
}
