//! Collection of content: what is on record keeps all that it reaches, the rest goes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use plica_conformance::layer::{Layer, Layered};
use plica_engine::{Client, ClientError, Collected, GcOptions, Stop};
use plica_kernel::body::{Blob, Body, ContentRef, MEDIA_DEFINITION, MEDIA_SEGMENT, MEDIA_TEXT};
use plica_kernel::event::{EventType, Payload, Spent, SubtaskStatus};
use plica_kernel::id::{CallId, DedupKey, Seq, TaskId};
use plica_kernel::wake::Item;
use plica_memory::MemoryStore;
use plica_ports::store::{AppendError, Appended, Batch, Claim, Page, TaskFilter};
use plica_ports::{ContentError, ContentStore, Store};
use serde_json::{Value, json};

use crate::back::{self, USER, go_back, head, put, puts, said, turn};
use crate::common::{Bench, calls, say};
use crate::waits::stage::{self, Stage, call, delegate};

const DAY: Duration = Duration::from_secs(86_400);
/// What a collection sees that removes nothing and leaves nobody any time.
const LOOK: GcOptions = GcOptions { grace: Duration::ZERO, dry_run: true };

async fn gc(client: &Client, options: GcOptions) -> Collected {
    client.gc(options, &mut |_| ()).await.unwrap()
}

/// More than stands in an event.
fn long(text: &str) -> String {
    text.repeat(400)
}

fn nobodys(text: &str) -> Blob {
    Blob::new(MEDIA_TEXT, text.repeat(300).into_bytes())
}

