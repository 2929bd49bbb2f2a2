//! Many writers, a reader that stands still, a lock that is held: nobody is refused, nobody
//! starves, nothing is lost.

mod support;

use std::time::{Duration, Instant};

use plica_conformance::{Bench, Log, opening_facts};
use plica_kernel::canonical::{Domain, genesis_hash};
use plica_kernel::decode::decode;
use plica_kernel::id::{Position, Seq, TaskId};
use plica_ports::Store;
use plica_ports::store::{Page, StoreError, TaskFilter};
use rusqlite::Connection;
use rustix::process::Signal;

use support::{Other, bench, handed, open, place, process, say, wait_for_word};

/// Threads of each of two processes that race, and appends of each thread.
const THREADS: usize = 8;
const APPENDS: u64 = 1_000;

/// Checks that a log is whole: each event has the hash of its bytes, names the one before and
/// follows it.
async fn check_chain(bench: &Bench, task: &TaskId) -> u64 {
    let events = bench.events(task).await;
    let mut prev = genesis_hash(bench.ledger(), task);
    for (stored, seq) in events.iter().zip(1..) {
        assert_eq!(Domain::Event.hash(&stored.body), stored.hash, "task {task}, event {seq}");
        let event = decode(&stored.body, &stored.hash).expect("an event decodes");
        assert_eq!((stored.seq, event.seq, event.prev), (Seq(seq), Seq(seq), prev), "task {task}");
        prev = stored.hash;
    }
    let row = bench.row(task).await.projection;
    assert_eq!((row.seq.0, row.hash), (events.len() as u64, prev), "task {task}");
    row.seq.0
}

/// A task of one thread of this process.
async fn own_task(bench: &Bench, thread: usize) -> Log {
    let id = TaskId::new(format!("task-of-{}-{thread}", std::process::id())).expect("an id");
    let (log, task) = Log::begin(bench.ledger(), &id, opening_facts(bench.now().await));
    bench.store().create(task).await.expect("a sound task is created");
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn other_appends_from_eight_threads() {
    let Some(path) = handed() else { return };
    let bench = bench(&path).await;
    let mut writers = Vec::new();
    for thread in 0..THREADS {
        let log = own_task(&bench, thread).await;
        let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
        writers.push((log, claimed, bench.store().clone()));
    }
    say("ready");
    wait_for_word();
    let began = Instant::now();
    let append = |(mut log, claimed, store): (Log, _, std::sync::Arc<dyn Store>)| async move {
        let mut longest = Duration::ZERO;
        for number in 0..APPENDS {
            let batch = log.noting(&claimed, &format!("append {number}"));
            let sent = Instant::now();
            store.append(&claimed.claim, &batch).await.expect("a sound batch is written");
            longest = longest.max(sent.elapsed());
            log.accept(&batch);
        }
        longest
    };
    let running: Vec<_> = writers.into_iter().map(|writer| tokio::spawn(append(writer))).collect();
    let mut longest = Duration::ZERO;
    for one in running {
        longest = longest.max(one.await.expect("a writer ends well"));
    }
    say(&format!("{} {}", began.elapsed().as_micros(), longest.as_micros()));
}

/// ST-15: two processes with eight threads each append a thousand times each to one file: no
/// error, every chain whole, and neither process keeps the other waiting for long. How fast is
/// printed, since it is the disk's affair.
#[tokio::test]
async fn st_15_two_processes_of_eight_threads_share_one_file() {
    let (_folder, path) = place();
    let mut others = [(); 2].map(|()| Other::new(process("other_appends_from_eight_threads", &path)));
    for other in &mut others {
        assert_eq!(other.hear().as_deref(), Some("ready"));
    }
    others.iter_mut().for_each(Other::give_word);
    let mut times = Vec::new();
    for other in others {
        let (status, said) = other.end();
        assert!(status.success());
        let numbers: Vec<u64> = said[0].split(' ').map(|number| number.parse().expect("a number")).collect();
        times.push((numbers[0], numbers[1]));
    }
    let bench = bench(&path).await;
    let rows = bench.store().tasks(&TaskFilter::default(), &Page::first(99)).await.expect("rows can be read");
    assert_eq!(rows.len(), 2 * THREADS);
    for row in rows {
        assert_eq!(check_chain(&bench, &row.id).await, 1 + APPENDS);
    }
    for (took, longest) in &times {
        let rate = THREADS as u64 * APPENDS * 1_000_000 / took;
        println!("{rate} appends a second, the longest wait {} ms", longest / 1_000);
    }
}

#[tokio::test]
async fn other_reads_and_stands_still() {
    let Some(path) = handed() else { return };
    let view = Connection::open(&path).expect("the file");
    let count = || view.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0)).expect("a count");
    view.execute_batch("BEGIN").expect("a view");
    let before = count();
    say("reading");
    wait_for_word();
    assert_eq!(count(), before, "its view stands still too");
}

