//! Reading: every call is one consistent view and ends at once, and takes no lock that a write
//! waits for (ST-11).

use plica_kernel::id::{Position, Queue, Seq, TaskId};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::InboxItem;
use plica_ports::store::{Outlook, Page, Row, StoreError, StoredEvent, TaskFilter, Worker};
use tokio_postgres::Row as Columns;
use tokio_postgres::types::Type;

use crate::rows::{ROW, escaped, get, hash, id, int, items, limit, number, time, time_if, whole_row};
use crate::workers::is_gone;
use crate::writer::Query;
use crate::{PostgresStore, rows};

/// The events that a query finds. Without any there is one row without a seq, so that a task
/// without such events is not an unknown task.
async fn stored(store: &PostgresStore, query: Query<'_>, task: &TaskId) -> Result<Vec<StoredEvent>, StoreError> {
    let rows = store.view(&query).await?.unwrap_or_default();
    if rows.is_empty() {
        return Err(StoreError::UnknownTask(task.clone()));
    }
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        if get::<Option<i64>>(row, "seq")?.is_some() {
            let body = get(row, "body")?;
            events.push(StoredEvent { seq: Seq(number(row, "seq")?), hash: hash(row, "hash")?, body });
        }
    }
    Ok(events)
}

/// Events from `from` on.
pub(crate) async fn events(
    store: &PostgresStore,
    task: &TaskId,
    from: Seq,
    most: usize,
) -> Result<Vec<StoredEvent>, StoreError> {
    let query = Query::of(
        "SELECT event.seq, event.hash, event.body FROM plica.tasks LEFT JOIN LATERAL \
         (SELECT * FROM plica.events WHERE task = tasks.key AND seq >= $2 ORDER BY seq LIMIT $3) AS event ON true \
         WHERE tasks.id = $1 ORDER BY event.seq",
    );
    stored(store, query.text(task.as_str()).int(int(from.0)).int(limit(most)), task).await
}

/// Baseline events, newest first.
pub(crate) async fn baselines(
    store: &PostgresStore,
    task: &TaskId,
    most: usize,
) -> Result<Vec<StoredEvent>, StoreError> {
    let query = Query::of(
        "SELECT event.seq, event.hash, event.body FROM plica.tasks LEFT JOIN LATERAL \
         (SELECT * FROM plica.events WHERE task = tasks.key \
          AND type IN ('TaskForked', 'TaskSnapshot', 'TaskRewound', 'StepAttemptAbandoned') \
          ORDER BY seq DESC LIMIT $2) AS event ON true \
         WHERE tasks.id = $1 ORDER BY event.seq DESC",
    );
    stored(store, query.text(task.as_str()).int(limit(most)), task).await
}

/// The untaken items after `after`.
pub(crate) async fn inbox(store: &PostgresStore, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
    let query = Query::of("SELECT plica.items(key) AS items FROM plica.tasks WHERE id = $1").text(task.as_str());
    let rows = store.view(&query).await?.unwrap_or_default();
    let row = rows.first().ok_or_else(|| StoreError::UnknownTask(task.clone()))?;
    let mut untaken = items(row, "items")?;
    untaken.retain(|item| item.position > after);
    Ok(untaken)
}

/// Newest positions of tasks, 0 for an unknown one.
pub(crate) async fn inbox_tails(store: &PostgresStore, tasks: &[TaskId]) -> Result<Vec<Position>, StoreError> {
    let ids: Vec<_> = tasks.iter().map(TaskId::as_str).collect();
    let query = Query::of(
        "SELECT coalesce(tasks.inbox_tail, 0) AS tail FROM unnest($1::text[]) WITH ORDINALITY AS asked (id, place) \
         LEFT JOIN plica.tasks ON tasks.id = asked.id ORDER BY asked.place",
    );
    let Some(rows) = store.view(&query.with(ids, Type::TEXT_ARRAY)).await? else {
        return Ok(vec![Position(0); tasks.len()]);
    };
    rows.iter().map(|row| number(row, "tail").map(Position)).collect()
}

/// Head and inbox tail of a task; `None` for an unknown one.
pub(crate) async fn head(store: &PostgresStore, task: &TaskId) -> Result<Option<(Seq, Position)>, StoreError> {
    let query = Query::of("SELECT seq, inbox_tail FROM plica.tasks WHERE id = $1").text(task.as_str());
    let rows = store.view(&query).await?.unwrap_or_default();
    let read = |row: &Columns| Ok((Seq(number(row, "seq")?), Position(number(row, "inbox_tail")?)));
    rows.first().map(read).transpose()
}