/// Whether a body is there; `bench.store` has two ports.
async fn has(store: &MemoryStore, reference: &ContentRef) -> bool {
    match ContentStore::get(store, reference).await {
        Ok(_) => true,
        Err(ContentError::Missing(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// All that a task says of itself, at many a seq and in both ways of folding.
async fn whole(bench: &Bench, task: &TaskId) -> Vec<Vec<u8>> {
    let mut states = Vec::new();
    let head = head(bench, task).await.0;
    for seq in (1..head).step_by(head as usize / 8 + 1).chain([head]) {
        let state = bench.client.state(task, Some(Seq(seq)), seq % 2 == 0).await.unwrap();
        states.push(state.to_bytes().unwrap());
    }
    bench.sound(task).await;
    states.push(said(bench, task).await.into_bytes());
    states
}

/// CO-3: rewinds, restored files, forks of forks and snapshots keep what they need, a body that
/// nothing cites goes, and every task goes on from wherever it can go to.
#[tokio::test]
async fn co_3_what_is_on_record_survives_and_all_goes_on() {
    let mut replies: Vec<Value> = (0..66).map(|_| calls(&["a"])).collect();
    let rest = [say(&long("first ")), puts(&[put("a", "two"), put("new", "two")]), say("2"), say("3"), say("4")];
    replies[0] = puts(&[put("a", "one")]);
    replies.extend(rest);
    let (bench, folder) = back::bench(&replies);
    let task = bench.submit(&long("Turn one. ")).await;
    bench.work().await;
    let first = head(&bench, &task).await;
    turn(&bench, &task, &long("Turn two. ")).await;
    let second = head(&bench, &task).await;
    let fork = bench.client.fork(&task, USER, None).await.unwrap();
    go_back(&bench, &task, first).await;
    assert_eq!(folder.text("a").as_deref(), Some("one"));
    let deeper = bench.client.fork(&fork, USER, None).await.unwrap();
    turn(&bench, &deeper, &long("Aside. ")).await;
    let tasks = [task.clone(), fork.clone(), deeper.clone()];

    let (old, again, young) = (nobodys("old"), nobodys("again"), nobodys("young"));
    bench.store.put(&old).await.unwrap();
    bench.store.put(&again).await.unwrap();
    bench.clock.advance(DAY + Duration::from_secs(1));
    bench.store.put(&again).await.unwrap();
    bench.store.put(&young).await.unwrap();
    let mut before = Vec::new();
    for task in &tasks {
        before.push(whole(&bench, task).await);
    }

    let look = gc(&bench.client, GcOptions { dry_run: true, ..GcOptions::default() }).await;
    assert!(has(&bench.store, &old.reference).await, "a dry run removes nothing");
    let mut seen = 0;
    let freed = bench.client.gc(GcOptions::default(), &mut |far| seen = far.tasks).await.unwrap();
    assert_eq!(freed, look);
    assert_eq!((freed.bodies, freed.bytes, freed.tasks, seen), (1, old.reference.size, 3, 3));
    assert!(!has(&bench.store, &old.reference).await);
    assert!(has(&bench.store, &again.reference).await && has(&bench.store, &young.reference).await);
    bench.clock.advance(2 * DAY);
    assert_eq!(gc(&bench.client, GcOptions::default()).await.bodies, 2);
    assert_eq!(gc(&bench.client, GcOptions::default()).await.bodies, 0);

    for (task, before) in tasks.iter().zip(before) {
        assert_eq!(whole(&bench, task).await, before);
    }
    let sealed = bench.client.state(&task, None, false).await.unwrap().runtime().messages.len();
    assert!(sealed > 128, "the conversation has a sealed segment");
    turn(&bench, &task, "Another way.").await;
    go_back(&bench, &task, second).await;
    assert_eq!(folder.text("a").as_deref(), Some("two"), "what the rewind kept of the file is still there");
    for task in &tasks {
        turn(&bench, task, "And on.").await;
        bench.sound(task).await;
    }
    let last = bench.client.fork(&deeper, USER, None).await.unwrap();
    turn(&bench, &last, "And aside.").await;
    bench.sound(&last).await;
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(gc(&bench.client, LOOK).await.bodies, 0, "nothing is ever written that nothing reaches");
}

/// CO-3: an untaken item keeps what it cites, and what that cites.
#[tokio::test]
async fn co_3_what_lies_in_an_inbox_is_kept() {
    let (bench, _) = back::bench(&[say("one"), say("two")]);
    let task = bench.submit("Turn one.").await;
    bench.work().await;
    let script = nobodys("a script");
    let mut other = bench.definition.clone();
    other.instructions = long("Do it otherwise. ");
    other.model.script = Some(script.reference.clone());
    bench.client.revise(&task, USER, &other, std::slice::from_ref(&script)).await.unwrap();
    let answer = nobodys("an answer");
    bench.store.put(&answer).await.unwrap();
    let child = Item::Child {
        answer: Body::Ref(answer.reference.clone()),
        background: false,
        call: CallId { decision: Seq(4), index: 0 },
        child: TaskId::new("child").unwrap(),
        failure: None,
        spent: Spent::default(),
        status: SubtaskStatus::Completed,
    };
    bench.store.deliver(&task, USER, &child, &DedupKey::new("child").unwrap()).await.unwrap();
    bench.clock.advance(2 * DAY);
    assert_eq!(gc(&bench.client, GcOptions::default()).await.bodies, 0);
    turn(&bench, &task, "Turn two.").await;
    assert!(bench.kinds(&task).await.contains(&EventType::AgentRevised));
    bench.clock.advance(2 * DAY);
    gc(&bench.client, GcOptions::default()).await;
    assert!(has(&bench.store, &script.reference).await, "the definition in force cites it");
    bench.sound(&task).await;
}

/// CO-3: nobody may ask for a grace within which a writer may yet cite what it put.
#[tokio::test]
async fn co_3_too_short_a_grace_is_refused() {
    let (bench, _) = back::bench(&[say("one")]);
    let hour = GcOptions { grace: Duration::from_secs(3_600), dry_run: false };
    let refused = bench.client.gc(hour, &mut |_| ()).await;
    assert!(matches!(refused, Err(ClientError::Grace { .. })), "{refused:?}");
    gc(&bench.client, GcOptions { dry_run: true, ..hour }).await;
}

/// CO-3: what a definition cites that cannot be read is not known: everything stays that a
/// definition may cite, the task is named, and the rest goes. A snapshot decides nothing.
#[tokio::test]
async fn co_3_a_damaged_definition_keeps_what_it_may_cite_and_nothing_else() {
    let (bench, _) = back::bench(&[calls(&["a"; 8]), say("one"), say("two")]);
    let task = bench.submit("Turn one.").await;
    bench.work().await;
    let snapshot = bench.events(&task).await.into_iter().find_map(|event| match event.payload {
        Payload::TaskSnapshot(taken) => Some(taken.state_ref),
        _ => None,
    });
    let garbage = nobodys("garbage");
    let subagent = Blob::new(MEDIA_DEFINITION, bench.definition.to_bytes().unwrap());
    let script = Blob::new(MEDIA_TEXT, br#"{ "replies": [] }"#.to_vec());
    for body in [&garbage, &subagent, &script] {
        bench.store.put(body).await.unwrap();
    }
    bench.clock.advance(2 * DAY);
    assert!(bench.store.damage(&snapshot.unwrap()).unwrap());
    let before = gc(&bench.client, GcOptions { dry_run: true, ..GcOptions::default() }).await;
    let definition = bench.client.state(&task, None, true).await.unwrap().definition().clone();
    let reached = u64::from(definition == subagent.reference);
    assert_eq!((before.bodies, before.damaged.len()), (3 - reached, 0));
    assert!(bench.store.damage(&definition).unwrap());
    let collected = gc(&bench.client, GcOptions::default()).await;
    assert_eq!((collected.bodies, collected.damaged), (1, [task].into()));
    assert!(!has(&bench.store, &garbage.reference).await);
    assert!(has(&bench.store, &script.reference).await);
}

/// CO-3: an event that cannot be read might cite anything, so nothing goes.
#[tokio::test]
async fn co_3_nothing_goes_while_a_plan_cannot_be_read() {
    let (bench, _) = back::bench(&[puts(&[put("a", "one")]), say("1"), puts(&[put("a", "two")]), say("2")]);
    let task = bench.submit("Turn one.").await;
    bench.work().await;
    let first = head(&bench, &task).await;
    turn(&bench, &task, "Turn two.").await;
    go_back(&bench, &task, first).await;
    let plan = bench.events(&task).await.into_iter().find_map(|event| match event.payload {
        Payload::FilesRestoring(restoring) => Some(restoring.plan),
        _ => None,
    });
    let garbage = nobodys("garbage");
    bench.store.put(&garbage).await.unwrap();
    bench.clock.advance(2 * DAY);
    assert!(bench.store.damage(&plan.unwrap()).unwrap());
    let refused = bench.client.gc(GcOptions::default(), &mut |_| ()).await;
    assert!(matches!(refused, Err(ClientError::Unreached(_))), "{refused:?}");
    assert!(has(&bench.store, &garbage.reference).await);
}

/// CO-3: a sealed segment that only a snapshot cites is reached through it.
#[tokio::test]
async fn co_3_segments_are_reached_through_snapshots() {
    let replies: Vec<Value> = (0..140).map(|_| calls(&["a"])).chain([say("done")]).collect();
    let bench = Bench::new(&replies);
    let task = bench.submit("Work.").await;
    bench.work().await;
    let events = bench.events(&task).await;
    let mut cited = events.iter().flat_map(|event| event.payload.references());
    assert!(cited.all(|reference| reference.media != MEDIA_SEGMENT), "no event cites a segment");
    bench.clock.advance(2 * DAY);
    assert_eq!(gc(&bench.client, GcOptions::default()).await.bodies, 0);
    let state = bench.client.state(&task, None, false).await.unwrap();
    assert!(state.runtime().messages.len() > 256);
    bench.sound(&task).await;
}

/// Looks for garbage after every append, and notes how many bodies are.
struct Looking {
    inner: Arc<dyn Store>,
    client: Client,
    found: Arc<Mutex<Vec<u64>>>,
}

#[async_trait]
impl Layer for Looking {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let appended = self.inner.append(claim, batch).await;
        // What was put at this very moment is not old enough.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let garbage = gc(&self.client, LOOK).await.bodies;
        self.found.lock().unwrap().push(garbage);
        appended
    }
}

/// CO-3: whatever a parent and its children write, all of it is reached from the moment it is
/// written, so that a collection at any time takes nothing of theirs.
#[tokio::test(start_paused = true)]
async fn co_3_a_family_at_work_leaves_nothing_unreached() {
    let helper = [stage::calls(&[call("Note", json!({ "note": long("x") }))]), say(&long("The answer. "))];
    let main = [
        stage::calls(&[delegate("helper", json!({ "goal": long("Help. ") })), delegate("helper", json!({}))]),
        stage::calls(&[delegate("helper", json!({ "background": true }))]),
        say(&long("Done. ")),
    ];
    let stage = Stage::new(&[("helper", &helper), ("main", &main)]);
    let garbage = nobodys("garbage");
    stage.store.put(&garbage).await.unwrap();
    let task = stage.submit(|_| ()).await;
    let found = Arc::<Mutex<Vec<u64>>>::default();
    let looking = Looking { inner: stage.store.clone(), client: stage.client.clone(), found: found.clone() };
    let note = stage.note.clone();
    stage.worker_on(Arc::new(Layered(looking)), |host| host.tool(note)).run(Stop::new()).await.unwrap();
    assert!(stage.status(&task).await.is_over());
    assert_eq!(stage.children(&task).await.len(), 3);
    let found = std::mem::take(&mut *found.lock().unwrap());
    assert!(found.len() > 10 && found.iter().all(|garbage| *garbage == 1), "only what nobody ever cited: {found:?}");

    tokio::time::advance(2 * DAY).await;
    assert_eq!(gc(&stage.client, GcOptions::default()).await.bodies, 1);
    assert!(!has(&stage.store, &garbage.reference).await);
    let rows = stage.store.tasks(&TaskFilter::default(), &Page::first(10)).await.unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        stage.conversation(&row.id).await;
        stage.is_at_rest(&row.id).await;
    }
}
