//! How a batch ends, by requests made for it.

use super::*;
use crate::time::Time;

type Answer = oneshot::Receiver<Result<i64, Lost<StoreError>>>;

struct World {
    writer: Pen,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = Arc::new(Place::new(folder.path().join("plica.db"), false, Time::of_the_machine()));
        let pulse = Arc::new(Pulse::new(Arc::clone(&place)));
        let mut writer = Pen { place, pulse, opened: None, flushing: true };
        let (make, _) = job(Kind::Creates, |tx| Ok(tx.conn.execute_batch("CREATE TABLE notes (note TEXT)")?));
        writer.write(vec![make], |_| ());
        Self { writer, _folder: folder }
    }

    fn serve(&mut self, batch: Vec<Box<dyn Job>>) {
        self.writer.write(batch, |_| ());
    }

    fn notes(&mut self) -> Vec<String> {
        let opened = self.writer.place.reader().expect("readable").expect("there");
        let mut statement = opened.conn.prepare("SELECT note FROM notes ORDER BY note").expect("a query");
        let notes = statement.query_map([], |row| row.get(0)).expect("rows");
        notes.collect::<rusqlite::Result<_>>().expect("notes")
    }

    fn synchronous(&self) -> i64 {
        let conn = &self.writer.opened.as_ref().expect("open").conn;
        conn.query_row("PRAGMA synchronous", [], |row| row.get(0)).expect("a level")
    }
}

fn job(
    kind: Kind<i64, StoreError>,
    mut work: impl FnMut(&Tx<'_>) -> Result<(), Fail<StoreError>> + Send + 'static,
) -> (Box<dyn Job>, Answer) {
    let (reply, answer) = oneshot::channel();
    let mut runs = 0;
    let work = move |tx: &Tx<'_>| {
        runs += 1;
        work(tx).map(|()| runs)
    };
    (Box::new(Request { kind, work, verdict: None, reply }), answer)
}

fn write(tx: &Tx<'_>, note: &'static str) -> Result<(), Fail<StoreError>> {
    tx.conn.execute("INSERT INTO notes VALUES (?1)", [note])?;
    Ok(())
}

fn noting(note: &'static str) -> (Box<dyn Job>, Answer) {
    job(Kind::Creates, move |tx| write(tx, note))
}

fn refusal() -> StoreError {
    StoreError::Unavailable("by a rule".into())
}

#[test]
fn each_request_has_its_own_verdict() {
    let mut world = World::new();
    let (first, mut a) = noting("a");
    let (refused, mut b) = job(Kind::Creates, |tx| write(tx, "b").and(Err(Fail::Refused(refusal()))));
    let (broken, mut c) =
        job(Kind::Creates, |tx| write(tx, "c").and(Ok(tx.conn.execute_batch("INSERT INTO nowhere VALUES (1)")?)));
    let (last, mut d) = noting("d");
    world.serve(vec![first, refused, broken, last]);
    assert!(matches!(a.try_recv(), Ok(Ok(1))));
    assert!(matches!(b.try_recv(), Ok(Err(Lost::Refused(error))) if error == refusal()));
    assert!(matches!(c.try_recv(), Ok(Err(Lost::Store(StoreError::Unusable(_))))));
    assert!(matches!(d.try_recv(), Ok(Ok(1))));
    assert_eq!(world.notes(), ["a", "d"], "what was refused or broke left nothing");
}

#[test]
fn an_error_that_ends_the_transaction_voids_the_batch_and_each_is_tried_alone() {
    let mut world = World::new();
    let (first, mut a) = noting("a");
    let (fatal, mut b) = job(Kind::Creates, |tx| {
        tx.conn.execute_batch("ROLLBACK")?;
        Ok(tx.conn.execute_batch("RELEASE request")?)
    });
    let (last, mut c) = noting("c");
    world.serve(vec![first, fatal, last]);
    assert!(matches!(a.try_recv(), Ok(Ok(2))), "tried again, on a clean transaction");
    assert!(matches!(b.try_recv(), Ok(Err(Lost::Store(_)))));
    assert!(matches!(c.try_recv(), Ok(Ok(1))));
    assert_eq!(world.notes(), ["a", "c"]);
}

