-- Helpers for the functions of the other files: they lock a key, and read and change its holders and its queue.
--
-- The functions that any session may call have these settings (`:settings`). `lock_timeout` limits the wait for the row
-- of a key. Another call may have locked that row until the call ends. Without a limit, the connection could hang. A
-- session keeps query plans that it made while the tables were small. Without `enable_seqscan = off`, such plans would
-- still read whole tables after these have grown (measured: 12 times the CPU time after 8,000 locks). This setting
-- raises the estimated cost of plans so much that Postgres would compile each plan. `jit = off` prevents the
-- compilation. `search_path` excludes operators and functions of other users. Without this setting, a user who may
-- create objects in `public` could create a function that matches the arguments better than the function of Postgres.
-- The service would then call that function with its own rights.
--
-- Functions that other functions call are written in plpgsql, which keeps their plans for the session. A SQL function
-- that is more than a single expression would be planned at each call.
--
-- Every function that changes a key first locks the row of the key, usually with `lock_row`. The only exception is a
-- renewal. Under READ COMMITTED, each statement after the lock has its own snapshot. So each statement sees the changes
-- of the previous call that had the lock.
--
-- The functions find the row of an owner by the slot of the row. A condition on the owner alone would read the rows of
-- all holders of the key. With the condition `slot IN ('', owner)`, the planner would use no index for the slot,
-- because it expects one row per key: most keys have only one.

-- Returns a time in us.
CREATE OR REPLACE FUNCTION lock_core.micros(t timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (extract(epoch FROM t) * 1000000)::bigint
$$;

-- Refuses all isolation levels except READ COMMITTED. At a higher level, all statements would use the snapshot of the
-- first one, and miss holders that were committed later.
CREATE OR REPLACE FUNCTION lock_core.check_isolation() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'locks need the isolation level READ COMMITTED' USING ERRCODE = ':other_isolation';
    END IF;
END $$;

-- Locks the row of a key until the end of the transaction, and returns the row. Creates a missing row if `p_make` is
-- true, or if the key has holders or waiters. Otherwise returns null for a missing row.
CREATE OR REPLACE FUNCTION lock_core.lock_row(p_key text, p_make boolean) RETURNS lock_core.keys
LANGUAGE plpgsql AS $$
DECLARE
    v_key lock_core.keys;
    v_made boolean := false;
BEGIN
    PERFORM lock_core.check_isolation();
    LOOP
        SELECT * INTO v_key FROM lock_core.keys k WHERE k.key = p_key FOR UPDATE;
        EXIT WHEN FOUND;
        IF NOT p_make AND NOT EXISTS (SELECT FROM lock_core.holders h WHERE h.key = p_key)
                AND NOT EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = p_key) THEN
            RETURN NULL;
        END IF;
        INSERT INTO lock_core.keys (key) VALUES (p_key) ON CONFLICT DO NOTHING;
        v_made := v_made OR FOUND;
    END LOOP;
    IF v_made THEN
        -- The floor is read after the row is locked. By then, the transaction that deleted the old row has committed
        -- its change of the floor.
        UPDATE lock_core.keys k SET fence = f.fence FROM lock_core.floor f WHERE k.key = p_key AND f.fence > 0
            RETURNING k.* INTO v_key;
        IF NOT FOUND THEN
            SELECT * INTO v_key FROM lock_core.keys k WHERE k.key = p_key;
        END IF;
    END IF;
    RETURN v_key;
END $$;

