//! Births: roots, and forks.

use std::collections::BTreeMap;

use plica_kernel::body::{Blob, MEDIA_DEFINITION};
use plica_kernel::decide::{Birth, CallOutcome, Stamp, born, forked};
use plica_kernel::event::{Budget, CallStatus, TaskCreated};
use plica_kernel::id::{DedupKey, Epoch, Queue, RunId, TaskId};
use plica_kernel::time::Timestamp;

use super::assert_scene;
use crate::common::scene::{Scene, outcome, scene, scene_of, start};
use crate::common::world::{created, ledger};

fn stamp() -> Stamp {
    let now = Timestamp::from_micros(1_796_031_682_123_456);
    Stamp { now, epoch: Epoch(0), run: RunId::new("birth").unwrap() }
}

#[test]
fn st_16_a_task_is_born_with_all_that_its_creator_says() {
    let budget = Budget { nano_usd: Some(1), steps: Some(2), tokens: Some(3), wall_ms: Some(4) };
    let created = TaskCreated {
        key: Some(DedupKey::new("nightly-7").unwrap()),
        labels: BTreeMap::from([("team".into(), "red".into())]),
        not_before: Some(stamp().now.plus_millis(60_000)),
        priority: 1,
        queue: Queue::new("night").unwrap(),
        ..created("walker", budget, true)
    };
    let goal = "walk ".repeat(250);
    let blobs = vec![Blob::new(MEDIA_DEFINITION, b"{}".to_vec())];
    let id = TaskId::new("0197a000-0000-7000-8000-000000000002").unwrap();
    let drafted = born(Birth { id, actor: "cron".into(), goal, created, blobs }, stamp()).unwrap();
    assert_scene("born", &scene_of(drafted, None));
}

/// A fork of the task as it is now.
fn fork(source: &Scene) -> Scene {
    let id = TaskId::new("0197a000-0000-7000-8000-000000000003").unwrap();
    let source = &source.world.task;
    scene_of(forked(source, id, "user:bob", ledger(), stamp()).unwrap(), Some(source))
}

#[test]
fn sn_4_a_fork_waits_for_a_message_and_goes_on_from_where_it_branched_off() {
    let mut source = scene(true, Budget { steps: Some(9), ..Budget::default() });
    source.replies("hello", vec![]);
    let mut fork = fork(&source);
    fork.goes_on();
    fork.say("and here?").goes_on();
    fork.replies("here too", vec![]);
    assert_scene("forked", &fork);
}

#[test]
fn sn_4_a_fork_is_told_whose_the_background_jobs_are() {
    let mut source = scene(true, Budget::default());
    source.replies("", vec![start("{}"), start("{}")]);
    for index in 0..2 {
        source.ends(index, CallOutcome { job: Some("sleep 9".into()), ..outcome(CallStatus::Ok, "") });
    }
    source.replies("both run", vec![]);
    let mut fork_of_running = fork(&source);
    fork_of_running.goes_on();
    assert_scene("forked-with-jobs", &fork_of_running);
}

#[test]
fn sn_4_only_a_root_at_rest_is_forked() {
    let source = scene(true, Budget::default());
    let id = TaskId::new("0197a000-0000-7000-8000-000000000003").unwrap();
    let refused = forked(&source.world.task, id, "user:bob", ledger(), stamp()).unwrap_err();
    assert!(refused.to_string().contains("turn"), "{refused}");
}
