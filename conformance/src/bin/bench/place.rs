//! Where what is measured is stored: a file, or a schema of a PostgreSQL server of the bench's
//! own, which flushes what it commits.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plica_kernel::id::TaskId;
use plica_pgserver::{Fresh, Profile, Server};
use plica_ports::Store;
use plica_postgres::{PostgresStore, Processes};
use plica_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::Bench;
use crate::appends::OPTIONS;

/// What makes a handle on a PostgreSQL store not wait for flushes, to make what is measured with
/// another.
const UNFLUSHED: &str = "&notify=off&pool=16&options=-csynchronous_commit%3Doff";
/// Columns that two tasks never share.
const OWN: &str = "'key', 'id', 'dedup', 'fingerprint'";

/// The stores, by what they are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }
}

/// A server that flushes; `None`, and a line on standard error, where there is none.
pub(crate) fn server(id: &str) -> Option<Server> {
    match Server::start(Profile::Durable) {
        Ok(server) => Some(server),
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "not run: {id}: {why}");
            None
        }
    }
}

/// The store in the file at `path`, which is made at the first write.
pub(crate) fn file(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path, OPTIONS).expect("a path for a store"))
}

/// The store of this name: a URL, or the path of a file. What is held by a process that is gone
/// is free on either, as it is for the program's own workers.
pub(crate) fn open(name: &str) -> Arc<dyn Store> {
    if !name.starts_with("postgres://") {
        return file(Path::new(name));
    }
    let own = plica_sqlite::process_identity();
    let processes = own.map(|own| Processes { own, is_gone: plica_sqlite::is_process_gone });
    Arc::new(PostgresStore::open(name, plica_postgres::OpenOptions { processes }).expect("a URL is a URL"))
}

/// Where the stores of one case are.
pub(crate) struct Site<'a> {
    bench: &'a Bench,
    server: Option<Server>,
    case: &'static str,
}

impl<'a> Site<'a> {
    /// `None`, and a line on standard error, where there is no such store.
    pub(crate) fn new(bench: &'a Bench, kind: Kind, case: &'static str) -> Option<Self> {
        let server = match kind {
            Kind::Sqlite => None,
            Kind::Postgres => Some(server(&format!("{case} on PostgreSQL"))?),
        };
        Some(Self { bench, server, case })
    }

    /// A store that nobody else uses; it is not made yet.
    pub(crate) fn place(&self, name: &str) -> Place<'a> {
        let name = format!("{}-{name}", self.case);
        let home = match &self.server {
            None => Home::File(self.bench.folder.join(name)),
            Some(server) => Home::Schema(server.fresh()),
        };
        Place { bench: self.bench, home }
    }
}

enum Home {
    File(PathBuf),
    Schema(Fresh),
}

/// A store, and a way to look behind it.
pub(crate) struct Place<'a> {
    bench: &'a Bench,
    home: Home,
}

impl Place<'_> {
    /// What [`open`] takes.
    pub(crate) fn name(&self) -> String {
        match &self.home {
            Home::File(path) => path.display().to_string(),
            Home::Schema(fresh) => fresh.url(),
        }
    }

    /// A handle as a worker has it.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        open(&self.name())
    }

    /// A handle to make what is measured with another.
    pub(crate) fn maker(&self) -> Arc<dyn Store> {
        match &self.home {
            Home::File(path) => file(path),
            Home::Schema(fresh) => open(&format!("{}{UNFLUSHED}", fresh.url())),
        }
    }

    /// The schema, where the store is in PostgreSQL.
    pub(crate) fn fresh(&self) -> Option<&Fresh> {
        match &self.home {
            Home::File(_) => None,
            Home::Schema(fresh) => Some(fresh),
        }
    }

    /// The text in the first column of the first row that a statement gives. Its tables are called
    /// as the PostgreSQL store calls them.
    fn text(&self, sql: &str) -> String {
        match &self.home {
            Home::File(path) => {
                let conn = Connection::open(path).expect("the file is there");
                conn.query_row(&sql.replace("plica.", ""), [], |row| row.get(0)).expect("the statement runs")
            }
            Home::Schema(fresh) => self.bench.runtime.block_on(async {
                let rows = fresh.connect().await.query(&fresh.sql(sql), &[]).await.expect("the statement runs");
                rows.first().expect("it gives a row").get(0)
            }),
        }
    }

    /// The same as a number.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.text(&format!("SELECT cast(({sql}) AS text)")).parse().expect("a number")
    }

    fn execute(&self, sql: &str) {
        match &self.home {
            Home::File(path) => {
                let conn = Connection::open(path).expect("the file is there");
                conn.execute_batch(&sql.replace("plica.", "")).expect("the statements run");
            }
            Home::Schema(fresh) => self.bench.runtime.block_on(async {
                fresh.connect().await.batch_execute(&fresh.sql(sql)).await.expect("the statements run");
            }),
        }
    }

    /// Makes so many rows like that of a task, and nothing behind them: what a claim has to pass
    /// by. Their ids begin with `copy-`.
    pub(crate) fn copies(&self, of: &TaskId, count: u64) {
        let (columns, numbers) = match &self.home {
            Home::File(_) => (
                format!("SELECT group_concat(name) FROM pragma_table_info('tasks') WHERE name NOT IN ({OWN})"),
                format!(
                    "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n)"
                ),
            ),
            Home::Schema(fresh) => (
                format!(
                    "SELECT string_agg(column_name, ',') FROM information_schema.columns WHERE table_schema = '{}' \
                     AND table_name = 'tasks' AND column_name NOT IN ({OWN})",
                    fresh.schema()
                ),
                format!("(SELECT generate_series(1, {count}) AS i)"),
            ),
        };
        let columns = self.text(&columns);
        self.execute(&format!(
            "INSERT INTO plica.tasks (id, {columns}) SELECT 'copy-{of}-' || i, {columns} \
             FROM {numbers} AS numbers, plica.tasks WHERE id = '{of}'"
        ));
        if self.fresh().is_some() {
            self.execute("VACUUM ANALYZE plica.tasks");
        }
    }
}
