//! What contradicts itself is refused before anything is written: bugs of the caller.

use plica_kernel::body::Blob;
use plica_kernel::canonical::{Domain, Hash};
use plica_kernel::id::{Epoch, LedgerId, Position, Seq, TaskId};
use plica_kernel::limits::{EVENT_BYTES_MAX, ITEM_BYTES_MAX};
use plica_kernel::row::Blocked;
use plica_kernel::wake::{Alternative, Item, Wake, WakeKey};
use plica_ports::store::{Batch, Claimed, CreateError, Delivery, NewTask, Token};

use crate::{Bench, LEASE, Log, Subject, note};

/// What is wrong, and how to make it so.
type Case<'a, T> = (&'a str, &'a dyn Fn(&mut T));

/// A held task with the batch that a sound append would be.
async fn held(bench: &Bench) -> (Log, Claimed, Batch) {
    let log = bench.task().await;
    bench.deliver(&log.id, &bench.event("x"), "k1").await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let batch = log.batch(&claimed, vec![note("one"), note("two")]);
    (log, claimed, batch)
}

/// ST-3, EV-7: a batch is not written unless its events run on from its head, have the hashes
/// of their bytes, are in bounds, and end where its row does.
pub async fn st_3_a_batch_that_contradicts_itself_is_invalid(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (_, claimed, sound) = held(&bench).await;
    let spoiled = |spoil: &dyn Fn(&mut Batch)| {
        let mut batch = sound.clone();
        spoil(&mut batch);
        batch
    };
    let oversize = |batch: &mut Batch| {
        let last = batch.events.last_mut().expect("it has two");
        last.body.resize(EVENT_BYTES_MAX + 1, b' ');
        last.hash = Domain::Event.hash(&last.body);
        batch.row.hash = last.hash;
    };
    let cases: [Case<'_, Batch>; 11] = [
        ("no events", &|batch| batch.events.clear()),
        ("a gap", &|batch| drop(batch.events.remove(0))),
        ("a repetition", &|batch| batch.events[1].seq = Seq(2)),
        ("another hash", &|batch| batch.events[0].hash = Hash::from_bytes([5; 32])),
        ("other bytes", &|batch| batch.events[0].body.push(b' ')),
        ("an oversize body", &oversize),
        ("a row that ends before", &|batch| batch.row.seq = Seq(2)),
        ("a row with another hash", &|batch| batch.row.hash = Hash::from_bytes([5; 32])),
        ("seen behind what it takes", &|batch| (batch.consumed, batch.seen) = (vec![Position(1)], Position(0))),
        ("nine alternatives", &|batch| {
            let alternative = Alternative { key: WakeKey::Background, need: 1 };
            batch.row.wake = Wake { any: vec![alternative; 9], at: None };
        }),
        ("a wait for an event of no kind", &|batch| batch.row.wake = Wake::on(WakeKey::Event(String::new()))),
    ];
    for (what, spoil) in cases {
        println!("{what}");
        bench.invalid(&claimed, &spoiled(spoil)).await;
    }
    bench.append(&claimed, &sound).await;
}

/// ST-7: what no inbox could take is not passed over in silence: a batch that delivers it is not
/// written, whoever the receiver would be, and nobody gets anything of it.
pub async fn st_7_a_batch_that_delivers_what_nobody_takes_is_invalid(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (log, claimed, _) = held(&bench).await;
    let other = bench.task().await;
    let frame = br#"{"kind":"message","text":""}"#.len();
    let oversize = bench.message(&"x".repeat(ITEM_BYTES_MAX - frame + 1));
    let unwritable = Item::Rewind { to_seq: Seq(u64::MAX) };
    let to = |task: &TaskId, item: &Item, key: &str| Delivery {
        task: task.clone(),
        actor: "task:sender".into(),
        item: item.clone(),
        dedup: bench.key(key),
    };
    for item in [&oversize, &unwritable] {
        for receiver in [&other.id, &bench.fresh_id()] {
            let deliveries = vec![to(&other.id, &bench.message("hi"), "sound"), to(receiver, item, "unsound")];
            bench.invalid(&claimed, &Batch { deliveries, ..log.noting(&claimed, "sends") }).await;
        }
    }
    assert_eq!(bench.row(&other.id).await.inbox_tail, Position(0));
}

/// ST-3: a batch for another task than the claim's is not written, to either.
pub async fn st_3_a_batch_for_another_task_is_invalid(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (_, claimed, _) = held(&bench).await;
    let (other, other_claimed, _) = held(&bench).await;
    bench.invalid(&claimed, &other.noting(&claimed, "into another's log")).await;
    assert_eq!(bench.row(&other.id).await.projection, other.row);
    bench.append(&other_claimed, &other.noting(&other_claimed, "into its own")).await;
}

