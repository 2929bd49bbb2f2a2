//! Logs like those of real agents, without an agent: the kernel's own recording, fed with
//! texts of the sizes that agents' logs have.
//!
//! A round is a reply with one call, its decision, start and result, and the next request:
//! seven events of 653 bytes on average, between 400 and 3,000. One result in fifty is long.
//! Texts hold quotes, line feeds and some non-ASCII, so that escaping is exercised.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plica_kernel::body::{Blob, Body, MEDIA_DEFINITION};
use plica_kernel::decide::{
    Act, Answer, Birth, CallOutcome, CallPlan, Composer, Draft, Drafted, Inputs, Stamp, advance, born, call_outcome,
    reply,
};
use plica_kernel::event::{Budget, CallStatus, TaskCreated, Usage};
use plica_kernel::id::{Epoch, LedgerId, Position, Queue, RunId, Seq, TaskId};
use plica_kernel::message::Block;
use plica_kernel::state::Task;
use plica_kernel::time::Timestamp;
use plica_ports::Store;
use plica_ports::store::{Batch, Claim, ClaimAfter, ClaimRequest, Facts, NewTask, StoredEvent};
use plica_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::Bench;
use crate::appends::{OPTIONS, worker};

/// A text of about `size` bytes, other for each `seed`.
pub(crate) fn text(seed: u64, size: usize) -> String {
    const WORDS: [&str; 12] = [
        "the file ",
        "says \"no\"",
        "\n    ",
        "naïve ",
        "return ",
        "value = ",
        "42, ",
        "path/to/it ",
        "– and ",
        "error: ",
        "expected\n",
        "(found) ",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::with_capacity(size + 16);
    while text.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(WORDS[(state % WORDS.len() as u64) as usize]);
    }
    text
}

/// A task whose log grows round by round.
pub(crate) struct Life {
    pub(crate) task: Task,
    rounds: u64,
    at: i64,
}

impl Life {
    /// A new task: its life, and what a store needs to create it.
    pub(crate) fn begin(ledger: &LedgerId, id: &TaskId, now: Timestamp) -> (Self, NewTask) {
        let definition = Blob::new(MEDIA_DEFINITION, b"{}".to_vec());
        let goal = text(7, 300);
        let created = TaskCreated {
            background: false,
            agent: "coder".into(),
            budget: Budget::default(),
            call: None,
            definition: definition.reference.clone(),
            depth: 0,
            goal: Body::default(),
            interactive: false,
            key: None,
            labels: BTreeMap::new(),
            ledger: ledger.clone(),
            not_before: None,
            parent: None,
            priority: 2,
            queue: Queue::main(),
        };
        let facts = Facts {
            agent: "coder".into(),
            goal: goal.chars().take(200).collect(),
            parent: None,
            source: None,
            queue: Queue::main(),
            priority: 2,
            labels: BTreeMap::new(),
            not_before: None,
            created_at: now,
        };
        let birth = Birth { id: id.clone(), actor: "user:ada".into(), goal, created, blobs: vec![definition] };
        let drafted = born(birth, Stamp { now, epoch: Epoch(0), run: run() }).expect("a sound task is born");
        let row = drafted.task.projection();
        let task = NewTask { id: id.clone(), events: drafted.events, blobs: drafted.blobs, row, facts, key: None };
        (Self { task: drafted.task, rounds: 0, at: now.micros() }, task)
    }

    /// The next `rounds` rounds as one append under `epoch` and `run`, accepted at once.
    pub(crate) fn rounds(&mut self, rounds: u64, epoch: Epoch, run: &RunId) -> Drafted {
        self.at += 1_000_000;
        let now = Timestamp::from_micros(self.at);
        let mut draft = Draft::new(self.task.clone(), Stamp { now, epoch, run: run.clone() });
        let mut inputs = Inputs {
            now,
            items: Vec::new(),
            run: run.clone(),
            stopping: false,
            unusable: None,
            rewinds: Default::default(),
            pins: Vec::new(),
            foreseen: Default::default(),
            spawns: Default::default(),
        };
        let composer = Composer { version: "plain.v1".into(), model: "provider:model-of-the-year".into() };
        let mut go_on = |draft: &mut Draft| advance(draft, &mut inputs, &composer).expect("the step goes on");
        let mut act = go_on(&mut draft);
        for _ in 0..rounds {
            let Act::Ask(request) = act else { panic!("a round begins with a request and not {act:?}") };
            reply(&mut draft, request, self.answer()).expect("a reply is recorded");
            let Act::Run(calls) = go_on(&mut draft) else { panic!("a call follows") };
            call_outcome(&mut draft, calls[0].1, self.outcome()).expect("a result is recorded");
            act = go_on(&mut draft);
            self.rounds += 1;
        }
        let drafted = draft.finish().expect("the mix fits");
        self.task = drafted.task.clone();
        drafted
    }

    fn answer(&self) -> Answer {
        let seed = self.rounds * 3 + 1;
        let args = format!("{{\"file_path\":\"src/module_{}.rs\",\"limit\":{}}}", self.rounds, 100 + seed % 400);
        let says = text(seed, 240 + (seed % 400) as usize);
        let blocks = vec![
            Block::Text { text: says },
            Block::ToolUse { args: args.clone(), id: Some(format!("call_{seed:024}")), tool: "Read".into() },
        ];
        Answer {
            aside: Default::default(),
            blocks,
            calls: vec![CallPlan::Start {
                args,
                foreseen: Default::default(),
                rule: Some("Read(*)".into()),
                tool: "Read".into(),
            }],
            cost_nano_usd: Some(1_250_000),
            elapsed_ms: 1_830,
            extra: None,
            patch: None,
            stop: "calls".into(),
            truncated: false,
            usage: Usage { cache_read: 40_000, cache_write: 1_200, output: 180, reasoning: 60, uncached: 900 },
        }
    }

