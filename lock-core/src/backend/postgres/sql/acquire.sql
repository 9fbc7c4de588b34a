-- Makes one attempt at a claim for one key. If the holder repeats its request, the answer is "granted" again, and the
-- lease is never shortened.
--
-- p_ttl     the lease in us.
-- p_fenced  whether the claim needs a fencing token with the grant.
-- p_room    the claim is queued only if fewer claims than this wait. If null, the claim is not queued.
-- p_barges  if true, the claim is not queued while a holder of the same process can hand the key off to the claim.
CREATE OR REPLACE FUNCTION lock_core.acquire(
    p_key text, p_owner text, p_record text, p_mode text, p_ttl bigint, p_fenced boolean, p_room integer, p_barges boolean
) RETURNS lock_core.answer LANGUAGE plpgsql
:settings AS $$
DECLARE
    v_key lock_core.keys;
    t timestamptz := clock_timestamp();
    v_until timestamptz;
    a lock_core.answer;
    v_mode text;
    v_count bigint;
    v_ended boolean;
    v_again boolean;
    v_kept boolean;
    v_queue boolean;
    v_won boolean := false;
    v_served boolean := false;
    v_blocked boolean := false;
    v_others integer;
    v_holder lock_core.holders;
BEGIN
    -- If another owner holds the key exclusively, a claim that would not be queued is refused here without a row lock.
    -- So many attempts neither write nor wait for each other.
    IF p_room IS NULL AND length(p_mode) = 1 AND EXISTS (SELECT FROM lock_core.holders h
            WHERE h.key = p_key AND h.mode = 'x' AND h.expires_at > t AND h.owner <> p_owner) THEN
        RETURN lock_core.held(p_key, p_owner, t, false);
    END IF;
    v_key := lock_core.lock_row(p_key, true);
    -- The clock is read again, so that the wait for the lock does not shorten the lease.
    t := clock_timestamp();
    v_until := t + p_ttl * interval '1 microsecond';
    v_queue := EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = p_key);
    IF v_key.latch_until > t THEN
        a.verdict := -2;
        a.mode := 'latch';
        RETURN a;
    END IF;
    SELECT min(h.mode), count(*), bool_or(h.expires_at <= t),
            bool_or(h.owner = p_owner AND h.expires_at > t AND NOT h.kept),
            bool_or(h.owner = p_owner AND h.expires_at > t AND h.kept)
        INTO v_mode, v_count, v_ended, v_again, v_kept FROM lock_core.holders h WHERE h.key = p_key;
    IF v_kept THEN
        -- This is a late copy of the request. The owner has released the lock since then, and the key stays locked for
        -- a while.
        RETURN lock_core.held(p_key, p_owner, t, false);
    END IF;
    -- If this owner holds the key as a reader, an exclusive request does not repeat the earlier one.
    v_again := coalesce(v_again AND NOT (p_mode = 'x' AND v_mode <> 'x'), false);
    IF v_again THEN
        UPDATE lock_core.holders h SET expires_at = greatest(h.expires_at, v_until)
            WHERE h.key = p_key AND h.slot = lock_core.slot_of(p_key, p_owner) AND h.owner = p_owner;
        v_won := true;
    ELSE
        IF v_ended THEN
            PERFORM lock_core.clear(p_key, t);
            SELECT * INTO v_mode, v_count FROM lock_core.look(p_key);
        END IF;
        -- The queue is served before this claim. While an exclusive holder has the key, no waiter can be served.
        IF v_mode IS DISTINCT FROM 'x' AND v_queue THEN
            SELECT * INTO v_won, v_served, v_blocked FROM lock_core.serve(p_key, t, p_owner, p_ttl);
            SELECT * INTO v_mode, v_count FROM lock_core.look(p_key);
        END IF;
        IF NOT v_won AND lock_core.clashes(p_mode, v_mode) THEN
            DELETE FROM lock_core.waiters w WHERE w.key = p_key AND w.owner = p_owner;
            a.verdict := -2;
            a.mode := v_mode;
            RETURN a;
        END IF;
        IF NOT v_won AND NOT v_blocked AND lock_core.fits(p_mode, v_mode, v_count) THEN
            -- No live waiter is left here. Otherwise `serve` would have set `v_blocked`. So this owner has no entry in
            -- the queue.
            PERFORM lock_core.put(p_key, p_owner, p_mode, p_record, v_until);
            v_won := true;
        END IF;
    END IF;

    IF v_won THEN
        a.verdict := 1;
        a.now_us := lock_core.micros(t);
        a.waiting := CASE WHEN v_queue THEN lock_core.waiting(p_key, '', t) ELSE 0 END;
        IF p_fenced THEN
            -- A repeated request gets the token of the first answer, because that answer may have been lost.
            a.fence := CASE WHEN v_again AND v_key.fence_of = p_owner THEN v_key.fence
                ELSE greatest(a.now_us, v_key.fence + 1) END;
            UPDATE lock_core.keys k SET fence = a.fence, fence_of = p_owner WHERE k.key = p_key;
        END IF;
        RETURN a;
    END IF;

    IF p_room IS NULL THEN
        RETURN lock_core.held(p_key, p_owner, t, false);
    END IF;
    IF NOT v_served THEN
        PERFORM lock_core.commit_later();
    END IF;
    -- A claim that is already queued keeps its place.
    UPDATE lock_core.waiters w
        SET deadline = t + least(p_ttl, :waiter_lease_us) * interval '1 microsecond', ttl = p_ttl, record = p_record
        WHERE w.key = p_key AND w.owner = p_owner;
    IF FOUND THEN
        RETURN lock_core.held(p_key, p_owner, t, true);
    END IF;
    -- All waiters precede this claim, so their number is also its position.
    v_others := lock_core.waiting(p_key, '', t);
    SELECT h.* INTO v_holder FROM lock_core.holders h WHERE h.key = p_key AND h.mode = 'x';
    IF v_others >= p_room OR p_barges AND lock_core.hands_off(v_holder, p_owner, t) THEN
        a := lock_core.held_by(p_key, p_owner, t, false);
        a.waiting := v_others;
        RETURN a;
    END IF;
    INSERT INTO lock_core.waiters (key, owner, ticket, deadline, ttl, mode, record)
        SELECT p_key, p_owner, greatest(lock_core.micros(t), coalesce(max(w.ticket) + 1, 0)),
            t + least(p_ttl, :waiter_lease_us) * interval '1 microsecond', p_ttl, p_mode, p_record
        FROM lock_core.waiters w WHERE w.key = p_key;
    -- The holder is notified only of the first waiter. Later, the answers to its renewals contain the number of
    -- waiters.
    IF v_others = 0 AND v_holder.owner IS NOT NULL THEN
        PERFORM lock_core.tell(v_holder.owner, 'contended ' || p_key);
    END IF;
    a := lock_core.held_by(p_key, p_owner, t, true);
    a.waiting := v_others;
    a.place := v_others;
    RETURN a;
