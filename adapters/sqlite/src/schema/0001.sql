-- Times are microseconds since 1970 in UTC; hashes are their 32 bytes; what is called JSON is
-- canonical. Rowid tables at the default page of 4 KiB append fastest, and events name their
-- task by its number, so that the index over (task, seq) stays small. Rows in the order of their
-- writing are cheaper than rows in the order of (task, seq) without that index: a row put before
-- those of another task makes SQLite balance three pages at nearly every append.

CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- Worker processes: who holds what, and who was last seen when.
CREATE TABLE workers (
    key INTEGER PRIMARY KEY,
    instance TEXT NOT NULL UNIQUE,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    boot TEXT,
    namespace TEXT,
    pid INTEGER,
    started INTEGER,
    queues BLOB,                -- JSON list of texts, once registered
    lease INTEGER,              -- in microseconds
    seen_at INTEGER             -- none: never registered, or ended
) STRICT;

CREATE TABLE tasks (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    goal TEXT NOT NULL,
    parent TEXT,
    source TEXT,                -- what a fork branched off from
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    labels BLOB NOT NULL,       -- JSON object of texts
    not_before INTEGER,
    created_at INTEGER NOT NULL,
    dedup TEXT,
    fingerprint BLOB,
    -- what the kernel computed at the last append
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    status TEXT NOT NULL,
    wake BLOB NOT NULL,         -- JSON
    closed INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- the hold
    epoch INTEGER NOT NULL,
    holder INTEGER,             -- workers.key
    token BLOB,                 -- hash of it
    run TEXT,
    acquired_at INTEGER,
    lease_until INTEGER,
    -- when it may be claimed
    claimable_at INTEGER,
    rest_until INTEGER,         -- not before this after idle claims
    idle_claims INTEGER NOT NULL,
    blocked BLOB,               -- JSON
    inbox_tail INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX tasks_dedup ON tasks (dedup) WHERE dedup IS NOT NULL;
CREATE INDEX tasks_due_in_queue ON tasks (queue, priority, claimable_at) WHERE claimable_at IS NOT NULL;
CREATE INDEX tasks_due ON tasks (priority, claimable_at) WHERE claimable_at IS NOT NULL;
CREATE INDEX tasks_held ON tasks (holder) WHERE holder IS NOT NULL;
CREATE INDEX tasks_newest ON tasks (created_at, id);
CREATE INDEX tasks_children ON tasks (parent, created_at, id) WHERE parent IS NOT NULL;

CREATE TABLE events (
    key INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,      -- tasks.key
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    baseline INTEGER,           -- set where a fold may start or turn
    hash BLOB NOT NULL,
    body BLOB NOT NULL,         -- exactly as hashed
    UNIQUE (task, seq)
) STRICT;

CREATE INDEX events_baselines ON events (task, seq) WHERE baseline IS NOT NULL;

CREATE TABLE inbox (
    key INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,      -- tasks.key
    position INTEGER NOT NULL,
    dedup TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    item BLOB,                  -- JSON; none once an event records it
    UNIQUE (task, position),
    UNIQUE (task, dedup)
) STRICT;

CREATE INDEX inbox_untaken ON inbox (task, position) WHERE item IS NOT NULL;

CREATE TABLE content (
    key INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    touched_at INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

-- No recorded event is ever changed or removed. The insert trigger is there because
-- INSERT OR REPLACE removes what it replaces without asking the delete trigger.
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'a recorded event is never changed'); END;

CREATE TRIGGER events_never_go BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'a recorded event is never removed'); END;

CREATE TRIGGER events_never_replaced BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE task = NEW.task AND seq = NEW.seq)
  OR EXISTS (SELECT 1 FROM events WHERE key = NEW.key)
BEGIN SELECT RAISE(ABORT, 'a recorded event is never replaced'); END;

-- An event belongs to its task by the task's number.
CREATE TRIGGER tasks_never_go BEFORE DELETE ON tasks
BEGIN SELECT RAISE(ABORT, 'a task is never removed'); END;

CREATE TRIGGER tasks_keep_their_id BEFORE UPDATE OF key, id ON tasks
BEGIN SELECT RAISE(ABORT, 'the id of a task never changes'); END;