    fn outcome(&self) -> CallOutcome {
        let seed = self.rounds * 3 + 2;
        let size = if self.rounds % 50 == 49 { 3_000 } else { 350 + (seed % 520) as usize };
        CallOutcome {
            aside: Default::default(),
            blobs: Vec::new(),
            elapsed_ms: 12,
            files: Vec::new(),
            job: None,
            output: text(seed, size),
            status: CallStatus::Ok,
            whole: None,
        }
    }

    /// The whole state after `rounds` rounds, and the bodies and hashes of its events.
    pub(crate) fn log(rounds: u64) -> (Task, Vec<plica_kernel::envelope::SealedEvent>) {
        let (ledger, id) = (LedgerId::new("a-ledger").expect("an id"), task_id(1));
        let (mut life, created) = Self::begin(&ledger, &id, Timestamp::from_micros(1_790_000_000_000_000));
        let mut events = created.events;
        events.extend(life.rounds(rounds, Epoch(1), &run()).events);
        (life.task, events)
    }
}

/// The batch that appends a draft under a claim.
pub(crate) fn batch(claim: &Claim, drafted: &Drafted) -> Batch {
    Batch {
        task: claim.task.clone(),
        after: drafted.after,
        after_hash: drafted.after_hash,
        events: drafted.events.clone(),
        blobs: drafted.blobs.clone(),
        row: drafted.task.projection(),
        consumed: Vec::new(),
        seen: Position(0),
        deliveries: Vec::new(),
        children: Vec::new(),
        claim: ClaimAfter::ByStatus,
    }
}

/// An id as tasks have it.
pub(crate) fn task_id(number: usize) -> TaskId {
    TaskId::new(format!("01980000-0000-7000-8000-{number:012}")).expect("a UUID is an id")
}

fn run() -> RunId {
    RunId::new("01980000-0000-7000-9000-000000000001").expect("a UUID is an id")
}

/// A long log of the mix in a file, made once and used by every case that wants one.
pub(crate) struct Stored {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) id: TaskId,
    pub(crate) events: u64,
    pub(crate) body_bytes: u64,
    path: PathBuf,
}

/// Rounds of one append while a log is made.
const CHUNK: u64 = 60;
/// Events of a round.
const ROUND: u64 = 7;
/// Rounds after which a snapshot is taken, and rounds after the last one: a short tail.
const SNAPSHOT: u64 = 20;
const TAIL: u64 = 5;

impl Stored {
    /// The log of about so many events: some rounds after a snapshot.
    pub(crate) fn get(bench: &Bench, events: u64) -> Self {
        let path = bench.folder.join(format!("log-{events}"));
        let exists = path.exists();
        let store = Arc::new(SqliteStore::open(&path, OPTIONS).expect("a path for a store"));
        let rounds = rounds_of(events);
        if !exists {
            bench.runtime.block_on(write(&*store, rounds));
        }
        let conn = Connection::open(&path).expect("the file is there");
        let sql = "SELECT count(*), sum(length(body)) FROM events";
        let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(i64::unsigned_abs);
        let (events, body_bytes) =
            conn.query_row(sql, [], |row| Ok((number(row, 0)?, number(row, 1)?))).expect("the events are counted");
        Self { store, id: task_id(1), events, body_bytes, path }
    }

    /// The size of the file with its log merged in.
    pub(crate) fn file_bytes(&self) -> u64 {
        file_bytes(&self.path)
    }

    /// The stored events.
    pub(crate) fn read(&self, bench: &Bench) -> Vec<StoredEvent> {
        bench.runtime.block_on(self.store.read(&self.id, Seq(1), usize::MAX)).expect("logs can be read")
    }
}

/// The size of a SQLite file with its write-ahead log merged in.
pub(crate) fn file_bytes(path: &Path) -> u64 {
    let conn = Connection::open(path).expect("the file is there");
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("the log is merged");
    std::fs::metadata(path).expect("the file is there").len()
}

/// Rounds of a log of about so many events: some after a snapshot.
pub(crate) fn rounds_of(events: u64) -> u64 {
    (events / ROUND / SNAPSHOT).max(1) * SNAPSHOT + TAIL
}

/// Writes a log of the mix.
pub(crate) async fn write(store: &dyn Store, rounds: u64) {
    let ledger = store.ledger().await.expect("a store has a name");
    let now = store.now().await.expect("a store tells the time");
    let (mut life, task) = Life::begin(&ledger, &task_id(1), now);
    store.create(task).await.expect("a task is created");
    let lease = Duration::from_secs(3600);
    let request = ClaimRequest { worker: worker(), queues: Vec::new(), lease, max: 1, task: None, except: Vec::new() };
    let claimed = store.claim(&request).await.expect("claiming works").pop().expect("the task is claimable");
    let mut left = rounds;
    while left > 0 {
        let chunk = left.min(CHUNK);
        let drafted = life.rounds(chunk, claimed.claim.epoch, &claimed.claim.run);
        store.append(&claimed.claim, &batch(&claimed.claim, &drafted)).await.expect("a sound batch is written");
        left -= chunk;
    }
}
