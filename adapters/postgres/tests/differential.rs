//! The memory store and the PostgreSQL store side by side.

use std::sync::Arc;
use std::time::Duration;

use plica_conformance::differ::{Pair, compare};
use plica_kernel::time::Timestamp;
use plica_memory::{ManualClock, MemoryStore};
use plica_pgserver::Shared;
use plica_ports::Store as _;
use plica_postgres::{OpenOptions, PostgresStore};

const START: Timestamp = Timestamp::from_micros(1_796_031_682_123_456);
/// Sequences in the gate, and how many operations each has: less than between memory and SQLite,
/// since every store has to be made and every call crosses to a server.
const SEEDS: u64 = 60;
const LENGTH: usize = 60;

/// A clock that stands still until it is moved, instead of the server's.
const CLOCK: &str = "CREATE TABLE plica.test_clock (micros bigint NOT NULL); \
    INSERT INTO plica.test_clock VALUES (1796031682123456); \
    CREATE OR REPLACE FUNCTION plica.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS \
    $$ SELECT micros FROM plica.test_clock $$;";

/// Both stores, empty, by one clock.
async fn pair(server: &'static Shared) -> Pair {
    let clock = Arc::new(ManualClock::new(START));
    let memory = Arc::new(MemoryStore::with(clock.clone(), 1));
    let fresh = server.fresh();
    let store = Arc::new(PostgresStore::open(&fresh.url(), OpenOptions::default()).expect("a URL is a URL"));
    store.ledger().await.expect("the store is made");
    let (hand, sql) = (fresh.hand(), fresh.sql("UPDATE plica.test_clock SET micros = micros + "));
    hand.execute(fresh.sql(CLOCK));
    let advance = move |by: Duration| {
        clock.advance(by);
        hand.execute(format!("{sql}{}", by.as_micros()));
    };
    Pair::new(memory, store, advance, fresh)
}

async fn are_alike(seeds: impl Iterator<Item = u64>) {
    let Some(server) = plica_pgserver::shared() else { return };
    for seed in seeds {
        if let Err(difference) = compare(|| pair(server), seed, LENGTH).await {
            panic!("{difference}");
        }
    }
}

/// ST-1, ST-2, ST-3, ST-4, ST-7, ST-8, ST-9, ST-16, ST-18, ST-19: whatever is asked of them, in
/// whatever order, both stores answer alike. One half of the seeds, on one core.
#[tokio::test]
async fn st_3_memory_and_postgres_answer_alike() {
    are_alike(0..SEEDS / 2).await;
}

/// The other half.
#[tokio::test]
async fn st_3_memory_and_postgres_answer_alike_again() {
    are_alike(SEEDS / 2..SEEDS).await;
}