END $$;

-- Makes one attempt at an exclusive claim for several keys. The claim gets all keys or none. The keys are sorted, so
-- that two such claims lock their rows in the same order. A claim of several keys is never queued. The waiters in the
-- queues of its keys are served first.
CREATE OR REPLACE FUNCTION lock_core.acquire_all(
    p_keys text[], p_owner text, p_record text, p_ttl bigint, p_fenced boolean
) RETURNS lock_core.answer LANGUAGE plpgsql
:settings AS $$
DECLARE
    t timestamptz;
    a lock_core.answer;
    v_key text;
    v_row lock_core.keys;
    v_fence bigint := 0;
    v_same bigint;
    v_mode text;
    v_count bigint;
    v_latched integer[] := '{}';
BEGIN
    -- All keys are locked before any key is checked.
    FOR number IN 1 .. cardinality(p_keys) LOOP
        v_row := lock_core.lock_row(p_keys[number], true);
        -- If every key has the same token of this owner, this is a repeated request, and that token is the answer.
        v_same := CASE WHEN v_row.fence_of = p_owner AND (number = 1 OR v_same = v_row.fence) THEN v_row.fence END;
        v_fence := greatest(v_fence, v_row.fence + 1);
        IF v_row.latch_until > clock_timestamp() THEN
            v_latched := v_latched || number;
        END IF;
    END LOOP;
    t := clock_timestamp();
    a.now_us := lock_core.micros(t);
    IF cardinality(v_latched) > 0 THEN
        a.verdict := -2;
        a.mode := 'latch';
        a.number := v_latched[1];
        RETURN a;
    END IF;
    -- All keys are checked before this claim writes its first grant. Until then, only `serve` writes grants: for
    -- waiters of a single key.
    FOR number IN 1 .. cardinality(p_keys) LOOP
        v_key := p_keys[number];
        CONTINUE WHEN EXISTS (SELECT FROM lock_core.holders h WHERE h.key = v_key AND h.slot = '' AND h.owner = p_owner
            AND h.expires_at > t AND h.mode = 'x' AND NOT h.kept);
        PERFORM lock_core.clear(v_key, t);
        IF EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = v_key) THEN
            PERFORM lock_core.serve(v_key, t, '', 0);
        END IF;
        SELECT * INTO v_mode, v_count FROM lock_core.look(v_key);
        IF lock_core.clashes('x', v_mode) THEN
            a.verdict := -2;
            a.mode := v_mode;
            a.number := number;
            RETURN a;
        END IF;
        IF v_mode IS NOT NULL OR EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = v_key) THEN
            a := lock_core.held(v_key, p_owner, t, false);
            a.number := number;
            RETURN a;
        END IF;
    END LOOP;
    a.verdict := 1;
    a.waiting := 0;
    FOREACH v_key IN ARRAY p_keys LOOP
        INSERT INTO lock_core.holders AS h (key, slot, owner, mode, record, expires_at)
            VALUES (v_key, '', p_owner, 'x', p_record, t + p_ttl * interval '1 microsecond')
            ON CONFLICT (key, slot) DO UPDATE SET expires_at = greatest(h.expires_at, excluded.expires_at)
                WHERE h.owner = excluded.owner;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'another owner holds the key';
        END IF;
        a.waiting := a.waiting + lock_core.waiting(v_key, '', t);
    END LOOP;
    IF p_fenced THEN
        a.fence := coalesce(v_same, greatest(v_fence, a.now_us));
        UPDATE lock_core.keys k SET fence = a.fence, fence_of = p_owner WHERE k.key = ANY (p_keys);
    END IF;
    RETURN a;
END $$;
