//! Observers that keep their place in the log (EN-5, EN-9), in virtual time; the one that is tried
//! is the example that ships.

#[expect(dead_code, reason = "the example's own main")]
#[path = "../../examples/audit.rs"]
mod audit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use audit::{Audit, Tally};
use plica_conformance::layer::{Layer, Layered};
use plica_engine::{HostBuilder, Stop};
use plica_kernel::decode::decode;
use plica_kernel::envelope::{Envelope, Origin};
use plica_kernel::event::{EventType, FailureReason, Payload};
use plica_kernel::id::{DedupKey, Seq, TaskId};
use plica_kernel::limits::OBSERVED_EVENTS_MAX;
use plica_kernel::row::Status;
use plica_kernel::wake::Item;
use plica_ports::store::{AppendError, Appended, Batch, Claim, StoreError, StoredEvent};
use plica_ports::{Observer, Outgoing, Parcel, Progress, Store};
use serde_json::json;
use tokio::sync::Notify;

use crate::common::say;
use crate::waits::stage::{Stage, call, calls};

const USER: &str = "user:ada";

fn note(text: &str) -> serde_json::Value {
    calls(&[call("Note", json!({ "note": text }))])
}

fn audited(stage: &Stage) -> impl FnOnce(HostBuilder) -> HostBuilder + use<> {
    let note = stage.note.clone();
    |host| host.tool(note).observer(Arc::new(Audit::default()))
}

async fn events(stage: &Stage, task: &TaskId) -> Vec<Envelope> {
    let stored = stage.store.read(task, Seq(1), usize::MAX).await.unwrap();
    stored.iter().map(|stored| decode(&stored.body, &stored.hash).unwrap()).collect()
}

fn is_of_observer(event: &Envelope) -> bool {
    event.kind() == EventType::ExtensionRecorded && event.origin == Origin::Observer
}

/// The tally on record counts exactly the events up to the place beside it, and only records of
/// progress come after that; both are of one append.
async fn is_exact(stage: &Stage, task: &TaskId) {
    let state = stage.client.state(task, None, false).await.unwrap();
    let records = &state.governance().extensions[Audit::PLUGIN];
    let tally = stage.client.text(task, &records[Audit::TALLY]).await.unwrap();
    let tally: Tally = serde_json::from_str(&tally).unwrap();
    let place: serde_json::Value = serde_json::from_str(records["delivered_through"].inline().unwrap()).unwrap();
    let events = events(stage, task).await;
    let (seen, after) = events.split_at(usize::try_from(place["seq"].as_u64().unwrap()).unwrap());
    assert!(after.iter().all(is_of_observer), "{:?}", after.iter().map(Envelope::kind).collect::<Vec<_>>());
    assert_eq!(after.iter().map(|event| event.more).collect::<Vec<_>>(), [1, 0], "one append has both records");
    let mut counted = Tally::default();
    seen.iter().for_each(|event| counted.count(event));
    assert_eq!(tally, counted);
    stage.is_at_rest(task).await;
}

#[tokio::test(start_paused = true)]
async fn en_5_en_9_a_task_is_handed_back_once_records_have_landed() {
    let stage = Stage::new(&[("main", &[say("one"), note("a"), say("two")])]);
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    is_exact(&stage, &task).await;
    stage.client.send(&task, USER, "Go on.").await.unwrap();
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    is_exact(&stage, &task).await;
    assert_eq!(stage.count(&task, EventType::TaskSuspended).await, 2);
    let state = stage.client.state(&task, None, false).await.unwrap();
    let text = stage.client.text(&task, &state.governance().extensions["audit"]["tally"]).await.unwrap();
    let tally: Tally = serde_json::from_str(&text).unwrap();
    assert_eq!(tally.by_actor["user:ada"]["MessagesAppended"], 1, "what is done is attributed to who did it");
    assert_eq!(tally.by_actor["tool:Note"]["ToolCallStarted"], 1);
    assert_eq!(tally.by_origin["tool"], 3, "a start, an end, and the tool's own record");
}

