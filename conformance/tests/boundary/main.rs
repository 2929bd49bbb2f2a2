//! The boundary gate: reference tasks on SQLite, cut before, after and during each append,
//! resumed by another worker, come to the same end; effects happen at most once, finished ones
//! exactly once, and the logs are sound (sections 12 and 19 of the design).

mod agents;
mod cases;
mod cut;
mod end;
mod job;
mod process;
mod watch;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plica_conformance::layer::Layered;
use plica_engine::{Client, Host, Stop, Submission, Worker, WorkerOptions};
use plica_kernel::event::{CallStatus, EventType, JobEnd};
use plica_kernel::id::{InstanceId, Queue, WorkerId};
use plica_ports::store::{ProcessIdentity, Worker as Identity};
use plica_ports::{OnCrash, Store};
use tokio::task::JoinSet;

use plica_sqlite::{OpenOptions, SqliteStore, process_identity};

use agents::{Hand, Models, Outside, Scripts};
use cases::{CASES, CHILD, Case, child_replies, definition};
use cut::{Cut, Mode, People};
use end::{Judged, end_of, may_end_as};
use process::Process;
use watch::{Audit, collect};

/// No run takes nearly so long.
const HANG: Duration = Duration::from_secs(120);
/// Threads, each with a file of its own.
const LANES: usize = 2;
/// Cases that are watched too, each on a file of its own.
const WATCHED: [&str; 5] = ["much", "revised", "children", "rewound", "forked"];
/// Runs of one case side by side.
const RUNS_AT_ONCE: usize = 16;

/// The stores' one file, and a number for every run.
struct Bench {
    store: Arc<dyn Store>,
    scripts: Arc<Scripts>,
    runs: AtomicUsize,
    /// Its file, when an observer keeps its place in every log and content is collected where a
    /// successor takes over.
    watched: Option<PathBuf>,
}

/// A run that was cut, or not.
struct Run {
    judged: Judged,
    outside: Arc<Outside>,
    /// Appends that the first worker asked for.
    appends: usize,
    is_cut: bool,
}

impl Bench {
    fn new(folder: &Path, watched: bool) -> Self {
        let file = folder.join("store.db");
        let store = SqliteStore::open(&file, OpenOptions::default()).expect("a path in a folder");
        let mut scripts: Scripts = CASES.iter().map(|case| (case.name, (case.replies)())).collect();
        scripts.insert(CHILD, child_replies());
        let watched = watched.then_some(file);
        Self { store: Arc::new(store), scripts: Arc::new(scripts), runs: AtomicUsize::new(0), watched }
    }

    fn worker(&self, store: Arc<dyn Store>, outside: &Arc<Outside>, identity: Identity, queue: &Queue) -> Worker {
        let host = Host::builder(store, Arc::new(Models(self.scripts.clone())))
            .tools(Hand::all(outside))
            .files(outside.clone());
        let host = if self.watched.is_some() { host.observer(Arc::new(Audit::default())) } else { host }.build();
        let options = WorkerOptions {
            identity,
            queues: vec![queue.clone()],
            lease: Duration::from_secs(30),
            concurrency: 1,
            until_idle: true,
            only: None,
        };
        Worker::new(host, options)
    }

