-- Handing out tasks (ST-1, ST-12, ST-16, ST-18).

-- The number of a worker process, under which its claims stand; new ones get one. When it was
-- last noted is written again every hour, so that nobody forgets it while it begins to hold.
CREATE FUNCTION plica.worker_key(p_worker jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known record;
    number bigint;
BEGIN
    SELECT key, noted_at INTO known FROM plica.workers WHERE instance = p_worker ->> 'instance';
    IF FOUND THEN
        IF known.noted_at > p_now - 3600000000 THEN
            RETURN known.key;
        END IF;
        UPDATE plica.workers SET noted_at = p_now WHERE key = known.key;
        IF FOUND THEN
            RETURN known.key;
        END IF;
    END IF;
    -- Who was not seen for a day and holds nothing is forgotten, so that the table does not grow
    -- with every start.
    DELETE FROM plica.workers WHERE noted_at < p_now - 86400000000 AND coalesce(seen_at, 0) < p_now - 86400000000
        AND NOT EXISTS (SELECT 1 FROM plica.tasks WHERE holder = workers.key);
    INSERT INTO plica.workers (instance, id, host, version, boot, namespace, pid, started, noted_at)
    SELECT instance, id, host, version, boot, namespace, pid, started, p_now
    FROM jsonb_to_record(p_worker) AS r (instance text, id text, host text, version text, boot text,
        namespace text, pid bigint, started bigint)
    ON CONFLICT (instance) DO UPDATE SET noted_at = p_now RETURNING key INTO number;
    RETURN number;
END $$;

-- Gives the task of this number, whose row is locked, to a worker process: holder, epoch + 1 and
-- lease. What it says of the task is null when that would have been one idle claim too many: then
-- the task is blocked. was_due is when it was due.
-- The instance that still holds it takes it up again: no crash lies in between (ST-18).
CREATE FUNCTION plica.take(p_task bigint, p_worker bigint, p_now bigint, p_lease_until bigint, p_token bytea,
    p_run text, p_rests bigint[], p_poison text, OUT was_due bigint, OUT id text, OUT epoch bigint, OUT seq bigint,
    OUT hash bytea, OUT inbox_tail bigint, OUT items text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    own record;
    idle bigint;
    rest bigint;
BEGIN
    SELECT holder, idle_claims, rest_until, claimable_at INTO own FROM plica.tasks WHERE key = p_task;
    was_due := own.claimable_at;
    IF own.holder = p_worker THEN
        idle := own.idle_claims;
        rest := own.rest_until;
    ELSE
        idle := own.idle_claims + 1;
        rest := plica.rest_after(p_rests, idle, p_now);
    END IF;
    IF idle >= cardinality(p_rests) THEN
        PERFORM plica.let_go(p_task, NULL);
        UPDATE plica.tasks SET idle_claims = idle, blocked = p_poison WHERE key = p_task;
        RETURN;
    END IF;
    UPDATE plica.tasks AS held SET epoch = held.epoch + 1, holder = p_worker, token = p_token, run = p_run,
        acquired_at = p_now, lease_until = p_lease_until, claimable_at = greatest(p_lease_until, rest),
        rest_until = rest, idle_claims = idle
    WHERE held.key = p_task
    RETURNING held.id, held.epoch, held.seq, held.hash, held.inbox_tail INTO id, epoch, seq, hash, inbox_tail;
    items := CASE WHEN inbox_tail > 0 THEN plica.items(p_task) ELSE '[]' END;
END $$;

-- Takes tasks to work on, as many as there are tokens: the task named, or what is due in the
-- queues (none: in all), class by class, in a class by when it became due. What another claim
-- or write has locked at the moment is passed over, so nobody waits for anybody (ST-1); a task
-- that is asked for by name is waited for. p_gone are processes known to be gone: what they hold
-- is due like anything else, after idle claims once it has rested. A lease lasts p_lease
-- microseconds. In each class only what became due at p_marks or later is looked at.
-- It reads in the order of its indexes whatever the planner knows of the tables, by plans that are
-- made once for a connection, and is not compiled: scans that are switched off count as dear, which would set the compiler going.
CREATE FUNCTION plica.claim(p_version integer, p_worker text, p_queues text[], p_task text, p_except text[],
    p_lease bigint, p_tokens bytea[], p_runs text[], p_rests bigint[], p_poison text, p_gone bigint[], p_marks bigint[])
RETURNS TABLE (class smallint, was_due bigint, id text, epoch bigint, token bytea, run text, seq bigint, hash bytea,
    inbox_tail bigint, now bigint, lease_until bigint, items text)
LANGUAGE plpgsql SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    room integer := cardinality(p_tokens);
    mark bigint;
    keys bigint[];
    chosen bigint;
    mine bigint;
    until bigint;
BEGIN
    PERFORM plica.check_version(p_version);
    PERFORM plica.unflushed();
    now := plica.now_us();
    IF cardinality(p_gone) > 0 THEN
        UPDATE plica.tasks SET lease_until = now, claimable_at = greatest(now, rest_until)
        WHERE key IN (SELECT key FROM plica.tasks WHERE holder = ANY (p_gone) AND lease_until > now
            ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    class := 0;
    WHILE room > 0 AND class <= 3 LOOP
        mark := p_marks[class + 1];
        IF p_task IS NOT NULL THEN
            -- Priorities do not matter.
            class := 3;
            keys := ARRAY(SELECT key FROM plica.tasks WHERE id = p_task AND claimable_at <= now
                AND (cardinality(p_queues) = 0 OR queue = ANY (p_queues)) AND id <> ALL (p_except)
                FOR NO KEY UPDATE);
            -- Its lease is counted from when it was had, not from when it was asked for.
            now := plica.now_us();
        ELSIF cardinality(p_queues) = 0 THEN
            keys := ARRAY(SELECT key FROM plica.tasks WHERE priority = class AND claimable_at BETWEEN mark AND now
                AND id <> ALL (p_except) ORDER BY claimable_at, id LIMIT room FOR NO KEY UPDATE SKIP LOCKED);
        ELSIF cardinality(p_queues) = 1 THEN
            keys := ARRAY(SELECT key FROM plica.tasks WHERE queue = p_queues[1] AND priority = class
                AND claimable_at BETWEEN mark AND now AND id <> ALL (p_except)
                ORDER BY claimable_at, id LIMIT room FOR NO KEY UPDATE SKIP LOCKED);
        ELSE
            -- Each queue by its own index. What is locked beyond the room is free again when this
            -- call commits.
            keys := ARRAY(SELECT due.key FROM (SELECT DISTINCT unnest(p_queues) AS name) AS served,
                LATERAL (SELECT key, claimable_at, id FROM plica.tasks WHERE queue = served.name AND priority = class
                    AND claimable_at BETWEEN mark AND now AND id <> ALL (p_except)
                    ORDER BY claimable_at, id LIMIT room FOR NO KEY UPDATE SKIP LOCKED) AS due
                ORDER BY due.claimable_at, due.id LIMIT room);
        END IF;
        IF cardinality(keys) = 0 THEN
            class := class + 1;
            CONTINUE;
        END IF;
        mine := coalesce(mine, plica.worker_key(p_worker::jsonb, now));
        until := plica.lease_end(now, p_lease);
        -- One that turns out to be poison leaves its place to another: the class is looked at again.
        FOREACH chosen IN ARRAY keys LOOP
            SELECT took.was_due, took.id, took.epoch, took.seq, took.hash, took.inbox_tail, took.items
            INTO was_due, id, epoch, seq, hash, inbox_tail, items
            FROM plica.take(chosen, mine, now, until, p_tokens[room], p_runs[room], p_rests, p_poison) AS took;
            IF id IS NOT NULL THEN
                token := p_tokens[room];
                run := p_runs[room];
                lease_until := until;
                room := room - 1;
                RETURN NEXT;
            ELSIF p_task IS NOT NULL THEN
                RETURN;
            END IF;
        END LOOP;
    END LOOP;
END $$;

-- Takes up again what this same instance holds (ST-9); no row when it does not.
CREATE FUNCTION plica.adopt(p_version integer, p_worker text, p_task text, p_lease bigint, p_token bytea, p_run text,
    p_rests bigint[], p_poison text)
RETURNS TABLE (id text, epoch bigint, token bytea, run text, seq bigint, hash bytea, inbox_tail bigint, now bigint,
    lease_until bigint, items text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    own record;
BEGIN
    PERFORM plica.check_version(p_version);
    PERFORM plica.unflushed();
    SELECT key, holder INTO own FROM plica.tasks WHERE id = p_task FOR NO KEY UPDATE;
    IF own.holder IS NULL OR NOT EXISTS (SELECT 1 FROM plica.workers
        WHERE key = own.holder AND instance = p_worker::jsonb ->> 'instance') THEN
        RETURN;
    END IF;
    now := plica.now_us();
    lease_until := plica.lease_end(now, p_lease);
    SELECT took.id, took.epoch, took.seq, took.hash, took.inbox_tail, took.items
    INTO id, epoch, seq, hash, inbox_tail, items
    FROM plica.take(own.key, own.holder, now, lease_until, p_token, p_run, p_rests, p_poison) AS took;
    IF id IS NOT NULL THEN
        token := p_token;
        run := p_run;
        RETURN NEXT;
    END IF;
END $$;
