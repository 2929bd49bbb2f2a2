//! A parent with a thousand children, which is as many as a task may have.

use plica_kernel::row::Status;

use crate::Bench;
use crate::engine::{Engine, Talk};
use crate::measure::median;
use crate::place::{Kind, Site};
use crate::report::{Bar, Limit, Report, rate, time};

/// Replies of the parent, and children that each spawns: one reply makes at most 32 calls.
const REPLIES: u64 = 40;
const CHILDREN: u64 = 25;
/// Replies that a median is taken of.
const SOME: usize = 10;

/// The last children cost what the first do.
pub(crate) fn all(bench: &Bench, report: &mut Report) {
    for kind in Kind::ALL {
        let Some(site) = Site::new(bench, kind, "family") else { continue };
        let place = site.place("all");
        let engine = Engine::on(place.store(), Talk::Family { replies: REPLIES, children: CHILDREN });
        let seconds = bench.runtime.block_on(async {
            let parent = engine.submit_family().await;
            let began = std::time::Instant::now();
            engine.worker_of(true, 16).run(plica_engine::Stop::new()).await.expect("the worker ends well");
            let seconds = began.elapsed().as_secs_f64();
            let row = engine.store.row(&parent).await.expect("rows can be read").expect("the parent has a row");
            assert_eq!(row.projection.status, Status::Completed, "the parent came to its end");
            seconds
        });
        let children = REPLIES * CHILDREN;
        let ended = place.number("SELECT count(*) FROM plica.tasks WHERE status = 'completed' AND parent IS NOT NULL");
        assert_eq!(ended, children as i64, "every child came to its end");
        let requests = engine.requests.take();
        let times: Vec<f64> = requests.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let (first, last) = (median(&times[..SOME]), median(&times[times.len() - SOME..]));
        report.add(Bar {
            id: "many",
            what: &format!(
                "{}: {children} children, {}; the last {CHILDREN}, the first",
                kind.name(),
                rate(children as f64 / seconds, "child")
            ),
            ours: time(last),
            against: time(first),
            ratio: last / first,
            limit: Limit::AtMost(1.3),
        });
    }
}
