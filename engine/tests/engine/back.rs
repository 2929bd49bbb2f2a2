//! Going back and aside: rewinds, the files they put back, and forks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use plica_engine::{ClientError, Stop};
use plica_kernel::body::{Blob, MEDIA_BYTES};
use plica_kernel::canonical::{Hash, content_hash};
use plica_kernel::decide::{ChangedFile, Foreseen};
use plica_kernel::event::{EventType, FileWas, Payload};
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::row::Status;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_memory::{ManualClock, MemoryStore};
use plica_ports::{
    CallContext, Effect, FileNow, Files, FilesError, Store, Tool, ToolDeclaration, ToolError, ToolOutput,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::common::{Bench, calls, say};

pub const USER: &str = "user:ada";

/// A folder in memory, as the tool `Put` writes it and rewinds put it back.
pub struct Folder {
    declaration: ToolDeclaration,
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Writes of rewinds so far, and the one at which the worker is lost.
    writes: Mutex<(usize, Option<usize>)>,
    lost: Notify,
    ended: Notify,
}

impl Folder {
    pub fn new() -> Self {
        let declaration = ToolDeclaration {
            name: "Put".into(),
            description: "Writes a file.".into(),
            schema: r#"{"type":"object"}"#.into(),
            effect: Effect::Mutation,
            retry_safe: false,
            version: "1".into(),
        };
        Self {
            declaration,
            files: Mutex::default(),
            writes: Mutex::default(),
            lost: Notify::new(),
            ended: Notify::new(),
        }
    }

    pub fn text(&self, path: &str) -> Option<String> {
        let files = self.files.lock().unwrap();
        files.get(path).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns once a worker is at the place where it is to be lost.
    pub async fn has_lost_one(&self) {
        self.lost.notified().await;
    }

    /// The worker is lost here.
    async fn lost(&self) {
        self.lost.notify_one();
        std::future::pending().await
    }

    pub fn put(&self, path: &str, text: &str) -> Option<Vec<u8>> {
        self.files.lock().unwrap().insert(path.into(), text.into())
    }
}

/// The change of a file from `before`.
fn changing(path: &str, before: Option<Vec<u8>>, text: &str) -> Foreseen {
    let blob = before.map(|bytes| Blob::new(MEDIA_BYTES, bytes));
    let was = blob.as_ref().map_or(FileWas::Absent, |blob| FileWas::Kept(blob.reference.clone()));
    let file = ChangedFile { after: Some(content_hash(text.as_bytes())), before: was, path: path.into() };
    Foreseen { blobs: blob.into_iter().collect(), files: vec![file] }
}

#[async_trait]
impl Tool for Folder {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn foresee(&self, args: &str, _: &Path) -> Foreseen {
        let args: Value = serde_json::from_str(args).unwrap();
        let (path, text) = (args["path"].as_str().unwrap(), args["text"].as_str().unwrap());
        changing(path, self.files.lock().unwrap().get(path).cloned(), text)
    }

    async fn call(&self, args: &str, _: &CallContext) -> Result<ToolOutput, ToolError> {
        let args: Value = serde_json::from_str(args).unwrap();
        let (path, text) = (args["path"].as_str().unwrap(), args["text"].as_str().unwrap());
        if args["lost"] == "before" {
            self.lost().await;
        }
        let Foreseen { blobs, files } = changing(path, self.put(path, text), text);
        if args["lost"] == "after" {
            self.lost().await;
        }
        if args["ends"] == "last" {
            self.ended.notified().await;
        }
        self.ended.notify_waiters();
        Ok(ToolOutput { blobs, files, ..ToolOutput::text("put") })
    }
}

#[async_trait]
impl Files for Folder {
    async fn look(&self, _: &Path, path: &str, _: u64) -> Result<FileNow, FilesError> {
        Ok(match self.files.lock().unwrap().get(path) {
            None => FileNow::Absent,
            Some(bytes) => FileNow::Present { bytes: Some(bytes.clone()), sha256: content_hash(bytes) },
        })
    }

    async fn put(&self, _: &Path, path: &str, expected: Option<Hash>, wanted: Option<&[u8]>) -> Result<(), FilesError> {
        let lost = {
            let mut writes = self.writes.lock().unwrap();
            writes.0 += 1;
            writes.1 == Some(writes.0)
        };
        if lost {
            self.lost().await;
        }
        let mut files = self.files.lock().unwrap();
        let now = files.get(path).map(|bytes| content_hash(bytes));
        if now == wanted.map(content_hash) {
            return Ok(());
        }
        if now != expected {
            return Err(FilesError::Changed);
        }
        match wanted {
            Some(bytes) => files.insert(path.into(), bytes.to_vec()),
            None => files.remove(path),
        };
        Ok(())
    }
}

pub fn put(path: &str, text: &str) -> Value {
    json!({"tool": "Put", "args": {"path": path, "text": text}})
}

pub fn puts(puts: &[Value]) -> Value {
    json!({"text": "", "calls": puts})
}

/// A bench with an interactive agent that can write files.
pub fn bench(replies: &[Value]) -> (Bench, Arc<Folder>) {
    let folder = Arc::new(Folder::new());
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_796_000_000_000_000)));
    let store = Arc::new(MemoryStore::with(clock.clone(), 7));
    let behind = Bench::behind(store.clone(), store, replies, |host| host.tool(folder.clone()).files(folder.clone()));
    let mut bench = Bench { clock, ..behind };
    bench.definition.interactive = true;
    bench.definition.tools.push("Put".into());
    (bench, folder)
}

