//! Where the store is, and connections to it: opening looks, and only a first write creates.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use plica_kernel::id::LedgerId;
use plica_ports::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use crate::error::{is_busy, not_ours, store_error};
use crate::migrations::{MIGRATIONS, MigrationError, Standing, migrate, standing, version_of};
use crate::time::Time;

/// How long a lock is waited for before the store counts as unavailable.
const BUSY_MAX: Duration = Duration::from_secs(10);
/// The first sleeps while somebody else holds a lock, and how many: a commit takes about as
/// long as a few of them.
const BUSY_SHORT: (Duration, i32) = (Duration::from_micros(30), 20);
/// The sleeps after those. SQLite's own handler backs off to 100 ms, by which one of two busy
/// writers starves.
const BUSY_LONG: Duration = Duration::from_micros(100);
/// Statements that a connection keeps prepared: more than there are.
const STATEMENTS: usize = 96;

/// Which file a path names at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

/// A connection and the file it has open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The connection.
    pub conn: Connection,
    /// The file.
    pub file: FileId,
    /// The store's name.
    pub ledger: LedgerId,
}

/// The store's file.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its path.
    pub path: PathBuf,
    /// What the store tells the time by.
    pub time: Time,
    create_folder: bool,
    /// The name of the store that was found here first: another one is not ours to go on with.
    ledger: OnceLock<LedgerId>,
}

impl Place {
    pub(crate) fn new(path: PathBuf, create_folder: bool, time: Time) -> Self {
        Self { path, time, create_folder, ledger: OnceLock::new() }
    }

