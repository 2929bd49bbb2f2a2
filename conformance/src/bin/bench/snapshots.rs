//! State through snapshots: S1, S2, and a long task as people look at it.

use std::hint::black_box;
use std::time::Instant;

use plica_engine::{Client, LoadOptions, load};
use plica_kernel::id::Seq;
use plica_kernel::snapshot;
use plica_kernel::state::Task;
use plica_ports::{ContentStore, Store};

use crate::Bench;
use crate::measure::{Sides, by_turns, process_cpu, wall};
use crate::mix::Stored;
use crate::report::{Bar, Limit, Report, time};

/// Events of the short task that a long one is compared with.
const SHORT: u64 = 1_000;
/// Loads of one turn.
const LOADS: usize = 20;
/// Segments of 128 that a window of 1,000 messages takes.
const WINDOW: usize = 7;

/// The state of a task, with the last segments of its messages.
async fn state(stored: &Stored, segments: usize) -> Task {
    let store = &*stored.store;
    let mut task = load(store, store, &stored.id, LoadOptions::default()).await.expect("the task folds");
    for _ in 0..segments {
        let Some((list, reference)) = snapshot::unread(&task).into_iter().next() else { break };
        let bytes = store.get(&reference).await.expect("a segment is there");
        snapshot::supply(&mut task, list, &bytes).expect("a segment is read");
    }
    task
}

/// Seconds of processor time that one load takes, of several: nothing in it waits, so that is how
/// long it takes where nobody else computes.
fn each(bench: &Bench, stored: &Stored, segments: usize) -> f64 {
    let began = process_cpu();
    bench.runtime.block_on(async {
        for _ in 0..LOADS {
            black_box(state(stored, segments).await);
        }
    });
    (process_cpu() - began) / LOADS as f64
}

/// S1: state by the newest snapshot and the tail after it, whatever the log's length.
///
/// What a window of 1,000 messages costs beyond the open tail is seven segments of 90 KB that are
/// unpacked (15 % of the time), hashed (11 %), checked to be UTF-8, once as they lie and once without
/// escapes (16 %), and read into messages that own their texts (the rest). What would take less is a
/// segment in another form than canonical JSON, or fewer of them: a worker that keeps those it read.
pub(crate) fn load_state(bench: &Bench, report: &mut Report) {
    let (long, short) = (Stored::get(bench, bench.events), Stored::get(bench, SHORT));
    for (segments, what) in [(0, "open tail of messages"), (WINDOW, "window of 1,000 messages")] {
        // A short task has fewer messages than the window, so only the first is compared.
        let sides = by_turns(|| each(bench, &long, segments), || each(bench, &short, segments));
        let mut add = |what: &str, against: String, ratio: f64, limit: f64| {
            let ours = time(sides.ours);
            report.add(Bar { id: "S1", what, ours, against, ratio, limit: Limit::AtMost(limit) });
        };
        add(&format!("state through a snapshot, {what}, in ms"), "2 ms".into(), sides.ours * 1e3, 2.0);
        if segments == 0 {
            add("the same, that of a task of 1,000 events", time(sides.against), sides.ratio, 1.5);
        }
    }
}

/// S2: a snapshot changes nothing, and costs the same at any length.
pub(crate) fn write(bench: &Bench, report: &mut Report) {
    let long = Stored::get(bench, bench.events);
    let store = &*long.store;
    let whole = |ignore_snapshots| {
        let options = LoadOptions { ignore_snapshots, whole: true, ..LoadOptions::default() };
        bench.runtime.block_on(load(store, store, &long.id, options)).expect("the task folds")
    };
    let (quick, full) = (whole(false), whole(true));
    assert_eq!(quick.to_bytes().ok(), full.to_bytes().ok(), "with and without snapshots");
    let mut tasks = [quick, bench.runtime.block_on(state(&Stored::get(bench, SHORT), usize::MAX))];
    let take = |task: &mut Task| {
        wall(|| {
            let mut blobs = Vec::new();
            black_box(snapshot::take(task, &mut blobs).expect("a state can be written"));
        })
    };
    let [long, short] = &mut tasks;
    let Sides { ours, against, .. } = by_turns(|| take(long), || take(short));
    report.add(Bar {
        id: "S2",
        what: "a snapshot written, that of a task of 1,000 events; in ms",
        ours: time(ours),
        against: time(against),
        ratio: ours * 1e3,
        limit: Limit::AtMost(5.0),
    });
}

/// A long task as people look at it: its row, its state now and in the middle.
pub(crate) fn long_task(bench: &Bench, report: &mut Report) {
    let (long, short) = (Stored::get(bench, bench.events), Stored::get(bench, SHORT));
    let ask = |stored: &Stored, what: usize| {
        let client = Client::new(stored.store.clone());
        let began = Instant::now();
        bench.runtime.block_on(async {
            match what {
                0 => drop(black_box(stored.store.row(&stored.id).await.expect("rows can be read"))),
                1 => drop(black_box(client.state(&stored.id, None, false).await.expect("the task folds"))),
                _ => {
                    let middle = Seq(stored.events / 2);
                    drop(black_box(client.state(&stored.id, Some(middle), false).await.expect("the task folds")));
                }
            }
        });
        began.elapsed().as_secs_f64()
    };
    let whats = ["its row, that of 1,000 events", "show (every message read)", "show --at the middle"];
    for (what, text) in whats.into_iter().enumerate() {
        let sides = by_turns(|| ask(&long, what), || ask(&short, what));
        let (ours, against) = (time(sides.ours), time(sides.against));
        let limit = if what == 0 { Limit::AtMost(1.5) } else { Limit::None };
        let what = format!("{} events: {text}", long.events);
        report.add(Bar { id: "long", what: &what, ours, against, ratio: sides.ratio, limit });
    }
}
