-- Releases the grant of an owner on all of the keys, or removes the owner's queue entries. Serves the next waiters.
--
-- p_keep  how long the keys stay locked after the release, in us; null: the keys become free at once.
-- p_own   the last fencing token that the process itself assigned for this grant; 0: none.
-- Returns 1 if the grant was released, 0 if no owner holds the key, and -1 if another owner holds the key. If the
-- release only removed a queue entry, returns 0 or -1. For several keys, returns the smallest of these values.
CREATE OR REPLACE FUNCTION lock_core.release(
    p_keys text[], p_owner text, p_mode text, p_keep bigint, p_own bigint
) RETURNS integer LANGUAGE plpgsql
:settings AS $$
DECLARE
    v_answer integer := 1;
    v_later boolean := true;
    v_one record;
    v_key text;
BEGIN
    -- The keys are sorted, so that two releases of several keys lock their rows in the same order.
    FOREACH v_key IN ARRAY p_keys LOOP
        SELECT * INTO v_one FROM lock_core.release_one(v_key, p_owner, p_mode, p_keep, p_own);
        v_answer := least(v_answer, v_one.answer);
        v_later := v_later AND v_one.later;
    END LOOP;
    IF v_later THEN
        PERFORM lock_core.commit_later();
    END IF;
    RETURN v_answer;
END $$;

-- Releases one key. `later` is true if a crash of the server may lose this release. A crash must not lose a release
-- that served a waiter, keeps the key locked, or raised the token.
CREATE OR REPLACE FUNCTION lock_core.release_one(
    p_key text, p_owner text, p_mode text, p_keep bigint, p_own bigint, OUT answer integer, OUT later boolean
) LANGUAGE plpgsql AS $$
DECLARE
    v_row lock_core.keys := lock_core.lock_row(p_key, false);
    t timestamptz := clock_timestamp();
    v_slot text := lock_core.slot_of(p_key, p_owner);
    v_mine lock_core.holders;
    v_served boolean;
    v_queued boolean;
    v_mode text;
    v_count bigint;
BEGIN
    later := true;
    answer := 0;
    IF v_row.key IS NULL THEN
        RETURN;
    END IF;
    SELECT * INTO v_mine FROM lock_core.holders h
        WHERE h.key = p_key AND h.slot = v_slot AND h.owner = p_owner AND h.expires_at > t;
    IF FOUND AND v_mine.kept THEN
        -- This is a repeated release, because the first answer was lost.
        answer := 1;
        later := false;
        RETURN;
    ELSIF FOUND THEN
        answer := 1;
        IF p_keep IS NULL THEN
            PERFORM lock_core.drop_holder(p_key, p_owner, t);
        ELSE
            UPDATE lock_core.holders h SET kept = true, expires_at = t + p_keep * interval '1 microsecond'
                WHERE h.key = p_key AND h.slot = v_slot AND h.owner = p_owner;
            later := false;
        END IF;
        IF p_own > v_row.fence THEN
            UPDATE lock_core.keys k SET fence = p_own, fence_of = '-' WHERE k.key = p_key;
            later := false;
        END IF;
    ELSE
        DELETE FROM lock_core.waiters w WHERE w.key = p_key AND w.owner = p_owner;
        v_queued := FOUND;
        PERFORM lock_core.clear(p_key, t);
        SELECT * INTO v_mode, v_count FROM lock_core.look(p_key);
        answer := CASE WHEN lock_core.fits(p_mode, v_mode, v_count) THEN 0 ELSE -1 END;
        -- After an owner has left the queue, the waiters behind this owner may be able to share the key with the
        -- holders. For example, readers may have waited behind a writer. If this owner was not queued, its lease has
        -- probably expired. The next heartbeat of a waiter then serves the queue.
        IF NOT v_queued THEN
            RETURN;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = p_key) THEN
        PERFORM lock_core.clear(p_key, t);
        SELECT s.served INTO v_served FROM lock_core.serve(p_key, t, '', 0) s;
        later := later AND NOT v_served;
    END IF;
END $$;

-- Ends the grant with the id `p_id` at the request of an operator, and serves the next waiters. Returns whether the
-- grant existed.
CREATE OR REPLACE FUNCTION lock_core.force_release(p_key text, p_id text) RETURNS boolean
LANGUAGE plpgsql
:settings AS $$
DECLARE
    v_row lock_core.keys := lock_core.lock_row(p_key, false);
    t timestamptz := clock_timestamp();
    v_owner text;
BEGIN
    SELECT h.owner INTO v_owner FROM lock_core.holders h
        WHERE h.key = p_key AND lock_core.id(h.owner) = p_id AND h.expires_at > t;
    IF NOT FOUND OR v_row.key IS NULL THEN
        RETURN false;
    END IF;
    PERFORM lock_core.drop_holder(p_key, v_owner, t);
    PERFORM lock_core.tell(v_owner, 'forced ' || v_owner);
    PERFORM lock_core.clear(p_key, t);
    PERFORM lock_core.serve(p_key, t, '', 0);
    RETURN true;
END $$;

-- Returns the public id of a grant. The id is unique, and does not reveal the owner token.
CREATE OR REPLACE FUNCTION lock_core.id(p_owner text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(encode(sha256(convert_to(p_owner, 'UTF8')), 'hex'), 40)
$$;

-- Turns an exclusive grant into a shared one for its owner, with a lease of `p_ttl` us from now. Serves the readers at
-- the head of the queue.
CREATE OR REPLACE FUNCTION lock_core.downgrade(p_key text, p_owner text, p_ttl bigint) RETURNS lock_core.answer
LANGUAGE plpgsql
:settings AS $$
DECLARE
    v_row lock_core.keys := lock_core.lock_row(p_key, false);
    t timestamptz := clock_timestamp();
    a lock_core.answer;
BEGIN
    a.now_us := lock_core.micros(t);
    IF v_row.key IS NULL THEN
        a.verdict := 0;
        RETURN a;
    END IF;
    UPDATE lock_core.holders h
        SET mode = 's',
            -- If the request is repeated because its first answer was lost, the lease is not shortened.
            expires_at = greatest(CASE WHEN h.mode = 's' THEN h.expires_at END, t + p_ttl * interval '1 microsecond')
        WHERE h.key = p_key AND h.slot = '' AND h.owner = p_owner AND h.expires_at > t AND NOT h.kept AND h.mode IN ('x', 's');
    a.verdict := CASE WHEN FOUND THEN 1 ELSE 0 END;
    IF a.verdict = 1 THEN
        PERFORM lock_core.clear(p_key, t);
        PERFORM lock_core.serve(p_key, t, '', 0);
        a.waiting := lock_core.waiting(p_key, '', t);
    END IF;
    RETURN a;
END $$;
