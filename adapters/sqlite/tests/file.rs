//! The file: when it is made, what is refused, what its schema guards.

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use plica_conformance::LEASE;
use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::id::{Position, Seq, TaskId};
use plica_ports::store::{AppendError, Page, StoreError, TaskFilter};
use plica_ports::{ContentError, ContentStore, Store};
use plica_sqlite::{OpenOptions, SqliteStore};
use rusqlite::Connection;

use support::{bench, bench_on, open, place};

/// What a store says that cannot be used; it names the file.
async fn unusable(path: &Path) -> String {
    let store = open(path);
    let read = store.tasks(&TaskFilter::default(), &Page::first(1)).await;
    let Err(StoreError::Unusable(text)) = read else { panic!("reading {} gives {read:?}", path.display()) };
    assert_eq!(store.ledger().await, Err(StoreError::Unusable(text.clone())), "writing says the same");
    assert!(text.contains(path.to_str().expect("a path of text")), "{text} does not name the file");
    text
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("the folder is there").next().is_none()
}

#[tokio::test]
async fn st_16_reading_creates_nothing() {
    let (folder, path) = place();
    let store = open(&path);
    let nobody = TaskId::new("nobody").expect("an id");
    let unknown = StoreError::UnknownTask(nobody.clone());
    assert_eq!(store.row(&nobody).await, Ok(None));
    assert_eq!(store.tasks(&TaskFilter::default(), &Page::first(9)).await, Ok(Vec::new()));
    assert_eq!(store.read(&nobody, Seq(1), 9).await, Err(unknown.clone()));
    assert_eq!(store.inbox_tails(std::slice::from_ref(&nobody)).await, Ok(vec![Position(0)]));
    assert_eq!(store.unblock(&nobody).await, Err(unknown.clone()));
    assert_eq!(store.workers().await, Ok(Vec::new()));
    assert_eq!(store.outlook(&[]).await.map(|outlook| (outlook.held, outlook.next)), Ok((0, None)));
    store.wait_claimable(&[], Duration::from_millis(30)).await.expect("waiting ends");
    let body = ContentRef::of("text/plain", b"x");
    assert_eq!(store.get(&body).await, Err(ContentError::Missing(body)));
    assert!(store.describe().await.expect("it can be described").iter().any(|(name, _)| name == "state"));
    assert!(is_empty(folder.path()), "reading made something");
}

#[tokio::test]
async fn st_16_neither_does_claiming() {
    let (folder, path) = place();
    let (other, elsewhere) = place();
    let bench = bench(&elsewhere).await;
    let request = bench.request(&bench.worker("ada"), 9);
    let claimed = open(&path).claim(&request).await.expect("an empty store can be asked");
    assert!(claimed.is_empty() && is_empty(folder.path()));
    drop(other);
}

#[tokio::test]
async fn st_16_a_reader_notices_the_store_that_another_made() {
    let (_folder, path) = place();
    let reader = open(&path);
    assert_eq!(reader.tasks(&TaskFilter::default(), &Page::first(9)).await, Ok(Vec::new()));
    let bench = bench(&path).await;
    let log = bench.task().await;
    assert!(reader.row(&log.id).await.expect("rows can be read").is_some());
    assert_eq!(reader.ledger().await.as_ref(), Ok(bench.ledger()));
}

#[tokio::test]
async fn st_16_a_file_of_no_bytes_is_an_empty_store() {
    let (_folder, path) = place();
    fs::write(&path, b"").expect("a file");
    assert_eq!(open(&path).workers().await, Ok(Vec::new()));
    assert_eq!(fs::metadata(&path).expect("a file").len(), 0);
    bench(&path).await.task().await;
}

#[tokio::test]
async fn st_16_a_missing_folder_is_named_and_only_made_when_asked() {
    let (folder, _) = place();
    let path = folder.path().join("new/er/plica.db");
    let text = unusable(&path).await;
    assert!(text.contains("no folder"), "{text}");
    assert!(is_empty(folder.path()));
    let store = SqliteStore::open(&path, OpenOptions { create_folder: true, ..OpenOptions::default() })
        .expect("a path is a path");
    assert_eq!(store.workers().await, Ok(Vec::new()));
    assert!(is_empty(folder.path()), "reading made the folder");
    store.ledger().await.expect("writing makes folder and file");
    assert!(path.is_file());
}

#[tokio::test]
async fn st_16_what_is_not_ours_is_refused_and_left_alone() {
    let (folder, path) = place();
    fs::write(&path, "not a database, but longer than the header of one: ".repeat(40)).expect("a file");
    let before = fs::read(&path).expect("a file");
    let text = unusable(&path).await;
    assert!(text.contains("not a store"), "{text}");
    assert_eq!(fs::read(&path).expect("a file"), before);

    let other = folder.path().join("bookmarks.db");
    let conn = Connection::open(&other).expect("a database");
    conn.execute_batch("CREATE TABLE bookmarks (url TEXT); PRAGMA application_id = 7;").expect("a table");
    drop(conn);
    let before = fs::read(&other).expect("a file");
    unusable(&other).await;
    assert_eq!(fs::read(&other).expect("a file"), before);

    let text = unusable(folder.path()).await;
    assert!(text.contains("not a file"), "{text}");
    let beneath = path.join("plica.db");
    unusable(&beneath).await;
}

