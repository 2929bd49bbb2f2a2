//! The suites of the store and content ports, each test in a schema of its own.

use std::sync::Arc;
use std::time::Duration;

use plica_conformance::{Capability, ContentSubject, Subject};
use plica_kernel::body::ContentRef;
use plica_pgserver::Fresh;
use plica_ports::Store as _;
use plica_postgres::{OpenOptions, PostgresStore};

fn open(fresh: &Fresh) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(&fresh.url(), OpenOptions::default()).expect("a URL is a URL"))
}

/// Two handles on one schema have each connections of their own, as two hosts have.
async fn subject() -> Option<Subject> {
    let fresh = plica_pgserver::shared()?.fresh();
    Some(Subject::new(open(&fresh)).with_second(open(&fresh)).lacking(Capability::Time).keeping(fresh))
}

async fn content() -> Option<ContentSubject> {
    let fresh = Arc::new(plica_pgserver::shared()?.fresh());
    let store = open(&fresh);
    store.ledger().await.expect("the store is made");
    let (place, hand) = (Arc::clone(&fresh), fresh.hand());
    hand.execute(fresh.sql(CLOCK));
    let advance = move |by: Duration| {
        hand.execute(place.sql(&format!("UPDATE plica.test_clock SET micros = micros + {}", by.as_micros())));
    };
    let (place, hand) = (Arc::clone(&fresh), fresh.hand());
    let damage = move |reference: &ContentRef| {
        hand.execute(place.sql(&format!(
            "UPDATE plica.content SET bytes = set_byte(bytes, 0, get_byte(bytes, 0) # 1) \
             WHERE sha256 = decode('{}', 'hex')",
            reference.sha256
        )));
    };
    Some(ContentSubject::new(store).with_time(advance).with_damage(damage).keeping(fresh))
}

plica_conformance::store_suite!(subject);

/// The same suite by a clock that the tests move: waits of up to half a minute are proved too.
mod by_a_clock_that_is_moved {
    use super::*;

    async fn subject() -> Option<Subject> {
        let fresh = Arc::new(plica_pgserver::shared()?.fresh());
        let (store, second) = (open(&fresh), open(&fresh));
        store.ledger().await.expect("the store is made");
        let (place, hand) = (Arc::clone(&fresh), fresh.hand());
        hand.execute(fresh.sql(CLOCK));
        let advance = move |by: Duration| {
            hand.execute(place.sql(&format!("UPDATE plica.test_clock SET micros = micros + {}", by.as_micros())));
        };
        Some(Subject::new(store).with_second(second).with_time(advance).keeping(fresh))
    }

    plica_conformance::store_suite!(subject);
}

/// A clock that stands still until it is moved, instead of the server's.
const CLOCK: &str = "CREATE TABLE plica.test_clock (micros bigint NOT NULL); \
    INSERT INTO plica.test_clock VALUES (1796031682123456); \
    CREATE OR REPLACE FUNCTION plica.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS \
    $$ SELECT micros FROM plica.test_clock $$;";

plica_conformance::content_suite!(content);
