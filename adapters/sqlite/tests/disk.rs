//! Disks that fail: full, cut short at every point, read-only, without room for another open
//! file, damaged. Every failure has a type, nothing that was acknowledged is lost, and a fresh
//! process goes on with what is there.

mod support;

use std::fs::{self, File};
use std::path::Path;

use plica_conformance::{LEASE, Log, opening_facts};
use plica_kernel::body::Blob;
use plica_kernel::id::{InstanceId, Seq, TaskId, WorkerId};
use plica_ports::Store;
use plica_ports::store::{AppendError, ClaimError, ClaimRequest, CreateError, Page, StoreError, TaskFilter, Worker};
use plica_sqlite::SqliteStore;
use rusqlite::Connection;

use support::{
    Other, bench, handed, noise, open, place, process, process_apart, process_struck, process_under, say, was_struck,
};

/// Appends of a process whose disk does not fail.
const APPENDS: u64 = 5;

fn the_task() -> TaskId {
    TaskId::new("the-task").expect("an id")
}

/// How writing ended, be its commit's fate known or not.
#[derive(Debug)]
enum Failure {
    /// By an error that trying later may mend.
    Outage(String),
    /// By one that somebody has to see to.
    Unusable(String),
}

impl Failure {
    fn outage(self) -> String {
        match self {
            Self::Outage(why) => why,
            Self::Unusable(why) => panic!("a disk that fails is an outage, and not {why:?}"),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(why) => Self::Outage(why),
            StoreError::Unusable(why) => Self::Unusable(why),
            other => panic!("{other:?}"),
        }
    }
}

impl From<CreateError> for Failure {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::CommitUnknown { detail, .. } => Self::Outage(detail),
            CreateError::Store(error) => error.into(),
            other => panic!("{other:?}"),
        }
    }
}

impl From<ClaimError> for Failure {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::CommitUnknown(detail) => Self::Outage(detail),
            ClaimError::Store(error) => error.into(),
        }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::CommitUnknown { detail, .. } => Self::Outage(detail),
            AppendError::Store(error) => error.into(),
            other => panic!("{other:?}"),
        }
    }
}

/// Creates the task and appends to it; says after each append what was acknowledged.
async fn write(path: &Path, appends: u64) -> Result<(), Failure> {
    let store = open(path);
    let log = create(&store).await?;
    say("1");
    append(&store, log, appends).await
}

/// Creates the task.
async fn create(store: &SqliteStore) -> Result<Log, Failure> {
    let ledger = store.ledger().await?;
    let (log, task) = Log::begin(&ledger, &the_task(), opening_facts(store.now().await?));
    store.create(task).await?;
    Ok(log)
}

/// Claims the task and appends to its log; says after each append what was acknowledged.
async fn append(store: &SqliteStore, mut log: Log, appends: u64) -> Result<(), Failure> {
    let worker = Worker {
        id: WorkerId::new("ada").expect("an id"),
        instance: InstanceId::new("ada-instance").expect("an id"),
        host: "here".into(),
        version: "1".into(),
        process: None,
    };
    let (lease, task) = (LEASE, Some(the_task()));
    let request = ClaimRequest { worker, queues: Vec::new(), lease, max: 1, task, except: Vec::new() };
    let claimed = store.claim(&request).await?.pop().expect("the task is due");
    for number in 0..appends {
        let mut batch = log.noting(&claimed, "more");
        batch.blobs = vec![Blob::new("text/plain", noise(number as u8, 3_000))];
        store.append(&claimed.claim, &batch).await?;
        log.accept(&batch);
        say(&log.row.seq.to_string());
    }
    Ok(())
}

/// Checks that a file holds what was acknowledged, or that and the one whose fate was unknown,
/// whole; and that it can be gone on with.
async fn check(path: &Path, acknowledged: u64) {
    let bench = bench(path).await;
    let rows = bench.store().tasks(&TaskFilter::default(), &Page::first(9)).await.expect("rows can be read");
    let log = match rows.into_iter().next() {
        Some(row) => {
            let seq = row.projection.seq.0;
            assert!(seq == acknowledged || seq == acknowledged + 1, "{seq} events, acknowledged were {acknowledged}");
            let events = bench.events(&row.id).await;
            assert_eq!((events.len() as u64, events.last().map(|event| event.hash)), (seq, Some(row.projection.hash)));
            row.id
        }
        None => {
            assert_eq!(acknowledged, 0, "the task is gone");
            bench.task().await.id
        }
    };
    bench.deliver(&log, &bench.message("go on"), "k1").await;
    let file = Connection::open(path).expect("the file");
    let sound: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(sound, "ok");
}

