//! Kills everything and counts.
//!
//! `cargo run --release -p plica-conformance --bin cluster -- [--store sqlite|postgres]
//! [--seconds N] [--tasks N] [--workers N] [--seed S] [--keep]`
//!
//! Real `plica worker --lease 1` processes work off tasks whose effects can be counted, while
//! they are killed, stopped for longer than their lease, all killed at once, and on PostgreSQL cut
//! off in the middle of a commit, left without a server that crashes, and without any database for
//! a while. Other processes submit, approve, answer, signal and send meanwhile. Then nothing goes
//! wrong any more, everything has to end, and what must hold is looked up by SQL and in files. The
//! seed draws the tasks and the schedule of faults.

mod chaos;
mod check;
mod fleet;
mod people;
mod place;
mod plan;
mod proxy;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chaos::Counts;
use check::Remains;
use fleet::{Fleet, Plica};
use people::Done;
use place::{Kind, Place};
use plan::Folder;

const USAGE: &str = "cluster [--store sqlite|postgres] [--seconds N] [--tasks N] [--workers N] [--seed S] [--keep]";
/// How long everything may take to end once nothing goes wrong any more, and more for each task.
const END: Duration = Duration::from_secs(60);
const END_A_TASK: Duration = Duration::from_millis(500);

/// Tasks for every second of faults, unless told otherwise.
const TASKS_A_SECOND: u64 = 3;

/// What was asked for on the command line.
#[derive(Debug, Clone, Copy)]
struct Asked {
    store: Kind,
    seconds: u64,
    /// None: some for every second.
    tasks: Option<u64>,
    workers: usize,
    seed: u64,
    keeps: bool,
}

fn asked(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked { store: Kind::Sqlite, seconds: 30, tasks: None, workers: 4, seed: 1, keeps: false };
    while let Some(arg) = args.next() {
        if arg == "--keep" {
            asked.keeps = true;
            continue;
        }
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{arg}: {value:?} is no number"));
        match arg.as_str() {
            "--store" => {
                asked.store = match value.as_str() {
                    "sqlite" => Kind::Sqlite,
                    "postgres" => Kind::Postgres,
                    _ => return Err(format!("no such store: {value:?}")),
                }
            }
            "--seconds" => asked.seconds = number()?,
            "--tasks" => asked.tasks = Some(number()?),
            "--workers" => asked.workers = usize::try_from(number()?).unwrap_or(usize::MAX).clamp(1, 64),
            "--seed" => asked.seed = number()?,
            _ => return Err(format!("unknown argument {arg:?}")),
        }
    }
    Ok(asked)
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("cluster: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(asked) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cluster: {error}");
            ExitCode::from(2)
        }
    }
}

/// The program beside this one. Whoever runs this by cargo gets it built first, so that it is not
/// an old one.
fn plica() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().map(Path::to_path_buf).unwrap_or_default();
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "-p", "plica", "--bin", "plica"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        if !build.status()?.success() {
            return Err(io::Error::other("plica cannot be built"));
        }
    }
    let program = folder.join("plica");
    if program.is_file() {
        return Ok(program);
    }
    Err(io::Error::other(format!("{} is not there: build it with cargo build -p plica", program.display())))
}

fn run(asked: Asked) -> io::Result<usize> {
    let program = plica()?;
    let folder = tempfile::Builder::new().prefix("plica-cluster-").disable_cleanup(asked.keeps).tempdir()?;
    let written = Folder(folder.path().to_path_buf());
    written.write()?;
    let place = Place::new(asked.store, folder.path())?;
    let plica = Plica { program, store: place.named(), folder: written.clone() };
    let count = asked.tasks.unwrap_or(asked.seconds * TASKS_A_SECOND);
    let tasks = plan::tasks(asked.seed, count);
    let faults = chaos::schedule(asked.seed, asked.seconds, asked.workers, asked.store);
    let fleet = Fleet::new(plica.clone(), asked.workers);
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let within = Duration::from_secs(asked.seconds) * 9 / 10;
    let (counts, done) = std::thread::scope(|scope| {
        let crowd = scope.spawn(|| people::run(&plica, &tasks, within, &place, &stop));
        let counts = chaos::run(&faults, asked.seconds, &fleet, &place);
        let until = Instant::now() + END + END_A_TASK * u32::try_from(count).unwrap_or(u32::MAX);
        while counts.is_ok() && !crowd.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Release);
        let done = crowd.join().unwrap_or_else(|_| Err(io::Error::other("the people's thread panicked")));
        (counts, done)
    });
    let (counts, done) = (counts?, done?);
    let mut broken = fleet.end()?;
    let remains = Remains {
        tasks: place.tasks()?,
        events: place.events()?,
        untaken: place.untaken()?,
        effects: written.effects()?,
    };
    broken.extend(fleet.panics());
    broken.extend(check::violations(&tasks, &done, &remains));
    report(asked, began.elapsed(), (counts, place.cuts()), &done, &remains);
    for broken in &broken {
        println!("VIOLATION {broken}");
    }
    if asked.keeps {
        println!("kept {}", folder.path().display());
    }
    println!("{} violations", broken.len());
    Ok(broken.len())
}

fn report(asked: Asked, took: Duration, happened: (Counts, (usize, usize)), done: &Done, remains: &Remains) {
    let (counts, cuts) = happened;
    let ended = |status: &str| remains.tasks.iter().filter(|row| row.status == status).count();
    let (commands, requests, claims) = check::scars(remains);
    let rows = [
        ("seed", asked.seed.to_string()),
        ("store", format!("{:?}", asked.store).to_lowercase()),
        ("seconds of faults, and in all", format!("{}, {}", asked.seconds, took.as_secs())),
        ("workers, and how often one was started", format!("{}, {}", asked.workers, counts.starts)),
        ("SIGKILL, of all at once", format!("{}, {}", counts.kills, counts.kill_alls)),
        ("SIGSTOP for 1.5 to 3 leases", counts.stops.to_string()),
        ("connections cut in a request, in an answer", format!("{}, {}", cuts.0, cuts.1)),
        ("crashes of the server, outages", format!("{}, {}", counts.crashes, counts.outages)),
        ("tasks, with children", format!("{}, {}", done.tasks.len(), remains.tasks.len())),
        (
            "completed, failed, cancelled",
            format!("{}, {}, {}", ended("completed"), ended("failed"), ended("cancelled")),
        ),
        ("events", remains.events.len().to_string()),
        ("commands, requests that were cut off", format!("{commands}, {requests}")),
        ("claims after a task's first", claims.to_string()),
        ("background jobs exited, killed, lost", check::jobs(remains).map(|count| count.to_string()).join(", ")),
        ("effects", remains.effects.len().to_string()),
        ("messages", done.sent.len().to_string()),
    ];
    for (what, value) in rows {
        println!("{what:<43} {value}");
    }
}
