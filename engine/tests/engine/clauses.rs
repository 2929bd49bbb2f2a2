//! Clauses that only a whole engine keeps.

use std::sync::{Arc, Mutex};

use crate::common::{Bench, calls, say};
use plica_engine::{Audience, Host, LoadOptions, Stop, load};
use plica_kernel::envelope::Envelope;
use plica_kernel::event::{CallStatus, EventType, FailureReason, LateKind, Payload};
use plica_kernel::id::{CallId, DedupKey, Position, Seq, TaskId};
use plica_kernel::row::Status;
use plica_kernel::wake::Item;
use plica_memory::MemoryStore;
use plica_ports::{ContentStore, Delta, Guard, GuardView, Observer, Ruling, Store};
use serde_json::json;

struct Watcher {
    seen: Mutex<Vec<(Seq, usize)>>,
    store: Arc<MemoryStore>,
}

impl Observer for Watcher {
    fn committed(&self, event: &Envelope, body: &[u8]) {
        // What is seen is on record already: the store can be read, so no lock of it is held.
        let task = event.task.clone();
        let store = self.store.clone();
        let seq = event.seq;
        let stored = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { store.read(&task, seq, 1).await.unwrap() })
        });
        assert_eq!(stored.join().unwrap()[0].body, body);
        self.seen.lock().unwrap().push((event.seq, body.len()));
    }
}

struct Broken;

impl Observer for Broken {
    fn committed(&self, _: &Envelope, _: &[u8]) {
        panic!("an observer has a bug");
    }
}

#[tokio::test]
async fn en_5_observers_see_what_was_committed_in_order_and_change_nothing() {
    let mut bench = Bench::new(&[calls(&["a"]), say("done")]);
    let watcher = Arc::new(Watcher { seen: Mutex::default(), store: bench.store.clone() });
    bench.host = Host::builder(bench.store.clone(), bench.scripts.clone())
        .tool(bench.note.clone())
        .observer(Arc::new(Broken))
        .observer(watcher.clone())
        .build();
    let task = bench.submit("Work.").await;
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    let seen: Vec<u64> = watcher.seen.lock().unwrap().iter().map(|(seq, _)| seq.0).collect();
    let committed: Vec<u64> =
        bench.events(&task).await.iter().map(|event| event.seq.0).filter(|seq| *seq > 2).collect();
    assert_eq!(seen, committed, "creation apart, which no worker commits");
}

#[derive(Default)]
struct Listener(Mutex<Vec<(Seq, Delta)>>);

impl Audience for Listener {
    fn hears(&self, _: &TaskId, request: Seq, delta: Delta) {
        self.0.lock().unwrap().push((request, delta));
    }
}

struct Fainting;

impl Audience for Fainting {
    fn hears(&self, _: &TaskId, _: Seq, _: Delta) {
        panic!("an audience has a bug");
    }
}

/// MO-1: deltas reach an audience under the name of their request; nothing of them is recorded,
/// and an audience that panics changes nothing.
#[tokio::test]
async fn mo_1_an_audience_hears_replies_and_changes_nothing() {
    let replies = [calls(&["a"]), say("all is done")];
    let listener = Arc::new(Listener::default());
    let audiences: [Arc<dyn Audience>; 2] = [listener.clone(), Arc::new(Fainting)];
    let mut kinds = Vec::new();
    for audience in audiences {
        let store = Arc::new(MemoryStore::new());
        let bench = Bench::behind(store.clone(), store, &replies, |host| host.audience(audience));
        let task = bench.submit("Work.").await;
        bench.work().await;
        let events = bench.events(&task).await;
        let requests = events.iter().filter(|event| event.kind() == EventType::LLMRequestStarted);
        kinds.push((requests.map(|event| event.seq).collect::<Vec<_>>(), events.len()));
        assert_eq!(bench.client.answer(&task).await.unwrap().as_deref(), Some("all is done"));
    }
    assert_eq!(kinds[0], kinds[1]);
    let heard = listener.0.lock().unwrap();
    let words = ["all ", "is ", "done"].map(|word| (kinds[0].0[1], Delta::Text(word.into())));
    assert_eq!(heard[..], words, "under the seq of the second request");
}

#[tokio::test]
async fn en_9_a_tools_records_land_with_its_outcome() {
    let bench = Bench::new(&[calls(&["a", "b"]), say("done")]);
    let task = bench.submit("Work.").await;
    bench.work().await;
    let events = bench.events(&task).await;
    let outcomes =
        events.iter().zip(events.iter().skip(1)).filter(|(event, _)| event.kind() == EventType::ToolCallFinished);
    let mut count = 0;
    for (outcome, record) in outcomes {
        assert_eq!(record.kind(), EventType::ExtensionRecorded);
        assert!(outcome.more > 0, "the record is of the outcome's own append");
        count += 1;
    }
    assert_eq!(count, 2);
    let state = bench.client.state(&task, None, false).await.unwrap();
    assert!(state.governance().extensions["note"].contains_key("last"));
    bench.sound(&task).await;
}

