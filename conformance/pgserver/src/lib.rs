//! For tests: a real PostgreSQL server, started from the machine's own binaries in a temporary
//! folder, or the one that `PLICA_TEST_POSTGRES` names.
//!
//! One server serves a whole test binary ([`shared`]); each test has a schema of its own
//! ([`Shared::fresh`]). A server never outlives the process that started it, however that ends:
//! a keeper process waits for the end of a pipe and then stops the server and removes its folder.
//!
//! Where there is no server a test cannot run. Under `CI=true` that is a failure; elsewhere
//! [`shared`] says so on standard error, by the name of the test.

mod keeper;
mod pooler;
mod schema;

use std::io::Write as _;
use std::sync::OnceLock;

pub use keeper::{Identity, Profile, Server, ServerError};
pub use pooler::Pooler;
pub use schema::{Fresh, Hand};

/// Names a server to use instead of one of our own: a URL without parameters.
const VARIABLE: &str = "PLICA_TEST_POSTGRES";

/// What a test connects to.
#[derive(Debug)]
pub enum Shared {
    /// A server of our own, of the fast profile.
    Own(Server),
    /// The one that the environment names.
    Named(String),
}

impl Shared {
    /// The URL of its database.
    pub fn url(&self) -> &str {
        match self {
            Self::Own(server) => server.url(),
            Self::Named(url) => url,
        }
    }

    /// A schema that nobody else uses; it is not created.
    pub fn fresh(&self) -> Fresh {
        // What is in a server of our own goes with it.
        Fresh::new(self.url(), matches!(self, Self::Named(_)))
    }
}

/// The server of this test binary; `None`, and a line on standard error, where there is none.
///
/// # Panics
/// When there is none and `CI=true`, so that a gate never passes without.
pub fn shared() -> Option<&'static Shared> {
    static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(url) => Ok(Shared::Named(url)),
        Err(_) => Server::start(Profile::Fast).map(Shared::Own).map_err(|error| error.to_string()),
    });
    match shared {
        Ok(shared) => Some(shared),
        Err(why) => {
            not_run(why);
            None
        }
    }
}

/// Says that the running test is not run.
///
/// # Panics
/// When `CI=true`.
pub fn not_run(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no PostgreSQL server: {why}");
    passed_over(why);
}

/// Says that the running test is not run, for want of something that no gate needs.
pub fn passed_over(why: &str) {
    let thread = std::thread::current();
    // Not by a macro: what those print is shown for failing tests alone.
    let _ = writeln!(std::io::stderr(), "not run: {}: {why}", thread.name().unwrap_or("a test"));
}