pub async fn turn(bench: &Bench, task: &TaskId, text: &str) {
    bench.client.send(task, USER, text).await.unwrap();
    bench.work().await;
}

pub async fn head(bench: &Bench, task: &TaskId) -> Seq {
    bench.client.row(task).await.unwrap().projection.seq
}

pub async fn go_back(bench: &Bench, task: &TaskId, to: Seq) {
    bench.client.rewind(task, USER, to).await.unwrap();
    bench.work().await;
}

pub async fn said(bench: &Bench, task: &TaskId) -> String {
    format!("{:?}", bench.client.messages(task).await.unwrap())
}

#[tokio::test]
async fn sn_5_a_rewind_leaves_the_turns_since_behind_and_what_was_spent_counted() {
    let (bench, _) = bench(&[calls(&["a"]), say("first"), calls(&["b"]), say("second"), say("other")]);
    let task = bench.submit("Turn one.").await;
    bench.work().await;
    let first = head(&bench, &task).await;
    turn(&bench, &task, "Turn two.").await;
    let second = head(&bench, &task).await;
    let before = bench.client.state(&task, None, false).await.unwrap();
    go_back(&bench, &task, first).await;
    let after = bench.client.state(&task, None, false).await.unwrap();
    assert_eq!(after.status(), Status::Waiting);
    assert_eq!(after.governance().spent(), before.governance().spent());
    assert_eq!(after.governance().tool_calls, 2);
    assert_eq!(after.governance().generation, 1);
    assert!(!said(&bench, &task).await.contains("Turn two."));
    bench.sound(&task).await;

    // The model goes on from where it was, by the replies of the live path.
    turn(&bench, &task, "Another turn two.").await;
    let text = said(&bench, &task).await;
    assert!(text.contains("Another turn two.") && text.contains("second") && !text.contains("Turn two.\""));

    // A rewind to what is dead brings it back: that is how a rewind is undone.
    go_back(&bench, &task, second).await;
    let text = said(&bench, &task).await;
    assert!(text.contains("Turn two.") && !text.contains("Another"), "{text}");
    bench.sound(&task).await;
}