#[tokio::test(start_paused = true)]
async fn en_5_what_is_seen_of_the_end_is_on_record_after_it() {
    let stage = Stage::new(&[("main", &[say("done")])]);
    let task = stage.submit(|_| ()).await;
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    is_exact(&stage, &task).await;
    let kinds = stage.kinds(&task).await;
    assert_eq!(
        kinds[kinds.len() - 3..],
        [EventType::TaskCompleted, EventType::ExtensionRecorded, EventType::ExtensionRecorded]
    );
    assert_eq!(stage.client.answer(&task).await.unwrap().as_deref(), Some("done"));
    // Late evidence may follow, and is seen too.
    stage.client.reopen(&task, USER, None).await.unwrap();
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    is_exact(&stage, &task).await;
}

/// Does something at the first append that holds nothing but records of observers.
struct AtRecords {
    inner: Arc<dyn Store>,
    begun: Notify,
    struck: AtomicBool,
    /// A message that comes at that moment; else the worker goes no further.
    message: Option<&'static str>,
}

impl AtRecords {
    fn new(stage: &Stage, message: Option<&'static str>) -> Arc<Layered<Self>> {
        let (begun, struck) = (Notify::new(), AtomicBool::new(false));
        Arc::new(Layered(Self { inner: stage.store.clone(), begun, struck, message }))
    }
}

#[async_trait]
impl Layer for AtRecords {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let records = batch.events.iter().all(|event| event.kind == EventType::ExtensionRecorded);
        if records && !self.struck.swap(true, Ordering::Relaxed) {
            self.begun.notify_one();
            match self.message {
                None => std::future::pending().await,
                Some(text) => {
                    let item = Item::Message { text: text.into() };
                    let key = DedupKey::new("meanwhile").unwrap();
                    self.inner.deliver(&batch.task, USER, &item, &key).await.unwrap();
                }
            }
        }
        self.inner.append(claim, batch).await
    }
}

/// The wait and the end stand once, whoever has to show the rest.
#[tokio::test(start_paused = true)]
async fn en_5_a_crash_before_the_records_lets_the_lease_end_and_writes_no_wait_twice() {
    for interactive in [true, false] {
        let stage = Stage::new(&[("main", &[note("a"), say("one")])]);
        let task = stage.submit(|submission| submission.definition.interactive = interactive).await;
        let seen = AtRecords::new(&stage, None);
        let worker = stage.worker_on(seen.clone(), audited(&stage));
        let works = tokio::spawn(async move { worker.run(Stop::new()).await });
        seen.0.begun.notified().await;
        works.abort();
        assert!(works.await.unwrap_err().is_cancelled());
        let row = stage.row(&task).await;
        assert!(row.holder.is_some() && row.claimable_at == row.lease_until, "it is kept until the records land");
        let length = row.projection.seq;
        tokio::time::sleep(Duration::from_secs(31)).await;
        stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
        is_exact(&stage, &task).await;
        let written = events(&stage, &task).await;
        assert!(written.iter().filter(|event| event.seq > length).all(is_of_observer), "nothing is written twice");
        let status = if interactive { Status::Waiting } else { Status::Completed };
        assert_eq!(stage.status(&task).await, status);
    }
}

/// What comes in the moment before is not slept through.
#[tokio::test(start_paused = true)]
async fn en_5_a_message_that_comes_before_the_records_is_answered_first() {
    let stage = Stage::new(&[("main", &[say("one"), say("two")])]);
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    let seen = AtRecords::new(&stage, Some("and?"));
    stage.worker_on(seen, audited(&stage)).run(Stop::new()).await.unwrap();
    assert_eq!(stage.client.answer(&task).await.unwrap().as_deref(), Some("two"));
    is_exact(&stage, &task).await;
}

/// A crash in the middle of a turn: what was shown and not recorded is shown again.
#[tokio::test(start_paused = true)]
async fn en_5_every_event_is_counted_once_whatever_crash_comes_between() {
    let stage = Stage::new(&[("main", &[note("a"), note("hang"), note("b"), say("done")])]);
    let task = stage.submit(|_| ()).await;
    let worker = stage.worker_of(audited(&stage));
    let works = tokio::spawn(async move { worker.run(Stop::new()).await });
    stage.note.begun.notified().await;
    works.abort();
    tokio::time::sleep(Duration::from_secs(31)).await;
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    assert_eq!(stage.status(&task).await, Status::Completed);
    is_exact(&stage, &task).await;
}