#[tokio::test]
async fn fo_6_the_fold_needs_no_content() {
    let long = "x".repeat(5_000);
    let bench = Bench::new(&[calls(&[&long]), say(&long)]);
    let task = bench.submit(&long).await;
    bench.work().await;
    let empty = MemoryStore::new();
    let content: &dyn ContentStore = &empty;
    let options = LoadOptions { ignore_snapshots: true, ..LoadOptions::default() };
    let state = load(&*bench.store, content, &task, options).await.unwrap();
    assert_eq!(state.status(), Status::Completed);
    assert_eq!(state.to_bytes().unwrap(), bench.client.state(&task, None, false).await.unwrap().to_bytes().unwrap());
}

#[tokio::test]
async fn to_6_a_call_knows_its_fence() {
    let bench = Bench::new(&[calls(&["a"]), say("done")]);
    let task = bench.submit("Work.").await;
    bench.work().await;
    let events = bench.events(&task).await;
    let started = events.iter().find(|event| event.kind() == EventType::ToolCallStarted).unwrap();
    assert_eq!(*bench.note.fences.lock().unwrap(), [(started.epoch, started.run.clone())]);
}

/// SP-2: neither appends nor bytes of a round grow with the task's length, nor does what a
/// snapshot writes, which seals what came since the last.
#[tokio::test]
async fn sp_2_nothing_grows_with_a_tasks_length() {
    let mut replies: Vec<_> = (0..220).map(|_| calls(&["the same note"])).collect();
    replies.push(say("done"));
    let bench = Bench::new(&replies);
    let task = bench.submit("Work.").await;
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    let stored = bench.store.read(&task, Seq(1), usize::MAX).await.unwrap();
    let events = bench.events(&task).await;
    let plans: Vec<usize> =
        (0..events.len()).filter(|at| events[*at].kind() == EventType::ContextPlanComposed).collect();
    let round = |nth: usize| plans[nth]..plans[nth + 1];
    let bytes = |nth: usize| stored[round(nth)].iter().map(|event| event.body.len()).sum::<usize>();
    let appends = |nth: usize| events[round(nth)].iter().filter(|event| event.more == 0).count();
    // Rounds without a snapshot; the numbers in them have a digit more as the log grows.
    for nth in [25, 105, 205] {
        assert_eq!(appends(nth), 2, "round {nth}");
        assert!(bytes(nth) <= bytes(25) + 64, "round {nth}: {} bytes, round 25: {}", bytes(nth), bytes(25));
    }
    let sizes: Vec<u64> = events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::TaskSnapshot(taken) => Some(taken.state_ref.size),
            _ => None,
        })
        .collect();
    assert!(sizes.len() >= 10);
    // The open tail has at most 128 entries, whatever came before.
    assert!(sizes.iter().max().unwrap() <= &(sizes[2] * 4), "{sizes:?}");
    bench.sound(&task).await;
}

/// SP-3: status, lists and what is next need heads and references, not bodies.
#[tokio::test]
async fn sp_3_what_is_next_needs_no_bodies() {
    use plica_kernel::decide::{Act, Inputs, Next, next};
    let long = "x".repeat(5_000);
    let bench = Bench::new(&[calls(&[&long, "hang"]), say("done")]);
    let task = bench.submit(&long).await;
    bench.crash_in_a_call().await;
    let empty = MemoryStore::new();
    let content: &dyn ContentStore = &empty;
    let state = load(&*bench.store, content, &task, LoadOptions::default()).await.unwrap();
    let inputs = Inputs {
        now: state.head().at,
        items: Vec::new(),
        run: plica_kernel::id::RunId::new("another").unwrap(),
        rewinds: Default::default(),
        pins: state.governance().pins.clone(),
        foreseen: Default::default(),
        spawns: Default::default(),
        stopping: false,
        unusable: None,
    };
    assert_eq!(state.status(), Status::Running);
    assert!(matches!(next(&state, &inputs), Next::Act(Act::Settle(_))));
}

/// Allows everything until it is told to deny everything.
struct Fickle(Mutex<bool>);

impl Guard for Fickle {
    fn name(&self) -> &str {
        "fickle"
    }

    fn rule(&self, _: &GuardView<'_>) -> Ruling {
        if *self.0.lock().unwrap() { Ruling::Deny { reason: "no more".into() } } else { Ruling::Allow { rule: None } }
    }
}