#[tokio::test]
async fn other_writes_as_long_as_it_can() {
    let Some(path) = handed() else { return };
    match write(&path, APPENDS).await {
        Ok(()) => say("all"),
        Err(failure) => {
            say(&format!("failed {}", failure.outage()));
            // Whatever can be read after a failure is right, and what cannot has a type.
            match open(&path).row(&the_task()).await {
                Ok(_) | Err(StoreError::Unavailable(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

/// ST-10: a write that fails, at whatever point of whatever file, is an outage or an unknown
/// commit; what was acknowledged is there for the next process, and no more than what was tried.
#[tokio::test]
async fn st_10_a_write_that_fails_at_any_point_loses_nothing() {
    let mut is_met = Vec::new();
    // A limit in blocks of 512 bytes on what any file may hold: the write that would exceed it
    // writes as much as fits, the next one fails. Steps of nine blocks hit pages, frames and
    // their middles, from making the store to the last append.
    for blocks in (0..720).step_by(9) {
        let (_folder, path) = place();
        let setup = format!("trap '' XFSZ; ulimit -f {blocks}");
        let (status, said) = Other::new(process_under(&setup, "other_writes_as_long_as_it_can", &path)).end();
        assert!(status.success(), "at {blocks} blocks: {said:?}");
        let acknowledged = said.iter().filter_map(|line| line.parse::<u64>().ok()).max().unwrap_or(0);
        is_met.push(said.iter().any(|line| line.starts_with("failed")));
        check(&path, acknowledged).await;
    }
    assert!(is_met.is_sorted_by(|less, more| less >= more), "a larger limit is met and a smaller is not: {is_met:?}");
    let met = is_met.iter().filter(|met| **met).count();
    assert!((20..80).contains(&met), "{met} of 80 limits were met: the steps miss the point");
}

/// Says how writing ended. Whatever can be read after a failure is right, and what cannot has a type.
async fn tell(path: &Path, ended: Result<(), Failure>) {
    say(if ended.is_ok() { "all" } else { "failed" });
    match open(path).row(&the_task()).await {
        Ok(_) | Err(StoreError::Unavailable(_) | StoreError::Unusable(_)) => {}
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn other_writes_until_a_call_fails() {
    let Some(path) = handed() else { return };
    tell(&path, write(&path, APPENDS).await).await;
}

/// Appends to the task that is there.
async fn go_on(path: &Path) -> Result<(), Failure> {
    let store = open(path);
    let row = store.row(&the_task()).await?.expect("the task is there");
    let (log, _) = Log::begin(&store.ledger().await?, &the_task(), row.facts);
    append(&store, log, 1).await
}

#[tokio::test]
async fn other_goes_on_until_a_call_fails() {
    let Some(path) = handed() else { return };
    tell(&path, go_on(&path).await).await;
}

/// Lets the first, the second, and so on to the last system call of these names that opening a store,
/// claiming and appending make fail, each in a store of its own.
async fn strike_each(system_calls: &[&str]) {
    for system_call in system_calls {
        let (mut nth, mut failed) = (1, 0);
        loop {
            let (_folder, path) = place();
            assert!(create(&open(&path)).await.is_ok(), "a sound disk");
            let name = "other_goes_on_until_a_call_fails";
            let Some(other) = process_struck(system_call, nth, name, &path) else { return };
            let (status, said) = Other::new(other).end();
            assert!(status.success(), "{system_call} {nth}: {said:?}");
            let acknowledged = said.iter().filter_map(|line| line.parse::<u64>().ok()).max().unwrap_or(1);
            check(&path, acknowledged).await;
            if !was_struck(&path) {
                assert_eq!(said, ["2", "all"], "{system_call}: nothing failed");
                break;
            }
            failed += usize::from(said.iter().any(|line| line == "failed"));
            nth += 1;
        }
        println!("{system_call}: {} calls, of which {failed} were noticed", nth - 1);
        assert!(nth > 1, "no {system_call} was made");
    }
}

/// ST-10: an error of the device in any one call that opening, claiming and appending make to write
/// has a type, and what was acknowledged is there for the next process.
#[tokio::test]
async fn st_10_an_error_of_every_call_that_writes_loses_nothing() {
    strike_each(&["pwrite64", "fsync"]).await;
}

/// ST-10: nor does one in any call that opens, looks or reads.
#[tokio::test]
async fn st_10_an_error_of_every_call_that_reads_loses_nothing() {
    strike_each(&["openat", "pread64", "newfstatat"]).await;
}

/// ST-10: nor does one in any call that locks.
#[tokio::test]
async fn st_10_an_error_of_every_call_that_locks_loses_nothing() {
    strike_each(&["fcntl", "mmap"]).await;
}

/// ST-10: an error of the device in any call to the system (reading, writing, flushing, opening,
/// locking) has a type, and what was acknowledged is there for the next process. SQLite itself takes
/// a page that cannot be read for a damaged file, which somebody has to see to.
#[tokio::test]
async fn st_10_an_error_of_any_system_call_loses_nothing() {
    // Steps that meet making the store, each table of it, and the last append; each call of an append
    // fails below.
    let mut failed = 0;
    for (system_call, every, most) in [
        ("pread64", 1, 8),
        ("pwrite64", 29, 190),
        ("fsync", 2, 12),
        ("openat", 1, 5),
        ("ftruncate", 1, 2),
        ("newfstatat", 8, 38),
        ("fcntl", 29, 112),
        ("mmap", 1, 1),
    ] {
        for nth in (1..=most).step_by(every) {
            let (_folder, path) = place();
            let name = "other_writes_until_a_call_fails";
            let Some(other) = process_struck(system_call, nth, name, &path) else { return };
            let (status, said) = Other::new(other).end();
            assert!(status.success(), "{system_call} {nth}: {said:?}");
            let acknowledged = said.iter().filter_map(|line| line.parse::<u64>().ok()).max().unwrap_or(0);
            failed += usize::from(said.iter().any(|line| line == "failed"));
            check(&path, acknowledged).await;
        }
    }
    assert!(failed >= 12, "only {failed} errors were noticed");
}

/// The folder of a store, as a shell writes it.
fn folder(path: &Path) -> String {
    format!("'{}'", path.parent().expect("it lies in a folder").display())
}

#[tokio::test]
async fn other_fills_its_disk() {
    let Some(path) = handed() else { return };
    let filler = path.with_file_name("filler");
    fs::write(&filler, vec![0; 300 << 10]).expect("there is room for it");
    let failure = write(&path, u64::MAX).await.expect_err("no disk is without end");
    say(&format!("failed {}", failure.outage()));
    let acknowledged = open(&path).row(&the_task()).await.expect("a full disk can be read").expect("the task is there");
    fs::remove_file(&filler).expect("its own file");
    // A fresh process, where there is room again.
    let (status, said) = Other::new(process("other_finds_all_there", &path)).end();
    assert!(status.success(), "{said:?}");
    let found: u64 = said[0].parse().expect("a number");
    assert!(found >= acknowledged.projection.seq.0);
}

#[tokio::test]
async fn other_finds_all_there() {
    let Some(path) = handed() else { return };
    let row = open(&path).row(&the_task()).await.expect("rows can be read").expect("the task is there");
    check(&path, row.projection.seq.0).await;
    say(&row.projection.seq.to_string());
}

/// ST-10: on a disk that is full what was acknowledged can be read, and once there is room again
/// the next process goes on.
#[tokio::test]
async fn st_10_a_full_disk_loses_nothing() {
    let (_folder, path) = place();
    let mount = format!("mount -t tmpfs -o size=1m none {}", folder(&path));
    let Some(other) = process_apart("-Urm", &mount, "other_fills_its_disk", &path) else { return };
    let (status, said) = Other::new(other).end();
    assert!(status.success(), "{said:?}");
    let failed = said.iter().find(|line| line.starts_with("failed")).expect("it was filled");
    assert!(failed.contains("no space left"), "{failed}");
}

/// What a process says of a store that it cannot write, having found that nothing changed.
#[tokio::test]
async fn other_cannot_write() {
    let Some(path) = handed() else { return };
    let store = open(&path);
    let read = store.row(&the_task()).await;
    let refused = store.unblock(&the_task()).await;
    assert!(matches!(refused, Err(StoreError::Unusable(_))), "{refused:?}");
    say(match read {
        Ok(row) if row.is_some() => "read",
        Err(StoreError::Unusable(_)) => "unusable",
        other => panic!("{other:?}"),
    });
}

/// ST-16: a file or a whole disk that cannot be written is unusable for who writes, never an
/// empty store; who reads sees it as long as another process keeps the log open.
#[tokio::test]
async fn st_16_what_cannot_be_written_is_said_so_and_left_alone() {
    for is_open in [true, false] {
        let (_folder, path) = place();
        assert!(write(&path, 3).await.is_ok(), "a sound disk");
        let holder = is_open.then(|| Connection::open(&path).expect("the file"));
        let view = holder.as_ref().map(|conn| conn.query_row("SELECT count(*) FROM events", [], |row| row.get(0)));
        assert!(matches!(view, None | Some(Ok(4))));
        let bound = format!("mount --bind {0} {0} && mount -o remount,bind,ro {0}", folder(&path));
        let locked = format!("chmod 0444 '{}'", path.display());
        for (flags, setup) in [("-Urm", bound), ("-U", locked)] {
            let Some(other) = process_apart(flags, &setup, "other_cannot_write", &path) else { continue };
            let (status, said) = Other::new(other).end();
            assert!(status.success(), "{setup}: {said:?}");
            println!("{setup}: {said:?}");
        }
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("its own file");
        check(&path, 4).await;
    }
}

#[tokio::test]
async fn other_opens_all_the_files_it_may() {
    let Some(path) = handed() else { return };
    let store = open(&path);
    store.row(&the_task()).await.expect("rows can be read").expect("the task is there");
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    // What is open already goes on, what has to be opened does not.
    assert!(store.row(&the_task()).await.is_ok());
    let read = open(&path).row(&the_task()).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    let written = store.unblock(&the_task()).await;
    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
    files.clear();
    assert_eq!(store.unblock(&the_task()).await, Ok(false), "once there is room it goes on");
}

/// ST-10: a process that may open no more files is out of reach of its store for so long.
#[tokio::test]
async fn st_10_no_more_open_files_is_an_outage() {
    let (_folder, path) = place();
    assert!(write(&path, 3).await.is_ok(), "a sound disk");
    let other = process_under("ulimit -n 64", "other_opens_all_the_files_it_may", &path);
    let (status, said) = Other::new(other).end();
    assert!(status.success(), "{said:?}");
    check(&path, 4).await;
}

/// ST-16: a file that was cut short is damaged, says so to readers and writers, and is left as
/// it is.
#[tokio::test]
async fn st_16_a_damaged_file_is_named_and_left_alone() {
    let (_folder, path) = place();
    assert!(write(&path, 40).await.is_ok(), "a sound disk");
    let file = Connection::open(&path).expect("the file");
    let moved: i64 = file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("a checkpoint");
    assert_eq!(moved, 0);
    drop(file);
    let whole = fs::metadata(&path).expect("a file").len();
    File::options().write(true).open(&path).and_then(|file| file.set_len(whole / 4)).expect("its own file");
    let before = fs::read(&path).expect("a file");
    let store = open(&path);
    let read = store.read(&the_task(), Seq(1), 99).await;
    assert!(matches!(&read, Err(StoreError::Unusable(why)) if why.contains("damaged")), "{read:?}");
    let written = store.unblock(&the_task()).await;
    assert!(matches!(&written, Err(StoreError::Unusable(why)) if why.contains("damaged")), "{written:?}");
    assert_eq!(fs::read(&path).expect("a file"), before);
}
