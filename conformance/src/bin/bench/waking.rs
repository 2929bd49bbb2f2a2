//! Many tasks that wait for an event each, and are told of it again and again.

use std::sync::Arc;
use std::time::Instant;

use plica_engine::Stop;
use plica_kernel::decode::decode_trusted;
use plica_kernel::event::EventType;
use plica_kernel::id::{DedupKey, Seq, TaskId};
use plica_kernel::wake::Item;
use tokio::task::JoinSet;

use crate::Bench;
use crate::drain::submit;
use crate::engine::{EVENT, Engine};
use crate::report::{Bar, Limit, Report, rate};

/// Tasks worked on at once, and senders at once.
const AT_ONCE: usize = 64;
/// How often each delivery comes again.
const AGAIN: usize = 3;

async fn work(engine: &Engine) {
    engine.worker_of(true, AT_ONCE).run(Stop::new()).await.expect("the worker ends well");
}

/// Delivers the event to every task and again; says how many deliveries were new.
async fn tell(engine: &Arc<Engine>, tasks: &[TaskId]) -> usize {
    let mut telling = JoinSet::new();
    let mut fresh = 0;
    for task in tasks {
        let (engine, task) = (engine.clone(), task.clone());
        telling.spawn(async move {
            let (item, key) = (Item::Event { data: None, event: EVENT.into() }, DedupKey::new(EVENT).expect("a word"));
            let mut fresh = 0;
            for _ in 0..=AGAIN {
                let delivered = engine.port().deliver(&task, "user:ada", &item, &key).await;
                fresh += usize::from(delivered.expect("the event is taken").fresh);
            }
            fresh
        });
        if telling.len() == AT_ONCE {
            fresh += telling.join_next().await.map_or(0, |joined| joined.expect("a sender ends well"));
        }
    }
    fresh + telling.join_all().await.into_iter().sum::<usize>()
}

/// How often an event of this type is in the logs of these tasks.
async fn count(engine: &Engine, tasks: &[TaskId], kind: EventType) -> usize {
    let mut found = 0;
    for task in tasks {
        for stored in engine.port().read(task, Seq(1), usize::MAX).await.expect("logs can be read") {
            let event = decode_trusted(&stored.body).expect("what was written decodes");
            found += usize::from(event.kind() == kind);
        }
    }
    found
}

/// Waking all of them gives one wake each, whatever came again.
pub(crate) fn all(bench: &Bench, report: &mut Report) {
    let engine = Arc::new(Engine::waiting(&bench.folder.join("wakes")));
    let (seconds, woken) = bench.runtime.block_on(async {
        let tasks = submit(&engine, bench.waiting).await;
        work(&engine).await;
        assert_eq!(count(&engine, &tasks, EventType::TaskSuspended).await, tasks.len(), "every task waits");
        let began = Instant::now();
        let (fresh, ()) = tokio::join!(tell(&engine, &tasks), work(&engine));
        // Whoever saw nothing to come may have ended before the last of the news.
        work(&engine).await;
        let seconds = began.elapsed().as_secs_f64();
        assert_eq!(fresh, tasks.len(), "every event is taken in once");
        assert_eq!(count(&engine, &tasks, EventType::TaskCompleted).await, tasks.len(), "every task ends");
        (seconds, count(&engine, &tasks, EventType::TaskWoken).await)
    });
    assert!(woken <= bench.waiting, "{woken} wakes of {} tasks", bench.waiting);
    report.add(Bar {
        id: "wakes",
        what: &format!("{} waiting tasks told {} times: wakes for each", bench.waiting, AGAIN + 1),
        ours: rate(woken as f64 / seconds, "wake"),
        against: String::new(),
        ratio: woken as f64 / bench.waiting as f64,
        limit: Limit::AtLeast(1.0),
    });
}
