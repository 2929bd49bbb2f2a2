//! Reading: logs, rows, lists, and waiting for news (ST-11).

use std::time::{Duration, Instant};

use plica_kernel::body::ContentRef;
use plica_kernel::canonical::Hash;
use plica_kernel::event::{Payload, SealVerdict, StepAttemptAbandoned, TaskRewound, TaskSnapshot};
use plica_kernel::id::{Position, Seq, TaskId};
use plica_kernel::row::{Blocked, Status};
use plica_kernel::wake::{Wake, WakeKey};
use plica_ports::store::{ClaimRequest, Page, Row, StoreError, StoredEvent, TaskFilter};

use crate::bench::settle_in;
use crate::{Bench, LEASE, Subject, note};

/// How long news may take (ST-11), with room for a machine that is busy with other tests.
const NEWS: Duration = Duration::from_millis(100 + 900);
/// Longer than any test may take: a wait that comes to its end is a wake-up that was missed.
const NEVER: Duration = Duration::from_secs(300);

fn seqs(events: &[StoredEvent]) -> Vec<u64> {
    events.iter().map(|event| event.seq.0).collect()
}

/// ST-11: a range of a log is read in order from any seq on, at most so many.
pub async fn st_11_a_log_is_read_by_range(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.batch(&claimed, (0..9).map(|number| note(&number.to_string())).collect());
    bench.append(&claimed, &batch).await;
    let read =
        async |from, limit| seqs(&bench.store().read(&log.id, Seq(from), limit).await.expect("logs can be read"));
    assert_eq!(read(1, usize::MAX).await, (1..=10).collect::<Vec<_>>());
    assert_eq!(read(0, 2).await, [1, 2], "before the first there is nothing");
    assert_eq!(read(4, 3).await, [4, 5, 6]);
    assert_eq!(read(9, 3).await, [9, 10]);
    assert!(read(11, 3).await.is_empty());
    assert!(read(u64::MAX, 3).await.is_empty());
    assert!(read(1, 0).await.is_empty());
}

/// ST-11: baseline events are found, newest first, and no other.
pub async fn st_11_baselines_come_newest_first(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let snapshot = |through| -> Payload {
        let state_ref = ContentRef::of("application/json", b"{}");
        TaskSnapshot { fold: Hash::from_bytes([1; 32]), state_ref, through: Seq(through) }.into()
    };
    let seal = StepAttemptAbandoned { from_seq: Seq(2), verdict: SealVerdict::Park };
    let payloads = vec![
        note("2"),
        snapshot(2),
        note("4"),
        TaskRewound { to_seq: Seq(1) }.into(),
        seal.into(),
        snapshot(6),
        note("8"),
    ];
    bench.append(&claimed, &log.batch(&claimed, payloads)).await;
    let baselines = async |limit| bench.store().baselines(&log.id, limit).await.expect("baselines can be read");
    let all = baselines(usize::MAX).await;
    assert_eq!(seqs(&all), [7, 6, 5, 3]);
    let stored = bench.events(&log.id).await;
    assert!(all.iter().all(|event| stored.contains(event)));
    assert_eq!(seqs(&baselines(2).await), [7, 6]);
    assert!(baselines(0).await.is_empty());
}

