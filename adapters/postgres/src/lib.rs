//! The shared store: tasks, events, inbox and bodies in one schema of a PostgreSQL database,
//! which workers on any number of hosts use at once.
//!
//! * Every write is one call of a function in the database (`schema/*.sql`): it locks the rows
//!   it touches, checks, and writes everything or nothing, in one round trip, so a worker that
//!   stalls never holds a lock. Which rule refuses a write is found out here, from the columns of
//!   the locked row, by [`plica_ports::store::rules`].
//! * Nothing depends on a session's state, and statements are given names only where a session is
//!   not shared, so a pooler in transaction mode may stand in between (`session`).
//! * Reading creates nothing: a schema that is not there reads as an empty store, and the first
//!   write makes it (`migrations`).
//! * Commits are made known by `NOTIFY`, outside of their transactions, and looked for by polling
//!   all the same (`watch`).
//!
//! It never holds a connection while its caller does something else. First type to read:
//! [`PostgresStore`].

mod append;
mod claim;
mod connect;
mod content;
mod error;
mod inbox;
mod lease;
mod migrations;
mod read;
mod rows;
mod session;
mod store;
mod watch;
mod workers;
mod writer;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plica_ports::store::{ProcessIdentity, StoreError};

use crate::claim::Marks;
use crate::connect::Place;
use crate::session::Sessions;
use crate::watch::Pulse;

/// How a store on this host tells whether the process that holds a task still runs (ST-16).
#[derive(Debug, Clone)]
pub struct Processes {
    /// The process that opens the store.
    pub own: ProcessIdentity,
    /// Whether a process of this host is known to be gone; any doubt is `false`.
    pub is_gone: fn(&ProcessIdentity) -> bool,
}

/// How to open a store.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// What is known of the processes of this host; without it leases alone decide.
    pub processes: Option<Processes>,
}

/// A store in one schema of a PostgreSQL database.
///
/// * **ST-6** Its time is the server's clock, read after the row's lock.
/// * **ST-9** When the answer to a write is lost it is `CommitUnknown`; a readback waits for the
///   row's lock, so no commit of that task is under way.
/// * **ST-11** Every read is one consistent view; it takes no lock that a write waits for.
/// * **ST-12** A claim reads partial indexes over what may be claimed, so what waits costs it
///   nothing; rows that others have locked are passed over.
/// * **ST-14** Migrations run under an advisory lock, forward only. A newer schema is refused,
///   also when another host brings it to one while it is open here.
/// * **ST-15** Rows are locked in ascending byte order of id, by one statement, before any check;
///   a deadlock or serialisation failure all the same is retried whole, a bounded number of times.
/// * **ST-16** Neither opening nor reading creates anything; `ledger`, `create`, `register` and
///   `put` create the store, whatever else is asked of one that is not there finds it empty.
/// * **ST-17** Triggers refuse to change or remove a recorded event.
/// * **CO-2** Bodies live in the same database.
///
/// All calls need a tokio runtime with time and IO, the same one for the whole life of the store.
pub struct PostgresStore {
    place: Arc<Place>,
    sessions: Arc<Sessions>,
    pulse: Pulse,
    marks: Mutex<Marks>,
    options: OpenOptions,
}

impl PostgresStore {
    /// A handle on the store at `url`; nothing is connected to before it is needed.
    ///
    /// The URL is one of libpq's, `postgres://USER:PASSWORD@HOST:PORT/DATABASE?…`, with these
    /// parameters beside those of tokio-postgres:
    ///
    /// * `sslmode`: `disable`, or `require`, `verify-ca` or `verify-full`, which all mean the
    ///   same: TLS, with a certificate that is trusted and names the host. Without it (or with
    ///   `prefer`) that is so for every host but this machine itself.
    /// * `sslrootcert`: a file of certificates in PEM to trust instead of the system's.
    /// * `schema`: where the tables are; `plica` unless given.
    /// * `pool`: how many connections are used at most; 8 unless given.
    /// * `notify`: `off`, or the URL of a direct connection for `LISTEN`, for when the store
    ///   itself is reached through a pooler that hands out connections by transaction.
    /// * `statements`: `unnamed` for a pooler by transaction that cannot be told from the server
    ///   itself; `PgBouncer` can, and then statements are given no names anyway.
    ///
    /// # Errors
    /// `Unusable` when the URL is none, or the certificates cannot be read.
    pub fn open(url: &str, options: OpenOptions) -> Result<Self, StoreError> {
        let place = Arc::new(Place::parse(url)?);
        let sessions = Arc::new(Sessions::of(&place)?);
        let pulse = Pulse::new(Arc::clone(&place), Arc::clone(&sessions));
        Ok(Self { place, sessions, pulse, marks: Mutex::default(), options })
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.place.to_string()).finish_non_exhaustive()
    }
}