/// The row of a task.
pub(crate) async fn row(store: &PostgresStore, task: &TaskId) -> Result<Option<Row>, StoreError> {
    let rows = store.view(&Query::of(format!("{ROW} WHERE tasks.id = $1")).text(task.as_str())).await?;
    rows.unwrap_or_default().first().map(whole_row).transpose()
}

/// Rows that match, newest first.
pub(crate) async fn tasks(store: &PostgresStore, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError> {
    // Conditions that are not asked for are left out rather than made always true, so that the
    // indexes are used.
    let mut query = Query::of(format!("{ROW} WHERE true"));
    if let Some(status) = filter.status {
        query = query.and(" AND status = $?", status.name(), Type::TEXT);
    }
    if let Some(queue) = &filter.queue {
        query = query.and(" AND queue = $?", queue.as_str(), Type::TEXT);
    }
    if let Some(agent) = &filter.agent {
        query = query.and(" AND agent = $?", escaped(agent), Type::TEXT);
    }
    if let Some(parent) = &filter.parent {
        query = query.and(" AND parent = $?", parent.as_str(), Type::TEXT);
    }
    if let Some(prefix) = &filter.prefix {
        // No id holds what would have to be escaped.
        query = query.and(" AND tasks.id >= $? AND starts_with(tasks.id, $?)", escaped(prefix), Type::TEXT);
    }
    if filter.blocked {
        query = query.then(" AND blocked IS NOT NULL");
    }
    if let Some((time, id)) = &page.after {
        query = query.and(" AND (created_at, tasks.id) < ($?,", time.micros(), Type::INT8);
        query = query.and(" $?)", id.as_str(), Type::TEXT);
    }
    query = query.and(" ORDER BY created_at DESC, tasks.id DESC LIMIT $?", limit(page.limit), Type::INT8);
    store.view(&query).await?.unwrap_or_default().iter().map(whole_row).collect()
}

/// Tasks held by a process instance.
pub(crate) async fn held_by(store: &PostgresStore, worker: &Worker) -> Result<Vec<TaskId>, StoreError> {
    let query = Query::of(
        "SELECT tasks.id FROM plica.tasks JOIN plica.workers ON workers.key = tasks.holder \
         WHERE workers.instance = $1 ORDER BY tasks.id",
    );
    let rows = store.view(&query.text(worker.instance.as_str())).await?.unwrap_or_default();
    rows.iter().map(|row| id(row, "id", TaskId::new)).collect()
}

/// What is held under a lease that has not run out (`holder` set), and in one more row the
/// earliest time of all that is not, class by class and queue by queue, each by its index.
const OUTLOOK: &str = "WITH clock AS MATERIALIZED (SELECT plica.now_us() AS now) \
    SELECT now, holder, rest_until, lease_until, boot, namespace, pid, started, NULL::bigint AS next \
    FROM clock, plica.tasks JOIN plica.workers ON workers.key = tasks.holder \
    WHERE tasks.holder IS NOT NULL AND lease_until > now \
        AND (cardinality($1::text[]) = 0 OR tasks.queue = ANY ($1::text[])) \
    UNION ALL SELECT now, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ";
/// The earliest time in every queue.
const NEXT: &str = "(SELECT min(first.due) FROM generate_series(0, 3) AS class, \
    LATERAL (SELECT claimable_at AS due FROM plica.tasks WHERE priority = class AND claimable_at IS NOT NULL \
        AND (holder IS NULL OR lease_until <= now) ORDER BY claimable_at LIMIT 1) AS first) FROM clock";
/// The earliest time in some queues.
const NEXT_IN_QUEUES: &str = "(SELECT min(first.due) FROM generate_series(0, 3) AS class, \
    unnest($1::text[]) AS served, \
    LATERAL (SELECT claimable_at AS due FROM plica.tasks WHERE queue = served AND priority = class \
        AND claimable_at IS NOT NULL AND (holder IS NULL OR lease_until <= now) \
        ORDER BY claimable_at LIMIT 1) AS first) FROM clock";

/// What is due by itself, and when the first of the leases that hold ends; `None` where there is
/// no store. What a process holds that is known to be gone is due now, or once it has rested.
pub(crate) async fn outlook(
    store: &PostgresStore,
    queues: &[Queue],
) -> Result<Option<(Outlook, Option<Timestamp>)>, StoreError> {
    let names: Vec<_> = queues.iter().map(Queue::as_str).collect();
    let next = if queues.is_empty() { NEXT } else { NEXT_IN_QUEUES };
    let query = Query::of(format!("{OUTLOOK}{next}")).with(names, Type::TEXT_ARRAY);
    let Some(rows) = store.view(&query).await? else { return Ok(None) };
    let now = rows.first().map_or(Ok(Timestamp::default()), |row| time(row, "now"))?;
    let mut outlook = Outlook { held: 0, next: None, now };
    let mut lease_end = None;
    for row in &rows {
        if get::<Option<i64>>(row, "holder")?.is_none() {
            outlook.next = earlier(outlook.next, time_if(row, "next")?);
        } else if is_gone(store, row)? {
            let due = time_if(row, "rest_until")?.map_or(now, |rest| rest.max(now));
            outlook.next = earlier(outlook.next, Some(due));
        } else {
            outlook.held += 1;
            lease_end = earlier(lease_end, time_if(row, "lease_until")?);
        }
    }
    Ok(Some((outlook, lease_end)))
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// The indexes that claims, reads and checks go by: a store that lacks one works, and gets slower with
/// all that is in it.
pub(crate) const INDEXES: [&str; 17] = [
    "content_pkey",
    "events_baselines",
    "events_pkey",
    "inbox_pkey",
    "inbox_task_dedup_key",
    "inbox_untaken",
    "meta_pkey",
    "tasks_children",
    "tasks_dedup",
    "tasks_due",
    "tasks_due_in_queue",
    "tasks_held",
    "tasks_id_key",
    "tasks_newest",
    "tasks_pkey",
    "workers_instance_key",
    "workers_pkey",
];

/// What `doctor` shows. Whom others' snapshots belong to is for their owner and `pg_monitor` to see.
const DESCRIPTION: &str = "WITH clock AS MATERIALIZED (SELECT plica.now_us() AS now), \
    due AS MATERIALIZED (SELECT min(claimable_at) AS first FROM plica.tasks, clock WHERE claimable_at <= now), \
    ours AS MATERIALIZED (SELECT relnamespace AS schema FROM pg_class WHERE oid = 'plica.tasks'::regclass), \
    sound AS MATERIALIZED (SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid, ours \
        WHERE relnamespace = schema AND indisvalid AND indisready), \
    unfit AS MATERIALIZED (SELECT string_agg(name, ', ' ORDER BY name) AS names FROM unnest($1) AS needed (name) \
        WHERE name NOT IN (SELECT relname FROM sound)), \
    used AS MATERIALIZED (SELECT string_agg(indexrelname || ' ' || idx_scan, ', ' ORDER BY indexrelname) AS names \
        FROM pg_stat_user_indexes JOIN pg_class ON pg_class.oid = indexrelid, ours \
        WHERE relnamespace = schema AND idx_scan > 0) \
    SELECT (SELECT version::text FROM plica.meta) AS \"schema version\", \
        pg_size_pretty(pg_database_size(current_database())) AS \"database size\", \
        (SELECT count(*)::text FROM plica.tasks) AS tasks, \
        (SELECT count(*)::text FROM plica.workers) AS \"worker processes\", \
        coalesce((SELECT ((now - first) / 1000)::text || ' ms' FROM due, clock), 'none') \
            AS \"longest due, not claimed\", \
        (SELECT count(*)::text FROM plica.tasks WHERE status IN ('ready', 'running') AND claimable_at IS NULL \
            AND blocked IS NULL) AS \"due, with neither lease nor time\", \
        coalesce((SELECT extract(epoch FROM max(clock_timestamp() - xact_start))::bigint::text || ' s' \
            FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()), 'none') \
            AS \"oldest snapshot of others\", \
        coalesce((SELECT names FROM used), 'none yet') AS \"indexes in use, and how often\", \
        coalesce((SELECT names FROM unfit), 'none') AS \"indexes missing or unfit\", \
        current_setting('synchronous_commit') AS \"synchronous commit\", \
        current_setting('fsync') AS fsync, current_setting('full_page_writes') AS \"full page writes\"";

/// What the database says of itself, for `doctor`; `None` where there is no store.
pub(crate) async fn describe(store: &PostgresStore) -> Result<Option<Vec<(String, String)>>, StoreError> {
    let query = Query::of(DESCRIPTION).with(INDEXES.as_slice(), Type::TEXT_ARRAY);
    let Some(rows) = store.view(&query).await? else { return Ok(None) };
    let mut said = Vec::new();
    for row in &rows {
        for column in row.columns() {
            said.push((column.name().to_owned(), rows::text(row, column.name())?));
        }
    }
    Ok(Some(said))
}
