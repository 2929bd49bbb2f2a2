//! Workers on a store that fails them: out of reach, its answers lost, or gone on without them.

mod common;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use common::{Bench, calls, say};
use plica_conformance::faults::{Call, Fault, Faulty, Switched};
use plica_engine::{Stop, Worker, WorkerError};
use plica_kernel::event::EventType;
use plica_kernel::id::{Epoch, TaskId};
use plica_kernel::row::Status;
use plica_kernel::time::Timestamp;
use plica_memory::{MemoryStore, StoreClock};
use plica_ports::Store;
use serde_json::{Value, json};
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(30);
/// By how much a worker may be late: its longest pause between two looks.
const LATE: Duration = Duration::from_secs(3);

/// The runtime's virtual time, so that leases and back-offs pass as fast as nothing happens.
struct Virtual(Instant);

#[async_trait]
impl StoreClock for Virtual {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.0.elapsed().as_micros()).expect("a test is short");
        Timestamp::from_micros(1_796_031_682_123_456 + passed)
    }

    async fn reached(&self, time: Timestamp) {
        let left = u64::try_from(time.micros() - self.now().micros()).unwrap_or(0);
        tokio::time::sleep(Duration::from_micros(left)).await;
    }
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::with(Arc::new(Virtual(Instant::now())), 1))
}

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
/// append is no store.
#[tokio::test(start_paused = true)]
async fn st_10_the_wait_runs_over_however_many_claims() {
    let (bench, outage) = bench_with(Switched::new(Fault::Unavailable).only(&[Call::Append]), &[say("never")]);
    let task = bench.submit("Work.").await;
    outage.switch_on();
    gave_up(run(&bench.worker_with("one", |options| options.lease = Duration::from_secs(2))).await, PATIENCE);
    let row = bench.store.row(&task).await.expect("rows can be read").expect("the task is there");
    assert!(row.epoch > Epoch(2), "one claim only");
    assert_eq!(row.projection.status, Status::Ready);
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
    submission.not_before = Some(bench.store.now().await.expect("a store tells the time").plus_millis(120_000));
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

/// ST-10: what cannot be mended by waiting is not waited for.
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
