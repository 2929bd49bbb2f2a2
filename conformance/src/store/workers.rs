//! Who is alive (ST-19).

use std::time::Duration;

use plica_kernel::id::InstanceId;
use plica_ports::store::{Worker, WorkerRow};

use crate::{Bench, LEASE, Subject};

async fn living(bench: &Bench) -> Vec<WorkerRow> {
    bench.store().workers().await.expect("workers can be read")
}

/// ST-19: a registered worker is listed with what it told and when; seen again, it is newest.
pub async fn st_19_workers_register(subject: Subject) {
    let bench = Bench::new(subject).await;
    assert!(living(&bench).await.is_empty());
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    let queues = [bench.queue("red"), bench.queue("blue")];
    let before = bench.now().await;
    bench.store().register(&ada, &queues, LEASE).await.expect("a worker registers");
    let first = living(&bench).await;
    let [row] = &first[..] else { panic!("one worker is registered") };
    assert_eq!((&row.id, row.host.as_str(), row.version.as_str()), (&ada.id, "bench", "1"));
    assert_eq!((&row.queues[..], row.lease), (&queues[..], LEASE));
    assert!(before <= row.seen_at && row.seen_at <= bench.now().await);
    let later = bench.now().await.plus_millis(1);
    bench.until(later).await;
    bench.store().register(&bob, &[], LEASE).await.expect("a worker registers");
    bench.until(later.plus_millis(1)).await;
    assert_eq!(living(&bench).await[0].id, bob.id);
    let later = bench.now().await.plus_millis(1);
    bench.until(later).await;
    bench.store().register(&ada, &[], LEASE).await.expect("a worker registers");
    let rows = living(&bench).await;
    assert_eq!(rows.iter().map(|row| &row.id).collect::<Vec<_>>(), [&ada.id, &bob.id]);
    assert!(rows[0].queues.is_empty() && rows[0].seen_at >= later, "what it told last counts");
}

/// ST-19: a worker that says goodbye is forgotten; another start of it is not.
pub async fn st_19_workers_deregister(subject: Subject) {
    let bench = Bench::new(subject).await;
    let ada = bench.worker("ada");
    let reborn = Worker { instance: InstanceId::new("ada-again").expect("an id"), ..ada.clone() };
    bench.store().register(&ada, &[], LEASE).await.expect("a worker registers");
    bench.store().register(&reborn, &[], LEASE).await.expect("a worker registers");
    bench.store().deregister(&ada).await.expect("a worker deregisters");
    assert_eq!(living(&bench).await.len(), 1, "the end of one start ended another");
    bench.store().deregister(&reborn).await.expect("a worker deregisters");
    bench.store().deregister(&reborn).await.expect("deregistering twice is no error");
    assert!(living(&bench).await.is_empty());
}

/// ST-19: a worker that was not seen for two of its leases is gone.
pub async fn st_19_a_silent_worker_is_gone(subject: Subject) {
    let bench = Bench::new(subject).await;
    let (ada, bob) = (bench.worker("ada"), bench.worker("bob"));
    bench.store().register(&ada, &[], Duration::from_millis(100)).await.expect("a worker registers");
    bench.store().register(&bob, &[], LEASE).await.expect("a worker registers");
    let listed = async || living(&bench).await.into_iter().map(|row| row.id).collect::<Vec<_>>();
    let seen = living(&bench).await.into_iter().find(|row| row.id == ada.id).expect("it was just seen").seen_at;
    bench.until(seen.plus_millis(110)).await;
    let alive = listed().await;
    // A clock that cannot be moved may have run on while a busy machine looked.
    assert!(alive.contains(&ada.id) || bench.now().await > seen.plus_millis(200), "one lease is not too long");
    bench.until(seen.plus_millis(201)).await;
    assert_eq!(listed().await, [bob.id]);
}
