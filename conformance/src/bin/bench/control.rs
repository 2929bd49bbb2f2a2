//! F2: how far a fold gets that decodes no bodies, and what it would take.
//!
//! Nothing in the product folds without bodies, so there is no such fold, and the bar is missed:
//! lists, wakes, claims and a parent that reads its children's ends go by the row, which carries
//! status, head and wake; `show` and a worker's first look start at the newest snapshot and decode a
//! tail of some rounds (S1); `verify` has to read every byte. A fold from the first event is left
//! to a log whose snapshots are of another version, and what follows it is a prompt, which needs the
//! bodies.
//!
//! Two ways to such a fold are measured beside it. Reading the same bytes for their counters alone
//! comes to 1.1 times the decoder and so to half the bar: the bytes still have to be read, checked
//! and passed over. A head of some fixed bytes in front of each body, which `append` would write and a
//! call of the store would hand out, comes to 4.5 times; it takes 4 % more of the file, and is a second
//! form of each event that nothing in the chain vouches for.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::PathBuf;

use plica_engine::{LoadOptions, load};
use plica_kernel::canonical::from_slice;
use plica_kernel::decode::decode_trusted;
use plica_kernel::envelope::Envelope;
use plica_kernel::event::{Payload, Usage};
use plica_kernel::id::Seq;
use plica_ports::Store;
use plica_ports::store::StoredEvent;
use rusqlite::Connection;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Bench;
use crate::fold::{decode_only, from_file, plain_texts};
use crate::measure::{by_turns, cpu, process_cpu};
use crate::mix::{Life, Stored};
use crate::report::{Bar, Limit, Report, rate};

/// Rounds of the log that is decoded in memory.
const ROUNDS: u64 = 3_000;
/// Events read at once.
const PAGE: usize = 1_000;

/// What an event adds to the counters.
#[derive(Default)]
struct Head {
    /// Whether a request or a call begins with it.
    begins: bool,
    /// The one that ends with it.
    ends: u64,
    cost_nano_usd: u64,
    tokens: u64,
    messages: u64,
}

/// What a fold without bodies knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Control {
    steps: u64,
    open: BTreeSet<u64>,
    cost_nano_usd: u64,
    tokens: u64,
    /// Which events hold messages, and how many.
    messages: Vec<(u64, u64)>,
}

impl Control {
    fn push(&mut self, seq: u64, is_request: bool, head: &Head) {
        if head.begins {
            self.steps += u64::from(is_request);
            self.open.insert(seq);
        }
        if head.ends > 0 {
            self.open.remove(&head.ends);
        }
        self.cost_nano_usd += head.cost_nano_usd;
        self.tokens += head.tokens;
        if head.messages > 0 {
            self.messages.push((seq, head.messages));
        }
    }
}

fn all(usage: &Usage) -> u64 {
    usage.input() + usage.output
}

/// The counters of an event, its bodies passed over.
#[derive(Deserialize)]
struct Skimmed<'a> {
    #[serde(default)]
    action: Option<u64>,
    payload: Counters,
    seq: u64,
    #[serde(rename = "type")]
    kind: &'a str,
}

#[derive(Deserialize)]
struct Counters {
    #[serde(default)]
    cost_nano_usd: Option<u64>,
    #[serde(default)]
    messages: Vec<IgnoredAny>,
    #[serde(default)]
    usage: Option<Usage>,
}

fn skim(control: &mut Control, event: &StoredEvent) {
    let skimmed: Skimmed<'_> = from_slice(&event.body).expect("the mix is canonical");
    let head = Head {
        begins: matches!(skimmed.kind, "LLMRequestStarted" | "ToolCallStarted"),
        ends: skimmed.action.unwrap_or(0),
        cost_nano_usd: skimmed.payload.cost_nano_usd.unwrap_or(0),
        tokens: skimmed.payload.usage.as_ref().map_or(0, all),
        messages: skimmed.payload.messages.len() as u64,
    };
    control.push(skimmed.seq, skimmed.kind == "LLMRequestStarted", &head);
}

/// The log read page by page for its counters alone.
async fn skimmed(stored: &Stored) -> Control {
    let (mut control, mut from) = (Control::default(), Seq(1));
    loop {
        let page = stored.store.read(&stored.id, from, PAGE).await.expect("logs can be read");
        page.iter().for_each(|event| skim(&mut control, event));
        match page.last() {
            Some(last) if page.len() == PAGE => from = last.seq.next(),
            _ => return control,
        }
    }
}

