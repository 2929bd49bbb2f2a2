-- Writing events: a batch under a claim, and the first events of a new task.

-- Writes a batch, whole or not at all (ST-3, ST-4, ST-7, ST-8). Rows are locked in ascending
-- byte order of id (p_lock) before anything else (ST-15); what is read of a row as it is locked is
-- what was committed until then, and so is what every later statement sees: the checks and the
-- wake test go by nothing older.
--
-- The outcome is "written", or nothing was written: "absent" (no such task), "refused" (the
-- columns of the locked row say by which rule: the caller asks rules.rs), "not_there" (an item
-- that is consumed is not in the inbox), "taken" (a child's id; id, seq and hash are its row's).
--
-- Events of the task itself have owner 0, those of the n-th child n; seqs run on. p_seq to p_closed
-- are what the row becomes. due is when the first of the tasks that this made claimable is due: a
-- hint for whoever waits for work.
--
-- Its statements are planned once for a connection and not anew for every batch: how many rows an
-- array names changes nothing about how they are found.
CREATE FUNCTION plica.append(
    p_version integer, p_lock text[], p_task text, p_epoch bigint, p_token bytea, p_after bigint, p_after_hash bytea,
    p_ends boolean, p_seen bigint, p_consumed bigint[],
    p_seq bigint, p_hash bytea, p_status text, p_wake text, p_wake_at bigint, p_wake_keys text[],
    p_wake_needs bigint[], p_closed boolean, p_releases boolean, p_not_before bigint,
    p_owners integer[], p_seqs bigint[], p_types text[], p_hashes bytea[], p_bodies bytea[],
    p_blob_hashes bytea[], p_blob_sizes bigint[], p_blobs bytea[], p_children text, p_deliveries text,
    OUT outcome text, OUT now bigint, OUT id text, OUT epoch bigint, OUT token bytea, OUT lease_until bigint,
    OUT seq bigint, OUT hash bytea, OUT inbox_tail bigint, OUT due bigint
) LANGUAGE plpgsql SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    known integer;
    number bigint;
    is_blocked boolean;
    free bigint;
    children jsonb;
    keys bigint[] := '{}';
    sent jsonb;
    receiver bigint;
    woke boolean;
