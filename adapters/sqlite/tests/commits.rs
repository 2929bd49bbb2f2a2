//! Commits: how many there are, and whom they answer.

mod support;

use std::sync::Arc;

use plica_kernel::body::Blob;
use plica_kernel::canonical::Hash;
use plica_kernel::id::Seq;
use plica_ports::Store;
use plica_ports::store::{AppendError, Batch, Claimed, Conflict};
use rusqlite::Connection;

use support::{bench, bench_on, commits, noise, open, place};

#[tokio::test]
async fn sp_1_an_append_is_one_commit_whatever_it_carries() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let log = bench.task().await;
    bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let mut batch = log.noting(&claimed, "much");
    batch.blobs = vec![Blob::new("text/plain", noise(1, 100_000))];
    batch.consumed = vec![claimed.items[0].position];
    batch.children = vec![bench.draft_child(&log.id).await.1];
    let before = commits(&path);
    bench.append(&claimed, &batch).await;
    assert_eq!(commits(&path) - before, 1);
}

#[tokio::test]
async fn sp_1_reading_and_claiming_nothing_commit_nothing() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let log = bench.task().await;
    let worker = bench.worker("ada");
    bench.hold(&worker, &log.id).await;
    let before = commits(&path);
    assert!(bench.claim(&bench.request(&worker, 9)).await.is_empty());
    bench.events(&log.id).await;
    bench.store().outlook(&[]).await.expect("an outlook");
    bench.store().settle(&log.id, Seq(1), &log.row.hash).await.expect("a fate");
    assert_eq!(commits(&path), before);
}

/// While another process holds the lock requests pile up; then they are committed together,
/// each with its own verdict. One thread runs everything but the writer, so that every append
/// has been sent when this test gets its turn again.
#[tokio::test]
async fn appends_of_many_tasks_are_committed_together() {
    let (_folder, path) = place();
    let store = open(&path);
    let bench = bench_on(store.clone()).await;
    let mut appends = Vec::new();
    for number in 0..40 {
        let log = bench.task().await;
        let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
        let mut batch = log.noting(&claimed, "one of many");
        if number % 4 == 0 {
            batch.after_hash = Hash::from_bytes([number; 32]);
        }
        appends.push((number, claimed, batch));
    }
    let before = commits(&path);
    let other = Connection::open(&path).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let send = |(number, claimed, batch): (u8, Claimed, Batch)| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { (number, store.append(&claimed.claim, &batch).await) })
    };
    let sent: Vec<_> = appends.into_iter().map(send).collect();
    tokio::task::yield_now().await;
    other.execute_batch("COMMIT").expect("the lock is given back");
    for append in sent {
        let (number, verdict) = append.await.expect("the append is answered");
        match verdict {
            Ok(appended) => assert!(appended.held && number % 4 != 0),
            Err(AppendError::Conflict(Conflict::RevisionConflict { .. })) => assert_eq!(number % 4, 0),
            Err(other) => panic!("append {number}: {other}"),
        }
    }
    assert_eq!(commits(&path) - before, 1, "forty appends are one commit");
}
