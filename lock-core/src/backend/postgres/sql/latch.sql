-- Performs one step of a count-down latch: `set`, `count`, `wait` or `look`.
--
-- p_who  the owner token for `set` and `count`, the process to notify for `wait`, '' for `look`.
-- The verdict of the answer is 1 if the latch is set, 0 if the latch is not set, and -2 if the key is in use as a lock.
-- With the verdict 1, `waiting` is the remaining count, and `own` shows whether `p_who` set the latch.
CREATE OR REPLACE FUNCTION lock_core.latch(p_key text, p_step text, p_ttl bigint, p_who text, p_count integer)
RETURNS lock_core.answer LANGUAGE plpgsql
:settings AS $$
DECLARE
    v_row lock_core.keys := lock_core.lock_row(p_key, p_step = 'set');
    t timestamptz := clock_timestamp();
    v_until timestamptz := t + p_ttl * interval '1 microsecond';
    a lock_core.answer;
    v_was_open boolean;
    v_count bigint;
BEGIN
    a.verdict := 0;
    a.now_us := lock_core.micros(t);
    IF v_row.key IS NULL THEN
        RETURN a;
    END IF;
    PERFORM lock_core.clear(p_key, t);
    IF EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = p_key) THEN
        PERFORM lock_core.serve(p_key, t, '', 0);
    END IF;
    SELECT * INTO a.mode, v_count FROM lock_core.look(p_key);
    IF v_count > 0 THEN
        a.verdict := -2;
        RETURN a;
    END IF;
    IF v_row.latch_until <= t THEN
        IF p_step <> 'set' THEN
            RETURN a;
        END IF;
        DELETE FROM lock_core.latch_counts c WHERE c.key = p_key;
        DELETE FROM lock_core.latch_waiters w WHERE w.key = p_key;
        v_row.latch_left := p_count;
        v_row.latch_by := p_who;
    END IF;
    v_was_open := v_row.latch_left = 0;
    IF p_step = 'count' AND NOT v_was_open THEN
        INSERT INTO lock_core.latch_counts (key, owner) VALUES (p_key, p_who) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            v_row.latch_left := v_row.latch_left - 1;
        END IF;
    ELSIF p_step = 'wait' AND NOT v_was_open THEN
        INSERT INTO lock_core.latch_waiters AS w (key, process, until) VALUES (p_key, p_who, v_until)
            ON CONFLICT (key, process) DO UPDATE SET until = greatest(w.until, excluded.until);
    END IF;
    IF p_step <> 'look' THEN
        UPDATE lock_core.keys k
            SET latch_left = v_row.latch_left, latch_by = v_row.latch_by, latch_until = greatest(k.latch_until, v_until)
            WHERE k.key = p_key;
    END IF;
    IF v_row.latch_left = 0 AND NOT v_was_open THEN
        PERFORM lock_core.tell(w.process, 'opened ' || p_key) FROM lock_core.latch_waiters w
            WHERE w.key = p_key AND w.until >= t;
        DELETE FROM lock_core.latch_waiters w WHERE w.key = p_key;
    END IF;
    a.verdict := 1;
    a.waiting := v_row.latch_left;
    a.own := v_row.latch_by = p_who;
    RETURN a;
END $$;
