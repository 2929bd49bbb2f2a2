//! From bytes to state and back: F1 to F5.

use std::hint::black_box;

use plica_engine::{LoadOptions, load};
use plica_kernel::canonical::{Domain, check, to_vec};
use plica_kernel::decode::{decode, decode_trusted};
use plica_kernel::envelope::{Envelope, Origin, SealedEvent};
use plica_kernel::event::{
    ContextPlanComposed, DecisionRecorded, LLMRequestFinished, LLMRequestStarted, MessagesAppended, Payload,
    TaskCreated, TaskSnapshot, ToolCallFinished, ToolCallStarted,
};
use plica_kernel::state::fold::Folder;
use serde::{Deserialize, Serialize};

use crate::Bench;
use crate::measure::{by_turns, cpu, process_cpu};
use crate::mix::{Life, Stored};
use crate::report::{Bar, Limit, Report, rate};

/// Rounds of the log that is decoded in memory: 21,000 events.
const ROUNDS: u64 = 3_000;

/// An event as a plain typed decoder would have it: nothing checked, every member owned, the
/// payload tagged from outside, which is the fastest shape that serde_json reads.
#[derive(Serialize, Deserialize)]
struct Plain {
    action: Option<u64>,
    actor: String,
    at: String,
    decision: Option<u64>,
    epoch: u64,
    more: u32,
    origin: Origin,
    parent: Option<u64>,
    payload: PlainPayload,
    prev: String,
    run: String,
    seq: u64,
    task: String,
    v: u32,
}

macro_rules! plain_payload {
    ($($name:ident),*) => {
        #[derive(Serialize, Deserialize)]
        enum PlainPayload { $($name($name)),* }

        impl PlainPayload {
            fn of(payload: Payload) -> Self {
                match payload {
                    $(Payload::$name(payload) => Self::$name(payload),)*
                    other => panic!("the mix holds no {}", other.kind()),
                }
            }
        }
    };
}

plain_payload!(
    TaskCreated,
    MessagesAppended,
    ContextPlanComposed,
    LLMRequestStarted,
    LLMRequestFinished,
    DecisionRecorded,
    ToolCallStarted,
    ToolCallFinished,
    TaskSnapshot
);

impl Plain {
    fn of(event: Envelope) -> Self {
        Self {
            action: event.links.action.map(|seq| seq.0),
            actor: event.actor,
            at: event.at.to_string(),
            decision: event.links.decision.map(|seq| seq.0),
            epoch: event.epoch.0,
            more: event.more,
            origin: event.origin,
            parent: event.links.parent.map(|seq| seq.0),
            payload: PlainPayload::of(event.payload),
            prev: event.prev.to_string(),
            run: event.run.to_string(),
            seq: event.seq.0,
            task: event.task.to_string(),
            v: 1,
        }
    }
}

fn envelope(event: &SealedEvent) -> Envelope {
    decode_trusted(&event.body).expect("the mix decodes")
}

/// The events as texts that serde_json reads best.
pub(crate) fn plain_texts(events: &[SealedEvent]) -> Vec<Vec<u8>> {
    let text = |event| serde_json::to_vec(&Plain::of(envelope(event))).expect("the mix has a JSON form");
    events.iter().map(text).collect()
}

/// Events per second of this thread's time that plain decoding reaches.
pub(crate) fn decode_only(texts: &[Vec<u8>]) -> f64 {
    let seconds = cpu(|| {
        for text in texts {
            black_box(serde_json::from_slice::<Plain>(text).expect("a plain text is read"));
        }
    });
    texts.len() as f64 / seconds
}

/// Events per second of processor time, of all threads together, that a fold from the file
/// reaches.
pub(crate) fn from_file(bench: &Bench, stored: &Stored) -> f64 {
    let options = LoadOptions { ignore_snapshots: true, ..LoadOptions::default() };
    let began = process_cpu();
    let state = bench.runtime.block_on(load(&*stored.store, &*stored.store, &stored.id, options));
    black_box(state.expect("the log folds"));
    stored.events as f64 / (process_cpu() - began)
}