/// ST-11: a row shows what the task was created with, whatever characters that holds (EV-6).
pub async fn st_11_a_row_shows_the_facts(subject: Subject) {
    let bench = Bench::new(subject).await;
    let parent = bench.task().await;
    let log = bench
        .task_with(|facts| {
            facts.agent = "agent \"quoted\"".into();
            facts.goal = "say \u{0} and \u{1F980}".into();
            facts.priority = 0;
            facts.queue = bench.queue("red");
            facts.labels.insert("k\u{0}".into(), "v\u{0}'; --".into());
        })
        .await;
    let row = bench.row(&log.id).await;
    assert_eq!((&row.id, &row.projection), (&log.id, &log.row));
    assert_eq!((row.facts.agent.as_str(), row.facts.priority), ("agent \"quoted\"", 0));
    assert_eq!(row.facts.goal, "say \u{0} and \u{1F980}");
    assert_eq!(row.facts.labels.get("k\u{0}").map(String::as_str), Some("v\u{0}'; --"));
    assert_eq!((row.epoch.0, row.holder, row.inbox_tail, row.idle_claims), (0, None, Position(0), 0));
    assert!(row.claimable_at.is_some_and(|time| time >= row.facts.created_at));
    let tails = bench.store().inbox_tails(&[bench.fresh_id(), log.id.clone(), parent.id.clone()]).await;
    assert_eq!(tails, Ok(vec![Position(0); 3]));
    bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    let tails = bench.store().inbox_tails(&[parent.id, log.id.clone(), log.id]).await;
    assert_eq!(tails, Ok(vec![Position(0), Position(1), Position(1)]));
}

/// ST-16: a task that does not exist has no row, and reading it says so; nothing is made by reading.
pub async fn st_16_reading_makes_nothing(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (store, nobody) = (bench.store(), bench.fresh_id());
    let unknown = StoreError::UnknownTask(nobody.clone());
    assert_eq!(store.row(&nobody).await, Ok(None));
    assert_eq!(store.read(&nobody, Seq(1), 9).await, Err(unknown.clone()));
    assert_eq!(store.baselines(&nobody, 9).await, Err(unknown.clone()));
    assert_eq!(store.inbox(&nobody, Position(0)).await, Err(unknown.clone()));
    assert_eq!(store.unblock(&nobody).await, Err(unknown.clone()));
    let watched = store.watch(&nobody, Seq(0), Position(0), Duration::ZERO).await;
    assert_eq!(watched, Err(unknown));
    assert_eq!(store.row(&nobody).await, Ok(None));
    assert!(list(&bench, TaskFilter::default(), 9).await.is_empty());
}

async fn list(bench: &Bench, filter: TaskFilter, limit: usize) -> Vec<TaskId> {
    let rows = bench.store().tasks(&filter, &Page::first(limit)).await.expect("lists can be read");
    rows.into_iter().map(|row| row.id).collect()
}

/// ST-11: lists match every member that is set, and come newest first.
pub async fn st_11_lists_are_filtered_and_newest_first(subject: Subject) {
    let bench = Bench::new(subject).await;
    let first = bench.task().await;
    let red = bench.task_with(|facts| facts.queue = bench.queue("red")).await;
    let other = bench.task_with(|facts| facts.agent = "other".into()).await;
    let over = bench.finished().await;
    let claimed = bench.hold(&bench.worker("ada"), &first.id).await;
    let (child, child_task) = bench.draft_child(&first.id).await;
    let mut batch = first.noting(&claimed, "spawns");
    batch.children = vec![child_task];
    bench.append(&claimed, &batch).await;
    let blocked = bench.hold(&bench.worker("ada"), &red.id).await;
    bench.store().block(&blocked.claim, &Blocked::Poison).await.expect("a holder may block");
    let all = TaskFilter::default();
    let mut expected: Vec<_> = Vec::new();
    for log in [&first, &red, &other, &over, &child] {
        expected.push((bench.row(&log.id).await.facts.created_at, log.id.clone()));
    }
    expected.sort_by(|a, b| b.cmp(a));
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(list(&bench, all.clone(), usize::MAX).await, expected);
    let of_queue = TaskFilter { queue: Some(bench.queue("red")), ..all.clone() };
    assert_eq!(list(&bench, of_queue.clone(), 9).await, std::slice::from_ref(&red.id));
    let of_agent = TaskFilter { agent: Some("other".into()), ..all.clone() };
    assert_eq!(list(&bench, of_agent, 9).await, [other.id]);
    let of_status = TaskFilter { status: Some(Status::Completed), ..all.clone() };
    assert_eq!(list(&bench, of_status, 9).await, [over.id]);
    let of_parent = TaskFilter { parent: Some(first.id.clone()), ..all.clone() };
    assert_eq!(list(&bench, of_parent, 9).await, std::slice::from_ref(&child.id));
    assert_eq!(list(&bench, TaskFilter { blocked: true, ..all.clone() }, 9).await, [red.id]);
    let of_prefix = TaskFilter { prefix: Some(first.id.to_string()), ..all.clone() };
    let both = list(&bench, of_prefix, 9).await;
    assert_eq!(both.len(), 2, "an id and its child's begin alike");
    assert!(both.contains(&first.id) && both.contains(&child.id));
    let wild = TaskFilter { prefix: Some("%".into()), ..all.clone() };
    assert!(list(&bench, wild, 9).await.is_empty(), "a prefix is text, not a pattern");
    assert!(list(&bench, TaskFilter { agent: Some("nobody".into()), ..of_queue }, 9).await.is_empty());
}

