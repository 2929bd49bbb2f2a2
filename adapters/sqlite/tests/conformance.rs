//! The suites of the store and content ports, on fresh files.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use plica_conformance::{Capability, ContentSubject, Subject};
use plica_kernel::body::ContentRef;
use plica_kernel::time::Timestamp;
use plica_sqlite::{OpenOptions, SqliteStore};

fn open(folder: &tempfile::TempDir) -> Arc<SqliteStore> {
    let path = folder.path().join("plica.db");
    Arc::new(SqliteStore::open(path, OpenOptions::default()).expect("a path is a path"))
}

/// Two handles on one file have each a writer and readers of its own, as two processes have.
async fn subject() -> Subject {
    let folder = tempfile::tempdir().expect("a temporary folder");
    Subject::new(open(&folder)).with_second(open(&folder)).lacking(Capability::Time).keeping(folder)
}

async fn content() -> ContentSubject {
    let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
    let path = folder.path().join("plica.db");
    let damage = move |reference: &ContentRef| {
        let file = rusqlite::Connection::open(&path).expect("the file is there");
        let bytes: Vec<u8> = file
            .query_row("SELECT bytes FROM content WHERE sha256 = ?1", [reference.sha256.as_bytes()], |row| row.get(0))
            .expect("the body is there");
        let flipped: Vec<u8> = bytes.iter().map(|byte| byte ^ 1).collect();
        file.execute("UPDATE content SET bytes = ?2 WHERE sha256 = ?1", (reference.sha256.as_bytes(), flipped))
            .expect("the body is damaged");
    };
    let micros = Arc::new(AtomicI64::new(1_796_031_682_123_456));
    let shown = Arc::clone(&micros);
    let now = move || Timestamp::from_micros(shown.load(Ordering::Acquire));
    let store = SqliteStore::open_with_clock(folder.path().join("plica.db"), OpenOptions::default(), now);
    let advance = move |by: Duration| {
        micros.fetch_add(i64::try_from(by.as_micros()).expect("tests wait for less than an age"), Ordering::AcqRel);
    };
    let store = Arc::new(store.expect("a path is a path"));
    ContentSubject::new(store).with_time(advance).with_damage(damage).keeping(folder)
}

plica_conformance::store_suite!(subject);

/// The same suite by a clock that the tests move, so that waits of up to half a minute are proved
/// too, and with reads and writes on the threads that ask.
mod by_a_clock_that_is_moved {
    use super::*;

    async fn subject() -> Subject {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("plica.db");
        let micros = Arc::new(AtomicI64::new(1_796_031_682_123_456));
        let options = OpenOptions { in_place: true, ..OpenOptions::default() };
        let open = || {
            let shown = Arc::clone(&micros);
            let now = move || Timestamp::from_micros(shown.load(Ordering::Acquire));
            Arc::new(SqliteStore::open_with_clock(&path, options, now).expect("a path is a path"))
        };
        let (store, second) = (open(), open());
        let advance = move |by: Duration| {
            let by = i64::try_from(by.as_micros()).expect("tests wait for less than an age");
            micros.fetch_add(by, Ordering::AcqRel);
        };
        Subject::new(store).with_second(second).with_time(advance).keeping(folder)
    }

    plica_conformance::store_suite!(subject);
}
plica_conformance::content_suite!(content);
