//! Bodies in a content store beside the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::virtual_time::memory;
use crate::common::{Bench, calls, say};
use plica_conformance::faults::{Call, Fault, Faulty, Switched};
use plica_engine::{Client, LoadOptions, Stop, load};
use plica_kernel::event::EventType;
use plica_kernel::row::Status;
use plica_ports::{ContentStore, Store};

/// The goals and replies of these tests are too long to be inline.
fn long(text: &str) -> String {
    text.repeat(1_000)
}

/// How many bodies a store keeps, as it says itself.
async fn bodies(store: &dyn Store) -> String {
    let said = store.describe().await.unwrap();
    said.into_iter().find(|(name, _)| name == "contents").unwrap().1
}

/// CO-2: bodies that live elsewhere are there before the event that cites them: while they
/// cannot be put nothing is appended, and afterwards the log folds with them.
#[tokio::test(start_paused = true)]
async fn co_2_bodies_are_put_before_the_event_that_cites_them() {
    let (store, beside) = (memory(), memory());
    let outage = Arc::new(Switched::new(Fault::Unavailable).only(&[Call::Put]));
    let content = Arc::new(Faulty::new(beside.clone(), outage.clone()));
    let replies = [say(&long("answer "))];
    let kept = content.clone();
    let mut bench = Bench::behind(store.clone(), store.clone(), &replies, |host| host.content(kept));
    bench.client = Client::with_content(store.clone(), content.clone());
    let task = bench.submit(&long("goal ")).await;
    outage.switch_on();
    let worker = bench.worker("one");
    let running = tokio::spawn(async move { worker.run(Stop::new()).await });
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(outage.struck() > 5, "the worker tries to put the reply");
    let kinds = bench.kinds(&task).await;
    assert_eq!(kinds.last(), Some(&EventType::LLMRequestStarted), "an event cites what is not there");
    outage.switch_off();
    running.await.unwrap().unwrap();
    assert_eq!(bench.status(&task).await, Status::Completed);
    assert_eq!(bodies(&*store).await, "0", "no body went into the store itself");
    let whole = LoadOptions { whole: true, ..LoadOptions::default() };
    let beside: &dyn ContentStore = &*beside;
    load(&*store, beside, &task, whole).await.unwrap();
}

/// CO-2: bodies whose append had to wait for more than an hour are put again, once an hour, so
/// that none is collected as too old before an event cites it.
#[tokio::test(start_paused = true)]
async fn co_2_bodies_of_an_old_batch_are_put_again() {
    let (store, beside) = (memory(), memory());
    let outage = Arc::new(Switched::new(Fault::Unavailable).only(&[Call::Append]));
    let puts = Arc::new(AtomicU64::new(0));
    let counted = puts.clone();
    let count = move |call: Call| {
        counted.fetch_add(u64::from(call == Call::Put), Ordering::Relaxed);
        None
    };
    let content = Arc::new(Faulty::new(beside, Arc::new(count)));
    let seen = Arc::new(Faulty::new(store.clone(), outage.clone()));
    let kept = content.clone();
    let mut slow = say(&long("answer "));
    slow["delay_ms"] = 5_000.into();
    let mut bench = Bench::behind(store.clone(), seen, &[slow], |host| host.content(kept));
    bench.client = Client::with_content(store, content);
    let task = bench.submit("Work.").await;
    let hours = |hours: u64| Duration::from_secs(3600 * hours);
    let worker = bench.worker_with("one", |options| (options.lease, options.until_idle) = (hours(12), false));
    let stop = Stop::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(stop).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    outage.switch_on();
    let before = puts.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let once = puts.load(Ordering::Relaxed) - before;
    assert!(once > 0, "the reply is put");
    tokio::time::sleep(hours(2) + Duration::from_secs(600)).await;
    assert_eq!(puts.load(Ordering::Relaxed) - before, 3 * once);
    outage.switch_off();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    stop.stop();
    running.await.unwrap().unwrap();
}

/// SN-2: a load takes one snapshot out of the store; while the newest cannot be had it starts from
/// one before, however many those are, and from the first event when none is left.
#[tokio::test(start_paused = true)]
async fn sn_2_a_load_starts_at_the_newest_snapshot_that_can_be_had() {
    let store = memory();
    let replies: Vec<_> = (0..130).map(|_| calls(&["a"])).chain([say("done")]).collect();
    let bench = Bench::behind(store.clone(), store.clone(), &replies, |host| host);
    let task = bench.submit("Work.").await;
    bench.work().await;
    let snapshots = bench.kinds(&task).await.into_iter().filter(|kind| *kind == EventType::TaskSnapshot).count();
    assert!(snapshots > 5, "{snapshots} snapshots");
    let full = bench.client.state(&task, None, true).await.unwrap();
    // The first lot of four, the newest of the next, and all that there are.
    for (lost, asked) in [(0, 1), (1, 2), (4, 5), (9, 10), (usize::MAX, 4 + snapshots)] {
        let gets = Arc::new(AtomicUsize::new(0));
        let counted = gets.clone();
        let strike = move |call: Call| {
            let is_lost = call == Call::Get && counted.fetch_add(1, Ordering::Relaxed) < lost;
            is_lost.then_some(Fault::Unavailable)
        };
        let content = Faulty::new(store.clone(), Arc::new(strike));
        let state = load(&*store, &content, &task, LoadOptions::default()).await.unwrap();
        assert_eq!((state.head(), state.governance()), (full.head(), full.governance()), "{lost} lost");
        assert_eq!(gets.load(Ordering::Relaxed), asked, "{lost} lost");
    }
}