/// ST-11: pages of a list are disjoint, in order, and together the whole, also among tasks of
/// one moment.
pub async fn st_11_pages_add_up_to_the_list(subject: Subject) {
    let bench = Bench::new(subject).await;
    let now = bench.now().await;
    for number in 0..7 {
        bench.task_with(|facts| facts.created_at = now.plus_millis(number / 3)).await;
    }
    let whole = bench.store().tasks(&TaskFilter::default(), &Page::first(99)).await.expect("lists can be read");
    assert_eq!(whole.len(), 7);
    let mut pages: Vec<Row> = Vec::new();
    loop {
        let after = pages.last().map(|row| (row.facts.created_at, row.id.clone()));
        let page = Page { limit: 2, after };
        let part = bench.store().tasks(&TaskFilter::default(), &page).await.expect("lists can be read");
        assert!(part.len() <= 2);
        if part.is_empty() {
            break;
        }
        pages.extend(part);
    }
    assert_eq!(pages, whole);
    assert!(list(&bench, TaskFilter::default(), 0).await.is_empty());
}

/// ST-11: a watcher is told at once of what is there already, and after its timeout of nothing.
pub async fn st_11_watch_tells_what_is_there(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let watch = async |after, tail, timeout| {
        bench.store().watch(&log.id, Seq(after), Position(tail), timeout).await.expect("tasks can be watched")
    };
    assert!(watch(0, 0, NEVER).await, "an event beyond 0");
    assert!(!watch(1, 0, Duration::ZERO).await);
    assert!(!watch(1, 0, Duration::from_millis(20)).await);
    bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    assert!(watch(1, 0, NEVER).await, "an item beyond 0");
    assert!(!watch(1, 1, Duration::from_millis(20)).await);
}

/// ST-11: a watcher sees a new event and a new item within a tenth of a second, on the handle
/// that wrote it and on another.
pub async fn st_11_watch_sees_news_soon(subject: Subject) {
    let bench = Bench::new(subject).await;
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let watchers = [Some(bench.store().clone()), bench.subject.second().cloned()];
    for (round, store) in watchers.into_iter().flatten().enumerate() {
        let tail = Position(round as u64);
        let mut watch = store.watch(&log.id, log.row.seq, tail, NEVER);
        settle_in(watch.as_mut()).await;
        let batch = log.noting(&claimed, "news");
        bench.append(&claimed, &batch).await;
        let written = Instant::now();
        assert_eq!(watch.await, Ok(true));
        assert!(written.elapsed() < NEWS, "an event was seen after {:?}", written.elapsed());
        log.accept(&batch);
        let mut watch = store.watch(&log.id, log.row.seq, tail, NEVER);
        settle_in(watch.as_mut()).await;
        bench.deliver(&log.id, &bench.message("hi"), &format!("k{round}")).await;
        let written = Instant::now();
        assert_eq!(watch.await, Ok(true));
        assert!(written.elapsed() < NEWS, "an item was seen after {:?}", written.elapsed());
    }
}