/// Every row of the store, as text.
fn rows(conn: &Connection) -> Vec<String> {
    let mut rows = Vec::new();
    for table in ["meta", "workers", "tasks", "events", "inbox", "content"] {
        let mut all = conn.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).expect("the table is there");
        let mut found = all.query([]).expect("rows");
        while let Some(row) = found.next().expect("a row") {
            rows.push(format!("{table} {row:?}"));
        }
    }
    rows
}

#[tokio::test]
async fn st_14_a_newer_schema_is_refused() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let (log, ada) = (bench.task().await, bench.worker("ada"));
    let claimed = bench.hold(&ada, &log.id).await;
    let (_, another) = bench.draft(|_| ()).await;
    let conn = Connection::open(&path).expect("the file");
    let ours: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a version");
    conn.pragma_update(None, "user_version", 99).expect("a version");
    let before = rows(&conn);
    let text = unusable(&path).await;
    assert!(text.contains("99") && text.contains("newer"), "{text}");
    // By every call, also of those that had it open before.
    let refused = |said: String| assert!(said.contains("99"), "{said}");
    for store in [bench.store().clone(), open(&path)] {
        refused(store.row(&log.id).await.expect_err("reading").to_string());
        refused(store.create(another.clone()).await.expect_err("a creation").to_string());
        refused(store.claim(&bench.request(&ada, 1)).await.expect_err("a claim").to_string());
        refused(store.append(&claimed.claim, &log.noting(&claimed, "late")).await.expect_err("an append").to_string());
        refused(store.renew(std::slice::from_ref(&claimed.claim), LEASE).await.expect_err("a renewal").to_string());
        refused(store.release(&claimed.claim, None).await.expect_err("a release").to_string());
        let item = bench.message("hi");
        refused(store.deliver(&log.id, "user:ada", &item, &bench.key("k")).await.expect_err("an item").to_string());
        refused(store.register(&ada, &[], LEASE).await.expect_err("a sign of life").to_string());
        refused(store.unblock(&log.id).await.expect_err("an unblocking").to_string());
    }
    assert_eq!(rows(&conn), before);
    conn.pragma_update(None, "user_version", ours).expect("a version");
    bench.append(&claimed, &log.noting(&claimed, "in time")).await;
}

#[tokio::test]
async fn a_store_that_is_gone_or_another_is_no_empty_store() {
    let (folder, path) = place();
    let bench = bench(&path).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let away = folder.path().join("away.db");
    let files = ["", "-wal", "-shm"].map(|end| format!("{}{end}", path.display()));
    for file in &files {
        fs::rename(file, format!("{}{}", away.display(), &file[path.as_os_str().len()..])).expect("moved");
    }
    let batch = log.noting(&claimed, "where to?");
    let refused = bench.store().append(&claimed.claim, &batch).await;
    assert!(matches!(&refused, Err(AppendError::Store(StoreError::Unusable(text))) if text.contains("gone")));
    assert!(matches!(bench.store().row(&log.id).await, Err(StoreError::Unusable(_))));
    assert!(!path.exists(), "a new store was made in its place");
    open(&path).ledger().await.expect("somebody else makes one");
    let refused = bench.store().append(&claimed.claim, &batch).await;
    assert!(matches!(&refused, Err(AppendError::Store(StoreError::Unusable(text))) if text.contains("another")
        || text.contains("now holds")));
    for file in &files {
        let _ = fs::remove_file(file);
        let from = format!("{}{}", away.display(), &file[path.as_os_str().len()..]);
        fs::rename(from, file).expect("moved back");
    }
    bench.append(&claimed, &batch).await;
}

#[tokio::test]
async fn st_17_recorded_events_cannot_be_changed_or_removed() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let log = bench.task().await;
    let before = bench.events(&log.id).await;
    let conn = Connection::open(&path).expect("the file");
    for sql in [
        "UPDATE events SET body = x'7b7d'",
        "UPDATE events SET seq = 2",
        "DELETE FROM events",
        "INSERT OR REPLACE INTO events SELECT key + 10, task, seq, type, baseline, hash, x'7b7d' FROM events",
        "INSERT OR REPLACE INTO events SELECT key, task, seq + 1, type, baseline, hash, body FROM events",
        "REPLACE INTO events SELECT * FROM events",
        "DELETE FROM tasks",
        "UPDATE tasks SET id = 'other'",
        "UPDATE tasks SET key = key + 1",
    ] {
        let refused = conn.execute(sql, []).expect_err(sql).to_string();
        assert!(refused.contains("never"), "{sql}: {refused}");
    }
    assert_eq!(bench.events(&log.id).await, before);
}