#[test]
fn st_9_an_error_from_commit_is_unknown_for_all() {
    let mut world = World::new();
    let (first, mut a) = noting("a");
    // What a deferred constraint refuses, it refuses at COMMIT.
    let (doomed, mut b) = job(Kind::Creates, |tx| {
        tx.conn.execute_batch(
            "CREATE TABLE doomed (note TEXT PRIMARY KEY REFERENCES doomed (note) DEFERRABLE INITIALLY DEFERRED,
                                  other TEXT REFERENCES doomed (note) DEFERRABLE INITIALLY DEFERRED);
             INSERT INTO doomed VALUES ('x', 'missing')",
        )?;
        Ok(())
    });
    world.serve(vec![first, doomed]);
    for answer in [&mut a, &mut b] {
        assert!(matches!(answer.try_recv(), Ok(Err(Lost::Unknown(_)))));
    }
    let (next, mut c) = noting("c");
    world.serve(vec![next]);
    assert!(matches!(c.try_recv(), Ok(Ok(1))), "the writer goes on");
    assert_eq!(world.notes(), ["c"]);
}

#[test]
fn st_2_what_need_not_be_flushed_is_not() {
    let mut world = World::new();
    assert_eq!(world.synchronous(), 2, "a commit is flushed");
    let (lazy, _) = job(Kind::Lazy(Ok(0)), |tx| write(tx, "lazy"));
    world.serve(vec![lazy]);
    assert_eq!(world.synchronous(), 1, "one of renewals alone is not");
    let (claim, _) = job(Kind::Holds(Ok(0)), |tx| write(tx, "claimed"));
    world.serve(vec![claim]);
    assert_eq!(world.synchronous(), 1, "and neither is one of claims");
    let (lazy, _) = job(Kind::Lazy(Ok(0)), |tx| write(tx, "lazy too"));
    world.serve(vec![lazy, noting("not lazy").0]);
    assert_eq!(world.synchronous(), 2, "but one that carries anything else is");
}

#[test]
fn st_6_the_time_is_taken_under_the_lock() {
    let mut world = World::new();
    let time = world.writer.place.time.clone();
    let asked = time.now();
    let (reply, mut answer) = oneshot::channel();
    let work = move |tx: &Tx<'_>| -> Result<bool, Fail<StoreError>> { Ok(tx.now >= asked && tx.now <= time.now()) };
    world.serve(vec![Box::new(Request { kind: Kind::Creates, work, verdict: None, reply })]);
    assert!(matches!(answer.try_recv(), Ok(Ok(true))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_panics_ends_the_writer_and_keeps_nobody_waiting() {
    let World { writer, _folder } = World::new();
    for in_place in [false, true] {
        let Pen { place, pulse, .. } = &writer;
        let writer = Writer::start(Arc::clone(place), Arc::clone(pulse), in_place).expect("a thread");
        let kind = || Kind::<i64, StoreError>::Creates;
        let written = writer.submit(kind(), |_| Ok(1)).await;
        assert!(matches!(written, Ok(1)), "{written:?}");
        let bug = async move |writer: &Writer| writer.submit(kind(), |_| panic!("a bug")).await;
        let writer = Arc::new(writer);
        let panicking = Arc::clone(&writer);
        let ended = tokio::spawn(async move { bug(&panicking).await }).await;
        assert!(ended.is_err() || matches!(ended, Ok(Err(Lost::Unknown(_)))), "nobody knows what was written");
        let next = writer.submit(kind(), |_| Ok(2)).await;
        assert!(matches!(next, Err(Lost::Store(StoreError::Unavailable(_)) | Lost::Unknown(_))), "{next:?}");
    }
}
