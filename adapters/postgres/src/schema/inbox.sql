-- Delivering, and waking whom it wakes under the same lock (ST-7).

-- Puts an item into the inbox of the task of this number, whose row is locked. The outcome is
-- "fresh", "again", "conflict" or "over"; p_item is an object of dedup, fingerprint, actor, item,
-- wakes, steers, stops and outlives. Of a held task only the holder is told (ST-13), by its
-- inbox tail.
CREATE FUNCTION plica.put_item(p_task bigint, p_item jsonb, p_now bigint, OUT outcome text, OUT place bigint,
    OUT there text, OUT woke boolean) LANGUAGE plpgsql AS $$
DECLARE
    it record;
    prior record;
    receiver plica.tasks%ROWTYPE;
BEGIN
    woke := false;
    SELECT * INTO it FROM jsonb_to_record(p_item) AS r (dedup text, fingerprint text, actor text, item text,
        wakes text, steers boolean, stops boolean, outlives boolean);
    SELECT position, fingerprint INTO prior FROM plica.inbox WHERE task = p_task AND dedup = it.dedup;
    IF FOUND THEN
        place := prior.position;
        outcome := CASE WHEN prior.fingerprint = decode(it.fingerprint, 'hex') THEN 'again' ELSE 'conflict' END;
        RETURN;
    END IF;
    SELECT * INTO receiver FROM plica.tasks WHERE key = p_task;
    IF receiver.status IN ('completed', 'failed', 'cancelled') AND NOT it.outlives THEN
        outcome := 'over';
        there := receiver.status;
        RETURN;
    END IF;
    outcome := 'fresh';
    place := receiver.inbox_tail + 1;
    INSERT INTO plica.inbox (task, position, dedup, fingerprint, at, actor, wakes, steers, stops, outlives, item)
    VALUES (p_task, place, it.dedup, decode(it.fingerprint, 'hex'), p_now, it.actor, it.wakes, it.steers, it.stops,
        it.outlives, it.item);
    IF receiver.token IS NULL AND receiver.blocked IS NULL THEN
        woke := CASE
            WHEN receiver.status IN ('ready', 'running') THEN it.stops
            -- An item that no alternative names leaves the condition as it was.
            WHEN receiver.status = 'waiting' THEN it.steers OR (coalesce(it.wakes = ANY (receiver.wake_keys), false)
                AND plica.is_woken(p_task, receiver.status, receiver.wake_keys, receiver.wake_needs))
            ELSE it.outlives
        END;
    END IF;
    UPDATE plica.tasks SET inbox_tail = place, claimable_at = CASE
        WHEN woke THEN greatest(least(claimable_at, p_now), rest_until) ELSE claimable_at END
    WHERE key = p_task;
END $$;

-- Delivers from outside; the outcome is "absent" or that of put_item.
CREATE FUNCTION plica.deliver(p_version integer, p_task text, p_item text, OUT outcome text, OUT place bigint,
    OUT there text, OUT woke boolean) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    number bigint;
BEGIN
    PERFORM plica.check_version(p_version);
    SELECT key INTO number FROM plica.tasks WHERE id = p_task FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'absent';
        RETURN;
    END IF;
    SELECT put.outcome, put.place, put.there, put.woke INTO outcome, place, there, woke
    FROM plica.put_item(number, p_item::jsonb, plica.now_us()) AS put;
END $$;