    /// The file that is there now, if any.
    pub(crate) fn look(&self) -> Result<Option<FileId>, StoreError> {
        let path = self.path.display();
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => Ok(Some(FileId(found.dev(), found.ino()))),
            Ok(_) => Err(StoreError::Unusable(format!("{path} is not a file: name a file for the store"))),
            Err(error) if error.kind() == ErrorKind::NotFound => self.absent().map(|()| None),
            Err(error) => Err(StoreError::Unusable(format!("{path} cannot be reached: {error}"))),
        }
    }

    /// Whether the file may be absent.
    fn absent(&self) -> Result<(), StoreError> {
        let path = self.path.display();
        if self.ledger.get().is_some() {
            let text = format!("{path} held the store and is gone: put it back, then start again");
            return Err(StoreError::Unusable(text));
        }
        let folder = self.folder();
        if self.create_folder || folder.is_dir() {
            return Ok(());
        }
        let text = format!("there is no folder {} for the store {path}: create it or name another", folder.display());
        Err(StoreError::Unusable(text))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// A connection that only reads; none while there is no store. A file without any table
    /// counts as not there: its maker has not committed the schema yet.
    pub(crate) fn reader(&self) -> Result<Option<Opened>, StoreError> {
        let Some(file) = self.look()? else { return Ok(None) };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = self.open(flags)?;
        match standing(&conn).map_err(|error| store_error(&self.path, &error))? {
            Standing::Empty => Ok(None),
            Standing::Foreign => Err(StoreError::Unusable(not_ours(&self.path.display()))),
            Standing::Ours(version) if version == version_of(MIGRATIONS) => self.known(conn, file).map(Some),
            Standing::Ours(version) if version > version_of(MIGRATIONS) => Err(self.newer(version)),
            Standing::Ours(version) => Err(StoreError::Unusable(format!(
                "{} has schema {version}, this version reads {}: any command that writes brings it up to date",
                self.path.display(),
                version_of(MIGRATIONS)
            ))),
        }
    }

    /// A connection that writes, its schema up to date. Where there is no store one is made
    /// if `create` says so.
    pub(crate) fn writer(&self, create: bool) -> Result<Option<Opened>, StoreError> {
        let fail = |error: rusqlite::Error| store_error(&self.path, &error);
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if self.look()?.is_none() {
            if !create {
                return Ok(None);
            }
            if self.create_folder {
                fs::create_dir_all(self.folder()).map_err(|error| {
                    StoreError::Unusable(format!("folder {} cannot be created: {error}", self.folder().display()))
                })?;
            }
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let mut conn = self.open(flags)?;
        match standing(&conn).map_err(fail)? {
            Standing::Empty if !create => return Ok(None),
            Standing::Foreign => return Err(StoreError::Unusable(not_ours(&self.path.display()))),
            Standing::Ours(version) if version > version_of(MIGRATIONS) => return Err(self.newer(version)),
            Standing::Empty | Standing::Ours(_) => {}
        }
        self.prepare(&conn)?;
        let name = Uuid::now_v7().to_string();
        migrate(&mut conn, MIGRATIONS, &name).map_err(|error| match error {
            MigrationError::Foreign => StoreError::Unusable(not_ours(&self.path.display())),
            MigrationError::Newer(version) => self.newer(version),
            MigrationError::Sql(error) => fail(error),
        })?;
        let Some(file) = self.look()? else {
            return Err(StoreError::Unavailable(format!("{} went away while it was opened", self.path.display())));
        };
        self.known(conn, file).map(Some)
    }

    /// Write-ahead log, a flush a commit, and triggers that hold for REPLACE too.
    fn prepare(&self, conn: &Connection) -> Result<(), StoreError> {
        let fail = |error: rusqlite::Error| store_error(&self.path, &error);
        let began = Instant::now();
        let mode: String = loop {
            // Two processes that switch the mode at once may get "busy" without the handler
            // being asked, because waiting would be a deadlock.
            match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)) {
                Err(error) if is_busy(&error) && began.elapsed() < BUSY_MAX => std::thread::sleep(BUSY_LONG),
                Err(error) => return Err(fail(error)),
                Ok(mode) => break mode,
            }
        };
        if mode != "wal" {
            let path = self.path.display();
            return Err(StoreError::Unusable(format!(
                "{path} cannot keep a write-ahead log (mode {mode}): put it on a local disk"
            )));
        }
        conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON;")
            .map_err(fail)
    }

    fn open(&self, flags: OpenFlags) -> Result<Connection, StoreError> {
        let fail = |error: rusqlite::Error| store_error(&self.path, &error);
        let mut conn = Connection::open_with_flags(&self.path, flags).map_err(fail)?;
        let mut began = Instant::now();
        let handler = move |calls: i32| {
            if calls == 0 {
                began = Instant::now();
            }
            std::thread::sleep(if calls < BUSY_SHORT.1 { BUSY_SHORT.0 } else { BUSY_LONG });
            began.elapsed() < BUSY_MAX
        };
        conn.busy_handler(Some(handler)).map_err(fail)?;
        // Else statements whose plan might depend on a value are prepared again at every binding.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(fail)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(conn)
    }

    /// The connection, if the store is the one that this handle has known so far.
    fn known(&self, conn: Connection, file: FileId) -> Result<Opened, StoreError> {
        let name: String = conn
            .query_row("SELECT value FROM meta WHERE name = 'ledger'", [], |row| row.get(0))
            .map_err(|error| store_error(&self.path, &error))?;
        let path = self.path.display();
        let ledger = LedgerId::new(name).map_err(|error| StoreError::Unusable(format!("{path}: {error}")))?;
        let first = self.ledger.get_or_init(|| ledger.clone());
        if *first != ledger {
            return Err(StoreError::Unusable(format!(
                "{path} now holds the store {ledger} and not {first}, with which this process began: start again"
            )));
        }
        Ok(Opened { conn, file, ledger })
    }

    /// The error for a schema that a newer version made.
    pub(crate) fn newer(&self, version: i64) -> StoreError {
        StoreError::Unusable(format!(
            "{} has schema {version}, this version knows up to {}: use the newer version",
            self.path.display(),
            version_of(MIGRATIONS)
        ))
    }
}