/// A long turn records the place on its way, so a crash costs no more than so many events.
#[tokio::test(start_paused = true)]
async fn en_5_a_long_turn_records_its_place_on_the_way() {
    let mut replies: Vec<_> = (0..60).map(|_| note("again")).collect();
    replies.push(say("done"));
    let stage = Stage::new(&[("main", &replies)]);
    let task = stage.submit(|_| ()).await;
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    let events = events(&stage, &task).await;
    let places: Vec<u64> = events.iter().filter(|event| is_of_observer(event)).map(|event| event.seq.0).collect();
    assert!(places[0] > OBSERVED_EVENTS_MAX && places[0] < OBSERVED_EVENTS_MAX + 20, "{places:?}");
    is_exact(&stage, &task).await;
}

/// Fails at everything that it is asked for.
struct Broken;

impl Observer for Broken {
    fn committed(&self, _: &Envelope, _: &[u8]) {
        panic!("it cannot look");
    }

    fn progress(&self) -> Option<&dyn Progress> {
        Some(self)
    }
}

impl Progress for Broken {
    fn plugin(&self) -> &str {
        "broken"
    }

    fn resumes(&self, _: &TaskId, _: &std::collections::BTreeMap<String, String>) {
        panic!("it cannot take anything up");
    }

    fn records(&self, _: &TaskId) -> Vec<(String, String)> {
        panic!("it has nothing to say");
    }
}

#[tokio::test(start_paused = true)]
async fn en_5_the_failure_of_an_observer_that_keeps_its_place_changes_nothing() {
    let stage = Stage::new(&[("main", &[note("a"), say("done")])]);
    let task = stage.submit(|_| ()).await;
    let note = stage.note.clone();
    let worker =
        stage.worker_of(|host| host.tool(note).observer(Arc::new(Broken)).observer(Arc::new(Audit::default())));
    worker.run(Stop::new()).await.unwrap();
    assert_eq!(stage.status(&task).await, Status::Completed);
    let state = stage.client.state(&task, None, false).await.unwrap();
    assert_eq!(state.governance().extensions["broken"].len(), 1, "its place alone is on record");
    stage.is_at_rest(&task).await;
}

/// A worker without the observer leaves the tasks that it follows alone (RC-8).
#[tokio::test(start_paused = true)]
async fn rc_8_a_task_that_is_audited_is_left_to_workers_that_audit_it() {
    let stage = Stage::new(&[("main", &[say("one"), say("two")])]);
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    stage.client.send(&task, USER, "Go on.").await.unwrap();
    stage.work().await;
    let last = stage.payloads(&task).await.pop();
    let Some(Payload::TaskFailed(failed)) = last else { panic!("{last:?}") };
    assert!(failed.detail.is_some_and(|detail| detail.contains("observer audit 1 of host")));
}

/// What joined as the task failed is taken once, also when its end is then shown to observers.
#[tokio::test(start_paused = true)]
async fn rc_8_en_5_a_task_that_fails_for_want_of_a_tool_is_shown_to_its_end() {
    let stage = Stage::new(&[("main", &[note("a"), say("one"), say("two")])]);
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    stage.client.send(&task, USER, "Go on.").await.unwrap();
    stage.worker_of(|host| host.observer(Arc::new(Audit::default()))).run(Stop::new()).await.unwrap();
    let failed = events(&stage, &task).await.into_iter().rev().find(|event| !is_of_observer(event));
    let Some(Payload::TaskFailed(failed)) = failed.map(|event| event.payload) else { panic!("it failed") };
    assert_eq!(failed.reason, FailureReason::PluginMissing);
    is_exact(&stage, &task).await;
}

/// A store that cannot be read once.
struct Unreadable {
    inner: Arc<dyn Store>,
    left: AtomicUsize,
}

#[async_trait]
impl Layer for Unreadable {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let strikes = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match strikes {
            Ok(_) => Err(StoreError::Unavailable("down".into())),
            Err(_) => self.inner.read(task, from, limit).await,
        }
    }
}

