//! After a commit or a call whose fate is unknown: reading back, adopting, repeating (ST-9,
//! ST-16).

use plica_kernel::canonical::Hash;
use plica_kernel::id::{Epoch, InstanceId, Seq};
use plica_ports::store::rules::fingerprint;
use plica_ports::store::{CommitFate, Conflict, CreateError, Created, StoreError, Worker};

use crate::{Bench, LEASE, Subject};

/// ST-9: reading back tells whether the event at a seq is mine, not there, or another's.
pub async fn st_9_reading_back_settles_a_commits_fate(subject: Subject) {
    let bench = Bench::new(subject).await;
    let log = bench.task().await;
    let claimed = bench.hold(&bench.worker("ada"), &log.id).await;
    let (mine, other) = (log.noting(&claimed, "mine"), log.noting(&claimed, "other"));
    let fate = async |hash| bench.store().settle(&log.id, Seq(2), hash).await.expect("fates can be read");
    assert_eq!(fate(&mine.row.hash).await, CommitFate::NotThere);
    bench.append(&claimed, &mine).await;
    assert_eq!(fate(&mine.row.hash).await, CommitFate::Written);
    assert_eq!(fate(&other.row.hash).await, CommitFate::Superseded);
    let first = bench.store().settle(&log.id, Seq(1), &Hash::from_bytes([0; 32])).await;
    assert_eq!(first, Ok(CommitFate::Superseded));
    let nobody = bench.fresh_id();
    let unknown = bench.store().settle(&nobody, Seq(1), &mine.row.hash).await;
    assert_eq!(unknown, Err(StoreError::UnknownTask(nobody)));
}

/// ST-9: what the store thinks an instance holds can be asked for.
pub async fn st_9_a_worker_finds_what_it_holds(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    let (first, second, third) = (bench.task().await, bench.task().await, bench.task().await);
    bench.hold(&ada, &first.id).await;
    bench.hold(&bob, &second.id).await;
    let returned = bench.hold(&ada, &third.id).await;
    bench.release(&returned, None).await;
    let held = async |worker: &Worker| bench.store().held_by(worker).await.expect("holds can be read");
    assert_eq!(held(&ada).await, [first.id]);
    assert_eq!(held(&bob).await, [second.id]);
    let reborn = Worker { instance: InstanceId::new("ada-again").expect("an id"), ..ada };
    assert!(held(&reborn).await.is_empty(), "another start of a worker holds nothing of the first's");
}

/// ST-9: adopting one's own hold is a new claim that need not wait for the lease: epoch + 1,
/// another run and token; the old claim is stale.
pub async fn st_9_adopting_is_a_new_claim(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let log = bench.task().await;
    bench.deliver(&log.id, &bench.message("hi"), "k1").await;
    let old = bench.hold(&ada, &log.id).await;
    let new = bench.store().adopt(&ada, &log.id, LEASE).await.expect("adopting works").expect("it is its own");
    assert_eq!((new.claim.epoch, &new.items), (Epoch(2), &old.items));
    assert_eq!((new.seq, new.hash), (log.row.seq, log.row.hash));
    assert_ne!((&new.claim.run, &new.claim.token), (&old.claim.run, &old.claim.token));
    let refused = bench.refused(&old, &log.noting(&old, "x")).await;
    assert!(matches!(refused, Conflict::FenceStale { .. }));
    bench.append(&new, &log.noting(&new, "y")).await;
}

/// ST-9: only the same process instance adopts, and only what it holds.
pub async fn st_9_nobody_else_adopts(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let log = bench.task().await;
    let adopt = async |worker: &Worker, task| {
        bench.store().adopt(worker, task, LEASE).await.expect("adopting works").map(|claimed| claimed.claim.epoch)
    };
    assert_eq!(adopt(&ada, &log.id).await, None, "nobody holds it");
    let claimed = bench.hold_shortly(&ada, &log.id).await;
    bench.lapse(&claimed).await;
    let reborn = Worker { instance: InstanceId::new("ada-again").expect("an id"), ..ada.clone() };
    assert_eq!(adopt(&reborn, &log.id).await, None, "another start of the same worker");
    assert_eq!(adopt(&bench.worker("bob"), &log.id).await, None);
    assert_eq!(bench.row(&log.id).await.epoch, Epoch(1), "a refused adoption changes nothing");
    assert_eq!(adopt(&ada, &log.id).await, Some(Epoch(2)), "its own, lease or not");
    let taken = bench.store().held_by(&ada).await.expect("holds can be read");
    assert_eq!(taken, std::slice::from_ref(&log.id));
    assert_eq!(adopt(&ada, &bench.fresh_id()).await, None);
}

/// ST-16: creating again under the same key with the same contents returns the first task and
/// writes nothing.
pub async fn st_16_a_key_creates_once(subject: Subject) {
    let bench = Bench::new(subject).await;
    let asked = fingerprint(&[b"the same", b"order"]);
    let (first, mut task) = bench.draft(|_| ()).await;
    task.key = Some((bench.key("order-1"), asked));
    let created = bench.store().create(task.clone()).await;
    assert_eq!(created, Ok(Created { id: first.id.clone(), fresh: true }));
    let again = bench.store().create(task).await;
    assert_eq!(again, Ok(Created { id: first.id.clone(), fresh: false }), "the same call again");
    let (second, mut task) = bench.draft(|_| ()).await;
    task.key = Some((bench.key("order-1"), asked));
    let again = bench.store().create(task).await;
    assert_eq!(again, Ok(Created { id: first.id.clone(), fresh: false }), "another id under the same key");
    assert_eq!(bench.store().row(&second.id).await.expect("rows can be read"), None);
    assert_eq!(bench.events(&first.id).await.len(), 1);
}

/// ST-16: the same key with other contents is a conflict that names the first task.
pub async fn st_16_a_key_with_other_contents_is_a_conflict(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (first, mut task) = bench.draft(|_| ()).await;
    task.key = Some((bench.key("order-1"), fingerprint(&[b"one"])));
    bench.store().create(task).await.expect("a sound task is created");
    let (second, mut task) = bench.draft(|_| ()).await;
    task.key = Some((bench.key("order-1"), fingerprint(&[b"two"])));
    let refused = bench.store().create(task).await;
    assert_eq!(refused, Err(CreateError::KeyConflict { key: bench.key("order-1"), task: first.id }));
    assert_eq!(bench.store().row(&second.id).await.expect("rows can be read"), None);
}

/// ST-16: of many creations under one key at the same time one makes the task.
pub async fn st_16_racing_creations_make_one_task(subject: Subject) {
    let bench = Bench::new(subject).await;
    let mut makers = Vec::new();
    for _ in 0..10 {
        let (_, mut task) = bench.draft(|_| ()).await;
        task.key = Some((bench.key("order-1"), fingerprint(&[b"one"])));
        let store = bench.store().clone();
        makers.push(tokio::spawn(async move { store.create(task).await }));
    }
    let mut made = Vec::new();
    for maker in makers {
        made.push(maker.await.expect("the maker ends well").expect("a sound task is created"));
    }
    assert_eq!(made.iter().filter(|created| created.fresh).count(), 1);
    assert!(made.iter().all(|created| created.id == made[0].id), "two tasks were made");
}
