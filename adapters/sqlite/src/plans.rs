//! That the statements that run often use the indexes made for them.

use rusqlite::Connection;

use crate::migrations::{MIGRATIONS, migrate};
use crate::{claim, read};

fn plan(sql: &str) -> String {
    let mut conn = Connection::open_in_memory().expect("memory");
    migrate(&mut conn, MIGRATIONS, "plans").expect("a schema");
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("the statement");
    let mut rows = statement.raw_query();
    let mut plan = Vec::new();
    while let Some(row) = rows.next().expect("the plan") {
        plan.push(row.get::<_, String>("detail").expect("a line of the plan"));
    }
    plan.join("\n")
}

#[test]
fn st_12_a_claim_reads_what_is_due_and_nothing_that_waits() {
    let plan_of_queue = plan(claim::DUE_IN_QUEUE);
    assert!(
        plan_of_queue.contains("tasks_due_in_queue (queue=? AND priority=? AND claimable_at<?)"),
        "{plan_of_queue}"
    );
    assert!(!plan_of_queue.contains("TEMP B-TREE"), "{plan_of_queue}");
    let plan_of_all = plan(claim::DUE);
    assert!(plan_of_all.contains("tasks_due (priority=? AND claimable_at<?)"), "{plan_of_all}");
    assert!(!plan_of_all.contains("TEMP B-TREE"), "{plan_of_all}");
}

#[test]
fn st_11_baselines_are_found_by_their_index() {
    let plan = plan(read::BASELINES);
    assert!(plan.contains("events_baselines (task=?)"), "{plan}");
    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
}

#[test]
fn st_11_the_outlook_reads_by_index() {
    for sql in [read::NEXT_IN_QUEUE, read::NEXT, read::HELD] {
        let plan = plan(sql);
        assert!(plan.contains("USING INDEX tasks_") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
}
