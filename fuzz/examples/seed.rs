//! Writes the seeds of the corpus anew: logs and snapshots that the real engine makes on the
//! memory store, the kernel's vectors, and mutations of both; and logs of simulated worlds, so that
//! every type of event is among them.
//!
//! `cargo run -p plica-fuzz --example seed`

#![expect(clippy::unwrap_used, reason = "a tool for developers: it fails where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_conformance::model::chat::Chat;
use plica_conformance::model::{Protocol, Said};
use plica_conformance::sim;
use plica_engine::{Client, Host, ModelSource, ModelSourceError, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::decode::decode;
use plica_kernel::envelope::write_line;
use plica_kernel::event::{CallResolution, EventType, Payload, Usage};
use plica_kernel::id::{CallId, InstanceId, Seq, TaskId, WorkerId};
use plica_kernel::snapshot;
use plica_kernel::wake::Item;
use plica_memory::MemoryStore;
use plica_ports::store::{StoredEvent, Worker as Identity};
use plica_ports::{
    CallContext, ContentStore, Definition, Effect, Model, ModelChoice, OnCrash, PermissionMode, Store, Tool,
    ToolDeclaration, ToolError, ToolOutput,
};
use plica_script::ScriptModel;
use serde_json::{Value, json};

/// Mutations of each seed.
const MUTATIONS: u64 = 4;
/// Rounds after which a list of messages has a full segment of 128.
const LONG: usize = 70;
/// Worlds at least among whose logs the shortest are looked for.
const WORLDS: u64 = 40;
/// The first call of a task of one message.
const FIRST_CALL: CallId = CallId { decision: Seq(8), index: 0 };

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut corpus = Corpus { root: Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"), kinds: BTreeSet::new() };
    let say = |text: &str| json!({"text": text, "usage": {"uncached": 12, "output": 3}});
    let call = |tool: &str, args: Value| json!({"text": "So:", "calls": [{"tool": tool, "args": args, "id": "c1"}]});
    let note = |text: &str| call("Note", json!({"note": text}));
    let two = json!({"calls": [{"tool": "Note", "args": {"note": "a"}}, {"tool": "Note", "args": {"note": "b"}}]});

    corpus.log("plain", &Bench::new(&[say("Hello from the fold.")], false), &[]).await;
    corpus.log("rounds", &Bench::new(&[note("one"), two, note("long"), say("done")], false), &[]).await;
    let refused = [call("Unknown", json!({})), call("Note", json!({"n": 1})), note("panic")];
    corpus.log("refused", &Bench::new(&refused, false), &[]).await;
    let cut = [json!({"text": "half", "stop": "length"}), json!({}), say("whole")];
    corpus.log("cut", &Bench::new(&cut, false), &[]).await;
    corpus.log("broken", &Bench::new(&[json!({"error": {"status": 400}})], false), &[]).await;
    let talk = [note("one"), say("What next?"), note("two"), say("And now?")];
    let items = [Item::Message { text: "Go on.".into() }, Item::Cancel { reason: Some("enough".into()) }];
    corpus.log("talk", &Bench::new(&talk, true), &items).await;
    let mut long = vec![note("again"); LONG];
    long.push(say("done"));
    corpus.snapshot("long", &Bench::new(&long, false)).await;
    corpus.snapshot("short", &Bench::new(&[note("one"), note("two"), say("done")], false)).await;

    let in_doubt = [note("unknown"), say("done")];
    let landed = Item::Resolve { call: FIRST_CALL, output: Some("seen".into()), verdict: CallResolution::Landed };
    corpus.log("resolved", &Bench::new(&in_doubt, true), &[landed]).await;
    corpus.worlds();

    corpus.vectors();
    corpus.operations();
    corpus.streams();
}

/// The folder of the corpus, by target.
struct Corpus {
    root: PathBuf,
    /// Types of the events in its logs.
    kinds: BTreeSet<EventType>,
}

/// A log, and before it that of its source up to where it branches off.
fn lineage(logs: &[Vec<StoredEvent>], number: usize) -> Vec<StoredEvent> {
    let log = &logs[number];
    let first = decode(&log[0].body, &log[0].hash).unwrap();
    let Payload::TaskForked(forked) = first.payload else { return log.clone() };
    let is_source = |log: &&Vec<StoredEvent>| decode(&log[0].body, &log[0].hash).unwrap().task == forked.source;
    let source = logs.iter().find(is_source).unwrap();
    let before = source.iter().filter(|event| event.seq <= forked.source_seq);
    before.chain(log).cloned().collect()
}

fn kind_of(event: &StoredEvent) -> EventType {
    decode(&event.body, &event.hash).unwrap().kind()
}

impl Corpus {
    /// Streams of a model's reply, plain and with what servers do differently.
    fn streams(&mut self) {
        let said = Said {
            thinking: vec!["Hm", "."],
            text: vec!["I look", " at \u{1f600}."],
            calls: vec![("a", "Read", vec!["{\"n\":", " 1.50}"]), ("", "Grep", vec!["{\"pattern\": "])],
            usage: Some(Usage { cache_read: 6, output: 9, reasoning: 2, uncached: 4, cache_write: 0 }),
            stop: None,
        };
        let plain = Chat.events(&said).concat();
        self.seed("stream", "crlf", plain.replace('\n', "\r\n").as_bytes());
        self.seed("stream", "plain", plain.as_bytes());
        for (word, events) in Chat.variants(&said) {
            self.seed("stream", &word.replace(' ', "-"), events.concat().as_bytes());
        }
        let failed = [Chat.events(&said)[0].clone(), Chat.failure("too busy")].concat();
        self.seed("stream", "failed", failed.as_bytes());
        let odd = plain.replace("I look", "I \\ud83d look").into_bytes();
        self.seed("stream", "odd", &[&b"\xef\xbb\xbf: ping\n\n"[..], &odd, b"data: \xff\n\n"].concat());
    }

    /// Writes a seed as it is.
    fn put(&mut self, target: &str, name: &str, bytes: &[u8]) {
        let folder = self.root.join(target);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    }

    /// Writes a seed and mutations of it.
    fn seed(&mut self, target: &str, name: &str, bytes: &[u8]) {
        self.put(target, name, bytes);
        for number in 0..MUTATIONS {
            self.put(target, &format!("{name}-{number}"), &mutated(bytes, number + 1));
        }
    }

    /// A whole log, and one event of each type.
    async fn log(&mut self, name: &str, bench: &Bench, items: &[Item]) {
        let task = bench.run(items).await;
        let stored = bench.store.read(&task, Seq(1), usize::MAX).await.unwrap();
        let lines = self.stored(name, &stored);
        self.seed("fold", name, &lines);
        self.seed("event", "first", &stored[0].body);
        self.put("canonical", name, &stored.last().unwrap().body);
    }

    /// Logs of simulated worlds: of each type that no log has held so far the shortest one, from as
    /// many worlds as that takes.
    fn worlds(&mut self) {
        let mut missing: BTreeSet<EventType> =
            EventType::ALL.iter().copied().filter(|kind| kind.is_readable() && !self.kinds.contains(kind)).collect();
        let mut shortest: BTreeMap<EventType, (String, Vec<StoredEvent>)> = BTreeMap::new();
        for seed in 0.. {
            if missing.is_empty() && seed >= WORLDS {
                break;
            }
            // A world has a runtime of its own, which cannot be within this one.
            let logs = std::thread::spawn(move || sim::logs(seed)).join().unwrap().unwrap();
            for number in 0..logs.len() {
                let log = lineage(&logs, number);
                let kinds: BTreeSet<EventType> = log.iter().map(kind_of).collect();
                for kind in kinds.difference(&self.kinds) {
                    missing.remove(kind);
                    if shortest.get(kind).is_none_or(|(_, known)| known.len() > log.len()) {
                        shortest.insert(*kind, (format!("world-{seed}-{number}"), log.clone()));
                    }
                }
            }
        }
        for (name, log) in shortest.into_values() {
            self.stored(&name, &log);
        }
    }

    /// One event of each type of a log, and the log.
    fn stored(&mut self, name: &str, log: &[StoredEvent]) -> Vec<u8> {
        let mut lines = Vec::new();
        for event in log {
            lines.extend(write_line(&event.body, &event.hash));
            let kind = kind_of(event);
            self.kinds.insert(kind);
            self.put("event", kind.name(), &event.body);
        }
        self.put("fold", name, &lines);
        lines
    }

    /// The last snapshot of a log with its segments, the last first.
    async fn snapshot(&mut self, name: &str, bench: &Bench) {
        let task = bench.run(&[]).await;
        let stored = bench.store.baselines(&task, 1).await.unwrap();
        let event = decode(&stored[0].body, &stored[0].hash).unwrap();
        let Payload::TaskSnapshot(taken) = &event.payload else { panic!("no snapshot") };
        let mut lines = vec![bench.store.get(&taken.state_ref).await.unwrap()];
        let mut state = snapshot::load(&event, &lines[0]).unwrap();
        loop {
            let unread = snapshot::unread(&state);
            if unread.is_empty() {
                break;
            }
            for (list, reference) in unread {
                let bytes = bench.store.get(&reference).await.unwrap();
                snapshot::supply(&mut state, list, &bytes).unwrap();
                lines.push(bytes);
            }
        }
        self.seed("snapshot", name, &lines.join(&b'\n'));
    }

    /// The vectors of the kernel.
    fn vectors(&mut self) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/tests/vectors");
        let read = |name: &str| -> Value { serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap() };
        let canonical = read("canonical.json");
        for side in ["accept", "refuse"] {
            for (index, case) in canonical[side].as_array().unwrap().iter().enumerate() {
                let hex = case["hex"].as_str().unwrap();
                let bytes: Vec<u8> =
                    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
                // Deep nesting is a long text with nothing in it.
                if bytes.len() < 4096 {
                    self.put("canonical", &format!("{side}-{index}"), &bytes);
                }
            }
        }
        let mut lines = String::new();
        for case in read("hashes.json")["events"].as_array().unwrap() {
            lines.push_str(case["line"].as_str().unwrap().trim_end());
            lines.push('\n');
        }
        self.seed("fold", "vectors", lines.as_bytes());
    }

    /// A task's life, then whatever comes.
    fn operations(&mut self) {
        let life = [0, 2, 2, 0, 5, 0, 9, 0, 6, 4, 9, 16, 2, 0, 7, 1, 11, 1, 8, 1];
        self.seed("operations", "life", &life);
        let race = [0, 2, 2, 0, 15, 10, 2, 1, 4, 0, 4, 1, 13, 0, 12, 1, 12, 0, 14, 0, 0, 1, 0, 3, 2, 5, 10, 1, 10, 1];
        self.seed("operations", "race", &race);
        for number in 1..=6 {
            let mut draw = Draw(number);
            let bytes: Vec<u8> = (0..600).map(|_| draw.next() as u8).collect();
            self.put("operations", &format!("any-{number}"), &bytes);
        }
    }
}

