//! The suite of the store port through PgBouncer in transaction mode, which gives every
//! transaction another connection: nothing may depend on a session. Where the program is not
//! installed each test says that it is not run.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use plica_conformance::{Capability, Subject};
use plica_pgserver::{Pooler, ServerError, Shared};
use plica_postgres::{OpenOptions, PostgresStore};

/// The pooler of this test binary.
fn pooler(server: &Shared) -> Option<&'static Pooler> {
    static POOLER: OnceLock<Result<Pooler, ServerError>> = OnceLock::new();
    let Shared::Own(server) = server else {
        plica_pgserver::passed_over("a pooler is started in front of a server of our own alone");
        return None;
    };
    match POOLER.get_or_init(|| Pooler::start(server, "")) {
        Ok(pooler) => Some(pooler),
        Err(error @ ServerError::NoPooler) => {
            plica_pgserver::passed_over(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let _ = write!(encoded, "%{byte:02X}");
        encoded
    })
}

/// Two handles through the pooler. One hears of commits by a direct connection, the other looks
/// for them.
async fn subject() -> Option<Subject> {
    let server = plica_pgserver::shared()?;
    let pooler = pooler(server)?;
    let fresh = server.fresh();
    let open = |notify: &str| {
        let url = format!("{}&notify={notify}", fresh.url_through(pooler.port()));
        Arc::new(PostgresStore::open(&url, OpenOptions::default()).expect("a URL is a URL"))
    };
    let (store, second) = (open("off"), open(&percent_encoded(fresh.server())));
    Some(Subject::new(store).with_second(second).lacking(Capability::Time).keeping(fresh))
}

plica_conformance::store_suite!(subject);