    /// Runs a case to its end; `at` is the append at which the first worker is cut.
    async fn run(&self, case: &Case, at: usize, mode: Mode) -> Run {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let queue = Queue::new(format!("queue-{number}")).expect("a word and a number");
        let outside = Arc::new(Outside::default());
        let client = Client::new(self.store.clone());
        let (definition, blobs) = definition(case);
        let submission = Submission { blobs, queue: Some(queue.clone()), ..Submission::new(definition, case.name) };
        let mut root = client.submit(submission).await.expect("the task is created").id;
        if case.forked {
            let zeroth = identity(format!("zeroth-{number}"), process_identity());
            self.worker(self.store.clone(), &outside, zeroth, &queue).run(Stop::new()).await.expect("it goes idle");
            root = client.fork(&root, "user:tester", None).await.expect("a turn has ended");
            client.send(&root, "user:tester", "and then?").await.expect("the branch waits for it");
        }

        let people = Arc::new(Layered(People { inner: self.store.clone(), reactions: case.reactions }));
        let cut = Arc::new(Layered(Cut::new(people.clone(), at, mode)));
        // A process known to be gone, so that no lease is waited for once it is cut (ST-16). While
        // it works it has to be alive: the workers of other runs free what the dead hold.
        let process = Process::start();
        let first = self.worker(cut.clone(), &outside, identity(format!("first-{number}"), process.identity()), &queue);
        tokio::select! {
            biased;
            ended = first.run(Stop::new()) => ended.expect("the first worker goes idle"),
            () = cut.0.died() => {}
        }
        drop(first);
        drop(process);
        if let Some(file) = &self.watched {
            collect(&client, file).await;
        }
        let successor = identity(format!("second-{number}"), process_identity());
        let second = self.worker(people, &outside, successor, &queue);
        second.run(Stop::new()).await.expect("the second worker goes idle");
        let judged = end_of(&client, &root, &queue, self.watched.is_some()).await;
        Run { judged, outside, appends: cut.0.appends(), is_cut: cut.0.is_cut() }
    }
}

fn identity(name: String, process: Option<ProcessIdentity>) -> Identity {
    let (id, instance) = (WorkerId::new(name.as_str()).expect("an id"), InstanceId::new(name).expect("an id"));
    Identity { id, instance, host: "here".into(), version: "test".into(), process }
}

/// Checks a run that was cut against one that was not.
fn compare(what: &str, case: &Case, whole: &Run, cut: &Run) {
    let (there, meant) = (cut.outside.files(), whole.outside.files());
    let unknown = |path: &str| {
        let of_path = |call: &str| call.ends_with(&format!("/{path}"));
        cut.judged.calls.iter().any(|(call, status)| of_path(call) && *status == CallStatus::Unknown)
    };
    assert!(there.iter().all(|(path, bytes)| meant.get(path) == Some(bytes)), "{what}: {there:?}");
    // A call that never began to run is as unknown as one that did: its file may be missing.
    assert!(meant.keys().all(|path| there.contains_key(path) || unknown(path)), "{what}: {there:?}");
    effects_are_right(what, whole, cut);
    if cut.judged.kinds.contains(&EventType::StepAttemptAbandoned) {
        // An approved call of which nothing is known parks whatever its agent chose (RC-4).
        assert!(case.on_crash != OnCrash::Resolve || !case.ask.is_empty(), "{what}: nothing parks it");
        assert_eq!(whole.judged.end.status, cut.judged.end.status, "{what}");
        return;
    }
    if whole.judged.jobs != cut.judged.jobs {
        // What is lost with a worker is told, and so the course of the run is another one; a job
        // that was never on record was a call whose outcome nobody knows.
        assert!(cut.judged.jobs.iter().all(|end| *end == JobEnd::Lost), "{what}: {:?}", cut.judged.jobs);
        assert_eq!(whole.judged.end.status, cut.judged.end.status, "{what}");
        return;
    }
    assert_eq!(whole.judged.end, cut.judged.end, "{what}");
    let (before, after) = (&whole.judged.calls, &cut.judged.calls);
    assert!(before.keys().eq(after.keys()), "{what}: {before:?} {after:?}");
    for (call, status) in after {
        assert!(may_end_as(before[call], *status), "{what}: {call} ended as {status:?}");
    }
}

/// No effect happens more often than in a run that was not cut, and what ended well did happen.
fn effects_are_right(what: &str, whole: &Run, cut: &Run) {
    let (meant, landed) = (whole.outside.landed(), cut.outside.landed());
    for (note, now) in &landed {
        assert!(meant.get(note) >= Some(now), "{what}: {note} happened {now} times");
    }
    let ended_well =
        cut.judged.calls.iter().filter(|(_, status)| matches!(status, CallStatus::Ok | CallStatus::Recovered));
    for note in meant.keys() {
        let of_note = ended_well.clone().filter(|(call, _)| call.ends_with(&format!("/{note}")));
        let (finished, now) = (of_note.count(), landed.get(note).copied().unwrap_or(0));
        assert!(now >= u32::try_from(finished).expect("few"), "{what}: {note} finished but did not happen");
    }
}

