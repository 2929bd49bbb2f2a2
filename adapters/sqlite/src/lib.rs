//! The embedded store: tasks, events, inbox and bodies in one SQLite file, which several
//! processes of one host may use at once.
//!
//! * One thread of a handle writes at a time. It takes every request that has piled up, runs each
//!   in a savepoint with its own verdict, and commits them together with one flush of the
//!   write-ahead log; an answer is given after the commit (`writer`).
//! * Reads have connections of their own and never hold a writer up (`read`).
//! * Opening a store creates nothing, nor does reading it: a file that is not there yet reads
//!   as an empty store, and the first write makes it (`connect`).
//! * Bodies that get shorter by it are packed; their hash and size stay those of the plain bytes
//!   (`pack`).
//! * The schema is versioned and only goes forward (`migrations`); recorded events are guarded
//!   by triggers.
//!
//! It never decides what a write is checked against: those rules are
//! [`plica_ports::store::rules`]. First type to read: [`SqliteStore`].

mod append;
mod claim;
mod connect;
mod content;
mod error;
mod inbox;
mod lease;
mod migrations;
mod pack;
mod process;
mod read;
mod rows;
mod store;
mod time;
mod watch;
mod workers;
mod writer;

#[cfg(test)]
mod plans;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use plica_kernel::time::Timestamp;
use plica_ports::store::StoreError;
use rusqlite::Connection;

use crate::connect::Place;
use crate::error::{Fail, Lost};
use crate::read::Readers;
use crate::time::Time;
use crate::watch::Pulse;
use crate::writer::{Kind, Tx, Writer};

pub use process::{is_process_gone, process_identity};

/// The oldest SQLite that is safe: before it, a write and a checkpoint at the same moment on
/// two connections could damage a file in WAL mode.
const SQLITE_MIN: i32 = 3_051_003;

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Make the folder of the file, if it is missing, at the first write: for the default
    /// place in a user's data folder. Without it a missing folder is an error, since it is
    /// most likely a slip of the pen.
    pub create_folder: bool,
    /// Read and write on the thread that asks, as far as nobody else writes, instead of handing
    /// over to another and back: two changes of thread take longer than most commits. It is for
    /// hosts whose calls come from tasks of tokio's multi-thread runtime, which moves its other
    /// work elsewhere meanwhile, and must not be set where they come from a
    /// [`LocalSet`](tokio::task::LocalSet), which cannot. On other runtimes it changes nothing.
    pub in_place: bool,
}

/// A store in one SQLite file.
///
/// * **ST-6** Its time is the machine's clock, taken after the write lock.
/// * **ST-16** Neither opening nor reading creates anything; `ledger`, `create`, `register`
///   and `put` create the store, whatever else is asked of one that is not there finds it
///   empty.
/// * **ST-9** An error from COMMIT is `CommitUnknown` for everything in that transaction; a
///   readback holds the write lock, so no commit is under way.
/// * **ST-11** Every read is one consistent view on a connection of its own.
/// * **ST-12** A claim reads partial indexes over what may be claimed, so what waits costs it
///   nothing.
/// * **ST-14** A file with a newer schema is refused, also when another process brings it to
///   one while it is open here.
/// * **ST-15** There is one write lock, taken before any check.
/// * **ST-17** Triggers refuse to change, remove or replace a recorded event.
/// * **CO-2** Bodies live in the same file.
///
/// All calls need a tokio runtime with time.
#[derive(Debug)]
pub struct SqliteStore {
    place: Arc<Place>,
    pulse: Arc<Pulse>,
    readers: Arc<Readers>,
    writer: OnceLock<Writer>,
    in_place: bool,
}

impl SqliteStore {
    /// A handle on the store at `path`; the file is not looked at before it is needed.
    ///
    /// # Errors
    /// `Unusable` when the path cannot be one or SQLite itself is too old.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, StoreError> {
        Self::open_at(path.as_ref(), options, Time::of_the_machine())
    }

    /// The same, by another clock than the machine's: for tests and simulations, which move
    /// the time themselves. Every process that has the file open must tell the same time.
    /// Waiting ([`watch`](plica_ports::Store::watch),
    /// [`wait_claimable`](plica_ports::Store::wait_claimable)) goes by the machine's all the same.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_clock(
        path: impl AsRef<Path>,
        options: OpenOptions,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        Self::open_at(path.as_ref(), options, Time::told_by(now))
    }

    fn open_at(path: &Path, options: OpenOptions, time: Time) -> Result<Self, StoreError> {
        if rusqlite::version_number() < SQLITE_MIN {
            let version = rusqlite::version();
            return Err(StoreError::Unusable(format!(
                "SQLite {version} can damage files in WAL mode: build with 3.51.3 or newer"
            )));
        }
        let path = std::path::absolute(path)
            .map_err(|error| StoreError::Unusable(format!("{} is no path for a store: {error}", path.display())))?;
        let place = Arc::new(Place::new(path, options.create_folder, time));
        Ok(Self {
            pulse: Arc::new(Pulse::new(Arc::clone(&place))),
            readers: Arc::new(Readers::new(Arc::clone(&place), options.in_place)),
            writer: OnceLock::new(),
            in_place: options.in_place,
            place,
        })
    }

    /// Runs `work` on one consistent view; `None` when there is no store.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        self.readers.read(work).await
    }

    /// Runs `work` in the writer's next transaction.
    async fn write<T: Send + 'static, E: Send + 'static>(
        &self,
        kind: Kind<T, E>,
        work: impl FnMut(&Tx<'_>) -> Result<T, Fail<E>> + Send + 'static,
    ) -> Result<T, Lost<E>> {
        self.writer().map_err(Lost::Store)?.submit(kind, work).await
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        if let Some(writer) = self.writer.get() {
            return Ok(writer);
        }
        let started = Writer::start(Arc::clone(&self.place), Arc::clone(&self.pulse), self.in_place)?;
        // Of two that start at once one is dropped, and its thread ends without having done
        // anything.
        Ok(self.writer.get_or_init(|| started))
    }
}
