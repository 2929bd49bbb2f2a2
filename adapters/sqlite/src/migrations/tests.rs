//! What migrations leave behind, however they end.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use plica_conformance::{Bench, Capability, Subject};
use plica_kernel::body::Blob;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rustix::process::{Signal, getpid, kill_process};

use super::*;

const NEXT: Migration = "CREATE TABLE later (word TEXT NOT NULL) STRICT;";
const BROKEN: Migration = "CREATE TABLE half (word TEXT) STRICT; CREATE TABLE half (word TEXT) STRICT;";

fn tables(conn: &Connection) -> Vec<String> {
    let mut statement =
        conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").expect("a query");
    let names = statement.query_map([], |row| row.get(0)).expect("rows");
    names.collect::<rusqlite::Result<_>>().expect("names")
}

#[test]
fn st_14_migrations_run_once_in_order_and_keep_the_name() {
    let mut conn = Connection::open_in_memory().expect("memory");
    assert_eq!(standing(&conn).expect("a look"), Standing::Empty);
    migrate(&mut conn, MIGRATIONS, "first").expect("a new schema");
    migrate(&mut conn, MIGRATIONS, "second").expect("nothing to do");
    assert_eq!(standing(&conn).expect("a look"), Standing::Ours(version_of(MIGRATIONS)));
    let next: Vec<Migration> = MIGRATIONS.iter().copied().chain([NEXT]).collect();
    migrate(&mut conn, &next, "third").expect("one step");
    assert_eq!(standing(&conn).expect("a look"), Standing::Ours(version_of(&next)));
    assert!(tables(&conn).contains(&"later".to_string()));
    let ledger: String =
        conn.query_row("SELECT value FROM meta WHERE name = 'ledger'", [], |row| row.get(0)).expect("a name");
    assert_eq!(ledger, "first");
    assert!(matches!(migrate(&mut conn, MIGRATIONS, "x"), Err(MigrationError::Newer(_))));
}

/// ST-14: a store that the oldest step alone has made is opened, brought up to date, and carried
/// on under its own name; the bodies in it are read as they lie there.
#[tokio::test]
async fn st_14_a_store_of_the_oldest_version_is_carried_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("plica.db");
    let mut conn = Connection::open(&file).expect("the file");
    conn.execute_batch("PRAGMA journal_mode = WAL").expect("a log");
    migrate(&mut conn, &MIGRATIONS[..1], "01980000-0000-7000-8000-000000000001").expect("the first step");
    let old = Blob::new("text/plain", "an old body ".repeat(100).into_bytes());
    let sql = "INSERT INTO content (sha256, size, touched_at, bytes) VALUES (?1, 1200, 0, ?2)";
    conn.execute(sql, (old.reference.sha256.as_bytes(), &old.bytes)).expect("a body");
    let store = crate::SqliteStore::open(&file, crate::OpenOptions::default()).expect("a path");
    let bench = Bench::new(Subject::new(std::sync::Arc::new(store)).lacking(Capability::Time)).await;
    assert_eq!(bench.ledger().to_string(), "01980000-0000-7000-8000-000000000001");
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.completing(&claimed);
    bench.append(&claimed, &batch).await;
    log.accept(&batch);
    assert_eq!(bench.row(&log.id).await.projection, log.row);
    let content = bench.store().content().expect("it keeps bodies");
    assert_eq!(content.get(&old.reference).await, Ok(old.bytes));
    assert_eq!(standing(&conn).expect("a look"), Standing::Ours(version_of(MIGRATIONS)));
}

#[test]
fn st_14_a_migration_that_is_cut_off_has_done_nothing() {
    let mut conn = Connection::open_in_memory().expect("memory");
    assert!(matches!(migrate(&mut conn, &[BROKEN], "x"), Err(MigrationError::Sql(_))));
    assert_eq!(standing(&conn).expect("a look"), Standing::Empty);
    migrate(&mut conn, MIGRATIONS, "x").expect("a new schema");
    let before = tables(&conn);
    let next: Vec<Migration> = MIGRATIONS.iter().copied().chain([BROKEN]).collect();
    assert!(matches!(migrate(&mut conn, &next, "x"), Err(MigrationError::Sql(_))));
    assert_eq!(tables(&conn), before);
    assert_eq!(standing(&conn).expect("a look"), Standing::Ours(version_of(MIGRATIONS)));
}

#[test]
fn st_16_the_file_of_another_program_is_left_alone() {
    let mut conn = Connection::open_in_memory().expect("memory");
    conn.execute_batch("CREATE TABLE bookmarks (url TEXT)").expect("a table");
    assert!(matches!(migrate(&mut conn, MIGRATIONS, "x"), Err(MigrationError::Foreign)));
    assert_eq!(tables(&conn), ["bookmarks"]);
}