#[tokio::test]
async fn an_event_is_kept_as_its_exact_bytes_in_a_table_with_rowids() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let log = bench.task().await;
    let conn = Connection::open(&path).expect("the file");
    let (rowid, body): (i64, Vec<u8>) = conn
        .query_row("SELECT rowid, body FROM events WHERE seq = 1", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("the event");
    assert!(rowid > 0 && body.starts_with(b"{"));
    assert_eq!(body, bench.events(&log.id).await[0].body);
}

#[tokio::test]
async fn doctor_learns_what_the_store_runs_on() {
    let (_folder, path) = place();
    let store = open(&path);
    let bench = bench_on(store.clone()).await;
    bench.task().await;
    let said = store.describe().await.expect("it can be described");
    let value = |name: &str| said.iter().find(|(said, _)| said == name).map(|(_, value)| value.as_str());
    assert_eq!(value("path"), path.to_str());
    assert_eq!(value("sqlite version"), Some(rusqlite::version()));
    assert_eq!((value("journal mode"), value("schema version"), value("tasks")), (Some("wal"), Some("2"), Some("1")));
}

/// What the file holds of a body: how many bytes, and whether they are a frame.
fn kept(conn: &Connection, blob: &Blob) -> (u64, bool) {
    let sql = "SELECT length(bytes), packed IS NOT NULL FROM content WHERE sha256 = ?1";
    let kept = conn.query_row(sql, [blob.reference.sha256.as_bytes()], |row| {
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?))
    });
    kept.expect("the body is kept")
}

/// CO-1: bodies that get shorter by it are packed, however they come; what is read, and what is
/// said of them, are the plain bytes.
#[tokio::test]
async fn co_1_bodies_are_packed_where_that_pays() {
    let (_folder, path) = place();
    let store = open(&path);
    let bench = bench_on(store.clone()).await;
    let body = |word: &str, times: usize| Blob::new("text/plain", word.repeat(times).into_bytes());
    let (put, short, cited) = (body("put by itself ", 500), body("a", 100), body("came with an event ", 500));
    for blob in [&put, &short] {
        store.put(blob).await.expect("kept");
    }
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let mut batch = log.completing(&claimed);
    batch.blobs.push(cited.clone());
    bench.append(&claimed, &batch).await;
    log.accept(&batch);

    let conn = Connection::open(&path).expect("the file");
    for blob in [&put, &cited] {
        let (bytes, packed) = kept(&conn, blob);
        assert!(packed && bytes < blob.reference.size / 10, "{bytes} bytes of {}", blob.reference);
    }
    assert_eq!(kept(&conn, &short), (100, false));
    for blob in [&put, &short, &cited] {
        assert_eq!(store.get(&blob.reference).await.as_ref(), Ok(&blob.bytes));
    }
    let later = store.clock().await.expect("it tells the time").plus_millis(1);
    let aged = store.aged(later, None, 9).await.expect("bodies are listed");
    assert!([put.reference, short.reference].iter().all(|kept| aged.iter().any(|body| body.size == kept.size)));
}

/// CO-1: a body is corrupt, and not some other body, when its frame is damaged, is called plain, or
/// holds more than the body has.
#[tokio::test]
async fn co_1_a_damaged_frame_is_corrupt() {
    let (_folder, path) = place();
    let store = open(&path);
    let blob = Blob::new("text/plain", "what the agent said ".repeat(500).into_bytes());
    store.put(&blob).await.expect("kept");
    let conn = Connection::open(&path).expect("the file");
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).expect("zeroes pack well");
    for (damage, bytes) in [
        ("UPDATE content SET packed = NULL WHERE ?1 IS NOT NULL", &bomb),
        ("UPDATE content SET packed = 1, bytes = ?1", &bomb),
        ("UPDATE content SET bytes = ?1", &blob.bytes),
        ("UPDATE content SET bytes = substr(bytes, 1, 9) WHERE ?1 IS NOT NULL", &bomb),
    ] {
        conn.execute(damage, [bytes]).expect("the body is damaged");
        assert_eq!(store.get(&blob.reference).await, Err(ContentError::Corrupt(blob.reference.clone())), "{damage}");
    }
    conn.execute("UPDATE content SET packed = NULL, bytes = ?1", [&blob.bytes]).expect("the body is mended");
    assert_eq!(store.get(&blob.reference).await, Ok(blob.bytes));
}

#[tokio::test]
async fn co_1_putting_again_renews_the_age() {
    let (_folder, path) = place();
    let store = open(&path);
    let blob = Blob::new("text/plain", b"body".to_vec());
    store.put(&blob).await.expect("kept");
    let conn = Connection::open(&path).expect("the file");
    conn.execute("UPDATE content SET touched_at = 1", []).expect("aged");
    store.put(&blob).await.expect("kept");
    let (count, touched): (i64, i64) = conn
        .query_row("SELECT count(*), min(touched_at) FROM content", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("a row");
    assert!(count == 1 && touched > 1);
}
