//! Workers on a store that fails them: out of reach, its answers lost, or gone on without them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::virtual_time::memory;
use crate::common::{Bench, calls, say};
use async_trait::async_trait;
use plica_conformance::faults::{Call, Fault, Faulty, Switched};
use plica_engine::{Stop, Worker, WorkerError};
use plica_kernel::event::EventType;
use plica_kernel::id::{Epoch, TaskId};
use plica_kernel::row::Status;
use plica_ports::{CallContext, Effect, Store, Tool, ToolDeclaration, ToolError, ToolOutput};
use serde_json::{Value, json};
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(30);
/// By how much a worker may be late: its longest pause between two looks.
const LATE: Duration = Duration::from_secs(3);

/// A bench whose workers meet `fault` when it is switched on.
fn bench_with(fault: Switched, replies: &[Value]) -> (Bench, Arc<Switched>) {
    let (store, fault) = (memory(), Arc::new(fault));
    let seen = Arc::new(Faulty::new(store.clone(), fault.clone()));
    (Bench::behind(store, seen, replies, |host| host), fault)
}

/// A reply that takes its time.
fn slowly(seconds: u64, mut reply: Value) -> Value {
    reply["delay_ms"] = json!(seconds * 1000);
    reply
}

/// Runs a worker to its end; says how, and how long it took.
async fn run(worker: &Worker) -> (Result<(), WorkerError>, Duration) {
    let began = Instant::now();
    let ended = worker.run(Stop::new()).await;
    (ended, began.elapsed())
}

fn gave_up((ended, after): (Result<(), WorkerError>, Duration), expected: Duration) {
    assert!(matches!(ended, Err(WorkerError::Unavailable { .. })), "{ended:?}");
    assert!(after >= expected && after < expected + LATE, "after {after:?} and not after {expected:?}");
}

async fn epochs(bench: &Bench, task: &TaskId) -> Vec<Epoch> {
    bench.events(task).await.iter().map(|event| event.epoch).collect()
}

/// ST-10: a worker that is to end by itself gives up once the store was out of reach for 30 s.
#[tokio::test(start_paused = true)]
async fn st_10_a_worker_until_idle_gives_up_after_thirty_seconds() {
    let (bench, outage) = bench_with(Switched::new(Fault::Unavailable), &[say("never")]);
    let task = bench.submit("Work.").await;
    outage.switch_on();
    gave_up(run(&bench.worker("one")).await, PATIENCE);
    gave_up(run(&bench.worker_with("two", |options| options.only = Some(task.clone()))).await, PATIENCE);
    assert_eq!(bench.status(&task).await, Status::Ready);
}

/// ST-10: a resident worker backs off and goes on, however long it lasts.
#[tokio::test(start_paused = true)]
async fn st_10_a_resident_worker_goes_on() {
    let (bench, outage) = bench_with(Switched::new(Fault::Unavailable), &[say("there again")]);
    let task = bench.submit("Work.").await;
    outage.switch_on();
    let worker = bench.worker_with("one", |options| options.until_idle = false);
    let stop = Stop::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(stop).await }
    });
    tokio::time::sleep(10 * PATIENCE).await;
    assert!(!running.is_finished());
    assert!(outage.struck() < 5_000, "{} calls in five minutes are no backing off", outage.struck());
    outage.switch_off();
    tokio::time::sleep(LATE).await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    stop.stop();
    running.await.expect("the worker ends well").expect("it was told to stop");
    bench.sound(&task).await;
}

