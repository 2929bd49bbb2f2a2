//! Ten teams at their usual pace, as DEPLOYMENT.md counts them: what that costs workers, server and
//! disk.

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plica_engine::Stop;

use crate::Bench;
use crate::drain;
use crate::engine::{Engine, Talk};
use crate::measure::process_cpu;
use crate::place::{self, Kind, Place, Site};
use crate::processes::itself;
use crate::report::{Bar, Limit, Report, rate, short};

/// Tasks that a model or a tool works on at any time, and tasks that wait for someone.
const AT_WORK: usize = 20;
const WAITING: u64 = 10_000;
/// How long a round takes, nearly all of it in the model.
const ROUND: Duration = Duration::from_secs(5);
/// Worker processes, and tasks that each works on at once.
const WORKERS: usize = 5;
const CONCURRENCY: usize = 4;
/// How long they are watched, in seconds, after a moment to get going.
const WATCHED: usize = 30;
const SETTLING: Duration = Duration::from_secs(12);
/// More replies than any task gets to.
const ENDLESS: u64 = 1_000_000;

fn talk() -> Talk {
    Talk::Slow { rounds: ENDLESS, reply: ROUND }
}

/// A worker of the team: prints its share of a processor while it is watched.
pub(crate) async fn child(name: &str, seconds: usize) {
    let engine = Engine::on(place::open(name), talk());
    let (worker, stop) = (engine.worker_of(false, CONCURRENCY), Stop::new());
    let told = stop.clone();
    let working = tokio::spawn(async move { worker.run(told).await });
    tokio::time::sleep(SETTLING).await;
    let (began, used) = (Instant::now(), process_cpu());
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    println!("{}", (process_cpu() - used) / began.elapsed().as_secs_f64());
    stop.stop();
    working.await.expect("the worker ends").expect("the worker ends well");
}

/// Seconds of a processor that a server and its processes have used, those that have ended included;
/// none for a file, which is the workers' own work.
fn server_cpu(place: &Place<'_>) -> f64 {
    if place.fresh().is_none() {
        return 0.0;
    }
    let stat = |pid: &str| -> Option<(String, f64)> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // What follows the name, which may hold anything (proc_pid_stat(5)): from the third field on.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks: f64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
        Some(((*fields.get(1)?).to_owned(), ticks / rustix::param::clock_ticks_per_second() as f64))
    };
    let backend = place.number("SELECT pg_backend_pid()").to_string();
    let Some((postmaster, _)) = stat(&backend) else { return 0.0 };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let ours = pids.filter_map(|pid| Some((stat(&pid)?, pid)));
    ours.filter(|((parent, _), pid)| *parent == postmaster || *pid == postmaster).map(|((_, cpu), _)| cpu).sum()
}

/// What there is at a moment: requests on record, seconds of the server, bytes of events.
fn now(place: &Place<'_>) -> [f64; 4] {
    let requests = place.number("SELECT count(*) FROM plica.events WHERE type = 'LLMRequestFinished'");
    let events = place.number("SELECT count(*) FROM plica.events");
    let bytes = place.number("SELECT sum(length(body)) FROM plica.events");
    [requests as f64, server_cpu(place), bytes as f64, events as f64]
}

/// Ten teams on each store.
pub(crate) fn all(bench: &Bench, report: &mut Report) {
    for kind in Kind::ALL {
        let Some(site) = Site::new(bench, kind, "team") else { continue };
        let place = site.place("ten");
        let waiting = Engine::on(place.maker(), Talk::Event);
        let like = bench.runtime.block_on(async {
            let task = waiting.submit(false).await;
            waiting.work().await;
            task
        });
        place.copies(&like, WAITING);
        let working = Arc::new(Engine::on(place.maker(), talk()));
        bench.runtime.block_on(drain::submit(&working, AT_WORK));
        drop((waiting, working));
        let start = |_| -> Child {
            let mut command = itself("--child-team", Path::new(&place.name()), WATCHED);
            command.stdout(Stdio::piped()).spawn().expect("this program starts again")
        };
        let workers: Vec<Child> = (0..WORKERS).map(start).collect();
        std::thread::sleep(SETTLING);
        let (before, began) = (now(&place), Instant::now());
        std::thread::sleep(Duration::from_secs(WATCHED as u64 - 2));
        let after = now(&place);
        let seconds = began.elapsed().as_secs_f64();
        let [requests, server, bytes, events] = std::array::from_fn(|nth| (after[nth] - before[nth]) / seconds);
        let mut share = 0.0;
        for worker in workers {
            let output = worker.wait_with_output().expect("a worker ends");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "a worker failed");
            share += text.trim().parse::<f64>().expect("a share");
        }
        let asked = AT_WORK as f64 / ROUND.as_secs_f64();
        let mut add = |what: &str, ours: String, against: String, ratio: f64, limit: Limit| {
            let what = format!("{}: {WAITING} tasks wait, {AT_WORK} at work; {what}", kind.name());
            report.add(Bar { id: "team", what: &what, ours, against, ratio, limit });
        };
        let at_least = Limit::AtLeast(0.9);
        add("rounds, as asked", rate(requests, "round"), rate(asked, "round"), requests / asked, at_least);
        let core = |share: f64| format!("{} % of a core", short(share * 100.0));
        let limit = Limit::AtMost(0.25);
        add(&format!("{WORKERS} workers, a server; in cores"), core(share), core(server), share + server, limit);
        let kept = format!("{} of {}", rate(bytes, "byte"), rate(events, "event"));
        add("events, kB a round", kept, String::new(), bytes / requests / 1e3, Limit::AtMost(16.0));
    }
}
