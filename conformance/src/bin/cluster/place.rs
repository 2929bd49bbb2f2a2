//! Where the store is, and what SQL alone says about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use plica_pgserver::{Fresh, Profile, Server};
use rusqlite::OpenFlags;

use crate::proxy::{Proxy, Way};

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One file.
    Sqlite,
    /// A server.
    Postgres,
}

/// A row of a task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// The caller's key.
    pub key: Option<String>,
    /// Its status.
    pub status: String,
    /// Seq of the head.
    pub seq: i64,
    /// Hash of the head.
    pub hash: Vec<u8>,
    /// Whether it is blocked.
    pub is_blocked: bool,
    /// Whether it can be claimed, now or by itself later.
    pub is_claimable: bool,
    /// Whether what it waits for, if it does, is a message.
    pub wants_message: bool,
}

/// An event as it is stored.
#[derive(Debug, Clone)]
pub struct Event {
    /// Whose.
    pub task: String,
    /// Its place.
    pub seq: i64,
    /// The hash it is stored under.
    pub hash: Vec<u8>,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// Inbox items that nobody took: of which task, and their JSON.
pub type Untaken = Vec<(String, Vec<u8>)>;

const TASKS: &str = "SELECT id, dedup, status, seq, hash, blocked IS NOT NULL, claimable_at IS NOT NULL, \
    WANTS_MESSAGE FROM plica.tasks";
const EVENTS: &str = "SELECT tasks.id, events.seq, events.hash, events.body FROM plica.events \
    JOIN plica.tasks ON tasks.key = events.task ORDER BY tasks.id, events.seq";
const UNTAKEN: &str = "SELECT tasks.id, CAST(inbox.item AS BINARY_TYPE) FROM plica.inbox \
    JOIN plica.tasks ON tasks.key = inbox.task WHERE inbox.item IS NOT NULL ORDER BY tasks.id, inbox.position";

/// A store, and the means to make it fail.
pub enum Place {
    /// One file.
    Sqlite(PathBuf),
    /// A server of our own, and the proxy in front of it.
    Postgres {
        /// The server.
        server: Box<Server>,
        /// The schema.
        fresh: Fresh,
        /// What the workers connect to.
        proxy: Proxy,
    },
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl Place {
    /// A store that does not exist yet; a file is put into `folder`.
    pub fn new(kind: Kind, folder: &std::path::Path) -> io::Result<Self> {
        Ok(match kind {
            Kind::Sqlite => Self::Sqlite(folder.join("plica.db")),
            Kind::Postgres => {
                let server = Server::start(Profile::Durable).map_err(other)?;
                let (fresh, proxy) = (server.fresh(), Proxy::start(server.port())?);
                Self::Postgres { server: Box::new(server), fresh, proxy }
            }
        })
    }

    /// How `--store` names it: a server through the proxy.
    pub fn named(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres { fresh, proxy, .. } => fresh.url_through(proxy.port()),
        }
    }

    /// Cuts connections after so many more bytes in this direction.
    pub fn cut(&self, way: Way, bytes: u64) {
        if let Self::Postgres { proxy, .. } = self {
            proxy.cut(way, bytes);
        }
    }

    /// How many connections were cut in the middle of a request, and of an answer.
    pub fn cuts(&self) -> (usize, usize) {
        match self {
            Self::Sqlite(_) => (0, 0),
            Self::Postgres { proxy, .. } => (proxy.cuts(Way::There), proxy.cuts(Way::Back)),
        }
    }

    /// Lets the server crash, and starts it again after `away`.
    pub fn crash(&self, away: Duration) -> io::Result<()> {
        if let Self::Postgres { server, .. } = self {
            server.crash().map_err(other)?;
            std::thread::sleep(away);
            server.restart().map_err(other)?;
        }
        Ok(())
    }

    /// Keeps everyone from the server, or no longer.
    pub fn outage(&self, is_away: bool) {
        if let Self::Postgres { proxy, .. } = self {
            proxy.close(is_away);
        }
    }

    /// The rows of all tasks; none while there is no store.
    pub fn tasks(&self) -> io::Result<Vec<Task>> {
        match self {
            Self::Sqlite(path) if !path.exists() => Ok(Vec::new()),
            Self::Sqlite(path) => {
                sqlite(path, &TASKS.replace("WANTS_MESSAGE", "instr(wake, '\"message\"') > 0"), |row| {
                    Ok(Task {
                        id: row.get(0)?,
                        key: row.get(1)?,
                        status: row.get(2)?,
                        seq: row.get(3)?,
                        hash: row.get(4)?,
                        is_blocked: row.get(5)?,
                        is_claimable: row.get(6)?,
                        wants_message: row.get(7)?,
                    })
                })
            }
            Self::Postgres { fresh, .. } => {
                postgres(fresh, &TASKS.replace("WANTS_MESSAGE", "strpos(wake, '\"message\"') > 0"), |row| {
                    Ok(Task {
                        id: row.try_get(0)?,
                        key: row.try_get(1)?,
                        status: row.try_get(2)?,
                        seq: row.try_get(3)?,
                        hash: row.try_get(4)?,
                        is_blocked: row.try_get(5)?,
                        is_claimable: row.try_get(6)?,
                        wants_message: row.try_get(7)?,
                    })
                })
            }
        }
    }

    /// All events, task by task, in order.
    pub fn events(&self) -> io::Result<Vec<Event>> {
        match self {
            Self::Sqlite(path) => sqlite(path, EVENTS, |row| {
                Ok(Event { task: row.get(0)?, seq: row.get(1)?, hash: row.get(2)?, body: row.get(3)? })
            }),
            Self::Postgres { fresh, .. } => postgres(fresh, EVENTS, |row| {
                let (task, seq) = (row.try_get(0)?, row.try_get(1)?);
                Ok(Event { task, seq, hash: row.try_get(2)?, body: row.try_get(3)? })
            }),
        }
    }

    /// Inbox items that nobody took.
    pub fn untaken(&self) -> io::Result<Untaken> {
        match self {
            Self::Sqlite(path) => {
                sqlite(path, &UNTAKEN.replace("BINARY_TYPE", "BLOB"), |row| Ok((row.get(0)?, row.get(1)?)))
            }
            Self::Postgres { fresh, .. } => {
                let sql = UNTAKEN.replace("CAST(inbox.item AS BINARY_TYPE)", "convert_to(inbox.item, 'UTF8')");
                postgres(fresh, &sql, |row| Ok((row.try_get(0)?, row.try_get(1)?)))
            }
        }
    }
}

fn sqlite<T>(
    path: &std::path::Path,
    sql: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> io::Result<Vec<T>> {
    let conn = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(other)?;
    conn.busy_timeout(Duration::from_secs(10)).map_err(other)?;
    let mut statement = conn.prepare(&sql.replace("plica.", "")).map_err(other)?;
    let rows = statement.query_map([], read).map_err(other)?;
    rows.collect::<rusqlite::Result<_>>().map_err(other)
}

/// On a connection of its own, past the proxy.
fn postgres<T>(
    fresh: &Fresh,
    sql: &str,
    read: impl Fn(&tokio_postgres::Row) -> Result<T, tokio_postgres::Error>,
) -> io::Result<Vec<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(fresh.server(), tokio_postgres::NoTls).await.map_err(other)?;
        tokio::spawn(connection);
        let rows = client.query(&fresh.sql(sql), &[]).await.map_err(other)?;
        rows.iter().map(read).collect::<Result<_, _>>().map_err(other)
    })
}
