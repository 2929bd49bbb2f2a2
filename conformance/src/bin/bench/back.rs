//! A task that went back a hundred times and the tenth fork in a row, by the real engine: S1, B3 and
//! flatness hold for them as for any other (SN-4, SN-5, SN-7).

use std::hint::black_box;
use std::path::PathBuf;

use plica_engine::{LoadOptions, load};
use plica_kernel::id::{Seq, TaskId};

use crate::engine::{Engine, Talk};
use crate::measure::{by_turns, median, wall};
use crate::mix::file_bytes;
use crate::report::{Bar, Limit, Report, short, time};
use crate::{Bench, place};

/// Calls, each in a reply of its own, before the answer that ends a turn: as few as people's turns
/// often have, since each ends with a snapshot, which repeats the open tail of the conversation.
const ROUNDS: u64 = 4;
/// Requests of a turn.
const REQUESTS: f64 = ROUNDS as f64 + 1.0;
/// Rewinds of the task that goes back.
const REWINDS: usize = 100;
/// Forks in a row, and the turns of each.
const FORKS: usize = 10;
const TURNS_EACH: usize = 5;
/// Loads of one turn.
const LOADS: usize = 20;
/// Another system's bytes for a turn, with 400 turns behind it.
const THEIRS: f64 = 21_200.0;

const ACTOR: &str = "user:bench";

/// Tasks in a file of their own.
struct Place<'a> {
    bench: &'a Bench,
    folder: PathBuf,
    engine: Engine,
}

/// What was measured on the way, turn by turn or cycle by cycle.
#[derive(Default)]
struct Course {
    /// Seconds between the requests of a turn.
    rounds: Vec<f64>,
    /// Bytes of the file afterwards.
    bytes: Vec<f64>,
}

impl Course {
    /// The median of the rounds in a range of hundredths of the course.
    fn round(&self, from: usize, to: usize) -> f64 {
        let at = |hundredth: usize| self.rounds.len() * hundredth / 100;
        median(&self.rounds[at(from)..at(to)])
    }

    /// Bytes of one of the entries from one to another.
    fn growth(&self, from: usize, to: usize) -> f64 {
        (self.bytes[to] - self.bytes[from]) / (to - from) as f64
    }
}

impl<'a> Place<'a> {
    fn new(bench: &'a Bench, name: &str) -> Self {
        let folder = bench.folder.join(name);
        let engine = Engine::on(place::file(&folder), Talk::Turns(ROUNDS));
        Self { bench, folder, engine }
    }

    /// A task whose first turn has ended.
    async fn begun(&self) -> TaskId {
        let task = self.engine.submit(true).await;
        self.engine.work().await;
        self.engine.requests.take();
        task
    }

    /// One more turn; the seconds between its requests.
    async fn turn(&self, task: &TaskId) -> Vec<f64> {
        self.engine.client.send(task, ACTOR, "Go on with the next part.").await.expect("a message is taken");
        self.engine.work().await;
        self.engine.requests.take().windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect()
    }

    async fn head(&self, task: &TaskId) -> Seq {
        self.engine.store.row(task).await.expect("rows can be read").expect("the task has a row").projection.seq
    }

    /// So many turns.
    async fn turns(&self, task: &TaskId, count: usize) -> Course {
        let mut course = Course::default();
        course.bytes.push(file_bytes(&self.folder) as f64);
        for _ in 0..count {
            course.rounds.extend(self.turn(task).await);
            course.bytes.push(file_bytes(&self.folder) as f64);
        }
        course
    }

    /// Two turns and back by one, over and over; every tenth time farther back. Says too how many
    /// turns are left after the first.
    async fn back_and_forth(&self, task: &TaskId) -> (Course, usize) {
        let (mut course, mut ends) = (Course::default(), vec![self.head(task).await]);
        course.bytes.push(file_bytes(&self.folder) as f64);
        for cycle in 1..=REWINDS {
            for _ in 0..2 {
                course.rounds.extend(self.turn(task).await);
                ends.push(self.head(task).await);
            }
            let by = if cycle % 10 == 0 { 6 } else { 1 };
            ends.truncate(ends.len().saturating_sub(by).max(1));
            let to = *ends.last().expect("the first turn's end stays");
            self.engine.client.rewind(task, ACTOR, to).await.expect("a turn ended there");
            self.engine.work().await;
            self.engine.requests.take();
            course.bytes.push(file_bytes(&self.folder) as f64);
        }
        (course, ends.len() - 1)
    }