/// ST-10: neither a lease that still holds nor a worker whose hands are full prolongs the wait.
#[tokio::test(start_paused = true)]
async fn st_10_a_long_lease_does_not_prolong_the_wait() {
    let (bench, outage) = bench_with(Switched::new(Fault::Unavailable), &[slowly(5, say("never"))]);
    let task = bench.submit("Work.").await;
    let worker = bench.worker_with("one", |options| {
        (options.concurrency, options.lease, options.only) = (1, 20 * PATIENCE, Some(task.clone()));
    });
    let running = tokio::spawn(async move { run(&worker).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    outage.switch_on();
    gave_up(running.await.expect("the worker ends well"), Duration::from_secs(5) + PATIENCE);
    let kinds = bench.kinds(&task).await;
    assert_eq!(kinds.last(), Some(&EventType::LLMRequestStarted), "nothing more was appended");
}

/// ST-10: the 30 s run over however many claims: a store that hands out tasks and takes no
/// append is no store, whether it renews leases or not.
#[tokio::test(start_paused = true)]
async fn st_10_the_wait_runs_over_however_many_claims() {
    for calls in [&[Call::Append][..], &[Call::Append, Call::Renew]] {
        let (bench, outage) = bench_with(Switched::new(Fault::Unavailable).only(calls), &[say("never")]);
        let task = bench.submit("Work.").await;
        outage.switch_on();
        gave_up(run(&bench.worker_with("one", |options| options.lease = Duration::from_secs(2))).await, PATIENCE);
        let row = bench.store.row(&task).await.expect("rows can be read").expect("the task is there");
        assert_eq!(row.epoch > Epoch(2), calls.len() > 1, "{row:?}");
        assert_eq!(row.projection.status, Status::Ready);
    }
}

/// ST-10: a call that takes longer than 30 s is no outage: a short one at its end is waited out.
#[tokio::test(start_paused = true)]
async fn st_10_a_long_call_is_no_outage() {
    let (bench, outage) = bench_with(Switched::new(Fault::Unavailable), &[slowly(90, say("at last"))]);
    let task = bench.submit("Work.").await;
    let worker = bench.worker("one");
    let running = tokio::spawn(async move { run(&worker).await });
    tokio::time::sleep(Duration::from_secs(89)).await;
    outage.switch_on();
    tokio::time::sleep(Duration::from_secs(8)).await;
    outage.switch_off();
    let (ended, after) = running.await.expect("the worker ends well");
    ended.expect("it was over in time");
    assert!(after < Duration::from_secs(97) + LATE, "{after:?}");
    assert_eq!(bench.status(&task).await, Status::Completed);
    assert!(epochs(&bench, &task).await.iter().all(|epoch| *epoch <= Epoch(1)), "the claim was kept");
    bench.sound(&task).await;
}

/// ST-10: a task that waits for a timer is no outage either.
#[tokio::test(start_paused = true)]
async fn st_10_waiting_for_what_is_not_due_is_no_outage() {
    let (bench, outage) = bench_with(Switched::new(Fault::Unavailable), &[say("in time")]);
    let mut submission = plica_engine::Submission::new(bench.definition.clone(), "Later.");
    submission.not_before = Some(plica_engine::NotBefore::In(Duration::from_secs(120)));
    let task = bench.client.submit(submission).await.expect("it is submitted").id;
    let worker = bench.worker("one");
    let running = tokio::spawn(async move { run(&worker).await });
    tokio::time::sleep(Duration::from_secs(100)).await;
    outage.switch_on();
    tokio::time::sleep(Duration::from_secs(10)).await;
    outage.switch_off();
    running.await.expect("the worker ends well").0.expect("it was over in time");
    assert_eq!(bench.status(&task).await, Status::Completed);
}

/// ST-10: a task whose lease is over by the worker's own clock is given up, and taken up again.
#[tokio::test(start_paused = true)]
async fn st_10_a_task_is_given_up_once_its_lease_is_over_and_taken_up_again() {
    let (bench, outage) = bench_with(
        Switched::new(Fault::Unavailable).only(&[Call::Append, Call::Renew]),
        &[slowly(2, calls(&["a"])), say("done")],
    );
    let task = bench.submit("Work.").await;
    let worker = bench.worker_with("one", |options| {
        (options.lease, options.until_idle) = (Duration::from_secs(10), false);
    });
    let stop = Stop::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(stop).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    outage.switch_on();
    tokio::time::sleep(Duration::from_secs(14)).await;
    let row = bench.store.row(&task).await.expect("rows can be read").expect("the task is there");
    assert!(row.epoch > Epoch(1), "the task was not given up: {row:?}");
    outage.switch_off();
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    assert_eq!(bench.note.keys.lock().unwrap().len(), 1, "the call of the reply that counts");
    stop.stop();
    running.await.expect("the worker ends well").expect("it was told to stop");
    bench.sound(&task).await;
}

/// ST-9: whether each commit's answer is lost after it was written, before, or while it is on its
/// way, a worker finds out and goes on: nothing is appended twice, no call is made twice.
#[tokio::test(start_paused = true)]
async fn st_9_a_worker_finds_out_what_became_of_every_commit() {
    for fault in [Fault::LostAfterCommit, Fault::LostBeforeCommit, Fault::LostOnItsWay] {
        let appends = AtomicU64::new(0);
        let store = memory();
        // Every first try of an append is lost; what is tried again gets through.
        let faults = move |call| {
            let is_struck = call == Call::Append && appends.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            is_struck.then_some(fault)
        };
        let seen = Arc::new(Faulty::new(store.clone(), Arc::new(faults)));
        let replies = [calls(&["a"]), calls(&["b", "c"]), say("done")];
        let bench = Bench::behind(store, seen, &replies, |host| host);
        let task = bench.submit("Work.").await;
        run(&bench.worker("one")).await.0.expect("every answer can be found out");
        assert_eq!(bench.status(&task).await, Status::Completed, "{fault:?}");
        let kinds = bench.kinds(&task).await;
        let count = |kind| kinds.iter().filter(|one| **one == kind).count();
        assert_eq!((count(EventType::ToolCallStarted), count(EventType::ToolCallFinished)), (3, 3));
        assert_eq!(bench.note.keys.lock().unwrap().len(), 3);
        assert!(epochs(&bench, &task).await.iter().all(|epoch| *epoch <= Epoch(1)), "the claim was kept");
        bench.sound(&task).await;
    }
}

/// ST-9: a claim whose answer was lost is found by asking what the store thinks is held, and
/// taken up without waiting for its lease.
#[tokio::test(start_paused = true)]
async fn st_9_a_worker_takes_up_what_a_lost_claim_gave_it() {
    let (bench, lost) = bench_with(Switched::new(Fault::LostAfterCommit).only(&[Call::Claim]), &[say("done")]);
    let task = bench.submit("Work.").await;
    lost.strike(1);
    let (ended, after) = run(&bench.worker("one")).await;
    ended.expect("the claim is found");
    assert!(after < Duration::from_secs(1), "{after:?}: it waited for the lease");
    assert_eq!((bench.status(&task).await, lost.struck()), (Status::Completed, 1));
    assert_eq!(epochs(&bench, &task).await.last(), Some(&Epoch(2)));
    bench.sound(&task).await;
}

/// Takes a minute for each call.
struct Slow {
    declaration: ToolDeclaration,
    ended: AtomicU64,
}

impl Slow {
    fn new() -> Self {
        let declaration = ToolDeclaration {
            name: "Slow".into(),
            description: "Takes its time.".into(),
            schema: r#"{"type":"object"}"#.into(),
            effect: Effect::Mutation,
            retry_safe: false,
            version: "1".into(),
        };
        Self { declaration, ended: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Tool for Slow {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, _: &str, _: &CallContext) -> Result<ToolOutput, ToolError> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        self.ended.fetch_add(1, Ordering::Relaxed);
        Ok(ToolOutput::text("at last"))
    }
}

/// ST-5: a worker that stalls (its heart stands still, its tool runs on) and wakes after another
/// has claimed is refused at its first append: nothing of it is in the log after the other's
/// first event, and its result is late evidence at most (RC-6).
#[tokio::test(start_paused = true)]
async fn st_5_a_worker_that_stalled_appends_nothing_more() {
    let store = memory();
    let stall = Arc::new(
        Switched::new(Fault::Delay { before: Duration::from_secs(3600), after: Duration::ZERO })
            .only(&[Call::Renew, Call::InboxTails]),
    );
    let seen = Arc::new(Faulty::new(store.clone(), stall.clone()));
    let (slow, replies) =
        (Arc::new(Slow::new()), [json!({"text": "", "calls": [{"tool": "Slow", "args": {}}]}), say("done")]);
    let tool = slow.clone();
    let mut stalled = Bench::behind(store.clone(), seen, &replies, |host| host.tool(tool));
    stalled.definition.tools.push("Slow".into());
    let task = stalled.submit("Work.").await;
    stall.switch_on();
    let worker = stalled.worker("stalled");
    let stalling = tokio::spawn(async move { run(&worker).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(stalled.kinds(&task).await.last(), Some(&EventType::ToolCallStarted));

    let other = Bench::behind(store.clone(), store, &replies, |host| host.tool(Arc::new(Slow::new())));
    run(&other.worker("other")).await.0.expect("the lease runs out and the task is taken over");
    assert_eq!(other.status(&task).await, Status::Completed);
    let before = epochs(&other, &task).await;
    assert_eq!(slow.ended.load(Ordering::Relaxed), 0, "the stalled worker's tool still runs");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(slow.ended.load(Ordering::Relaxed), 1, "and ends, after the other has the task");
    let after = epochs(&other, &task).await;
    assert_eq!(after[..before.len()], before);
    let taken_over = after.iter().position(|epoch| *epoch == Epoch(2)).expect("the other appended");
    assert!(after[taken_over..].iter().all(|epoch| *epoch >= Epoch(2)), "the stalled worker appended: {after:?}");
    stalling.await.expect("the stalled worker ends well").0.expect("it goes on with other work");
    other.sound(&task).await;
}

/// ST-19: a worker is listed while it works, longer than twice its lease too, and no more when
/// it has ended.
#[tokio::test(start_paused = true)]
async fn st_19_a_worker_is_listed_while_it_works() {
    let (bench, _) = bench_with(Switched::new(Fault::Unavailable), &[slowly(300, say("done"))]);
    bench.submit("Work.").await;
    let worker = bench.worker("one");
    let running = tokio::spawn(async move { run(&worker).await });
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(70)).await;
        let living = bench.store.workers().await.expect("workers can be read");
        assert_eq!(living.iter().map(|worker| worker.id.as_str()).collect::<Vec<_>>(), ["one"]);
    }
    running.await.expect("the worker ends well").0.expect("nothing is left");
    assert_eq!(bench.store.workers().await, Ok(Vec::new()));
}