#[test]
fn every_table_is_strict_and_has_rowids() {
    let sql = MIGRATIONS.concat();
    assert_eq!(sql.matches("CREATE TABLE").count(), sql.matches(") STRICT;").count());
    assert!(!sql.contains("WITHOUT ROWID"));
}

/// Name the file, and the statement before which to die, to the test that runs again as another
/// process.
const FILE: &str = "PLICA_SQLITE_MIGRATED_FILE";
const STATEMENT: &str = "PLICA_SQLITE_MIGRATION_DIES_BEFORE";
/// Several statements, so that there is a between.
const MANY: Migration = "CREATE TABLE later (word TEXT NOT NULL) STRICT;
    INSERT INTO later SELECT value FROM meta WHERE name = 'ledger';
    CREATE INDEX later_words ON later (word);
    ALTER TABLE later ADD COLUMN other TEXT;";

fn with_many() -> Vec<Migration> {
    MIGRATIONS.iter().copied().chain([MANY]).collect()
}

/// Statements that a dying process may still begin.
static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

fn die_in_time(event: TraceEvent<'_>) {
    if let TraceEvent::Stmt(..) = event
        && LEFT.fetch_sub(1, Ordering::Relaxed) == 0
    {
        // Nothing is unwound and nothing flushed: as if the machine had killed it.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

#[test]
fn other_migrates_and_dies() {
    let (Some(file), Ok(statement)) = (std::env::var_os(FILE), std::env::var(STATEMENT)) else { return };
    LEFT.store(statement.parse().expect("a number"), Ordering::Relaxed);
    let mut conn = Connection::open(PathBuf::from(file)).expect("the file");
    conn.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(die_in_time)).expect("a trace");
    conn.execute_batch("PRAGMA journal_mode = WAL").expect("a log");
    migrate(&mut conn, &with_many(), "by-the-other").expect("nothing else stops it");
}

/// Migrates in another process that is killed before it begins the statement of this number.
fn killed_before(statement: u64, file: &Path) -> ExitStatus {
    let mut other = Command::new(std::env::current_exe().expect("a test is a file"));
    other.args(["migrations::tests::other_migrates_and_dies", "--exact"]);
    other.env(FILE, file).env(STATEMENT, statement.to_string()).stdout(Stdio::null());
    other.status().expect("this test runs again")
}

/// Kills a process before every statement of bringing the file that `prepare` makes up to date;
/// what it leaves stands where it `began` or at the end, and the next process brings it up to date.
fn kill_before_each_statement(prepare: impl Fn(&Path), began: Standing) {
    let target = with_many();
    let end = Standing::Ours(version_of(&target));
    let mut was_cut = false;
    for statement in 0.. {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("plica.db");
        prepare(&file);
        let is_done = killed_before(statement, &file).success();
        let mut conn = Connection::open(&file).expect("the file");
        let left = standing(&conn).expect("a look");
        if is_done {
            assert_eq!(left, end, "all statements ran");
            assert!(statement > 10, "{statement} statements are no migration");
            break;
        }
        assert!([began, end].contains(&left), "killed before statement {statement} it left {left:?}");
        was_cut |= left == began;
        migrate(&mut conn, &target, "by-the-next").expect("the next process migrates");
        let words: i64 = conn
            .query_row("SELECT count(*) FROM later JOIN meta ON value = word AND other IS NULL", [], |row| row.get(0))
            .expect("the schema is whole");
        assert_eq!(words, 1, "killed before statement {statement}: the migration ran twice or in part");
        assert!(tables(&conn).contains(&"events".to_string()));
    }
    assert!(was_cut, "no statement came before the end");
}

/// ST-14: a process that is killed between any two statements of making a store has made nothing,
/// or all of it.
#[test]
fn st_14_a_process_killed_while_it_makes_a_store_leaves_none_or_the_whole() {
    kill_before_each_statement(|_| (), Standing::Empty);
}

/// ST-14: nor does one that is killed between any two statements of later migrations change
/// anything of the file as it was.
#[test]
fn st_14_a_process_killed_while_it_migrates_a_store_leaves_the_old_one() {
    let prepare = |file: &Path| {
        let mut conn = Connection::open(file).expect("the file");
        conn.execute_batch("PRAGMA journal_mode = WAL").expect("a log");
        migrate(&mut conn, &MIGRATIONS[..1], "by-the-first").expect("a store");
    };
    kill_before_each_statement(prepare, Standing::Ours(1));
}
