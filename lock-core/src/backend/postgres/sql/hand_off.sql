-- The contended path: the release of a grant that others may wait for, and the claim that waits for it. As in free.sql, each does in
-- the fewest statements what the long way does where nothing else is to be done, and returns null where there is more to do. The
-- planner is kept from reading an index as a bitmap (see `handshake` in settings.rs), which leaves the dead rows of a hot queue in
-- the way of everyone who comes after.
--
-- A statement behind the lock of the key has a snapshot of its own. So nothing is decided by what the first one has read: a waiter
-- that was queued while this call stood in line would be forgotten until its next heartbeat.

-- Ends the grant of an owner for one key, and gives the key to the head of the queue, if that is alive and both are exclusive.
-- Returns `1`, or `granted <owner> <waiters>` where the new holder is of the same process: that learns it from this answer, sooner than
-- from a notification, which is sent to another process only. `waiters` is 1 where anybody waits behind it, or else 0: to count them
-- all would cost each hand-off a time in proportion to the queue.
CREATE OR REPLACE FUNCTION lock_core.hand_off(p_key text, p_owner text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz;
    v_place tid;
    v_next text;
    v_record text;
    v_ttl bigint;
    v_fits boolean;
    v_text text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'locks need the isolation level READ COMMITTED' USING ERRCODE = 'LC002';
    END IF;
    PERFORM FROM lock_core.keys k WHERE k.key = p_key FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    t := clock_timestamp();
    SELECT w.ctid, w.owner, w.record, w.ttl, w.mode = 'x' AND w.deadline >= t INTO v_place, v_next, v_record, v_ttl, v_fits
        FROM lock_core.waiters w WHERE w.key = p_key ORDER BY w.ticket LIMIT 1;
    IF NOT FOUND THEN
        -- A reader or a permit has another slot, and is left to `release`. A row that a transaction of the application has locked
        -- (see verify.sql) is left to the long way, here and below.
        DELETE FROM lock_core.holders h WHERE h.ctid = (
            SELECT o.ctid FROM lock_core.holders o
                WHERE o.key = p_key AND o.slot = '' AND o.owner = p_owner AND o.expires_at > t AND NOT o.kept
                FOR UPDATE SKIP LOCKED
        );
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        -- As `commit_later`.
        v_text := set_config('synchronous_commit', 'off', true);
        RETURN '1';
    END IF;
    IF NOT v_fits THEN
        RETURN NULL;
    END IF;
    -- Beside an exclusive holder there is no other. The row becomes that of the next one, with a short lease, as in `serve`.
    UPDATE lock_core.holders h
        SET owner = v_next, record = v_record, expires_at = t + least(v_ttl, 2000000) * interval '1 microsecond'
        WHERE h.ctid = (
            SELECT o.ctid FROM lock_core.holders o
                WHERE o.key = p_key AND o.slot = '' AND o.owner = p_owner AND o.expires_at > t AND NOT o.kept AND o.mode = 'x'
                FOR UPDATE SKIP LOCKED
        );
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM lock_core.waiters w WHERE w.ctid = v_place;
    PERFORM FROM lock_core.waiters w WHERE w.key = p_key LIMIT 1;
    v_text := 'granted ' || v_next || CASE WHEN FOUND THEN ' 1' ELSE ' 0' END;
    IF left(v_next, 32) = left(p_owner, 32) THEN
        RETURN v_text;
    END IF;
    PERFORM lock_core.tell(v_next, v_text);
    RETURN '1';
END $$;

-- Grants an exclusive claim a key that has no holder and no waiter, or queues it behind an exclusive holder. Returns the answer in
-- the form of `acquire_flat`.
--
-- p_room, p_barges  as in `acquire`; p_room is not null
CREATE OR REPLACE FUNCTION lock_core.enqueue(
    p_key text, p_owner text, p_record text, p_ttl bigint, p_fenced boolean, p_room integer, p_barges boolean
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz;
    v_holder text;
    v_record text;
    v_until timestamptz;
    v_waits boolean;
    v_alone boolean;
    v_own boolean;
    v_taken boolean := false;
    v_others integer;
    v_last bigint;
    v_fence bigint;
    v_later text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'locks need the isolation level READ COMMITTED' USING ERRCODE = 'LC002';
    END IF;
    PERFORM FROM lock_core.keys k WHERE k.key = p_key AND k.latch_until <= clock_timestamp() FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    t := clock_timestamp();
    LOOP
        -- Of several holders, none is exclusive, and any one shows it.
        SELECT h.owner, h.record, h.expires_at, h.mode = 'x' AND h.expires_at > t AND NOT h.kept AND h.owner <> p_owner, h.alone,
                q.others, q.last
            INTO v_holder, v_record, v_until, v_waits, v_alone, v_others, v_last
            FROM (SELECT count(*) FILTER (WHERE w.deadline >= t) AS others, max(w.ticket) AS last
                    FROM lock_core.waiters w WHERE w.key = p_key) q
                LEFT JOIN lock_core.holders h ON h.key = p_key;
        EXIT WHEN v_alone IS NOT TRUE;
        v_taken := lock_core.take_again(p_key, p_owner, p_record, t + p_ttl * interval '1 microsecond');
        EXIT WHEN v_taken;
        -- From here on nobody changes the row who has not locked the key. Until then its holder may have released it.
        UPDATE lock_core.holders h SET alone = false WHERE h.key = p_key AND h.alone;
        t := clock_timestamp();
    END LOOP;
    IF v_taken OR v_holder IS NULL AND v_last IS NULL THEN
        IF NOT v_taken THEN
            INSERT INTO lock_core.holders (key, slot, owner, mode, record, expires_at, alone)
                VALUES (p_key, '', p_owner, 'x', p_record, t + p_ttl * interval '1 microsecond', true);
        END IF;
        IF NOT p_fenced THEN
            RETURN '{1,NULL,NULL,0}'::text[];
        END IF;
        UPDATE lock_core.keys k SET fence = greatest(lock_core.micros(t), k.fence + 1), fence_of = p_owner
            WHERE k.key = p_key RETURNING k.fence INTO v_fence;
        RETURN ARRAY['1', lock_core.micros(t)::text, v_fence::text, '0'];
    END IF;
    v_own := left(v_holder, 33) = left(p_owner, 33);
    IF v_waits IS NOT TRUE OR v_others >= p_room OR p_barges AND v_own THEN
        RETURN NULL;
    END IF;
    -- A claim that is queued already is left to the long way.
    INSERT INTO lock_core.waiters (key, owner, ticket, deadline, ttl, mode, record)
        VALUES (p_key, p_owner, greatest(lock_core.micros(t), v_last + 1),
            t + least(p_ttl, 2000000) * interval '1 microsecond', p_ttl, 'x', p_record)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF v_others = 0 THEN
        PERFORM lock_core.tell(v_holder, 'contended ' || p_key);
    END IF;
    -- As `commit_later`.
    v_later := set_config('synchronous_commit', 'off', true);
    RETURN ARRAY[
        '0', NULL, NULL, v_others::text, (lock_core.micros(v_until) - lock_core.micros(t))::text, v_record, v_others::text,
        v_own::text, 'true'
    ];
END $$;
