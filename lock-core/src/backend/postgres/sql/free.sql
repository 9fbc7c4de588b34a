-- A key that is free, and the release of a grant that nobody waits for.
--
-- Both do what the long way does (acquire.sql, release.sql) where there is nothing else to do, in the fewest statements: the
-- server spends most of its time on beginning and ending them. Where there is more to do they return null, and have changed
-- nothing that counts; their caller (attempt.sql) then goes the long way in the same transaction.
--
-- They have no settings of their own, which would cost a tenth more.

-- Takes the row of a grant that was released, behind the lock of its key. One that a transaction of the application has locked (see
-- verify.sql) is left alone.
CREATE OR REPLACE FUNCTION lock_core.take_again(p_key text, p_owner text, p_record text, p_until timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lock_core.holders h SET owner = p_owner, record = p_record, expires_at = p_until WHERE h.ctid = (
        SELECT o.ctid FROM lock_core.holders o WHERE o.key = p_key AND o.slot = '' AND o.alone AND o.owner = ''
            FOR UPDATE SKIP LOCKED
    );
    RETURN FOUND;
END $$;

-- Grants a key that has no holder and no waiter. Returns the answer in the form of `acquire_flat`.
CREATE OR REPLACE FUNCTION lock_core.take_free(
    p_key text, p_owner text, p_record text, p_mode text, p_ttl bigint, p_fenced boolean
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    t timestamptz := clock_timestamp();
    v_fence bigint;
    v_taken boolean := false;
BEGIN
    -- With an older snapshot, the holders that others have committed meanwhile would not be seen.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'locks need the isolation level READ COMMITTED' USING ERRCODE = 'LC002';
    END IF;
    -- A key in use is not locked: where many try, they neither write nor wait for each other.
    PERFORM FROM lock_core.keys k WHERE k.key = p_key AND k.latch_until <= t
        AND NOT EXISTS (SELECT FROM lock_core.holders h WHERE h.key = p_key AND h.expires_at > t) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- Behind the lock, and with a snapshot of its own, which has what the one before in line has committed.
    t := clock_timestamp();
    IF p_mode = 'x' THEN
        v_taken := lock_core.take_again(p_key, p_owner, p_record, t + p_ttl * interval '1 microsecond');
    END IF;
    IF NOT v_taken THEN
        INSERT INTO lock_core.holders (key, slot, owner, mode, record, expires_at, alone)
            SELECT p_key, CASE p_mode WHEN 'x' THEN '' ELSE p_owner END, p_owner, p_mode, p_record,
                t + p_ttl * interval '1 microsecond', p_mode = 'x'
            WHERE NOT EXISTS (SELECT FROM lock_core.holders h WHERE h.key = p_key)
                AND NOT EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = p_key);
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    IF NOT p_fenced THEN
        RETURN '{1,NULL,NULL,0}'::text[];
    END IF;
    UPDATE lock_core.keys k SET fence = greatest(lock_core.micros(t), k.fence + 1), fence_of = p_owner WHERE k.key = p_key
        RETURNING k.fence INTO v_fence;
    RETURN ARRAY['1', lock_core.micros(t)::text, v_fence::text, '0'];
END $$;

-- Ends the grant of an owner for one key, if nobody waits for it. For a reader or a permit: see `let_go`. Returns 1.
CREATE OR REPLACE FUNCTION lock_core.give_back(p_key text, p_owner text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_later text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'locks need the isolation level READ COMMITTED' USING ERRCODE = 'LC002';
    END IF;
    PERFORM FROM lock_core.keys k WHERE k.key = p_key FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- A row that a transaction of the application has locked (see verify.sql) is left to the long way.
    DELETE FROM lock_core.holders h WHERE h.ctid = (
        SELECT o.ctid FROM lock_core.holders o
            WHERE o.key = p_key AND o.slot = lock_core.slot_of(p_key, p_owner) AND o.owner = p_owner
                AND o.expires_at > clock_timestamp() AND NOT o.kept
                AND NOT EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = p_key)
            FOR UPDATE SKIP LOCKED
    );
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- As `commit_later`.
    v_later := set_config('synchronous_commit', 'off', true);
    RETURN 1;
END $$;

-- Goes the long way, and returns its answer as one value.
CREATE OR REPLACE FUNCTION lock_core.acquire_flat(
    p_key text, p_owner text, p_record text, p_mode text, p_ttl bigint, p_fenced boolean, p_room integer, p_barges boolean
) RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN lock_core.flat(lock_core.acquire(p_key, p_owner, p_record, p_mode, p_ttl, p_fenced, p_room, p_barges));
END $$;