fn head_of(event: &Envelope) -> (bool, Head) {
    let (mut head, mut is_request) = (Head::default(), false);
    match &event.payload {
        Payload::LLMRequestStarted(_) => (head.begins, is_request) = (true, true),
        Payload::ToolCallStarted(_) => head.begins = true,
        Payload::LLMRequestFinished(finished) => {
            head.cost_nano_usd = finished.cost_nano_usd.unwrap_or(0);
            head.tokens = all(&finished.usage);
        }
        Payload::MessagesAppended(appended) => head.messages = appended.messages.len() as u64,
        _ => {}
    }
    head.ends = event.links.action.map_or(0, |seq| seq.0);
    (is_request, head)
}

/// A file like the store's, whose events have a head of 34 bytes in front of their bodies.
fn with_heads(bench: &Bench, stored: &Stored) -> PathBuf {
    let path = bench.folder.join("heads");
    let mut conn = Connection::open(&path).expect("a file");
    let tables = "CREATE TABLE events (task INTEGER NOT NULL, seq INTEGER NOT NULL, head BLOB NOT NULL, \
        hash BLOB NOT NULL, body BLOB NOT NULL, UNIQUE (task, seq))";
    conn.execute_batch(tables).expect("a table");
    let transaction = conn.transaction().expect("a transaction");
    for event in stored.read(bench) {
        let (is_request, head) = head_of(&decode_trusted(&event.body).expect("the mix decodes"));
        let mut bytes = vec![u8::from(head.begins), u8::from(is_request)];
        for number in [head.ends, head.cost_nano_usd, head.tokens, head.messages] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let sql = "INSERT INTO events VALUES (1, ?1, ?2, ?3, ?4)";
        let row = (event.seq.0 as i64, bytes, event.hash.as_bytes(), &event.body);
        transaction.prepare_cached(sql).expect("a statement").execute(row).expect("an event");
    }
    transaction.commit().expect("a commit");
    path
}

/// The heads folded, no body looked at.
fn from_heads(conn: &Connection) -> Control {
    let mut control = Control::default();
    let sql = "SELECT seq, head FROM events WHERE task = 1 ORDER BY seq";
    let mut statement = conn.prepare_cached(sql).expect("a statement");
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        let bytes = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).expect("a head");
        let number = |at: usize| {
            let word = bytes.get(2 + at * 8..10 + at * 8).and_then(|word| word.try_into().ok());
            u64::from_le_bytes(word.expect("a head has 34 bytes"))
        };
        let head = Head {
            begins: bytes[0] == 1,
            ends: number(0),
            cost_nano_usd: number(1),
            tokens: number(2),
            messages: number(3),
        };
        control.push(row.get::<_, i64>(0).expect("a seq").unsigned_abs(), bytes[1] == 1, &head);
    }
    control
}

/// Checks that a fold without bodies knows what the whole one does.
fn check(bench: &Bench, stored: &Stored, control: &Control) {
    let options = LoadOptions::default();
    let state = bench.runtime.block_on(load(&*stored.store, &*stored.store, &stored.id, options));
    let state = state.expect("the log folds");
    let governance = state.governance();
    assert_eq!((control.steps, control.cost_nano_usd), (governance.steps, governance.cost_nano_usd));
    assert!(governance.actions.iter().map(|action| action.seq.0).eq(control.open.iter().copied()));
}

/// F2: the fold as it is, then those that decode no bodies.
pub(crate) fn fold(bench: &Bench, report: &mut Report) {
    let stored = Stored::get(bench, bench.events);
    let texts = plain_texts(&Life::log(ROUNDS).1);
    let conn = Connection::open(with_heads(bench, &stored)).expect("a file");
    let heads = from_heads(&conn);
    assert_eq!(bench.runtime.block_on(skimmed(&stored)), heads, "both know the same");
    check(bench, &stored, &heads);
    let mut add = |what: &str, limit: Limit, ours: &mut dyn FnMut() -> f64| {
        let sides = by_turns(|| stored.events as f64 / ours(), || decode_only(&texts));
        let (ours, against) = (rate(sides.ours, "event"), rate(sides.against, "event"));
        report.add(Bar { id: "F2", what, ours, against, ratio: sides.ratio, limit });
    };
    let bar = Limit::AtLeast(2.0);
    add("control fold from SQLite (the whole one); serde_json decode alone", bar, &mut || {
        stored.events as f64 / from_file(bench, &stored)
    });
    add("tried: counters read from the same bytes", Limit::None, &mut || {
        let began = process_cpu();
        black_box(bench.runtime.block_on(skimmed(&stored)));
        process_cpu() - began
    });
    add("tried: a head in front of each body", Limit::None, &mut || cpu(|| drop(black_box(from_heads(&conn)))));
}