/// A small generator of numbers (xorshift), so that the corpus comes out alike each time.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        self.0 ^= self.0 >> 29;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// One change: a byte, a digit, a cut, a repetition.
fn mutated(bytes: &[u8], number: u64) -> Vec<u8> {
    let mut draw = Draw(number ^ bytes.len() as u64);
    let mut bytes = bytes.to_vec();
    let at = draw.below(bytes.len());
    match number % 4 {
        0 => bytes[at] ^= 1 << draw.below(8),
        1 => {
            let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
            let at = digits.get(draw.below(digits.len())).copied().unwrap_or(at);
            bytes[at] = b'0' + draw.below(10) as u8;
        }
        2 => {
            let end = (at + 1 + draw.below(64)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let end = (at + 1 + draw.below(64)).min(bytes.len());
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
    }
    bytes
}

struct Scripts(Arc<ScriptModel>);

#[async_trait]
impl ModelSource for Scripts {
    async fn model(&self, _: &ModelChoice, _: &dyn ContentStore) -> Result<Arc<dyn Model>, ModelSourceError> {
        Ok(self.0.clone())
    }
}

/// Says that it noted something; at length when asked to.
struct Note(ToolDeclaration);

#[async_trait]
impl Tool for Note {
    fn declaration(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, args: &str, _: &CallContext) -> Result<ToolOutput, ToolError> {
        assert!(!args.contains("panic"), "the tool has a bug");
        if args.contains("unknown") {
            return Err(ToolError::unknown("nobody knows"));
        }
        Ok(ToolOutput::text(if args.contains("long") { "noted at length. ".repeat(90) } else { "noted".into() }))
    }
}

/// The engine on the memory store with a scripted model.
struct Bench {
    store: Arc<MemoryStore>,
    worker: Worker,
    definition: Definition,
}

impl Bench {
    fn new(replies: &[Value], interactive: bool) -> Self {
        let script = serde_json::to_vec(&json!({ "replies": replies })).unwrap();
        let store = Arc::new(MemoryStore::new());
        let declaration = ToolDeclaration {
            name: "Note".into(),
            description: "Notes something.".into(),
            schema: r#"{"type":"object","properties":{"note":{"type":"string"}},"required":["note"],"additionalProperties":false}"#.into(),
            effect: Effect::Mutation,
            retry_safe: false,
            version: "1".into(),
        };
        let models = Arc::new(Scripts(Arc::new(ScriptModel::parse(&script).unwrap())));
        let host = Host::builder(store.clone(), models).tool(Arc::new(Note(declaration))).build();
        let options = WorkerOptions {
            identity: Identity {
                id: WorkerId::new("one").unwrap(),
                instance: InstanceId::new("one-instance").unwrap(),
                host: "here".into(),
                version: "1".into(),
                process: None,
            },
            queues: vec![],
            lease: Duration::from_secs(30),
            concurrency: 1,
            until_idle: true,
            only: None,
        };
        Self { store, worker: Worker::new(host, options), definition: definition(interactive) }
    }

    /// Runs a task to its end, delivering `items` one by one whenever it rests.
    async fn run(&self, items: &[Item]) -> TaskId {
        let client = Client::new(self.store.clone());
        let task = client.submit(Submission::new(self.definition.clone(), "Work, and say so.")).await.unwrap().id;
        self.worker.run(Stop::new()).await.unwrap();
        for (index, item) in items.iter().enumerate() {
            let key = format!("key-{index}").parse().unwrap();
            self.store.deliver(&task, "user:ada", item, &key).await.unwrap();
            self.worker.run(Stop::new()).await.unwrap();
        }
        task
    }
}

fn definition(interactive: bool) -> Definition {
    Definition {
        allow: vec![],
        ask: vec![],
        budget: Default::default(),
        deny: vec![],
        env: vec![],
        instructions: "Do the work.".into(),
        interactive,
        model: ModelChoice {
            provider: "script".into(),
            name: "test".into(),
            script: None,
            options: Default::default(),
        },
        name: "main".into(),
        on_crash: OnCrash::Resolve,
        permission_mode: PermissionMode::Bypass,
        queue: None,
        subagents: Default::default(),
        tools: vec!["Note".into()],
        workspace: "/".into(),
    }
}
