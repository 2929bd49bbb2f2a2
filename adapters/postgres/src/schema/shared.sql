-- What the other functions are made of. All of them are made anew at every change of the schema.
--
-- The server works out a function in SQL anew at every call, unless it is an expression that it can
-- put in place of the call; one in PL/pgSQL is worked out once for a connection. So only such
-- expressions are in SQL.

-- The store's time.
CREATE FUNCTION plica.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- Refuses whoever was built for another schema than this version.
CREATE FUNCTION plica.refuse(p_version integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the schema has version %', p_version USING ERRCODE = 'PL001';
END $$;

-- Refuses whoever was built for another schema; the lock that this read takes keeps a change of
-- the schema out until the transaction ends.
CREATE FUNCTION plica.check_version(p_version integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    there integer;
BEGIN
    SELECT version INTO there FROM plica.meta;
    IF there IS DISTINCT FROM p_version THEN
        PERFORM plica.refuse(there);
    END IF;
END $$;

-- Lets the transaction commit without a flush of its own: who holds what need not survive a crash
-- of the server. Whatever a holder does outside comes after an append, whose flush takes the claim
-- along; and a holder whose claim was lost is refused by its token, whoever has its epoch now.
CREATE FUNCTION plica.unflushed() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- When a task that nobody holds may next be claimed; never is null. The same as
-- ports/src/store/rules.rs, claimable_at; least() passes over null.
CREATE FUNCTION plica.due(p_status text, p_woken boolean, p_wake_at bigint, p_not_before bigint, p_blocked boolean,
    p_now bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE
        WHEN p_blocked THEN NULL
        WHEN p_status IN ('ready', 'running') THEN
            CASE WHEN p_woken THEN least(p_not_before, p_now) ELSE coalesce(p_not_before, p_now) END
        WHEN p_status = 'waiting' THEN CASE WHEN p_woken THEN least(p_wake_at, p_now) ELSE p_wake_at END
        WHEN p_woken THEN p_now
    END;
END $$;

-- Whether untaken items wake a task of this status; the same as rules.rs, is_woken.
CREATE FUNCTION plica.is_woken(p_task bigint, p_status text, p_keys text[], p_needs bigint[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN CASE
        WHEN p_status IN ('ready', 'running') THEN EXISTS (
            SELECT 1 FROM plica.inbox WHERE task = p_task AND item IS NOT NULL AND stops)
        WHEN p_status = 'waiting' THEN
            EXISTS (SELECT 1 FROM plica.inbox WHERE task = p_task AND item IS NOT NULL AND steers)
            OR EXISTS (
                SELECT 1 FROM unnest(p_keys, p_needs) AS way (key, need)
                WHERE need <= (SELECT count(*) FROM plica.inbox
                    WHERE task = p_task AND item IS NOT NULL AND wakes = way.key))
        ELSE EXISTS (SELECT 1 FROM plica.inbox WHERE task = p_task AND item IS NOT NULL AND outlives)
    END;
END $$;

-- Until when a task rests after so many idle claims; p_rests has a wait for each count, from 0.
CREATE FUNCTION plica.rest_after(p_rests bigint[], p_idle bigint, p_from bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_rests[p_idle + 1] > 0 THEN p_from + p_rests[p_idle + 1] END
$$;

-- The end of a lease of so many microseconds: at least one away, so that none is over before it
-- begins.
CREATE FUNCTION plica.lease_end(p_now bigint, p_lease bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT p_now + greatest(1, least(p_lease, 9223372036854775807 - p_now))
$$;

-- Leaves a task to nobody, claimable from p_due on.
CREATE FUNCTION plica.let_go(p_task bigint, p_due bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE plica.tasks SET holder = NULL, token = NULL, run = NULL, acquired_at = NULL, lease_until = NULL,
        claimable_at = p_due WHERE key = p_task;
END $$;

-- Writes the row of a new task; says its number.
CREATE FUNCTION plica.insert_task(p_task jsonb, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    number bigint;
BEGIN
    INSERT INTO plica.tasks (id, agent, goal, parent, source, queue, priority, labels, not_before, created_at,
        dedup, fingerprint, seq, hash, status, wake, wake_at, wake_keys, wake_needs, closed, updated_at, claimable_at)
    SELECT id, agent, goal, parent, source, queue, priority, labels, not_before, created_at, dedup,
        decode(fingerprint, 'hex'), seq, decode(hash, 'hex'), status, wake, wake_at, wake_keys, wake_needs, closed,
        p_now, plica.due(status, false, wake_at, not_before, false, p_now)
    FROM jsonb_to_record(p_task) AS r (id text, agent text, goal text, parent text, source text, queue text,
        priority smallint, labels text, not_before bigint, created_at bigint, dedup text, fingerprint text, seq bigint, hash text,
        status text, wake text, wake_at bigint, wake_keys text[], wake_needs bigint[], closed boolean)
    RETURNING key INTO number;
    RETURN number;
END $$;

-- Keeps bodies; of one that is there already only the age is renewed, and only once it is a
-- minute old: many tasks cite the same bodies at once, and a body that is touched is locked
-- until its toucher has committed. In the order of their hashes, so that two that share some
-- never wait for each other.
CREATE FUNCTION plica.put(p_sha256 bytea[], p_size bigint[], p_bytes bytea[], p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    nth integer;
BEGIN
    FOR nth IN SELECT place FROM unnest(p_sha256) WITH ORDINALITY AS blob (hash, place) ORDER BY hash LOOP
        IF EXISTS (SELECT 1 FROM plica.content
            WHERE sha256 = p_sha256[nth] AND touched_at > p_now - 60000000) THEN
            CONTINUE;
        END IF;
        UPDATE plica.content SET touched_at = p_now WHERE sha256 = p_sha256[nth];
        IF NOT FOUND THEN
            INSERT INTO plica.content (sha256, size, touched_at, bytes)
            VALUES (p_sha256[nth], p_size[nth], p_now, p_bytes[nth]) ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;

-- The same as one call.
CREATE FUNCTION plica.keep(p_version integer, p_sha256 bytea, p_size bigint, p_bytes bytea) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM plica.check_version(p_version);
    PERFORM plica.put(ARRAY[p_sha256], ARRAY[p_size], ARRAY[p_bytes], plica.now_us());
END $$;

-- Removes those of these bodies that were last put before a time; says how many, and their bytes.
-- In the order of their hashes, as they are put. One that is being put meanwhile is waited for,
-- and its age looked at again.
CREATE FUNCTION plica.remove(p_version integer, p_sha256 bytea[], p_before bigint)
RETURNS TABLE (bodies bigint, bytes bigint) LANGUAGE plpgsql AS $$
DECLARE
    body bytea;
    gone bigint;
BEGIN
    PERFORM plica.check_version(p_version);
    bodies := 0;
    bytes := 0;
    FOR body IN SELECT DISTINCT hash FROM unnest(p_sha256) AS blob (hash) ORDER BY hash LOOP
        DELETE FROM plica.content AS kept WHERE kept.sha256 = body AND kept.touched_at < p_before
            RETURNING kept.size INTO gone;
        IF FOUND THEN
            bodies := bodies + 1;
            bytes := bytes + gone;
        END IF;
    END LOOP;
    RETURN NEXT;
END $$;

-- The untaken items of a task, in order, as a JSON list.
CREATE FUNCTION plica.items(p_task bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN (SELECT coalesce(json_agg(json_build_object('position', position, 'at', at, 'actor', actor, 'dedup', dedup,
        'item', item) ORDER BY position), '[]')::text
        FROM plica.inbox WHERE task = p_task AND item IS NOT NULL);
END $$;
