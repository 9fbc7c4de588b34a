-- The common cases of an attempt and of a release. Each function uses as few statements as possible, because the server
-- spends most of its time on beginning and ending statements. Each function handles one case, with the same effect as
-- the general functions (acquire.sql, release.sql). In any other case, the function returns null, and has changed
-- nothing that matters. The caller (attempt.sql) then calls the general function in the same transaction.
--
-- The functions have no settings of their own, because their own settings would make them 10 % slower.
--
-- Each function decides only by statements after the lock of the key, because each such statement has a new snapshot. A
-- statement before the lock would miss a waiter that was queued while this call waited for the lock. That waiter would
-- then wait until its next heartbeat.

-- Grants a key that has no holder and no waiter. Returns the answer in the form of `flat`.
CREATE OR REPLACE FUNCTION lock_core.take_free(
    p_key text, p_owner text, p_record text, p_mode text, p_ttl bigint, p_fenced boolean
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := clock_timestamp();
    v_fence bigint;
BEGIN
    -- The row of a key in use is not locked, so that many attempts at the key neither write nor wait for each other.
    PERFORM FROM lock_core.keys k WHERE k.key = p_key AND k.latch_until <= t
        AND NOT EXISTS (SELECT FROM lock_core.holders h WHERE h.key = p_key AND h.expires_at > t) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    t := clock_timestamp();
    INSERT INTO lock_core.holders (key, slot, owner, mode, record, expires_at)
        SELECT p_key, CASE p_mode WHEN 'x' THEN '' ELSE p_owner END, p_owner, p_mode, p_record,
            t + p_ttl * interval '1 microsecond'
        WHERE NOT EXISTS (SELECT FROM lock_core.holders h WHERE h.key = p_key)
            AND NOT EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = p_key);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF NOT p_fenced THEN
        RETURN '{1,NULL,NULL,0}'::text[];
    END IF;
    UPDATE lock_core.keys k SET fence = greatest(lock_core.micros(t), k.fence + 1), fence_of = p_owner WHERE k.key = p_key
        RETURNING k.fence INTO v_fence;
    RETURN ARRAY['1', lock_core.micros(t)::text, v_fence::text, '0'];
END $$;

-- Queues an exclusive claim for a key that has an exclusive holder. Returns the answer in the form of `flat`.
--
-- p_room, p_barges  as in `acquire`, but p_room is not null.
CREATE OR REPLACE FUNCTION lock_core.enqueue(
    p_key text, p_owner text, p_record text, p_ttl bigint, p_room integer, p_barges boolean
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz;
    v_holder lock_core.holders;
    v_own boolean;
    v_others integer;
    v_last bigint;
    v_later text;
BEGIN
    PERFORM FROM lock_core.keys k WHERE k.key = p_key AND k.latch_until <= clock_timestamp() FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    t := clock_timestamp();
    SELECT h.* INTO v_holder FROM lock_core.holders h
        WHERE h.key = p_key AND h.slot = '' AND h.mode = 'x' AND h.expires_at > t AND NOT h.kept AND h.owner <> p_owner;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT count(*) FILTER (WHERE w.deadline >= t), max(w.ticket) INTO v_others, v_last
        FROM lock_core.waiters w WHERE w.key = p_key;
    v_own := lock_core.hands_off(v_holder, p_owner, t);
    IF v_others >= p_room OR p_barges AND v_own THEN
        RETURN NULL;
    END IF;
    -- If the claim is already queued, the general function handles it.
    INSERT INTO lock_core.waiters (key, owner, ticket, deadline, ttl, mode, record)
        VALUES (p_key, p_owner, greatest(lock_core.micros(t), v_last + 1),
            t + least(p_ttl, :waiter_lease_us) * interval '1 microsecond', p_ttl, 'x', p_record)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- The holder is notified only of the first waiter. Later, the answers to its renewals contain the number of
    -- waiters.
    IF v_others = 0 THEN
        PERFORM lock_core.tell(v_holder.owner, 'contended ' || p_key);
    END IF;
    -- The same as `commit_later`.
    v_later := set_config('synchronous_commit', 'off', true);
    RETURN ARRAY[
        '0', NULL, NULL, v_others::text, (lock_core.micros(v_holder.expires_at) - lock_core.micros(t))::text, v_holder.record,
        v_others::text, v_own::text, 'true'
    ];
END $$;

-- Ends the grant of an owner for one key. If no claim waits, the key becomes free. If the first waiter and the grant
-- are exclusive, that waiter gets the key.
--
-- Returns `granted <owner> <waiters>` if the new holder is in the same process, and `1` otherwise. The answer arrives
-- earlier than a notification would. Only a new holder in another process gets a notification. `waiters` is 1 if
-- another claim waits behind the new holder, and 0 otherwise. To count all waiters would make each hand-off slower with
-- a longer queue.
CREATE OR REPLACE FUNCTION lock_core.hand_off(p_key text, p_owner text, p_mode text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz;
    v_next record;
    v_text text;
BEGIN
    PERFORM FROM lock_core.keys k WHERE k.key = p_key FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    t := clock_timestamp();
    SELECT w.ctid AS place, w.* INTO v_next FROM lock_core.waiters w WHERE w.key = p_key ORDER BY w.ticket LIMIT 1;
    IF NOT FOUND THEN
        -- Here and below, if a transaction of the application has locked the holder's row (see verify.sql), the general
        -- function handles the release.
        DELETE FROM lock_core.holders h WHERE h.ctid = (
            SELECT o.ctid FROM lock_core.holders o
                WHERE o.key = p_key AND o.slot = CASE p_mode WHEN 'x' THEN '' ELSE lock_core.slot_of(p_key, p_owner) END
                    AND o.owner = p_owner AND o.expires_at > t AND NOT o.kept
                FOR UPDATE SKIP LOCKED
        );
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        -- The same as `commit_later`.
        v_text := set_config('synchronous_commit', 'off', true);
        RETURN '1';
    END IF;
    IF v_next.mode <> 'x' OR v_next.deadline < t THEN
        RETURN NULL;
    END IF;
    -- A key has only one exclusive holder, so its row becomes the row of the next holder. The lease is short, as in
    -- `serve`.
    UPDATE lock_core.holders h
        SET owner = v_next.owner, record = v_next.record, granted_at = t,
            expires_at = t + least(v_next.ttl, :waiter_lease_us) * interval '1 microsecond'
        WHERE h.ctid = (
            SELECT o.ctid FROM lock_core.holders o
                WHERE o.key = p_key AND o.slot = '' AND o.owner = p_owner AND o.expires_at > t AND NOT o.kept AND o.mode = 'x'
                FOR UPDATE SKIP LOCKED
        );
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM lock_core.waiters w WHERE w.ctid = v_next.place;
    PERFORM FROM lock_core.waiters w WHERE w.key = p_key LIMIT 1;
    v_text := 'granted ' || v_next.owner || CASE WHEN FOUND THEN ' 1' ELSE ' 0' END;
    IF left(v_next.owner, 32) = left(p_owner, 32) THEN
        RETURN v_text;
    END IF;
    PERFORM lock_core.tell(v_next.owner, v_text);
    RETURN '1';
END $$;