/// ST-8: an item is taken once, and only if it is there.
pub async fn st_8_what_is_not_there_cannot_be_taken(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (mut log, claimed, _) = held(&bench).await;
    for consumed in [vec![Position(2)], vec![Position(1), Position(1)], vec![Position(0)]] {
        let batch = Batch { consumed, seen: Position(9), ..log.noting(&claimed, "takes") };
        bench.invalid(&claimed, &batch).await;
    }
    let taking = Batch { consumed: vec![Position(1)], ..log.noting(&claimed, "takes") };
    bench.append(&claimed, &taking).await;
    log.accept(&taking);
    let again = Batch { consumed: vec![Position(1)], ..log.noting(&claimed, "takes again") };
    bench.invalid(&claimed, &again).await;
}

/// CO-1: a batch's bodies are what their references say.
pub async fn co_1_a_batch_with_a_false_body_is_invalid(subject: Subject) {
    let bench = Bench::new(subject).await;
    if bench.subject.content().is_none() {
        return;
    }
    let (log, claimed, _) = held(&bench).await;
    let mut blob = Blob::new("text/plain", b"the body".to_vec());
    blob.bytes = b"another".to_vec();
    let batch = Batch { blobs: vec![blob.clone()], ..log.noting(&claimed, "cites") };
    bench.invalid(&claimed, &batch).await;
    let (created, mut task) = bench.draft(|_| ()).await;
    task.blobs = vec![blob];
    let refused = bench.store().create(task).await;
    assert!(matches!(refused, Err(CreateError::Invalid { .. })), "{refused:?}");
    assert_eq!(bench.store().row(&created.id).await.expect("rows can be read"), None);
}

/// ST-4: a child is a new task of its parent, in the parent's append and nowhere else.
pub async fn st_4_a_false_child_is_invalid(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (log, claimed, _) = held(&bench).await;
    let (child, sound) = bench.draft_child(&log.id).await;
    let with = |children: Vec<NewTask>| Batch { children, ..log.noting(&claimed, "spawns") };
    let mut foreign = sound.clone();
    foreign.facts.parent = Some(bench.fresh_id());
    let mut hashless = sound.clone();
    hashless.row.hash = Hash::from_bytes([5; 32]);
    for children in [vec![foreign], vec![hashless], vec![sound.clone(), sound.clone()]] {
        bench.invalid(&claimed, &with(children)).await;
        assert_eq!(bench.store().row(&child.id).await.expect("rows can be read"), None);
    }
    bench.append(&claimed, &with(vec![sound])).await;
}

/// ST-3: a new task that contradicts itself is not created; nor is one whose id is taken.
pub async fn st_3_a_false_new_task_is_refused(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (log, sound) = bench.draft(|_| ()).await;
    let cases: [Case<'_, NewTask>; 5] = [
        ("no events", &|task| task.events.clear()),
        ("a later seq", &|task| task.events[0].seq = Seq(2)),
        ("another hash", &|task| task.events[0].hash = Hash::from_bytes([5; 32])),
        ("a class that does not exist", &|task| task.facts.priority = 4),
        ("a row that ends elsewhere", &|task| task.row.seq = Seq(2)),
    ];
    for (what, spoil) in cases {
        let mut task = sound.clone();
        spoil(&mut task);
        let refused = bench.store().create(task).await;
        assert!(matches!(refused, Err(CreateError::Invalid { .. })), "{what}: {refused:?}");
        assert_eq!(bench.store().row(&log.id).await.expect("rows can be read"), None, "{what} was created");
    }
    bench.store().create(sound.clone()).await.expect("a sound task is created");
    assert_eq!(bench.store().create(sound).await, Err(CreateError::Exists(log.id.clone())));
    let other = LedgerId::new("another-ledger").expect("an id");
    let (_, usurper) = Log::begin(&other, &log.id, bench.row(&log.id).await.facts);
    assert_eq!(bench.store().create(usurper).await, Err(CreateError::Exists(log.id.clone())));
    assert_eq!(bench.row(&log.id).await.projection, log.row);
}

/// ST-1: what the row tells of a claim does not let anyone in: the run and the epoch without
/// the token append nothing, renew nothing, release nothing, block nothing.
pub async fn st_1_the_row_does_not_give_the_claim_away(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (log, claimed, sound) = held(&bench).await;
    let row = bench.row(&log.id).await;
    let mut guess = claimed.clone();
    guess.claim.run = row.run.clone().expect("the row names the run");
    guess.claim.epoch = row.epoch;
    assert_eq!(guess.claim.epoch, Epoch(1));
    guess.claim.token = Token(*claimed.claim.token.hash().as_bytes());
    bench.refused(&guess, &sound).await;
    assert!(bench.store().release(&guess.claim, None).await.is_err());
    assert!(bench.store().block(&guess.claim, &Blocked::Poison).await.is_err());
    let renewed = bench.store().renew(&[guess.claim], LEASE).await.expect("renewing works");
    assert!(renewed.verdicts[0].is_err());
    assert_eq!(bench.row(&log.id).await, row);
}
