//! Whole rounds by the real engine: E1, E6, B3, and that none of it grows.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use plica_engine::Stop;
use plica_kernel::id::TaskId;
use plica_kernel::row::Status;
use plica_kernel::wake::Item;

use crate::Bench;
use crate::engine::Engine;
use crate::measure::{TURNS, median, process_cpu};
use crate::mix::file_bytes;
use crate::processes::itself;
use crate::raw::RawLoop;
use crate::report::{Bar, Limit, Report, rate, short, time};

/// Rounds that a median is taken of.
const SOME: usize = 20;
/// Wakes that are timed.
const WAKES: usize = 60;

/// Runs one task of `rounds` rounds; rounds per second, and how long each took.
fn run(bench: &Bench, name: &str, rounds: u64) -> (f64, Vec<f64>) {
    let engine = Engine::new(&bench.folder.join(name), rounds);
    let began = Instant::now();
    bench.runtime.block_on(async {
        let task = engine.submit(false).await;
        engine.work().await;
        let row = engine.store.row(&task).await.expect("rows can be read").expect("the task has a row");
        assert_eq!(row.projection.status, Status::Completed, "the task came to its end");
    });
    let overall = rounds as f64 / began.elapsed().as_secs_f64();
    let times = engine.requests.take();
    (overall, times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect())
}

/// E1: rounds with one call each; our half of the comparison with another system.
pub(crate) fn whole_tasks(bench: &Bench, report: &mut Report) {
    for (rounds, theirs, limit) in [(50, 73.0, 20.0), (400, 19.0, 60.0)] {
        let mut raw = RawLoop::new(&bench.folder.join(format!("e1-raw-{rounds}")), 628);
        let (mut rates, mut commits, mut cpu, mut raw_cpu) = (vec![], vec![], vec![], vec![]);
        for turn in 0..5 {
            let began = process_cpu();
            rates.push(run(bench, &format!("e1-{rounds}-{turn}"), rounds).0);
            cpu.push((process_cpu() - began) / rounds as f64);
            let began = process_cpu();
            let times = raw.commits();
            raw_cpu.push((process_cpu() - began) / times.len() as f64);
            commits.push(median(&times));
        }
        let (ours, commit) = (median(&rates), median(&commits));
        report.add(Bar {
            id: "E1",
            what: &format!("rounds of a task of {rounds}, two raw commits each"),
            ours: rate(ours, "round"),
            against: rate(0.5 / commit, "round"),
            ratio: ours * 2.0 * commit,
            limit: Limit::None,
        });
        let (ours_cpu, raw_cpu) = (median(&cpu), 2.0 * median(&raw_cpu));
        report.add(Bar {
            id: "E1",
            what: &format!("processor time of a round of a task of {rounds}, of two raw commits"),
            ours: time(ours_cpu),
            against: time(raw_cpu),
            ratio: ours_cpu / raw_cpu,
            limit: Limit::None,
        });
        report.add(Bar {
            id: "E1",
            what: &format!("rounds, another system's on a quiet machine ({rounds} rounds)"),
            ours: rate(ours, "round"),
            against: rate(theirs, "round"),
            ratio: ours / theirs,
            limit: Limit::AtLeast(limit),
        });
    }
}

/// A round costs the same at any place of a task, in time and in bytes.
pub(crate) fn flat(bench: &Bench, report: &mut Report) {
    let (_, times) = run(bench, "flat", 2_000);
    for (rounds, limit) in [(400, 1.3), (2_000, 1.3)] {
        let (first, last) = (median(&times[10..10 + SOME]), median(&times[rounds - SOME - 10..rounds - 10]));
        report.add(Bar {
            id: "flat",
            what: &format!("p50 of the rounds before the {rounds}th, of those around the 20th"),
            ours: time(last),
            against: time(first),
            ratio: last / first,
            limit: Limit::AtMost(limit),
        });
    }
    let bytes = |rounds: u64| {
        let name = format!("b3-{rounds}");
        run(bench, &name, rounds);
        file_bytes(&bench.folder.join(name)) as f64
    };
    let (few, some, many) = (bytes(20), bytes(120), bytes(420));
    let (early, late) = ((some - few) / 100.0, (many - some) / 300.0);
    let mut add = |what: &str, ours: String, against: String, ratio: f64, limit: f64| {
        report.add(Bar { id: "B3", what, ours, against, ratio, limit: Limit::AtMost(limit) });
    };
    let late_text = format!("{} B", short(late));
    add(
        "bytes for a round from the 120th to the 420th, the 100 before",
        late_text.clone(),
        format!("{} B", short(early)),
        late / early,
        1.1,
    );
    add("the same, another system's at turn 400", late_text, "21.2 KB".into(), late / 21_200.0, 0.5);
}