-- Allows the server to confirm the transaction up to a second before it is on disk. If the server crashes in that
-- second, the transaction is lost. So only transactions that may be lost call this function. The loss of a queue entry
-- is harmless, because the waiter queues again. The loss of a release is harmless, because the key becomes free at the
-- end of the lease.
CREATE OR REPLACE FUNCTION lock_core.commit_later() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- Notifies the process of an owner. The message is only a hint, because it may be lost. The server sends the message
-- when the transaction commits. If any session listens but does not read, the message queue of the server fills up.
-- With a full queue, commits would fail, so no message is sent when the queue is nearly full.
CREATE OR REPLACE FUNCTION lock_core.tell(p_owner text, p_message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pg_notification_queue_usage() < 0.9 THEN
        PERFORM pg_notify(':channel' || left(p_owner, 32), p_message);
    END IF;
END $$;

-- Deletes the holders whose lease has ended. If a transaction of the application has locked a row (see verify.sql), the
-- row stays, and the key stays locked until that transaction ends. A renewal may extend a lease meanwhile, so Postgres
-- checks the condition again after it has locked the row.
CREATE OR REPLACE FUNCTION lock_core.clear(p_key text, t timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- This is an array, not a join: for a join, the planner would expect few rows, and compare every pair of rows.
    v_ended text[] := ARRAY(
        SELECT h.slot FROM lock_core.holders h WHERE h.key = p_key AND h.expires_at <= t FOR UPDATE SKIP LOCKED
    );
BEGIN
    IF cardinality(v_ended) > 0 THEN
        DELETE FROM lock_core.holders h WHERE h.key = p_key AND h.slot = ANY (v_ended);
    END IF;
END $$;

-- Returns the slot of an owner's row: the owner token or ''. If the owner has no row, returns ''. The function is
-- STABLE, so a condition on its result can use an index.
CREATE OR REPLACE FUNCTION lock_core.slot_of(p_key text, p_owner text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT h.slot FROM lock_core.holders h WHERE h.key = p_key AND h.slot = p_owner), '');
END $$;

-- Ends the grant of an owner. If a transaction of the application has locked the row, the row stays until that
-- transaction ends.
CREATE OR REPLACE FUNCTION lock_core.drop_holder(p_key text, p_owner text, t timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_slot text := lock_core.slot_of(p_key, p_owner);
BEGIN
    WITH mine AS MATERIALIZED (
        SELECT h.slot FROM lock_core.holders h
            WHERE h.key = p_key AND h.slot = v_slot AND h.owner = p_owner FOR UPDATE SKIP LOCKED
    )
    DELETE FROM lock_core.holders h USING mine m WHERE h.key = p_key AND h.slot = m.slot;
    IF NOT FOUND THEN
        -- This update changes no indexed column. So it does not wait for a transaction that has verified the lease. It
        -- waits only for a renewal, which is short.
        UPDATE lock_core.holders h SET expires_at = '-infinity'
            WHERE h.key = p_key AND h.slot = v_slot AND h.owner = p_owner;
        PERFORM lock_core.clear(p_key, t);
    END IF;
END $$;

-- Returns the mode of the holders, and their number. If there are no holders, the mode is null.
CREATE OR REPLACE FUNCTION lock_core.look(p_key text, OUT v_mode text, OUT v_count bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT min(h.mode), count(*) INTO v_mode, v_count FROM lock_core.holders h WHERE h.key = p_key;
END $$;

-- Returns whether a claim can be granted in addition to the present holders: `p_count` holders with the mode `p_held`.
CREATE OR REPLACE FUNCTION lock_core.fits(p_mode text, p_held text, p_count bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_held IS NULL OR p_count = 0 OR p_mode <> 'x' AND p_mode = p_held
        AND (p_mode = 's' OR p_count < substr(p_mode, 2)::bigint)
$$;

-- Returns whether the mode of a claim is incompatible with the mode of the holders. Such a claim is refused instead of
-- queued.
CREATE OR REPLACE FUNCTION lock_core.clashes(p_mode text, p_held text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_held IS NOT NULL AND p_held <> p_mode AND (length(p_held) > 1 OR length(p_mode) > 1)
$$;

-- Writes a grant. If an old row of the same owner could not be deleted, reuses that row. Never overwrites the row of
-- another owner.
CREATE OR REPLACE FUNCTION lock_core.put(
    p_key text, p_owner text, p_mode text, p_record text, p_until timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO lock_core.holders AS h (key, slot, owner, mode, record, expires_at)
        VALUES (p_key, CASE p_mode WHEN 'x' THEN '' ELSE p_owner END, p_owner, p_mode, p_record, p_until)
        ON CONFLICT (key, slot) DO UPDATE
            SET mode = excluded.mode, record = excluded.record, granted_at = excluded.granted_at, expires_at = excluded.expires_at, kept = false
            WHERE h.owner = excluded.owner;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another owner holds the key';
    END IF;
END $$;

-- Returns the number of live claims that wait. The claim of the owner `p_but` does not count.
CREATE OR REPLACE FUNCTION lock_core.waiting(p_key text, p_but text, t timestamptz) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*)::integer FROM lock_core.waiters w WHERE w.key = p_key AND w.owner <> p_but AND w.deadline >= t);
END $$;

-- Serves the queue: grants the key to the first waiters, as long as they can share it with the holders (see `fits`),
-- and deletes dead waiters on the way. The caller has already deleted the expired holders. `won` is true if `p_me` was
-- granted the key. `served` is true if any waiter was granted the key. `blocked` is true if a live waiter remains: this
-- waiter precedes any new claim. `p_me` gets a lease of `p_ttl`, and no message, because the caller's answer reports
-- the grant.
CREATE OR REPLACE FUNCTION lock_core.serve(
    p_key text, t timestamptz, p_me text, p_ttl bigint, OUT won boolean, OUT served boolean, OUT blocked boolean
) LANGUAGE plpgsql AS $$
DECLARE
    v_head record;
    v_mode text;
    v_count bigint;
    v_left integer;
BEGIN
    won := false;
    served := false;
    blocked := false;
    SELECT * INTO v_mode, v_count FROM lock_core.look(p_key);
    -- One query reads the whole queue. With one query for each waiter, each query would read again the rows that were
    -- deleted before.
    FOR v_head IN SELECT w.ctid AS place, w.* FROM lock_core.waiters w WHERE w.key = p_key ORDER BY w.ticket LOOP
        -- If the first waiter cannot be granted the key, no later waiter is served, even if it could be. Otherwise
        -- readers could overtake a writer for ever.
        IF v_head.deadline >= t AND NOT lock_core.fits(v_head.mode, v_mode, v_count) THEN
            blocked := true;
            EXIT;
        END IF;
        -- The row is deleted by its ctid, which cannot change meanwhile. With a condition on the owner, the planner
        -- might scan the index by ticket.
        DELETE FROM lock_core.waiters w WHERE w.ctid = v_head.place;
        CONTINUE WHEN v_head.deadline < t;
        served := true;
        v_mode := v_head.mode;
        v_count := v_count + 1;
        IF v_head.owner = p_me THEN
            PERFORM lock_core.put(p_key, p_me, v_head.mode, v_head.record, t + p_ttl * interval '1 microsecond');
            won := true;
            v_left := v_left - 1;
        ELSE
            -- The lease is short, so that a waiter that has died meanwhile does not block the key for long. A live
            -- waiter extends the lease to the whole ttl with its first renewal.
            PERFORM lock_core.put(p_key, v_head.owner, v_head.mode, v_head.record,
                t + least(v_head.ttl, :waiter_lease_us) * interval '1 microsecond');
            -- The queue is counted once, and not for each grant.
            v_left := coalesce(v_left - 1, lock_core.waiting(p_key, '', t));
            PERFORM lock_core.tell(v_head.owner, 'granted ' || v_head.owner || ' ' || v_left);
        END IF;
    END LOOP;
END $$;

-- Returns whether a holder can hand off to a claim of `p_owner` inside their process. The grant must be exclusive, live
-- and not released, and both tokens must begin with the same 33 digits. The first 32 digits identify the process. The
-- next digit shows whether the process hands grants off.
CREATE OR REPLACE FUNCTION lock_core.hands_off(p_holder lock_core.holders, p_owner text, t timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_holder.mode = 'x' AND NOT p_holder.kept AND p_holder.expires_at > t
        AND left(p_holder.owner, 33) = left(p_owner, 33)
$$;

-- Returns the answer for a claim that is not granted, without the counts of the queue.
CREATE OR REPLACE FUNCTION lock_core.held_by(p_key text, p_owner text, t timestamptz, p_queued boolean)
RETURNS lock_core.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    a lock_core.answer;
    v_holder lock_core.holders;
BEGIN
    a.verdict := 0;
    a.now_us := lock_core.micros(t);
    -- A claim for a permit can be granted when the first permit expires. An exclusive claim must wait until the last
    -- reader's lease ends. A reader that waits behind an exclusive claim must wait as long as that claim.
    SELECT h.* INTO v_holder FROM lock_core.holders h WHERE h.key = p_key
        ORDER BY CASE WHEN length(h.mode) > 1 THEN h.expires_at END, h.expires_at DESC LIMIT 1;
    IF FOUND THEN
        -- An expired row remains while a transaction of the application has locked it. The end of that transaction is
        -- unknown, so the claim retries soon.
        a.left_us := CASE WHEN v_holder.expires_at <= t THEN 50000
            ELSE lock_core.micros(v_holder.expires_at) - a.now_us END;
        a.record := v_holder.record;
        a.mode := CASE WHEN v_holder.kept THEN 'kept' END;
    END IF;
    a.own := coalesce(lock_core.hands_off(v_holder, p_owner, t), false);
    a.queued := p_queued;
    RETURN a;
END $$;

-- Returns the answer for a claim that is not granted. The queue is read once, for both counts.
CREATE OR REPLACE FUNCTION lock_core.held(p_key text, p_owner text, t timestamptz, p_queued boolean)
RETURNS lock_core.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    a lock_core.answer := lock_core.held_by(p_key, p_owner, t, p_queued);
    v_ticket bigint := (SELECT w.ticket FROM lock_core.waiters w WHERE w.key = p_key AND w.owner = p_owner);
BEGIN
    SELECT count(*) FILTER (WHERE w.owner <> p_owner),
            CASE WHEN v_ticket IS NOT NULL THEN count(*) FILTER (WHERE w.ticket < v_ticket) END
        INTO a.waiting, a.place FROM lock_core.waiters w WHERE w.key = p_key AND w.deadline >= t;
    RETURN a;
END $$;

-- Returns the columns of an answer as one array. Sending a row of eleven columns instead would cost the server as much
-- as one more statement.
CREATE OR REPLACE FUNCTION lock_core.flat(a lock_core.answer) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY[
        a.verdict::text, a.now_us::text, a.fence::text, a.waiting::text, a.left_us::text, a.record, a.place::text,
        a.own::text, a.queued::text, a.mode, a.number::text
    ];
END $$;