/// Nothing hands out a task again that is at rest: a worker that cannot show what is left of it now
/// leaves the claim to the end of its lease.
#[tokio::test(start_paused = true)]
async fn en_5_an_outage_before_the_records_does_not_lose_what_is_to_be_shown() {
    let stage = Stage::new(&[("main", &[say("one")])]);
    let task = stage.submit(|_| ()).await;
    let seen = AtRecords::new(&stage, None);
    let worker = stage.worker_on(seen.clone(), audited(&stage));
    let works = tokio::spawn(async move { worker.run(Stop::new()).await });
    seen.0.begun.notified().await;
    works.abort();
    assert!(works.await.unwrap_err().is_cancelled());
    tokio::time::sleep(Duration::from_secs(31)).await;
    let broken = Arc::new(Layered(Unreadable { inner: stage.store.clone(), left: AtomicUsize::new(1) }));
    stage.worker_on(broken, audited(&stage)).run(Stop::new()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(31)).await;
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    is_exact(&stage, &task).await;
}

/// A fork has a log of its own, which is audited from its first event; a rewind goes on with its
/// own, dead events included.
#[tokio::test(start_paused = true)]
async fn en_5_a_fork_is_followed_from_its_own_beginning_and_a_rewind_goes_on() {
    let stage = Stage::new(&[("main", &[say("one"), say("two"), say("three")])]);
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    let boundary = stage.kinds(&task).await.iter().position(|kind| *kind == EventType::TaskSuspended).unwrap() + 1;
    let boundary = Seq(boundary as u64);
    let fork = stage.client.fork(&task, USER, Some(boundary)).await.unwrap();
    stage.client.send(&task, USER, "Go on.").await.unwrap();
    stage.client.send(&fork, USER, "Go on here.").await.unwrap();
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    is_exact(&stage, &fork).await;
    stage.client.rewind(&task, USER, boundary).await.unwrap();
    stage.worker_of(audited(&stage)).run(Stop::new()).await.unwrap();
    assert_eq!(stage.count(&task, EventType::TaskRewound).await, 1);
    is_exact(&stage, &task).await;
}

/// Tells another task when one has ended.
struct Herald(TaskId);

impl Observer for Herald {
    fn committed(&self, _: &Envelope, _: &[u8]) {}

    fn progress(&self) -> Option<&dyn Progress> {
        Some(self)
    }
}

impl Progress for Herald {
    fn plugin(&self) -> &str {
        "herald"
    }

    fn resumes(&self, _: &TaskId, _: &std::collections::BTreeMap<String, String>) {}

    fn records(&self, _: &TaskId) -> Vec<(String, String)> {
        Vec::new()
    }

    fn outgoing(&self, _: &TaskId) -> Vec<Outgoing> {
        let parcel = Parcel::Event { data: Some("1".into()), kind: "rested".into() };
        vec![Outgoing { task: self.0.clone(), parcel, key: "once".into() }]
    }
}

/// What an observer sends goes with its place, once however often it is sent.
#[tokio::test(start_paused = true)]
async fn en_9_an_observers_parcels_go_with_its_place() {
    let wait = calls(&[call("Wait", json!({ "event": "rested" }))]);
    let stage = Stage::new(&[("other", &[wait, say("heard")]), ("main", &[say("one"), say("two")])]);
    let other = stage.submit_to("other").await;
    let task = stage.submit(|submission| submission.definition.interactive = true).await;
    for _ in 0..2 {
        let (note, herald) = (stage.note.clone(), Arc::new(Herald(other.clone())));
        stage.worker_of(|host| host.tool(note).observer(herald)).run(Stop::new()).await.unwrap();
        stage.client.send(&task, USER, "Go on.").await.unwrap();
    }
    assert_eq!(stage.status(&other).await, Status::Completed);
    assert_eq!(stage.count(&other, EventType::TaskWoken).await, 1);
    let state = stage.client.state(&task, None, false).await.unwrap();
    assert_eq!(state.governance().extensions["herald"].len(), 1);
    stage.is_at_rest(&other).await;
}