/// Who sends the messages of E6.
#[derive(Debug, Clone, Copy)]
enum Sender {
    /// Somebody in the worker's own process.
    Here,
    /// Somebody in another process.
    Elsewhere,
}

/// E6: from a message that is delivered to a waiting task, to its next request on record. The
/// delivery is durable by then, and the request is one more commit.
pub(crate) fn wake(bench: &Bench, report: &mut Report) {
    for (sender, what, limit) in [
        (Sender::Here, "message delivered to next request on record, one raw commit; beyond it in ms", 1.0),
        (Sender::Elsewhere, "the same, delivered by another process", 100.0),
    ] {
        let (latencies, commits) = wakes(bench, sender);
        let beyond: Vec<f64> = latencies.iter().zip(&commits).map(|(late, commit)| (late - commit) * 1e3).collect();
        report.add(Bar {
            id: "E6",
            what,
            ours: time(median(&latencies)),
            against: time(median(&commits)),
            ratio: median(&beyond),
            limit: Limit::AtMost(limit),
        });
    }
}

/// How long each wake took, and a raw commit beside it.
fn wakes(bench: &Bench, sender: Sender) -> (Vec<f64>, Vec<f64>) {
    let path = bench.folder.join(format!("e6-{sender:?}"));
    let engine = Engine::new(&path, 0);
    let mut raw = RawLoop::new(&bench.folder.join(format!("e6-raw-{sender:?}")), 628);
    let stop = Stop::new();
    let (mut latencies, mut commits) = (vec![], vec![]);
    bench.runtime.block_on(async {
        let task = engine.submit(true).await;
        let (worker, told) = (engine.worker(false), stop.clone());
        let working = tokio::spawn(async move { worker.run(told).await });
        engine.requests.next().await;
        for number in 0..WAKES {
            while !is_waiting(&engine, &task).await {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Until the worker has nothing better to do than to wait for news.
            tokio::time::sleep(Duration::from_millis(20)).await;
            engine.requests.take();
            let delivered = match sender {
                Sender::Here => {
                    deliver(&engine, &task, number).await;
                    Instant::now()
                }
                Sender::Elsewhere => send_from_elsewhere(&path, &task, number),
            };
            latencies.push((engine.requests.next().await - delivered).as_secs_f64());
            let mut times = vec![];
            for _ in 0..TURNS {
                let one = Instant::now();
                raw.append(1);
                times.push(one.elapsed().as_secs_f64());
            }
            commits.push(median(&times));
        }
        stop.stop();
        working.await.expect("the worker ends").expect("the worker ends well");
    });
    (latencies, commits)
}

/// Delivers the `number`-th message.
pub(crate) async fn deliver(engine: &Engine, task: &TaskId, number: usize) {
    let key = format!("wake-{number}").parse().expect("a key");
    let item = Item::Message { text: "Go on.".into() };
    engine.store.deliver(task, "user:ada", &item, &key).await.expect("the message is taken");
}

/// Delivers the `number`-th message from another process; when it said that it had.
fn send_from_elsewhere(path: &Path, task: &TaskId, number: usize) -> Instant {
    let mut child = itself("--child-send", path, number).arg(task.as_str()).stdout(Stdio::piped()).spawn();
    let child = child.as_mut().expect("a sender starts");
    let mut said = String::new();
    let mut lines = BufReader::new(child.stdout.take().expect("its output is piped"));
    lines.read_line(&mut said).expect("it says when it is done");
    let delivered = Instant::now();
    assert!(child.wait().expect("the sender ends").success() && said == "sent\n", "a sender failed: {said}");
    delivered
}

async fn is_waiting(engine: &Engine, task: &TaskId) -> bool {
    let row = engine.store.row(task).await.expect("rows can be read").expect("the task has a row");
    row.projection.status == Status::Waiting && row.holder.is_none()
}
