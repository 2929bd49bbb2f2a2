-- Times are microseconds since 1970 in UTC; hashes are their 32 bytes; what is called JSON is
-- canonical. Texts are compared byte by byte, and hold NUL and backslash escaped (rows.rs),
-- since PostgreSQL's cannot hold NUL. "plica." stands for the schema of the store.

CREATE TABLE plica.meta (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    version integer NOT NULL,
    ledger text NOT NULL
);

-- Worker processes: who holds what, and who was last seen when.
CREATE TABLE plica.workers (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text COLLATE "C" NOT NULL UNIQUE,
    id text COLLATE "C" NOT NULL,
    host text NOT NULL,
    version text NOT NULL,
    boot text,
    namespace text,
    pid bigint,
    started bigint,
    queues text,                -- JSON list of texts, once registered
    lease bigint,               -- in microseconds
    seen_at bigint,             -- none: never registered, or ended
    noted_at bigint NOT NULL    -- when it last began to hold something, to the hour
);

-- Room in every page, so that what appends change often stays where it is (HOT).
CREATE TABLE plica.tasks (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    agent text COLLATE "C" NOT NULL,
    goal text NOT NULL,
    parent text COLLATE "C",
    source text COLLATE "C",    -- what a fork branched off from
    queue text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    labels text NOT NULL,       -- JSON object of texts
    not_before bigint,
    created_at bigint NOT NULL,
    dedup text COLLATE "C",
    fingerprint bytea,
    -- what the kernel computed at the last append
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    status text COLLATE "C" NOT NULL,
    wake text NOT NULL,         -- JSON
    wake_at bigint,
    wake_keys text[] COLLATE "C" NOT NULL,
    wake_needs bigint[] NOT NULL,
    closed boolean NOT NULL,
    updated_at bigint NOT NULL,
    -- the hold
    epoch bigint NOT NULL DEFAULT 0,
    holder bigint,              -- workers.key
    token bytea,                -- hash of it
    run text COLLATE "C",
    acquired_at bigint,
    lease_until bigint,
    -- when it may be claimed
    claimable_at bigint,
    rest_until bigint,          -- not before this after idle claims
    idle_claims bigint NOT NULL DEFAULT 0,
    blocked text,               -- JSON
    inbox_tail bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 75);

CREATE UNIQUE INDEX tasks_dedup ON plica.tasks (dedup) WHERE dedup IS NOT NULL;
CREATE INDEX tasks_due_in_queue ON plica.tasks (queue, priority, claimable_at, id) WHERE claimable_at IS NOT NULL;
CREATE INDEX tasks_due ON plica.tasks (priority, claimable_at, id) WHERE claimable_at IS NOT NULL;
CREATE INDEX tasks_held ON plica.tasks (holder) WHERE holder IS NOT NULL;
CREATE INDEX tasks_newest ON plica.tasks (created_at, id);
CREATE INDEX tasks_children ON plica.tasks (parent, created_at, id) WHERE parent IS NOT NULL;

CREATE TABLE plica.events (
    task bigint NOT NULL,       -- tasks.key
    seq bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    body bytea NOT NULL,        -- exactly as hashed
    PRIMARY KEY (task, seq)
);

CREATE INDEX events_baselines ON plica.events (task, seq)
    WHERE type IN ('TaskForked', 'TaskSnapshot', 'TaskRewound', 'StepAttemptAbandoned');

-- What the wake test looks at stands in columns of its own: the function that makes it under
-- the row's lock knows no JSON of ours.
CREATE TABLE plica.inbox (
    task bigint NOT NULL,       -- tasks.key
    position bigint NOT NULL,
    dedup text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    at bigint NOT NULL,
    actor text NOT NULL,
    wakes text COLLATE "C",     -- the wake key that it carries
    steers boolean NOT NULL,
    stops boolean NOT NULL,
    outlives boolean NOT NULL,
    item text,                  -- JSON; none once an event records it
    PRIMARY KEY (task, position),
    UNIQUE (task, dedup)
);

CREATE INDEX inbox_untaken ON plica.inbox (task, position) WHERE item IS NOT NULL;

CREATE TABLE plica.content (
    sha256 bytea PRIMARY KEY,
    size bigint NOT NULL,
    touched_at bigint NOT NULL,
    bytes bytea NOT NULL
);

-- No recorded event is ever changed or removed, whoever asks.
CREATE FUNCTION plica.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'PL002';
END $$;

CREATE TRIGGER events_never_change BEFORE UPDATE ON plica.events
    FOR EACH ROW EXECUTE FUNCTION plica.refuse('a recorded event is never changed');
CREATE TRIGGER events_never_go BEFORE DELETE ON plica.events
    FOR EACH ROW EXECUTE FUNCTION plica.refuse('a recorded event is never removed');
CREATE TRIGGER events_never_go_at_once BEFORE TRUNCATE ON plica.events
    FOR EACH STATEMENT EXECUTE FUNCTION plica.refuse('a recorded event is never removed');

-- An event belongs to its task by the task's number.
CREATE TRIGGER tasks_never_go BEFORE DELETE ON plica.tasks
    FOR EACH ROW EXECUTE FUNCTION plica.refuse('a task is never removed');
CREATE TRIGGER tasks_never_go_at_once BEFORE TRUNCATE ON plica.tasks
    FOR EACH STATEMENT EXECUTE FUNCTION plica.refuse('a task is never removed');
CREATE TRIGGER tasks_keep_their_id BEFORE UPDATE OF key, id ON plica.tasks
    FOR EACH ROW EXECUTE FUNCTION plica.refuse('the id of a task never changes');
