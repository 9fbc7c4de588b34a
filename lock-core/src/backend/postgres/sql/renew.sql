-- Extends the leases of the grants that their owners still have, and never shortens a lease. Returns one row for each
-- such grant: `number` is its position in the parameters, and `waiting` is the number of claims that wait for its key.
-- If another transaction has locked the row of a grant, that grant is not renewed, and its `waiting` is null. The
-- function waits for no lock, so it cannot be part of a deadlock. The function does not lock the row of the key: a live
-- grant stays alive, and the decisions of other calls depend only on whether the grant is alive.
--
-- p_owns  for each grant, the last token that its process assigned; 0: none.
CREATE OR REPLACE FUNCTION lock_core.renew(p_keys text[], p_owners text[], p_ttls bigint[], p_owns bigint[])
RETURNS TABLE (number bigint, waiting integer) LANGUAGE plpgsql
:settings AS $$
DECLARE
    t timestamptz := clock_timestamp();
    v_done bigint[] := '{}';
    v_now bigint[];
    -- The slots of all grants, as `slot_of` returns them, but computed in one statement.
    v_slots text[] := ARRAY(
        SELECT coalesce((SELECT h.slot FROM lock_core.holders h WHERE h.key = r.key AND h.slot = r.owner), '')
            FROM unnest(p_keys, p_owners) WITH ORDINALITY r (key, owner, number) ORDER BY r.number
    );
BEGIN
    FOR try IN 1 .. 4 LOOP
        WITH mine AS MATERIALIZED (
            SELECT r.number, h.key, h.slot, t + r.ttl * interval '1 microsecond' AS until
                FROM unnest(p_keys, p_owners, p_ttls, v_slots) WITH ORDINALITY r (key, owner, ttl, slot, number)
                JOIN lock_core.holders h ON h.key = r.key AND h.slot = r.slot AND h.owner = r.owner
                WHERE h.expires_at > t AND NOT h.kept AND r.number <> ALL (v_done)
                ORDER BY h.key, h.slot FOR NO KEY UPDATE OF h SKIP LOCKED
        ), renewed AS (
            UPDATE lock_core.holders h SET expires_at = greatest(h.expires_at, m.until) FROM mine m
                WHERE h.key = m.key AND h.slot = m.slot RETURNING m.number
        )
        SELECT array_agg(d.number) INTO v_now FROM renewed d;
        v_done := v_done || coalesce(v_now, '{}');
        EXIT WHEN cardinality(v_done) = cardinality(p_keys) OR NOT EXISTS (
            SELECT FROM unnest(p_keys, p_owners, v_slots) WITH ORDINALITY r (key, owner, slot, number)
                JOIN lock_core.holders h ON h.key = r.key AND h.slot = r.slot AND h.owner = r.owner
                WHERE h.expires_at > t AND NOT h.kept AND r.number <> ALL (v_done)
        );
        -- Another call for the same grant, such as an extension, has locked the row of the grant. That call ends soon.
        PERFORM pg_sleep(0.02);
    END LOOP;
    -- Saves the tokens in `p_owns`. A key whose row is locked by another call is skipped, so that the renewal does not
    -- wait. The next renewal, or the release, sends the token again.
    IF (SELECT max(o.own) FROM unnest(p_owns) o (own)) > 0 THEN
        WITH told AS MATERIALIZED (
            SELECT k.key, r.own FROM unnest(p_keys, p_owners, p_owns, v_slots) r (key, owner, own, slot)
                JOIN lock_core.holders h ON h.key = r.key AND h.slot = r.slot AND h.owner = r.owner
                JOIN lock_core.keys k ON k.key = r.key
                WHERE r.own > k.fence AND h.expires_at > t AND NOT h.kept FOR UPDATE OF k SKIP LOCKED
        )
        UPDATE lock_core.keys k SET fence = d.own, fence_of = '-' FROM told d WHERE k.key = d.key AND k.fence < d.own;
    END IF;
    -- In the common case, all grants are renewed, and no claim waits for any of the keys. This shortcut avoids the join
    -- below, which takes longer than everything before it.
    IF cardinality(v_done) = cardinality(p_keys)
            AND NOT EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = ANY (p_keys) AND w.deadline >= t) THEN
        RETURN QUERY SELECT d.number, 0 FROM unnest(v_done) d (number);
        RETURN;
    END IF;
    -- The waiters are counted once for each key, not for each grant, because a key may have thousands of holders.
    RETURN QUERY WITH counted AS MATERIALIZED (
            SELECT u.key, lock_core.waiting(u.key, '', t) AS claims
                FROM (SELECT DISTINCT r.key FROM unnest(p_keys) r (key)) u
        )
        SELECT r.number, CASE WHEN r.number = ANY (v_done) THEN c.claims END
        FROM unnest(p_keys, p_owners, v_slots) WITH ORDINALITY r (key, owner, slot, number)
        JOIN counted c ON c.key = r.key
        JOIN lock_core.holders h ON h.key = r.key AND h.slot = r.slot AND h.owner = r.owner
        WHERE h.expires_at > t AND NOT h.kept;
END $$;

-- Makes the fencing token of a grant that was made without one. The token is at least the server's time, and larger
-- than the last token of each key. So tokens grow even if the clock is set back, or if a failover loses the last
-- transactions.
--
-- p_of   identifies the holder: the owner token, followed by `:<number>` after a hand-off in the process.
-- p_own  the last token that the process itself assigned for this grant; 0: none.
-- The verdict of the answer is 1 if the token was made, 0 if no owner has the lock, and -1 if another owner has it.
CREATE OR REPLACE FUNCTION lock_core.fence(p_keys text[], p_owner text, p_of text, p_own bigint)
RETURNS lock_core.answer LANGUAGE plpgsql
:settings AS $$
DECLARE
    t timestamptz;
    a lock_core.answer;
    v_row lock_core.keys;
    v_fence bigint := p_own + 1;
    v_same bigint;
BEGIN
    FOR number IN 1 .. cardinality(p_keys) LOOP
        v_row := lock_core.lock_row(p_keys[number], false);
        t := clock_timestamp();
        IF v_row.key IS NULL THEN
            -- A key without a row has no holder. The check below would need the lock of the row: without it, another
            -- call could grant the key meanwhile.
            a.now_us := lock_core.micros(t);
            a.verdict := 0;
            RETURN a;
        END IF;
        PERFORM FROM lock_core.holders h
            WHERE h.key = p_keys[number] AND h.slot = lock_core.slot_of(p_keys[number], p_owner) AND h.owner = p_owner AND h.expires_at > t
                AND NOT h.kept;
        IF NOT FOUND THEN
            a.now_us := lock_core.micros(t);
            a.verdict := CASE WHEN EXISTS (SELECT FROM lock_core.holders h
                WHERE h.key = p_keys[number] AND h.expires_at > t) THEN -1 ELSE 0 END;
            RETURN a;
        END IF;
        -- If every key has the same token of this holder, this is a repeated request, and that token is the answer.
        v_same := CASE WHEN v_row.fence_of = p_of AND v_row.fence > p_own AND (number = 1 OR v_same = v_row.fence)
            THEN v_row.fence END;
        v_fence := greatest(v_fence, v_row.fence + 1);
    END LOOP;
    a.verdict := 1;
    a.now_us := lock_core.micros(t);
    a.fence := coalesce(v_same, greatest(v_fence, a.now_us));
    UPDATE lock_core.keys k SET fence = a.fence, fence_of = p_of WHERE k.key = ANY (p_keys);
    RETURN a;
END $$;
