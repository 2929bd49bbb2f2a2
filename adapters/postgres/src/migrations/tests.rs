//! What migrations leave behind, however many hosts make them.

use std::sync::Arc;

use plica_conformance::{Bench, Capability, Subject};
use plica_pgserver::Fresh;
use plica_ports::Store as _;

use super::*;
use crate::{OpenOptions, PostgresStore};

/// Cannot be done twice.
const NEXT: &str = "CREATE TABLE plica.later (word text); INSERT INTO plica.later SELECT ledger FROM plica.meta";
/// Fails when half of it is done.
const BROKEN: &str = "CREATE TABLE plica.half (word text); CREATE TABLE plica.half (word text)";

fn open(fresh: &Fresh) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(&fresh.url(), OpenOptions::default()).expect("a URL is a URL"))
}

fn and(step: &'static str) -> Vec<&'static str> {
    MIGRATIONS.iter().copied().chain([step]).collect()
}

async fn migrated(store: &PostgresStore, steps: &[&str]) -> Result<(), StoreError> {
    migrate_by(&store.place, &*store.connection().await?, steps).await
}

async fn stands(store: &PostgresStore) -> Standing {
    let client = store.connection().await.expect("the server is there");
    standing(&store.place, &client).await.expect("a look")
}

/// ST-14: a store that the oldest step alone has made is opened, brought up to date, and carried
/// on under its own name.
#[tokio::test]
async fn st_14_a_store_of_the_oldest_version_is_carried_on() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = Arc::new(server.fresh());
    let store = open(&fresh);
    migrated(&store, &MIGRATIONS[..1]).await.expect("the first step");
    assert_eq!(stands(&store).await, Standing::Ours(1));
    let sql = fresh.sql("SELECT ledger FROM plica.meta");
    let name: String = fresh.connect().await.query_one(&sql, &[]).await.expect("it has a name").get(0);
    let bench = Bench::new(Subject::new(store.clone()).lacking(Capability::Time).keeping(Arc::clone(&fresh))).await;
    assert_eq!(bench.ledger().to_string(), name);
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.completing(&claimed);
    bench.append(&claimed, &batch).await;
    log.accept(&batch);
    assert_eq!(bench.row(&log.id).await.projection, log.row);
    assert_eq!(stands(&store).await, Standing::Ours(VERSION));
}

/// ST-14: a step more is taken once, whoever comes at the same time; name and events stay, and
/// those that do not know the step refuse.
#[tokio::test(flavor = "multi_thread")]
async fn st_14_hosts_that_migrate_at_once_take_each_step_once() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = Arc::new(server.fresh());
    let store = open(&fresh);
    let bench = Bench::new(Subject::new(store.clone()).lacking(Capability::Time).keeping(Arc::clone(&fresh))).await;
    let log = bench.task().await;
    let before = bench.events(&log.id).await;
    let hosts = (0..6).map(|_| {
        let host = open(&fresh);
        tokio::spawn(async move { migrated(&host, &and(NEXT)).await })
    });
    for host in hosts.collect::<Vec<_>>() {
        host.await.expect("the host ends well").expect("the step is taken");
    }
    assert_eq!(stands(&store).await, Standing::Ours(VERSION + 1));
    let sql = fresh.sql("SELECT count(*), min(word) FROM plica.later");
    let row = fresh.connect().await.query_one(&sql, &[]).await.expect("the step's table is there");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, String>(1)), (1, bench.ledger().to_string()));
    let Err(StoreError::Unusable(said)) = bench.store().row(&log.id).await else { panic!("it is newer") };
    assert!(said.contains(&format!("version {}, this build knows {VERSION}", VERSION + 1)), "{said}");
    let sql = fresh.sql("SELECT body FROM plica.events ORDER BY task, seq");
    let rows = fresh.connect().await.query(&sql, &[]).await.expect("the events are there");
    let bodies: Vec<Vec<u8>> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(bodies, before.into_iter().map(|event| event.body).collect::<Vec<_>>());
}

/// ST-14: a step that fails half-way has done nothing; the store is as usable as before.
#[tokio::test]
async fn st_14_a_step_that_fails_has_done_nothing() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    let store = open(&fresh);
    let ledger = store.ledger().await.expect("the store is made");
    migrated(&store, &and(BROKEN)).await.expect_err("a table is made once");
    assert_eq!(stands(&store).await, Standing::Ours(VERSION));
    assert_eq!(store.ledger().await, Ok(ledger));
    migrated(&store, &and(NEXT)).await.expect("another step");
}

/// What `doctor` looks for is what the schema makes.
#[tokio::test]
async fn the_indexes_that_are_looked_for_are_those_of_the_schema() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    let store = open(&fresh);
    store.ledger().await.expect("the store is made");
    let sql = "SELECT indexname::text FROM pg_indexes WHERE schemaname = $1 ORDER BY indexname";
    let rows = fresh.connect().await.query(sql, &[&fresh.schema()]).await.expect("the catalogue can be read");
    let made: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(made, crate::read::INDEXES);
}
