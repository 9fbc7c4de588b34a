-- Claims of one process that stand directly behind each other in the queue share one grant, which their process hands on among
-- them: see protocol.md of Redis, "Groups".

-- Looks whether an exclusive claim would stand directly behind one of its own process that shares its grant with it: behind the last
-- of the queue, or the holder where nobody waits. Returns the answer for such a claim in the form of `acquire_flat`, with the owner
-- before it, and null for any other.
--
-- Locks and writes nothing: the answer is that of the one moment of its snapshot. Whoever had a place by then is seen, and whoever
-- comes later stands behind both. `p_owner` is an owner that shares grants, as those are that agree with it in 33 digits.
CREATE OR REPLACE FUNCTION lock_core.stands_behind(p_key text, p_owner text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := clock_timestamp();
    v_answer text[];
BEGIN
    -- With an older snapshot, it would not be seen who came meanwhile.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'locks need the isolation level READ COMMITTED' USING ERRCODE = 'LC002';
    END IF;
    SELECT ARRAY[
            '0', NULL, NULL, (SELECT count(*) FROM lock_core.waiters w WHERE w.key = p_key AND w.deadline >= t)::text,
            (lock_core.micros(h.expires_at) - lock_core.micros(t))::text, h.record, NULL,
            (left(h.owner, 33) = left(p_owner, 33))::text, 'false', coalesce(q.owner, h.owner)
        ] INTO v_answer
        FROM lock_core.holders h LEFT JOIN LATERAL (
            SELECT w.owner FROM lock_core.waiters w WHERE w.key = p_key ORDER BY w.ticket DESC LIMIT 1
        ) q ON true
        WHERE h.key = p_key AND h.slot = '' AND h.mode = 'x' AND h.expires_at > t AND NOT h.kept
            AND left(coalesce(q.owner, h.owner), 33) = left(p_owner, 33)
            -- A repeated request keeps its grant or its place.
            AND h.owner <> p_owner
            AND NOT EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = p_key AND w.owner = p_owner);
    RETURN v_answer;
END $$;

-- Ends the exclusive grant of an owner for one key that others of its process share, and gives the key to `p_next`, which stands for
-- them, before all who wait. While a transaction of the application has the lease locked (see verify.sql), `p_next` is the first of
-- the queue. Repeated, it changes nothing: the owner has no grant any more.
--
-- p_ttl  the lease that `p_next` asks for, in us
-- p_own  the last fencing token of this grant that its process numbered; 0: none
-- Returns `granted <p_next> <waiters>` as `hand_off` does, or 1 where `p_next` was queued; else the answer of `release`
CREATE OR REPLACE FUNCTION lock_core.release_to(p_key text, p_owner text, p_next text, p_ttl bigint, p_own bigint) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_row lock_core.keys := lock_core.lock_row(p_key, false);
    t timestamptz := clock_timestamp();
    v_until timestamptz := t + least(p_ttl, 2000000) * interval '1 microsecond';
    v_record text;
BEGIN
    SELECT h.record INTO v_record FROM lock_core.holders h
        WHERE h.key = p_key AND h.slot = '' AND h.owner = p_owner AND h.expires_at > t AND NOT h.kept AND h.mode = 'x';
    IF NOT FOUND OR v_row.key IS NULL THEN
        RETURN lock_core.release(ARRAY[p_key], p_owner, 'x', NULL, p_own)::text;
    END IF;
    IF p_own > v_row.fence THEN
        UPDATE lock_core.keys k SET fence = p_own, fence_of = '-' WHERE k.key = p_key;
    END IF;
    -- Beside an exclusive holder there is no other. Behind `FOR UPDATE`, a check of the old owner waits and then fails.
    UPDATE lock_core.holders h SET owner = p_next, expires_at = v_until WHERE h.ctid = (
        SELECT o.ctid FROM lock_core.holders o
            WHERE o.key = p_key AND o.slot = '' AND o.owner = p_owner FOR UPDATE SKIP LOCKED
    );
    IF FOUND THEN
        PERFORM FROM lock_core.waiters w WHERE w.key = p_key LIMIT 1;
        RETURN 'granted ' || p_next || CASE WHEN FOUND THEN ' 1' ELSE ' 0' END;
    END IF;
    -- As in `drop_holder`.
    UPDATE lock_core.holders h SET expires_at = '-infinity' WHERE h.key = p_key AND h.slot = '' AND h.owner = p_owner;
    INSERT INTO lock_core.waiters (key, owner, ticket, deadline, ttl, mode, record)
        SELECT p_key, p_next, coalesce(min(w.ticket), lock_core.micros(t)) - 1, v_until, p_ttl, 'x', v_record
        FROM lock_core.waiters w WHERE w.key = p_key;
    -- Where no more than a renewal was in the way.
    PERFORM lock_core.clear(p_key, t);
    PERFORM lock_core.serve(p_key, t, '', 0);
    RETURN '1';
END $$;