/// F1: the whole fold from the file, every message owned, against plain decoding alone.
pub(crate) fn whole(bench: &Bench, report: &mut Report) {
    let stored = Stored::get(bench, bench.events);
    let texts = plain_texts(&Life::log(ROUNDS).1);
    let sides = by_turns(|| from_file(bench, &stored), || decode_only(&texts));
    report.add(Bar {
        id: "F1",
        what: "fold from SQLite, chain verified; serde_json decode alone",
        ours: rate(sides.ours, "event"),
        against: rate(sides.against, "event"),
        ratio: sides.ratio,
        limit: Limit::AtLeast(0.5),
    });
}

/// F3: our half of the comparison with another system, and where the time goes.
pub(crate) fn rates(bench: &Bench, report: &mut Report) {
    let (_, events) = Life::log(ROUNDS);
    let envelopes: Vec<Envelope> = events.iter().map(envelope).collect();
    let texts = plain_texts(&events);
    let stored = Stored::get(bench, bench.events);
    let count = events.len() as f64;
    let mut add = |what: &str, ours: &mut dyn FnMut() -> f64| {
        let sides = by_turns(ours, || decode_only(&texts));
        let (ours, against) = (rate(sides.ours, "event"), rate(sides.against, "event"));
        report.add(Bar { id: "F3", what, ours, against, ratio: sides.ratio, limit: Limit::None });
    };
    add("hash of each body alone; serde_json decode alone", &mut || {
        let hash = |event: &SealedEvent| {
            black_box(Domain::Event.hash(&event.body));
        };
        count / cpu(|| events.iter().for_each(hash))
    });
    add("canonical check alone", &mut || {
        count / cpu(|| events.iter().for_each(|event| drop(black_box(check(&event.body)))))
    });
    add("our decode alone", &mut || count / cpu(|| events.iter().for_each(|event| drop(black_box(envelope(event))))));
    add("apply alone", &mut || {
        count
            / cpu(|| {
                let mut folder = Folder::new(None, []);
                for (event, sealed) in envelopes.iter().zip(&events) {
                    folder.push(event, sealed.hash, None).expect("the mix folds");
                }
                black_box(folder);
            })
    });
    add("rows read alone", &mut || {
        let began = process_cpu();
        black_box(stored.read(bench));
        stored.events as f64 / (process_cpu() - began)
    });
    add("fold from SQLite (another system's reaches 32.5k/s)", &mut || from_file(bench, &stored));
}

/// F4: checking the chain costs a fold little.
pub(crate) fn verified(_: &Bench, report: &mut Report) {
    let (_, events) = Life::log(ROUNDS);
    let fold = |is_checked: bool| {
        let seconds = cpu(|| {
            let mut folder = Folder::new(None, []);
            for sealed in &events {
                let event = if is_checked { decode(&sealed.body, &sealed.hash) } else { decode_trusted(&sealed.body) };
                folder.push(&event.expect("the mix decodes"), sealed.hash, None).expect("the mix folds");
            }
            black_box(folder);
        });
        events.len() as f64 / seconds
    };
    let sides = by_turns(|| fold(true), || fold(false));
    report.add(Bar {
        id: "F4",
        what: "fold with every hash checked, without",
        ours: rate(sides.ours, "event"),
        against: rate(sides.against, "event"),
        ratio: sides.ratio,
        limit: Limit::AtLeast(0.75),
    });
}

/// F5: canonical bytes straight from the types, against the way through a tree of values.
pub(crate) fn encode(_: &Bench, report: &mut Report) {
    let (_, events) = Life::log(ROUNDS);
    let payloads: Vec<Payload> = events.iter().map(|event| envelope(event).payload).collect();
    let through_tree = |payload: &Payload| {
        let tree = serde_json::to_value(payload).expect("the mix has a JSON form");
        serde_json::to_vec(&tree).expect("a tree has a JSON form")
    };
    for payload in &payloads {
        assert_eq!(to_vec(payload).expect("the mix is canonical"), through_tree(payload), "the bytes are the same");
    }
    let count = payloads.len() as f64;
    let sides = by_turns(
        || count / cpu(|| payloads.iter().for_each(|payload| drop(black_box(to_vec(payload))))),
        || count / cpu(|| payloads.iter().for_each(|payload| drop(black_box(through_tree(payload))))),
    );
    report.add(Bar {
        id: "F5",
        what: "canonical encode of a payload, through a tree of values",
        ours: rate(sides.ours, "payload"),
        against: rate(sides.against, "payload"),
        ratio: sides.ratio,
        limit: Limit::AtLeast(2.5),
    });
}
