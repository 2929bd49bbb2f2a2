//! Several processes on one file: racing, killed.

mod support;

use std::time::Duration;

use plica_conformance::{Bench, LEASE, Log};
use plica_kernel::id::{InstanceId, Position, Seq, TaskId};
use plica_ports::store::{ClaimRequest, Page, Row, StoreError, TaskFilter, Worker};
use plica_sqlite::process_identity;

use support::{bench, handed, place, process};

/// Appends of each of two racing processes.
const APPENDS: usize = 150;

async fn all(bench: &Bench) -> Vec<Row> {
    bench.store().tasks(&TaskFilter::default(), &Page::first(99)).await.expect("rows can be read")
}

/// This process as a worker, as the command line would name it.
fn worker(bench: &Bench) -> Worker {
    let instance = InstanceId::new(format!("instance-{}", std::process::id())).expect("an id");
    Worker { instance, process: process_identity(), ..bench.worker("real") }
}

/// A task of this process alone.
async fn own_task(bench: &Bench) -> Log {
    let facts = plica_conformance::opening_facts(bench.now().await);
    let id = TaskId::new(format!("task-of-{}", std::process::id())).expect("an id");
    let (log, task) = Log::begin(bench.ledger(), &id, facts);
    bench.store().create(task).await.expect("a sound task is created");
    log
}

async fn append_many(bench: &Bench, count: usize) {
    let mut log = own_task(bench).await;
    let claimed = bench.hold(&worker(bench), &log.id).await;
    for number in 0..count {
        let batch = log.noting(&claimed, &format!("append {number}"));
        bench.append(&claimed, &batch).await;
        log.accept(&batch);
    }
}

#[tokio::test]
async fn other_appends_many() {
    let Some(path) = handed() else { return };
    append_many(&bench(&path).await, APPENDS).await;
}

/// Three processes that find no store make one, and none of their appends is lost or refused.
#[tokio::test]
async fn st_14_processes_that_open_at_once_make_one_store_and_share_it() {
    let (_folder, path) = place();
    let others = [(); 2].map(|()| process("other_appends_many", &path));
    let bench = bench(&path).await;
    append_many(&bench, APPENDS).await;
    for mut other in others {
        assert!(other.wait().expect("it ends").success());
    }
    let rows = all(&bench).await;
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!(row.projection.seq, Seq(APPENDS as u64 + 1));
        let events = bench.events(&row.id).await;
        assert_eq!(events.len(), APPENDS + 1);
        assert_eq!(events.last().map(|event| event.hash), Some(row.projection.hash));
    }
}

#[tokio::test]
async fn other_appends_until_it_is_killed() {
    let Some(path) = handed() else { return };
    append_many(&bench(&path).await, usize::MAX).await;
}

/// ST-16: a claim of a process that was killed is claimable at once, its lease
/// notwithstanding; what it had committed is all there.
#[tokio::test]
async fn st_16_what_a_killed_process_held_is_claimable_at_once() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let mut other = process("other_appends_until_it_is_killed", &path);
    let task = TaskId::new(format!("task-of-{}", other.id())).expect("an id");
    let mut seen = Seq(0);
    while seen < Seq(10) {
        match bench.store().watch(&task, seen, Position(0), Duration::from_secs(10)).await {
            Ok(is_new) => assert!(is_new, "nothing was appended for ten seconds"),
            Err(StoreError::UnknownTask(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
        seen = bench.store().row(&task).await.expect("rows can be read").map_or(Seq(0), |row| row.projection.seq);
    }
    let own = worker(&bench);
    assert!(bench.try_hold(&own, &task, LEASE).await.is_none(), "its holder is alive");
    assert_eq!(bench.store().outlook(&[]).await.map(|outlook| outlook.held), Ok(1));
    other.kill().expect("a child can be killed");
    other.wait().expect("it ends");
    let outlook = bench.store().outlook(&[]).await.expect("an outlook");
    assert_eq!((outlook.held, outlook.next), (0, Some(outlook.now)));
    bench.store().wait_claimable(&[], Duration::from_secs(30)).await.expect("waiting ends");
    let claimed = bench.claim(&ClaimRequest { lease: LEASE, ..bench.request(&own, 9) }).await;
    assert_eq!(claimed.len(), 1);
    let events = bench.events(&task).await;
    assert_eq!((claimed[0].seq, events.len() as u64), (Seq(events.len() as u64), claimed[0].seq.0));
    assert!(claimed[0].seq >= seen);
}

/// ST-16: any doubt about the holder, and the lease decides.
#[tokio::test]
async fn st_16_in_doubt_the_lease_decides() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let own = process_identity().expect("tests run where /proc tells");
    // Above the highest number that a process can have.
    let absent = plica_ports::store::ProcessIdentity { pid: 1 << 30, ..own.clone() };
    let doubtful = [
        ("alive", Some(own.clone())),
        ("unknown", None),
        ("elsewhere", Some(plica_ports::store::ProcessIdentity { boot: "another".into(), ..absent.clone() })),
        ("contained", Some(plica_ports::store::ProcessIdentity { namespace: "pid:[1]".into(), ..absent.clone() })),
    ];
    for (name, process) in doubtful {
        let log = bench.task().await;
        bench.hold(&Worker { process, ..bench.worker(name) }, &log.id).await;
        assert!(bench.try_hold(&worker(&bench), &log.id, LEASE).await.is_none(), "{name}");
    }
    let log = bench.task().await;
    let holder = Worker { process: Some(absent), ..bench.worker("gone") };
    let first = bench.hold(&holder, &log.id).await;
    let second = bench.hold(&worker(&bench), &log.id).await;
    assert_eq!(second.claim.epoch, first.claim.epoch.next());
}

/// ST-19: whoever sends a message must not count on a worker whose process is gone.
#[tokio::test]
async fn st_19_a_worker_whose_process_is_gone_is_not_alive() {
    let (_folder, path) = place();
    let bench = bench(&path).await;
    let own = process_identity().expect("tests run where /proc tells");
    let absent = plica_ports::store::ProcessIdentity { pid: 1 << 30, ..own.clone() };
    let elsewhere = plica_ports::store::ProcessIdentity { boot: "another".into(), ..absent.clone() };
    for (name, process) in [("here", Some(own)), ("gone", Some(absent)), ("elsewhere", Some(elsewhere))] {
        let worker = Worker { process, ..bench.worker(name) };
        bench.store().register(&worker, &[], LEASE).await.expect("it is registered");
    }
    let alive = bench.store().workers().await.expect("workers can be read");
    let mut alive: Vec<&str> = alive.iter().map(|worker| worker.id.as_str()).collect();
    alive.sort_unstable();
    assert_eq!(alive, ["elsewhere", "here"]);
}