/// ST-11: a worker that waits for work is told when some is there, comes, or falls due.
pub async fn st_11_waiting_for_work_ends_when_there_is_some(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let first = bench.task().await;
    bench.store().wait_claimable(&[], NEVER).await.expect("a worker can wait");
    bench.hold(&ada, &first.id).await;
    bench.store().wait_claimable(&[], Duration::ZERO).await.expect("a worker can wait");
    let store = bench.store().clone();
    let waiter = tokio::spawn(async move {
        let request =
            ClaimRequest { worker: ada, queues: Vec::new(), lease: LEASE, max: 1, task: None, except: Vec::new() };
        // Early returns are allowed: it is a hint.
        loop {
            store.wait_claimable(&[], NEVER).await.expect("a worker can wait");
            if let Some(claimed) = store.claim(&request).await.expect("claiming works").pop() {
                return claimed.claim.task;
            }
        }
    });
    tokio::task::yield_now().await;
    let second = bench.task().await;
    assert_eq!(waiter.await.expect("the waiter ends well"), second.id);
    let soon = bench.now().await.plus_millis(50);
    bench.task_with(|facts| facts.not_before = Some(soon)).await;
    let store = bench.store().clone();
    let waiter = tokio::spawn(async move { store.wait_claimable(&[], NEVER).await });
    bench.until(soon).await;
    assert_eq!(waiter.await.expect("the waiter ends well"), Ok(()));
}

/// ST-11: what is held and what falls due next is told by queue, as `--until-idle` needs it.
pub async fn st_11_the_outlook_counts_holds_and_finds_what_is_next(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let red = bench.queue("red");
    let empty = bench.store().outlook(&[]).await.expect("the outlook can be read");
    assert_eq!((empty.held, empty.next), (0, None));
    let far = empty.now.plus_millis(3_600_000);
    let farther = far.plus_millis(1);
    bench.sleeper(Wake::on(WakeKey::Message)).await;
    bench.finished().await;
    bench.task_with(|facts| (facts.queue, facts.not_before) = (red.clone(), Some(farther))).await;
    bench.sleeper(Wake { any: Vec::new(), at: Some(far) }).await;
    let held = bench.task().await;
    bench.hold(&ada, &held.id).await;
    let all = bench.store().outlook(&[]).await.expect("the outlook can be read");
    assert_eq!((all.held, all.next), (1, Some(far)), "the lease of a held task is not what is next");
    let of_red = bench.store().outlook(std::slice::from_ref(&red)).await.expect("the outlook can be read");
    assert_eq!((of_red.held, of_red.next), (0, Some(farther)));
    let lapsing = bench.task_with(|facts| facts.queue = red.clone()).await;
    let claimed = bench.hold_shortly(&ada, &lapsing.id).await;
    bench.lapse(&claimed).await;
    let of_red = bench.store().outlook(&[red]).await.expect("the outlook can be read");
    assert_eq!((of_red.held, of_red.next), (0, Some(claimed.lease_until)), "a lease that ran out holds nothing");
}

/// ST-11: a read beside a hundred appends sees a whole number of appends every time.
pub async fn st_11_reads_see_whole_appends(subject: Subject) {
    let bench = Bench::new(subject).await;
    let mut log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let (store, task) = (bench.store().clone(), log.id.clone());
    let batches: Vec<_> = (0..100)
        .map(|_| {
            let batch = log.batch(&claimed, vec![note("one"), note("two")]);
            log.accept(&batch);
            batch
        })
        .collect();
    let writer = tokio::spawn(async move {
        for batch in batches {
            store.append(&claimed.claim, &batch).await.expect("a sound batch is written");
        }
    });
    loop {
        let done = writer.is_finished();
        let read = seqs(&bench.events(&task).await);
        assert_eq!(read, (1..=read.len() as u64).collect::<Vec<_>>());
        assert_eq!(read.len() % 2, 1, "half an append was seen");
        if done {
            assert_eq!(read.len(), 201);
            break;
        }
    }
    writer.await.expect("the writer ends well");
}