#[tokio::test]
async fn rc_5_a_recovered_call_does_not_pass_the_guards_again() {
    let mut bench = Bench::new(&[calls(&["hang"]), say("done")]);
    let guard = Arc::new(Fickle(Mutex::new(false)));
    bench.host =
        Host::builder(bench.store.clone(), bench.scripts.clone()).tool(bench.note.clone()).guard(guard.clone()).build();
    let task = bench.submit("Work.").await;
    bench.crash_in_a_call().await;
    *guard.0.lock().unwrap() = true;
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    let events = bench.events(&task).await;
    assert!(events.iter().all(|event| event.kind() != EventType::ToolCallDenied));
    let finished: Vec<CallStatus> = events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::ToolCallFinished(finished) => Some(finished.status),
            _ => None,
        })
        .collect();
    assert_eq!(finished, [CallStatus::Unknown]);
    bench.sound(&task).await;
}

#[tokio::test]
async fn rc_6_a_worker_that_lost_its_claim_appends_nothing_more() {
    let bench = Bench::new(&[calls(&["hang"]), say("done")]);
    let task = bench.submit("Work.").await;
    let stalled = bench.worker("stalled");
    let stop = Stop::new();
    let told = stop.clone();
    let work = tokio::spawn(async move { stalled.run(told).await });
    bench.note.begun.notified().await;
    bench.clock.advance(std::time::Duration::from_secs(31));
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    let events = bench.events(&task).await;
    stop.stop();
    work.await.unwrap().unwrap();
    assert_eq!(bench.events(&task).await, events, "nothing came from the worker that lost the task");
    let epochs: Vec<u64> = events.iter().map(|event| event.epoch.0).collect();
    assert!(epochs.is_sorted() && epochs.contains(&1) && epochs.contains(&2), "{epochs:?}");
}

#[tokio::test]
async fn rc_11_a_turn_that_fails_waits_in_an_interactive_task_and_fails_any_other() {
    let error = json!({ "error": { "status": 401 } });
    let mut bench = Bench::new(&[error, say("back")]);
    let failed = bench.submit("Work.").await;
    bench.definition.interactive = true;
    let waiting = bench.submit("Work.").await;
    bench.work().await;
    assert_eq!(bench.status(&failed).await, Status::Failed);
    assert_eq!(bench.status(&waiting).await, Status::Waiting);
    let reason = |events: Vec<Envelope>| {
        events.into_iter().find_map(|event| match event.payload {
            Payload::TaskFailed(failed) => Some(failed.reason),
            Payload::TaskSuspended(suspended) => suspended.failure.map(|failure| failure.reason),
            _ => None,
        })
    };
    assert_eq!(reason(bench.events(&failed).await), Some(FailureReason::LlmError));
    assert_eq!(reason(bench.events(&waiting).await), Some(FailureReason::LlmError));
    bench.sound(&failed).await;
    bench.sound(&waiting).await;
}

/// ID-2, ID-3: evidence under the identity of an open call settles it; any other is kept
/// beside the log's own truth and never admitted.
#[tokio::test]
async fn id_3_late_evidence_settles_an_open_call_or_is_kept() {
    let bench = Bench::new(&[calls(&["hang"]), say("done")]);
    let task = bench.submit("Work.").await;
    bench.crash_in_a_call().await;
    let state = bench.client.state(&task, None, false).await.unwrap();
    let open = state.governance().actions[0].clone();
    let call = CallId { decision: Seq(8), index: 0 };
    let evidence = |identity| Item::Evidence {
        action: open.seq,
        call,
        identity,
        output: "it had happened".into(),
        status: CallStatus::Ok,
    };
    let mut older = open.identity.clone();
    older.attempt += 1;
    for (key, item) in [("stale", evidence(older)), ("true", evidence(open.identity.clone()))] {
        bench.store.deliver(&task, "engine", &item, &DedupKey::new(key).unwrap()).await.unwrap();
    }
    bench.work().await;
    let events = bench.events(&task).await;
    let kinds: Vec<LateKind> = events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::LateResultRecorded(late) => Some(late.kind),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [LateKind::Stale]);
    let finished = events.iter().find_map(|event| match &event.payload {
        Payload::ToolCallFinished(finished) => Some((finished.status, finished.output.clone())),
        _ => None,
    });
    let (status, output) = finished.unwrap();
    assert_eq!((status, output.inline()), (CallStatus::Recovered, Some("it had happened")));
    // Once the task is over, more evidence is late, and makes the task claimable until taken.
    let again = evidence(open.identity.clone());
    bench.store.deliver(&task, "engine", &again, &DedupKey::new("again").unwrap()).await.unwrap();
    bench.work().await;
    let last = bench.events(&task).await.pop().unwrap();
    let Payload::LateResultRecorded(late) = &last.payload else { panic!("{last:?}") };
    assert_eq!(late.kind, LateKind::Late);
    assert!(bench.store.inbox(&task, Position(0)).await.unwrap().is_empty(), "each item is taken once");
    bench.sound(&task).await;
}
