//! The suites of the store and content ports, on fresh files.

use std::sync::Arc;

use plica_conformance::{Capability, ContentSubject, Subject};
use plica_kernel::body::ContentRef;
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
    ContentSubject::new(open(&folder)).with_damage(damage).keeping(folder)
}

plica_conformance::store_suite!(subject);
plica_conformance::content_suite!(content);