BEGIN
    IF cardinality(p_lock) > 1 THEN
        PERFORM plica.check_version(p_version);
        PERFORM 1 FROM plica.tasks WHERE id = ANY (p_lock) ORDER BY id FOR NO KEY UPDATE;
    END IF;
    -- meta is locked first, as a change of the schema does.
    SELECT meta.version, task.key, task.blocked IS NOT NULL, task.id, task.epoch, task.token, task.lease_until,
        task.seq, task.hash, task.inbox_tail
    INTO known, number, is_blocked, id, epoch, token, lease_until, seq, hash, inbox_tail
    FROM plica.meta, plica.tasks AS task WHERE task.id = p_task FOR NO KEY UPDATE OF task;
    now := plica.now_us();
    IF known IS DISTINCT FROM p_version THEN
        PERFORM plica.check_version(p_version);
        outcome := 'absent';
        RETURN;
    END IF;
    IF NOT (epoch = p_epoch AND token IS NOT NULL AND token = p_token AND lease_until > now
        AND seq = p_after AND hash = p_after_hash AND NOT (p_ends AND inbox_tail > p_seen)) THEN
        outcome := 'refused';
        RETURN;
    END IF;
    -- Most batches take nothing, cite no new body and have no children: what is not needed is not
    -- even looked at. A condition that holds a query costs one, whatever stands before its AND.
    IF cardinality(p_consumed) > 0 THEN
        IF cardinality(p_consumed) <> (SELECT count(*) FROM plica.inbox
            WHERE task = number AND position = ANY (p_consumed) AND item IS NOT NULL) THEN
            outcome := 'not_there';
            RETURN;
        END IF;
    END IF;
    IF p_children <> '[]' THEN
        children := p_children::jsonb;
        SELECT there.id, there.seq, there.hash INTO id, seq, hash
        FROM jsonb_array_elements(children) WITH ORDINALITY AS child (facts, place)
        JOIN plica.tasks AS there ON there.id = child.facts ->> 'id' ORDER BY place LIMIT 1;
        IF FOUND THEN
            outcome := 'taken';
            RETURN;
        END IF;
        keys := ARRAY(SELECT plica.insert_task(facts, now)
            FROM jsonb_array_elements(children) WITH ORDINALITY AS child (facts, place) ORDER BY place);
    END IF;

    IF cardinality(p_blobs) > 0 THEN
        PERFORM plica.put(p_blob_hashes, p_blob_sizes, p_blobs, now);
    END IF;
    IF cardinality(p_consumed) > 0 THEN
        UPDATE plica.inbox SET item = NULL WHERE task = number AND position = ANY (p_consumed);
    END IF;
    INSERT INTO plica.events (task, seq, type, hash, body)
    SELECT CASE owner WHEN 0 THEN number ELSE keys[owner] END, seq, type, hash, body
    FROM unnest(p_owners, p_seqs, p_types, p_hashes, p_bodies) AS event (owner, seq, type, hash, body);

    IF p_releases THEN
        free := plica.due(p_status, plica.is_woken(number, p_status, p_wake_keys, p_wake_needs), p_wake_at,
            p_not_before, is_blocked, now);
    END IF;
    UPDATE plica.tasks AS held SET seq = p_seq, hash = p_hash, status = p_status, wake = p_wake,
        wake_at = p_wake_at, wake_keys = p_wake_keys, wake_needs = p_wake_needs, closed = p_closed,
        updated_at = now, idle_claims = 0, rest_until = NULL,
        holder = CASE WHEN NOT p_releases THEN held.holder END,
        token = CASE WHEN NOT p_releases THEN held.token END,
        run = CASE WHEN NOT p_releases THEN held.run END,
        acquired_at = CASE WHEN NOT p_releases THEN held.acquired_at END,
        lease_until = CASE WHEN NOT p_releases THEN held.lease_until END,
        claimable_at = CASE
            WHEN p_releases THEN free
            -- The rest after idle claims may have reached beyond the lease.
            WHEN held.rest_until IS NULL THEN held.claimable_at
            ELSE held.lease_until
        END
    WHERE held.key = number;
    -- One that does not exist is passed over, and so is what its receiver would refuse (ST-7).
    IF p_deliveries <> '[]' THEN
        FOR sent IN SELECT * FROM jsonb_array_elements(p_deliveries::jsonb) LOOP
            SELECT key INTO receiver FROM plica.tasks WHERE id = sent ->> 'task';
            IF FOUND THEN
                SELECT put.woke INTO woke FROM plica.put_item(receiver, sent -> 'item', now) AS put;
                due := CASE WHEN woke THEN now ELSE due END;
            END IF;
        END LOOP;
    END IF;
    outcome := 'written';
    due := least(free, CASE WHEN cardinality(keys) > 0 THEN now ELSE due END);
    IF p_deliveries <> '[]' THEN
        SELECT there.inbox_tail INTO inbox_tail FROM plica.tasks AS there WHERE there.key = number;
    END IF;
END $$;

-- Writes a new root task (ST-16). The outcome is "fresh"; "again" or "conflict" when the
-- caller's key was used before, for the task of this id; "exists" when the id is taken.
CREATE FUNCTION plica.create_task(
    p_version integer, p_task text, p_seqs bigint[], p_types text[], p_hashes bytea[], p_bodies bytea[],
    p_blob_hashes bytea[], p_blob_sizes bigint[], p_blobs bytea[], OUT outcome text, OUT there text
) LANGUAGE plpgsql SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    facts jsonb := p_task::jsonb;
    prior record;
    now bigint;
    number bigint;
BEGIN
    PERFORM plica.check_version(p_version);
    SELECT id, fingerprint INTO prior FROM plica.tasks WHERE dedup = facts ->> 'dedup';
    IF FOUND THEN
        there := prior.id;
        outcome := CASE WHEN prior.fingerprint = decode(facts ->> 'fingerprint', 'hex') THEN 'again'
            ELSE 'conflict' END;
        RETURN;
    END IF;
    there := facts ->> 'id';
    IF EXISTS (SELECT 1 FROM plica.tasks WHERE id = there) THEN
        outcome := 'exists';
        RETURN;
    END IF;
    now := plica.now_us();
    number := plica.insert_task(facts, now);
    PERFORM plica.put(p_blob_hashes, p_blob_sizes, p_blobs, now);
    INSERT INTO plica.events (task, seq, type, hash, body)
    SELECT number, seq, type, hash, body FROM unnest(p_seqs, p_types, p_hashes, p_bodies)
        AS event (seq, type, hash, body);
    outcome := 'fresh';
END $$;