#[tokio::test]
async fn sn_5_a_rewind_lands_between_turns_and_nowhere_else() {
    let (bench, _) = bench(&[calls(&["a"]), say("first"), say("second")]);
    let task = bench.submit("Turn one.").await;
    bench.work().await;
    turn(&bench, &task, "Turn two.").await;
    let kinds = bench.kinds(&task).await;
    let mut lands = Vec::new();
    for seq in 0..=kinds.len() as u64 + 1 {
        match bench.client.plan_rewind(&task, Seq(seq), &Folder::new()).await {
            Ok(_) => lands.push(kinds[seq as usize - 1]),
            Err(ClientError::NoBoundary { .. }) => {
                assert!(bench.client.rewind(&task, USER, Seq(seq)).await.is_err());
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(lands, [EventType::TaskSuspended, EventType::TaskWoken, EventType::TaskSuspended]);
    assert_eq!(bench.kinds(&task).await, kinds, "nothing was written");

    // One that got into the inbox all the same is taken, refused and on record.
    let key = plica_kernel::id::DedupKey::new("forced").unwrap();
    bench.store.deliver(&task, USER, &Item::Rewind { to_seq: Seq(4) }, &key).await.unwrap();
    bench.work().await;
    let last = bench.events(&task).await.pop().unwrap();
    assert!(matches!(last.payload, Payload::LateResultRecorded(_)), "{last:?}");
    assert_eq!(bench.client.row(&task).await.unwrap().claimable_at, None);
    bench.sound(&task).await;
}

/// What a lost worker left open is looked at before it is closed.
#[tokio::test]
async fn sn_1_a_rewind_leaves_no_call_of_a_lost_worker_open() {
    let (bench, _) = bench(&[say("first"), calls(&["hang", "quick"]), say("second")]);
    let task = bench.submit("Turn one.").await;
    bench.work().await;
    let first = head(&bench, &task).await;
    bench.client.send(&task, USER, "Turn two.").await.unwrap();
    bench.crash_in_a_call().await;
    go_back(&bench, &task, first).await;
    let events = bench.events(&task).await;
    let rewound = events.iter().position(|event| event.kind() == EventType::TaskRewound).unwrap();
    let outcomes = events[..rewound].iter().filter(|event| event.kind() == EventType::ToolCallFinished).count();
    assert_eq!(outcomes, 2, "one finished, one that nobody knows of");
    let plan = events.iter().find(|event| event.kind() == EventType::FilesRestoring);
    assert!(plan.is_some(), "what it may have changed is named");
    assert_eq!(bench.status(&task).await, Status::Waiting);
    bench.sound(&task).await;
}

#[tokio::test]
async fn sn_5_a_task_that_is_over_is_rewound_too() {
    let (mut bench, _) = bench(&[say("done"), say("more")]);
    bench.definition.interactive = false;
    let task = bench.submit("Work.").await;
    bench.work().await;
    assert_eq!(bench.status(&task).await, Status::Completed);
    let end = head(&bench, &task).await;
    go_back(&bench, &task, end).await;
    assert_eq!(bench.status(&task).await, Status::Waiting);
    turn(&bench, &task, "And now?").await;
    assert_eq!(bench.client.answer(&task).await.unwrap().as_deref(), Some("more"));
    bench.sound(&task).await;
}

/// A worker is lost at the folder, and its lease runs out.
async fn lose_a_worker(bench: &Bench, folder: &Folder) {
    let worker = bench.worker("lost");
    let work = tokio::spawn(async move { worker.run(Stop::new()).await });
    folder.has_lost_one().await;
    work.abort();
    assert!(work.await.unwrap_err().is_cancelled());
    bench.clock.advance(Duration::from_secs(31));
}

/// What a file held is on record before it is changed, so no crash takes it away.
#[tokio::test]
async fn to_5_sn_5_a_file_is_put_back_though_its_call_was_cut_off() {
    for (lost, since, left) in [("before", None, None), ("after", None, None), ("after", Some("mine"), Some("\"a\""))] {
        let cut = json!({"tool": "Put", "args": {"path": "a", "text": "two", "lost": lost}});
        let (bench, folder) = bench(&[puts(&[put("a", "one")]), say("1"), puts(&[cut]), say("2")]);
        let task = bench.submit("Turn one.").await;
        bench.work().await;
        let first = head(&bench, &task).await;
        bench.client.send(&task, USER, "Turn two.").await.unwrap();
        lose_a_worker(&bench, &folder).await;
        bench.work().await;
        assert_eq!(folder.text("a").as_deref(), Some(if lost == "before" { "one" } else { "two" }));
        let cut_off = bench.client.state(&task, None, false).await.unwrap();
        assert_eq!(cut_off.governance().tool_calls, 2);
        if let Some(text) = since {
            folder.put("a", text);
        }
        go_back(&bench, &task, first).await;
        assert_eq!(folder.text("a").as_deref(), Some(since.unwrap_or("one")), "lost {lost} the change");
        let restored = bench.events(&task).await.into_iter().find_map(|event| match event.payload {
            Payload::FilesRestored(restored) => Some(restored),
            _ => None,
        });
        assert_eq!(restored.is_some(), lost == "after", "there is nothing to put back of what did not happen");
        let named = restored.and_then(|restored| restored.left);
        let named = named.as_ref().and_then(|left| left.inline());
        assert_eq!(named.is_some(), left.is_some());
        assert!(named.unwrap_or_default().contains(left.unwrap_or_default()));
        bench.sound(&task).await;
    }
}

/// SN-8: whichever write the worker is lost at, the next one finishes what the plan says.
#[tokio::test]
async fn sn_8_a_restore_that_is_cut_at_any_write_is_finished_by_the_next_worker() {
    for lost_at in 0..=2 {
        let second = [put("a", "two"), put("b", "two"), put("new", "two")];
        let (bench, folder) = bench(&[puts(&[put("a", "one"), put("b", "one")]), say("1"), puts(&second), say("2")]);
        let task = bench.submit("Turn one.").await;
        bench.work().await;
        let first = head(&bench, &task).await;
        turn(&bench, &task, "Turn two.").await;
        let second = head(&bench, &task).await;
        folder.put("b", "mine");
        folder.writes.lock().unwrap().1 = (lost_at > 0).then_some(lost_at);
        bench.client.rewind(&task, USER, first).await.unwrap();
        if lost_at > 0 {
            lose_a_worker(&bench, &folder).await;
            assert!(bench.kinds(&task).await.contains(&EventType::FilesRestoring), "the plan was on record before");
        }
        bench.work().await;
        assert_eq!(folder.text("a").as_deref(), Some("one"), "cut at {lost_at}");
        assert_eq!(folder.text("b").as_deref(), Some("mine"), "what someone else changed is left");
        assert_eq!(folder.text("new"), None);
        let restored = bench.events(&task).await.pop().unwrap();
        let Payload::FilesRestored(restored) = restored.payload else { panic!("{restored:?}") };
        assert_eq!(restored.restored, 2);
        assert!(restored.left.unwrap().inline().unwrap().contains("\"b\""), "and named");
        assert_eq!(bench.client.row(&task).await.unwrap().claimable_at, None);

        folder.writes.lock().unwrap().1 = None;
        // Undone: what the rewind put back is put back in its turn.
        go_back(&bench, &task, second).await;
        assert_eq!(folder.text("a").as_deref(), Some("two"));
        assert_eq!(folder.text("new").as_deref(), Some("two"));
        bench.sound(&task).await;
    }
}

#[tokio::test]
async fn sn_4_a_fork_inherits_the_conversation_and_counters_and_leaves_its_source_alone() {
    let (bench, _) = bench(&[calls(&["a"]), say("first"), say("second"), say("third")]);
    let task = bench.submit("Turn one.").await;
    bench.work().await;
    let first = head(&bench, &task).await;
    turn(&bench, &task, "Turn two.").await;
    let whole = bench.kinds(&task).await;
    let fork = bench.client.fork(&task, USER, Some(first)).await.unwrap();
    assert_eq!(bench.kinds(&fork).await, [EventType::TaskForked, EventType::TaskSnapshot]);
    bench.sound(&fork).await;
    let (mine, theirs) = (
        bench.client.state(&fork, None, false).await.unwrap(),
        bench.client.state(&task, Some(first), false).await.unwrap(),
    );
    assert_eq!(mine.governance().spent(), theirs.governance().spent());
    assert_eq!(mine.runtime().messages, theirs.runtime().messages);
    assert_eq!((mine.status(), mine.governance().generation), (Status::Waiting, 1));
    turn(&bench, &fork, "Other way.").await;
    let text = said(&bench, &fork).await;
    assert!(text.contains("Turn one.") && text.contains("Other way.") && !text.contains("Turn two."), "{text}");
    bench.sound(&fork).await;

    // Forks of forks, the tenth as sound as the first; each can go back to where it began.
    let mut last = fork;
    for depth in 0..10 {
        last = bench.client.fork(&last, USER, None).await.unwrap();
        turn(&bench, &last, &format!("Depth {depth}.")).await;
        bench.sound(&last).await;
    }
    go_back(&bench, &last, Seq(1)).await;
    let text = said(&bench, &last).await;
    assert!(text.contains("Depth 8.") && !text.contains("Depth 9."), "{text}");
    bench.sound(&last).await;
    assert_eq!(bench.kinds(&task).await, whole, "the source is never written to");
}

#[tokio::test]
async fn sn_4_a_running_task_forks_where_its_last_turn_ended_and_a_child_not_at_all() {
    let (bench, _) = bench(&[say("first"), calls(&["hang"])]);
    let task = bench.submit("Turn one.").await;
    assert!(matches!(bench.client.fork(&task, USER, None).await, Err(ClientError::NoBoundary { .. })), "no turn yet");
    bench.work().await;
    let first = head(&bench, &task).await;
    bench.client.send(&task, USER, "Turn two.").await.unwrap();
    bench.crash_in_a_call().await;
    let fork = bench.client.fork(&task, USER, None).await.unwrap();
    let Payload::TaskForked(forked) = bench.events(&fork).await.remove(0).payload else { panic!("a fork") };
    assert_eq!((forked.source, forked.source_seq), (task.clone(), first));
    let row = bench.client.row(&fork).await.unwrap();
    assert_eq!((row.facts.source, row.claimable_at), (Some(task.clone()), None));
    assert!(bench.client.fork(&task, USER, Some(Seq(1))).await.is_err());
    bench.sound(&fork).await;
}