    /// Seconds that the state of a task takes, of several loads.
    fn load(&self, task: &TaskId) -> f64 {
        let store = &*self.engine.store;
        let content = store.content().expect("the store keeps content");
        let all = wall(|| {
            self.bench.runtime.block_on(async {
                for _ in 0..LOADS {
                    black_box(load(store, content, task, LoadOptions::default()).await.expect("the task folds"));
                }
            });
        });
        all / LOADS as f64
    }
}

/// The state of a task against that of one with the same conversation that never went anywhere.
fn state(report: &mut Report, what: &str, of: (&Place<'_>, &TaskId), plain: (&Place<'_>, &TaskId)) {
    let sides = by_turns(|| of.0.load(of.1), || plain.0.load(plain.1));
    let mut add = |what: &str, against: String, ratio: f64, limit: f64| {
        report.add(Bar { id: "S1", what, ours: time(sides.ours), against, ratio, limit: Limit::AtMost(limit) });
    };
    add(&format!("state of {what}, in ms"), "2 ms".into(), sides.ours * 1e3, 2.0);
    add("the same, that of a plain task of as many turns", time(sides.against), sides.ratio, 1.5);
}

fn flat(report: &mut Report, what: &str, late: f64, early: f64) {
    report.add(Bar {
        id: "flat",
        what,
        ours: time(late),
        against: time(early),
        ratio: late / early,
        limit: Limit::AtMost(1.3),
    });
}

fn bytes(report: &mut Report, what: &str, late: f64, early: f64) {
    let mut add = |what: &str, against: f64, limit: f64| {
        let text = |bytes: f64| format!("{} B", short(bytes));
        let (ours, ratio) = (text(late), late / against);
        report.add(Bar { id: "B3", what, ours, against: text(against), ratio, limit: Limit::AtMost(limit) });
    };
    add(what, early, 1.1);
    add("the same, another system's at turn 400", THEIRS, 0.5);
}

/// A plain task in a file of its own, which had so many turns after its first.
fn plain<'a>(bench: &'a Bench, name: &str, turns: usize) -> (Place<'a>, TaskId, Course) {
    let place = Place::new(bench, name);
    let (task, course) = bench.runtime.block_on(async {
        let task = place.begun().await;
        let course = place.turns(&task, turns).await;
        (task, course)
    });
    (place, task, course)
}

/// Everything about going back and aside.
pub(crate) fn all(bench: &Bench, report: &mut Report) {
    back(bench, report);
    aside(bench, report);
}

fn back(bench: &Bench, report: &mut Report) {
    let there = Place::new(bench, "back");
    let (task, (course, left)) = bench.runtime.block_on(async {
        let task = there.begun().await;
        let course = there.back_and_forth(&task).await;
        (task, course)
    });
    let (place, short, _) = plain(bench, "back-plain", left);
    state(report, &format!("a task with {REWINDS} rewinds"), (&there, &task), (&place, &short));
    flat(report, "p50 of rounds with 90 rewinds behind, 10", course.round(90, 100), course.round(10, 20));
    let requests = 2.0 * REQUESTS;
    let (late, early) = (course.growth(70, 100) / requests, course.growth(10, 40) / requests);
    bytes(report, "bytes for a round with 70 rewinds behind, 10", late, early);
}

fn aside(bench: &Bench, report: &mut Report) {
    let chain = Place::new(bench, "forks");
    let (last, last_course) = bench.runtime.block_on(async {
        let mut task = chain.begun().await;
        let mut course = chain.turns(&task, TURNS_EACH).await;
        for _ in 0..FORKS {
            task = chain.engine.client.fork(&task, ACTOR, None).await.expect("its last turn has ended");
            course = chain.turns(&task, TURNS_EACH).await;
        }
        (task, course)
    });
    let (place, long, course) = plain(bench, "forks-plain", (FORKS + 1) * TURNS_EACH);
    state(report, "the tenth fork in a row", (&chain, &last), (&place, &long));
    let what = "p50 of rounds in the tenth fork, in a plain task's first turns";
    flat(report, what, last_course.round(0, 100), course.round(0, 10));
    let from = FORKS * TURNS_EACH;
    let (fork, same) = (last_course.growth(0, TURNS_EACH), course.growth(from, from + TURNS_EACH));
    bytes(report, "bytes for a round in the tenth fork, there in a plain task", fork / REQUESTS, same / REQUESTS);
}
