//! What takes more than one process: L3, L6. The bench starts itself again with a role.

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use plica_kernel::decode::decode_trusted;
use plica_kernel::id::{Seq, TaskId};
use plica_ports::store::StoredEvent;

use crate::Bench;
use crate::appends::{Hold, store};
use crate::engine::Engine;
use crate::measure::{TURNS, median};
use crate::report::{Bar, Limit, Report, rate, short, time};

/// How long each turn of two writers takes.
const WRITING: Duration = Duration::from_secs(1);
/// Time for both to open the file before they begin.
const START: Duration = Duration::from_millis(400);
/// Bytes of text that make a usual event.
const USUAL: usize = 215;

/// Does what a child of the bench is started for.
pub(crate) fn child(role: &str, arguments: &[String]) -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (path, number) = (Path::new(&arguments[0]), arguments[1].parse::<usize>().expect("a number"));
    runtime.block_on(async {
        match role {
            "--child-writer" => {
                let start: u128 = arguments[2].parse().expect("a time");
                let (events, worst) = writer(path, number, start).await;
                println!("{events} {worst}");
            }
            "--child-appends" => {
                let mut hold = Hold::new(&store(path), 1, USUAL).await;
                for _ in 0..number {
                    hold.append().await;
                }
            }
            "--child-rounds" => {
                let engine = Engine::new(path, number as u64);
                engine.submit(false).await;
                engine.work().await;
            }
            "--child-send" => {
                let engine = Engine::new(path, 0);
                let task = TaskId::new(arguments[2].as_str()).expect("a task");
                crate::rounds::deliver(&engine, &task, number).await;
                println!("sent");
            }
            "--child-team" => crate::team::child(&arguments[0], number).await,
            "--child-idle" => crate::waiting::idle_child(&arguments[0], number).await,
            "--child-drain" => {
                crate::drain::child(&arguments[0], number, arguments[2].parse().expect("a time")).await;
            }
            other => panic!("no role {other}"),
        }
    });
    ExitCode::SUCCESS
}

/// This program in another role.
pub(crate) fn itself(role: &str, path: &Path, number: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path to this program"));
    command.arg(role).arg(path).arg(number.to_string()).stdin(Stdio::null());
    command
}