/// Every append of a case, cut in every mode; many runs side by side, as the store commits
/// them together.
async fn cut_everywhere(bench: Arc<Bench>, case: &'static Case) -> BTreeSet<EventType> {
    let whole = tokio::time::timeout(HANG, bench.run(case, usize::MAX, Mode::Before)).await.expect("it does not hang");
    let whole = Arc::new(whole);
    let mut kinds = whole.judged.kinds.clone();
    let mut runs = JoinSet::new();
    // What is put and not cited yet is not to grow old in another run.
    let at_once = if bench.watched.is_some() { 1 } else { RUNS_AT_ONCE };
    for at in case.cut_from..=whole.appends {
        for mode in Mode::ALL {
            if runs.len() >= at_once {
                kinds.extend(runs.join_next().await.expect("there are runs").expect("its end is the same"));
            }
            runs.spawn(cut_once(bench.clone(), case, whole.clone(), at, mode));
        }
    }
    kinds.extend(runs.join_all().await.into_iter().flatten());
    kinds
}

async fn cut_once(
    bench: Arc<Bench>,
    case: &'static Case,
    whole: Arc<Run>,
    at: usize,
    mode: Mode,
) -> BTreeSet<EventType> {
    let what = format!("{} cut at append {at} of {}, {mode:?}", case.name, whole.appends);
    let cut = tokio::time::timeout(HANG, bench.run(case, at, mode)).await;
    let cut = cut.unwrap_or_else(|_| panic!("{what}: it hangs"));
    assert!(cut.is_cut, "{what}: it was never cut");
    compare(&what, case, &whole, &cut);
    cut.judged.kinds
}

/// Runs these cases on one thread and one file.
fn gate(cases: impl Iterator<Item = &'static Case>, watched: bool) -> BTreeSet<EventType> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let bench = Arc::new(Bench::new(folder.path(), watched));
    let kinds = cases.map(|case| runtime.block_on(cut_everywhere(bench.clone(), case)));
    kinds.fold(BTreeSet::new(), |mut all, kinds| {
        all.extend(kinds);
        all
    })
}

#[test]
fn rc_1_rc_2_rc_4_st_9_whatever_append_is_cut_the_end_is_the_same() {
    let kinds: BTreeSet<EventType> = std::thread::scope(|scope| {
        let lane = |lane: usize| scope.spawn(move || gate(CASES.iter().skip(lane).step_by(LANES), false));
        let running: Vec<_> = (0..LANES).map(lane).collect();
        running.into_iter().flat_map(|lane| lane.join().expect("every end is the same")).collect()
    });
    let missing: Vec<_> = EventType::ALL.iter().filter(|kind| kind.is_readable() && !kinds.contains(kind)).collect();
    assert!(missing.is_empty(), "no reference task has {missing:?} in its log");
}

/// The appends of an observer's records are cut like all others, and whatever was collected by
/// then, the successor has what it needs.
#[test]
fn en_5_co_3_whatever_append_is_cut_observers_are_shown_all_and_nothing_cited_is_collected() {
    let chosen: Vec<&'static Case> = CASES.iter().filter(|case| WATCHED.contains(&case.name)).collect();
    assert_eq!(chosen.len(), WATCHED.len());
    let watch = |case: &'static Case| {
        let kinds = gate([case].into_iter(), true);
        assert!(kinds.contains(&EventType::ExtensionRecorded), "{}: the observer leaves its place", case.name);
    };
    std::thread::scope(|scope| {
        let lane = |lane: usize| chosen.iter().copied().skip(lane).step_by(LANES);
        let running: Vec<_> = (0..LANES).map(|number| scope.spawn(move || lane(number).for_each(watch))).collect();
        running.into_iter().for_each(|lane| lane.join().expect("every end is the same"));
    });
}