/// ST-11: a reader whose process stands still in the middle of its view blocks no writer, and
/// keeps its view; nor does it when it is killed there.
#[tokio::test]
async fn st_11_a_stalled_reader_blocks_no_writer() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    for is_killed in [false, true] {
        let mut reader = Other::new(process("other_reads_and_stands_still", &path));
        assert_eq!(reader.hear().as_deref(), Some("reading"));
        reader.signal(Signal::STOP);
        for _ in 0..50 {
            let batch = log.noting(&claimed, "on and on");
            bench.append(&claimed, &batch).await;
            log.accept(&batch);
        }
        if is_killed {
            reader.signal(Signal::KILL);
            assert!(!reader.end().0.success());
        } else {
            reader.signal(Signal::CONT);
            reader.give_word();
            assert!(reader.end().0.success());
        }
    }
    bench.append(&claimed, &log.noting(&claimed, "and on")).await;
    assert_eq!(check_chain(&bench, &log.id).await, 102);
}

/// ST-11: while another process holds the write lock, stores are opened and read over and over,
/// and every time the last commit is there; only who writes waits, and is served at last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn st_11_opening_and_reading_never_wait_for_a_writer() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let log = bench.task().await;
    let writer = Connection::open(&path).expect("the file");
    writer.execute_batch("BEGIN IMMEDIATE; UPDATE tasks SET agent = 'not committed'").expect("the lock");
    let waiting = {
        let (store, task, item) = (open(&path), log.id.clone(), bench.message("hi"));
        let key = bench.key("k1");
        tokio::spawn(async move { store.deliver(&task, "user:ada", &item, &key).await })
    };
    for _ in 0..200 {
        let store = open(&path);
        let row = store.row(&log.id).await.expect("rows can be read").expect("the task is there");
        assert_eq!((row.facts.agent.as_str(), row.inbox_tail), ("tester", Position(0)));
    }
    assert!(!waiting.is_finished(), "a delivery does not wait for the lock");
    writer.execute_batch("ROLLBACK").expect("the lock is given back");
    assert!(waiting.await.expect("the sender ends well").expect("the item is taken").fresh);
    for _ in 0..20 {
        let store = open(&path);
        assert_eq!(store.ledger().await.as_ref(), Ok(bench.ledger()), "opening to write waits its turn");
    }
}

/// ST-10: a lock that is not given back is an outage: named as such, nothing written, and over
/// as soon as the lock is free.
#[tokio::test]
async fn st_10_a_lock_that_is_never_given_back_is_an_outage() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let log = bench.task().await;
    let writer = Connection::open(&path).expect("the file");
    writer.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let refused = bench.store().unblock(&log.id).await;
    assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("locked")), "{refused:?}");
    writer.execute_batch("ROLLBACK").expect("the lock is given back");
    assert_eq!(bench.store().unblock(&log.id).await, Ok(false));
}