fn millis() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// Appends to a task of its own from `start` on; events per second and the longest append.
async fn writer(path: &Path, number: usize, start: u128) -> (f64, f64) {
    let mut hold = Hold::new(&store(path), number, USUAL).await;
    while millis() < start {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = Instant::now();
    let (mut events, mut worst) = (0.0, 0.0f64);
    while began.elapsed() < WRITING {
        let one = Instant::now();
        hold.append().await;
        worst = worst.max(one.elapsed().as_secs_f64());
        events += 1.0;
    }
    (events / began.elapsed().as_secs_f64(), worst)
}

/// Rates and longest waits of writers with these numbers, at the same time.
fn write_at_once(path: &Path, numbers: &[usize]) -> Vec<(f64, f64)> {
    let start = (millis() + START.as_millis()).to_string();
    let writers: Vec<Child> = numbers
        .iter()
        .map(|number| {
            let mut command = itself("--child-writer", path, *number);
            command.arg(&start).stdout(Stdio::piped()).spawn().expect("this program starts again")
        })
        .collect();
    let read = |writer: Child| {
        let output = writer.wait_with_output().expect("a writer ends");
        assert!(output.status.success(), "a writer failed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().expect("a number"));
        (numbers.next().expect("a rate"), numbers.next().expect("a time"))
    };
    writers.into_iter().map(read).collect()
}

/// L3: two processes on one file are treated alike, and neither waits long.
pub(crate) fn two_processes(bench: &Bench, report: &mut Report) {
    let path = bench.folder.join("l3");
    let (mut shares, mut sums, mut waits, mut alone) = (vec![], vec![], vec![], vec![]);
    let mut rates = (vec![], vec![]);
    for turn in 0..TURNS.min(5) {
        let single = write_at_once(&path, &[3 * turn])[0];
        let pair = write_at_once(&path, &[3 * turn + 1, 3 * turn + 2]);
        let (slow, fast) = (pair[0].0.min(pair[1].0), pair[0].0.max(pair[1].0));
        rates.0.push(slow);
        rates.1.push(fast);
        shares.push(slow / fast);
        sums.push((slow + fast) / single.0);
        waits.push((pair[0].1.max(pair[1].1) - single.1).max(0.0) * 1e3);
        alone.push(single.1);
    }
    let mut add = |what: &str, ours: String, against: String, ratio: f64, limit: Limit| {
        report.add(Bar { id: "L3", what, ours, against, ratio, limit });
    };
    let (slow, fast) = (rate(median(&rates.0), "event"), rate(median(&rates.1), "event"));
    add("two processes on one file: the slower, the faster", slow, fast, median(&shares), Limit::AtLeast(0.5));
    let (sum, one) = (median(&rates.0) + median(&rates.1), median(&rates.0) + median(&rates.1));
    let single = rate(one / median(&sums), "event");
    add("both together, one alone", rate(sum, "event"), single, median(&sums), Limit::AtLeast(0.25));
    let wait = format!("{} ms", short(median(&waits)));
    add("longest wait beyond one's own, in ms", wait, time(median(&alone)), median(&waits), Limit::AtMost(100.0));
}

/// Flushes that a role makes, as strace counts them; `None` without strace.
fn flushes_of(bench: &Bench, role: &str, number: usize) -> Option<f64> {
    let path = bench.folder.join(format!("l6{role}-{number}"));
    let counts = bench.folder.join("l6-strace");
    let own = itself(role, &path, number);
    let status = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o"])
        .arg(&counts)
        .arg(own.get_program())
        .args(own.get_args())
        .stdin(Stdio::null())
        .status()
        .ok()?;
    assert!(status.success(), "the role failed under strace");
    let text = std::fs::read_to_string(&counts).ok()?;
    Some(text.lines().filter(|line| line.contains("sync(") && !line.contains("resumed")).count() as f64)
}

/// L6: flushes and commits are counted, a checkpoint's among them.
pub(crate) fn flushes(bench: &Bench, report: &mut Report) {
    let slope = |role: &str, few: usize, many: usize| {
        let (less, more) = (flushes_of(bench, role, few)?, flushes_of(bench, role, many)?);
        Some((more - less) / (many - few) as f64)
    };
    // A checkpoint, every few hundred commits, adds a flush or two of its own.
    let mut add = |what: &str, ours: String, ratio: f64, limit: f64| {
        report.add(Bar { id: "L6", what, ours, against: "".into(), ratio, limit: Limit::AtMost(limit + 0.05) });
    };
    match (slope("--child-appends", 50, 250), slope("--child-rounds", 20, 120)) {
        (Some(step), Some(round)) => {
            add("flushes for a durable step, checkpoints included", short(step), step, 1.0);
            add("flushes for a round with one call, checkpoints included", short(round), round, 2.0);
        }
        _ => eprintln!("L6: flushes are not counted: there is no strace"),
    }
    let engine = Engine::new(&bench.folder.join("l6-commits"), 100);
    let commits = bench.runtime.block_on(async {
        let task = engine.submit(false).await;
        engine.work().await;
        commits(&engine, &task).await
    });
    add("commits for a round with one call", short(commits / 100.0), commits / 100.0, 2.0);
}

/// Appends of a task, creation included: each ends with an event that none follows.
async fn commits(engine: &Engine, task: &TaskId) -> f64 {
    let stored = engine.port().read(task, Seq(1), usize::MAX).await.expect("logs can be read");
    let last = |stored: &&StoredEvent| decode_trusted(&stored.body).expect("what was written decodes").more == 0;
    stored.iter().filter(last).count() as f64
}
