//! Where statements are given names.

use plica_pgserver::{Fresh, Pooler, ServerError, Shared};

use super::*;
use crate::{OpenOptions, PostgresStore};

/// Whether statements are given names on a connection, and how many stand behind it after one
/// that was used twice.
async fn names(url: &str) -> (bool, i64) {
    let store = PostgresStore::open(url, OpenOptions::default()).expect("a URL is a URL");
    let session = store.connection().await.expect("the server is there");
    for number in [1_i32, 2] {
        let rows = session.query("SELECT $1", &[(&number, Type::INT4)]).await.expect("the statement is one");
        assert_eq!(rows[0].get::<_, i32>(0), number);
    }
    let count = "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1'";
    let named = session.query_typed_one(count, &[]).await.expect("the server tells");
    (session.is_own, named.get(0))
}

/// Poolers in front of the server, of which one refuses what it does not know at the start of a
/// connection and one drops it.
fn poolers(fresh: &Fresh, server: &Shared) -> Vec<(Pooler, String)> {
    let Shared::Own(server) = server else {
        plica_pgserver::passed_over("a pooler is started in front of a server of our own alone");
        return Vec::new();
    };
    let start = |more| match Pooler::start(server, more) {
        Ok(pooler) => {
            let url = fresh.url_through(pooler.port());
            Some((pooler, url))
        }
        Err(error @ ServerError::NoPooler) => {
            plica_pgserver::passed_over(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    };
    ["", "ignore_startup_parameters = options"].into_iter().filter_map(start).collect()
}

#[tokio::test]
async fn statements_have_names_on_a_session_of_ones_own() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    assert_eq!(names(&fresh.url()).await, (true, 1));
    // What the URL asks of the session stays.
    let url = format!("{}&options=-c%20statement_timeout%3D7s", fresh.url());
    assert_eq!(names(&url).await, (true, 1));
    let store = PostgresStore::open(&url, OpenOptions::default()).expect("a URL is a URL");
    let session = store.connection().await.expect("the server is there");
    let row = session.query_typed_one("SHOW statement_timeout", &[]).await.expect("the server tells");
    assert_eq!(row.get::<_, String>(0), "7s");
}

#[tokio::test]
async fn statements_have_no_names_where_a_session_is_shared() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    assert_eq!(names(&format!("{}&statements=unnamed", fresh.url())).await, (false, 0));
    for (_pooler, url) in poolers(&fresh, server) {
        assert_eq!(names(&url).await, (false, 0));
    }
}
