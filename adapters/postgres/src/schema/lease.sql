-- Holding on and letting go: renewing, releasing, blocking; who is alive.

-- Extends leases (ST-2).
-- What it returns are the columns on which the verdicts depend, for each task that is there.
CREATE FUNCTION plica.renew(p_version integer, p_tasks text[], p_epochs bigint[], p_tokens bytea[], p_lease bigint)
RETURNS TABLE (id text, now bigint, epoch bigint, token bytea, lease_until bigint, seq bigint, hash bytea,
    inbox_tail bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    until bigint;
BEGIN
    PERFORM plica.check_version(p_version);
    PERFORM plica.unflushed();
    PERFORM 1 FROM plica.tasks WHERE id = ANY (p_tasks) ORDER BY id FOR NO KEY UPDATE;
    now := plica.now_us();
    until := plica.lease_end(now, p_lease);
    -- A rest after idle claims may reach beyond the lease (ST-18).
    UPDATE plica.tasks AS held SET lease_until = until, claimable_at = greatest(until, held.rest_until)
    FROM unnest(p_tasks, p_epochs, p_tokens) AS claim (task, fence, secret)
    WHERE held.id = claim.task AND held.epoch = claim.fence AND held.token = claim.secret;
    RETURN QUERY SELECT id, now, epoch, token, lease_until, seq, hash, inbox_tail
        FROM plica.tasks WHERE id = ANY (p_tasks);
END $$;

-- Hands a claim back (ST-2, ST-18), or blocks the task that it holds (RC-9) when p_blocked says
-- why. The outcome is "absent", "refused" (the columns of the locked row say by which rule) or
-- "done".
CREATE FUNCTION plica.release(p_version integer, p_task text, p_epoch bigint, p_token bytea, p_not_before bigint,
    p_rests bigint[], p_blocked text, OUT outcome text, OUT now bigint, OUT id text, OUT epoch bigint,
    OUT token bytea, OUT lease_until bigint, OUT seq bigint, OUT hash bytea, OUT inbox_tail bigint, OUT due bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    own plica.tasks%ROWTYPE;
    rest bigint;
BEGIN
    PERFORM plica.check_version(p_version);
    SELECT * INTO own FROM plica.tasks WHERE id = p_task FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'absent';
        RETURN;
    END IF;
    now := plica.now_us();
    id := own.id; epoch := own.epoch; token := own.token; lease_until := own.lease_until; seq := own.seq;
    hash := own.hash; inbox_tail := own.inbox_tail;
    IF NOT (own.epoch = p_epoch AND own.token IS NOT NULL AND own.token = p_token) THEN
        outcome := 'refused';
        RETURN;
    END IF;
    outcome := 'done';
    IF p_blocked IS NOT NULL THEN
        PERFORM plica.let_go(own.key, NULL);
        UPDATE plica.tasks SET blocked = p_blocked WHERE key = own.key;
        RETURN;
    END IF;
    PERFORM plica.unflushed();
    due := plica.due(own.status, plica.is_woken(own.key, own.status, own.wake_keys, own.wake_needs), own.wake_at,
        p_not_before, own.blocked IS NOT NULL, now);
    IF p_not_before IS NULL THEN
        rest := plica.rest_after(p_rests, own.idle_claims, now);
    END IF;
    -- With a not-before the claim does not count; an append since then has set the count to zero.
    UPDATE plica.tasks SET rest_until = rest,
        idle_claims = CASE WHEN p_not_before IS NULL THEN idle_claims ELSE greatest(idle_claims - 1, 0) END
    WHERE key = own.key;
    due := CASE WHEN due IS NOT NULL THEN greatest(due, rest) END;
    PERFORM plica.let_go(own.key, due);
END $$;

-- Lifts a block and forgets idle claims. The outcome is "absent", "free" or "lifted".
CREATE FUNCTION plica.unblock(p_version integer, p_task text, OUT outcome text) LANGUAGE plpgsql AS $$
DECLARE
    own plica.tasks%ROWTYPE;
BEGIN
    PERFORM plica.check_version(p_version);
    SELECT * INTO own FROM plica.tasks WHERE id = p_task FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'absent';
        RETURN;
    END IF;
    UPDATE plica.tasks SET idle_claims = 0, rest_until = NULL, blocked = NULL WHERE key = own.key;
    IF own.token IS NOT NULL THEN
        -- The rest may have reached beyond the lease.
        UPDATE plica.tasks SET claimable_at = lease_until WHERE key = own.key AND own.rest_until IS NOT NULL;
    ELSIF own.blocked IS NOT NULL OR own.rest_until = own.claimable_at THEN
        -- What was due already keeps its place.
        PERFORM plica.let_go(own.key, least(own.claimable_at, plica.due(own.status,
            plica.is_woken(own.key, own.status, own.wake_keys, own.wake_needs), own.wake_at, NULL, false,
            plica.now_us())));
    END IF;
    outcome := CASE WHEN own.blocked IS NULL THEN 'free' ELSE 'lifted' END;
END $$;

-- What became of an append whose commit is in doubt (ST-9): the hash of the event at a seq,
-- looked up under the row's lock, so that no commit of this task is under way.
CREATE FUNCTION plica.settle(p_version integer, p_task text, p_seq bigint, OUT outcome text, OUT hash bytea)
LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    PERFORM plica.check_version(p_version);
    SELECT key INTO number FROM plica.tasks WHERE id = p_task FOR NO KEY UPDATE;
    outcome := CASE WHEN FOUND THEN 'there' ELSE 'absent' END;
    SELECT event.hash INTO hash FROM plica.events AS event WHERE event.task = number AND event.seq = p_seq;
END $$;

-- Notes that a worker is alive (ST-19); it need not survive a crash of the server.
CREATE FUNCTION plica.register(p_version integer, p_worker text, p_queues text, p_lease bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    now bigint := plica.now_us();
    number bigint;
BEGIN
    PERFORM plica.check_version(p_version);
    PERFORM plica.unflushed();
    number := plica.worker_key(p_worker::jsonb, now);
    UPDATE plica.workers SET queues = p_queues, lease = p_lease, seen_at = now WHERE key = number;
END $$;

-- Forgets a worker that ends; what it still holds stays under its name.
CREATE FUNCTION plica.deregister(p_version integer, p_instance text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM plica.check_version(p_version);
    PERFORM plica.unflushed();
    UPDATE plica.workers SET seen_at = NULL WHERE instance = p_instance;
END $$;
