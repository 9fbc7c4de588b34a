-- What the other functions share: the lock of a key, its holders and its queue.
--
-- The settings of the functions that any session may call (`:settings`). `lock_timeout` ends a wait for the row of a key, which others
-- hold for the time of one such call, with an error. Without it the connection would stand still. A session keeps the plans that it made while
-- the tables were small: without `enable_seqscan = off` it would go on reading whole tables when they have grown (measured: 12
-- times the CPU time after 8,000 locks). That setting raises the estimated costs so far that each plan would be compiled: hence `jit = off`.
-- `search_path` keeps out the operators and functions of others. If any user may create in `public`, one that fits better than that of
-- Postgres would be called instead, with the rights of the service.
--
-- A function that others call is in plpgsql, which keeps its plans for the session. One in SQL is planned at each call, unless it is a
-- single expression.
--
-- Every function that changes a key begins with `lock_row` or with the same lock, except a renewal. Under READ COMMITTED each
-- later statement has a snapshot of its own, and therefore sees the changes of the call that had the lock before.
--
-- The row of an owner is found by its slot, or a condition on the owner alone would read the rows of all holders of the key. The planner
-- uses no index for `slot IN ('', owner)`: it expects one row for a key, as most have.

-- Returns a time in us.
CREATE OR REPLACE FUNCTION lock_core.micros(t timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (extract(epoch FROM t) * 1000000)::bigint
$$;

-- Refuses a transaction with an older snapshot, which would miss the holders that others have committed meanwhile.
CREATE OR REPLACE FUNCTION lock_core.check_isolation() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'locks need the isolation level READ COMMITTED' USING ERRCODE = ':other_isolation';
    END IF;
END $$;

-- Locks the row of a key until the end of the transaction, and returns it. Makes it if need be: always with `p_make`, and
-- otherwise where the key has holders or waiters. Returns null if it made none.
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
        -- Read behind the lock: whoever deleted the row before has committed the floor.
        UPDATE lock_core.keys k SET fence = f.fence FROM lock_core.floor f WHERE k.key = p_key AND f.fence > 0
            RETURNING k.* INTO v_key;
        IF NOT FOUND THEN
            SELECT * INTO v_key FROM lock_core.keys k WHERE k.key = p_key;
        END IF;
    END IF;
    RETURN v_key;
END $$;

-- Lets the server answer the transaction before it is on disk, up to a second. A crash of the server then loses it. Only for changes
-- that no one relies on: a place in the queue, which its waiter takes again, and a release, because the key is free at the latest at the
-- end of its lease.
CREATE OR REPLACE FUNCTION lock_core.commit_later() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- Sends a message to the process of an owner. A message is a hint, and arrives when the transaction is committed. With a full
-- queue of messages, because a session of the application listens and does not read, the commit would fail: so none is sent.
CREATE OR REPLACE FUNCTION lock_core.tell(p_owner text, p_message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pg_notification_queue_usage() < 0.9 THEN
        PERFORM pg_notify(':channel' || left(p_owner, 32), p_message);
    END IF;
END $$;

-- Deletes the holders whose lease is over. One whose row a transaction of the application
-- has locked (see verify.sql) stays, and excludes others until that transaction ends. The condition is checked again on the locked
-- row, which a renewal may have changed.
CREATE OR REPLACE FUNCTION lock_core.clear(p_key text, t timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- An array and not a join: the planner expects a few rows, and would compare each one with each.
    v_ended text[] := ARRAY(
        SELECT h.slot FROM lock_core.holders h WHERE h.key = p_key AND h.expires_at <= t FOR UPDATE SKIP LOCKED
    );
BEGIN
    IF cardinality(v_ended) > 0 THEN
        DELETE FROM lock_core.holders h WHERE h.key = p_key AND h.slot = ANY (v_ended);
    END IF;
END $$;

-- Returns the slot of the row of an owner, if there is one. An index serves a condition on it, because it is stable.
CREATE OR REPLACE FUNCTION lock_core.slot_of(p_key text, p_owner text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT h.slot FROM lock_core.holders h WHERE h.key = p_key AND h.slot = p_owner), '');
END $$;

-- Ends the grant of an owner. A row that a transaction of the application has locked stays until that transaction ends.
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
        -- This changes no column of an index, so it does not wait for a transaction that has verified the lease. It waits
        -- for a renewal, which is short.
        UPDATE lock_core.holders h SET expires_at = '-infinity'
            WHERE h.key = p_key AND h.slot = v_slot AND h.owner = p_owner;
        PERFORM lock_core.clear(p_key, t);
    END IF;
END $$;

-- Returns the mode of the holders, null when there are none, and their number.
CREATE OR REPLACE FUNCTION lock_core.look(p_key text, OUT v_mode text, OUT v_count bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT min(h.mode), count(*) INTO v_mode, v_count FROM lock_core.holders h WHERE h.key = p_key;
END $$;

-- Returns whether a claim of a mode can be granted beside the holders.
CREATE OR REPLACE FUNCTION lock_core.fits(p_mode text, p_held text, p_count bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_held IS NULL OR p_count = 0 OR p_mode <> 'x' AND p_mode = p_held
        AND (p_mode = 's' OR p_count < substr(p_mode, 2)::bigint)
$$;

-- Returns whether the mode of a claim is incompatible with that of the holders, so that waiting would not help.
CREATE OR REPLACE FUNCTION lock_core.clashes(p_mode text, p_held text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_held IS NOT NULL AND p_held <> p_mode AND (length(p_held) > 1 OR length(p_mode) > 1)
$$;

-- Writes a grant. An owner whose own row could not be deleted gets it back. The row of another is never written over.
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

-- The number of live claims that wait, without `p_but`.
CREATE OR REPLACE FUNCTION lock_core.waiting(p_key text, p_but text, t timestamptz) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*)::integer FROM lock_core.waiters w WHERE w.key = p_key AND w.owner <> p_but AND w.deadline >= t);
END $$;

-- Serves the waiters at the head of the queue that fit beside the holders, and drops the dead ones among them. The caller
-- has deleted the holders that have ended. Returns whether `p_me` was served (for `p_ttl`, and without a message, because it
-- gets the answer), whether anybody was, and whether a waiter is left that goes before any newcomer.
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
    -- One pass: a query for each head would read the deleted rows before it again and again.
    FOR v_head IN SELECT w.ctid AS place, w.* FROM lock_core.waiters w WHERE w.key = p_key ORDER BY w.ticket LOOP
        -- Nobody behind the head is served before it, not even one that would fit: a writer would never be served.
        IF v_head.deadline >= t AND NOT lock_core.fits(v_head.mode, v_mode, v_count) THEN
            blocked := true;
            EXIT;
        END IF;
        -- By its place, which cannot change meanwhile: the planner may look an owner up in the index by ticket.
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
            -- A short lease, so that a waiter that has died meanwhile blocks the key no longer than that. Its renewal
            -- extends it to the whole ttl.
            PERFORM lock_core.put(p_key, v_head.owner, v_head.mode, v_head.record,
                t + least(v_head.ttl, :waiter_lease_us) * interval '1 microsecond');
            -- Counted once.
            v_left := coalesce(v_left - 1, lock_core.waiting(p_key, '', t));
            PERFORM lock_core.tell(v_head.owner, 'granted ' || v_head.owner || ' ' || v_left);
        END IF;
    END LOOP;
END $$;

-- Returns whether a holder can hand off to a claim of `p_owner`, inside their process: it has not released, and the first 33
-- digits of both tokens are equal, which are the process and whether its grants are handed off.
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
    -- A claim for a permit can go ahead once the first permit expires. An exclusive claim, or a reader behind one, needs the
    -- last reader gone.
    SELECT h.* INTO v_holder FROM lock_core.holders h WHERE h.key = p_key
        ORDER BY CASE WHEN length(h.mode) > 1 THEN h.expires_at END, h.expires_at DESC LIMIT 1;
    IF FOUND THEN
        -- A lease that is over is still there while a transaction of the application has it locked. The end of that is not
        -- known, so the claim looks again soon.
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

-- Returns the columns of an answer, in their order, as one value: a row of eleven columns costs the server as much as a
-- statement.
CREATE OR REPLACE FUNCTION lock_core.flat(a lock_core.answer) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY[
        a.verdict::text, a.now_us::text, a.fence::text, a.waiting::text, a.left_us::text, a.record, a.place::text,
        a.own::text, a.queued::text, a.mode, a.number::text
    ];
END $$;
