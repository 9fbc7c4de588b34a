-- One attempt at a claim for one key, and one release: the short ways first (free.sql, hand_off.sql), and then the long one.
-- The shortest of all calls no function: see take_alone.sql and give_alone.sql.
--
-- A session of the library has the settings of queue.sql from its start, and calls the functions that have none. In any other, such as
-- one that a pooler shares, those `_with_settings` are called. A session that only calls the first through a `search_path` of its own
-- would let others put their operators in.

-- Makes one attempt. Returns the answer in the form of `acquire_flat`.
CREATE OR REPLACE FUNCTION lock_core.attempt(
    p_key text, p_owner text, p_record text, p_mode text, p_ttl bigint, p_fenced boolean, p_room integer, p_barges boolean
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    v_answer text[];
BEGIN
    IF p_mode <> 'x' OR p_room IS NULL THEN
        v_answer := lock_core.take_free(p_key, p_owner, p_record, p_mode, p_ttl, p_fenced);
    ELSE
        v_answer := lock_core.enqueue(p_key, p_owner, p_record, p_ttl, p_fenced, p_room, p_barges);
    END IF;
    IF v_answer IS NULL THEN
        v_answer := lock_core.acquire_flat(p_key, p_owner, p_record, p_mode, p_ttl, p_fenced, p_room, p_barges);
    END IF;
    RETURN v_answer;
END $$;

-- Ends the grant of an owner for one key. Returns the answer of `hand_off`, or else that of `release`.
CREATE OR REPLACE FUNCTION lock_core.let_go(p_key text, p_owner text, p_mode text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_answer text;
BEGIN
    -- An exclusive grant that comes here probably has waiters.
    IF p_mode <> 'x' THEN
        v_answer := lock_core.give_back(p_key, p_owner)::text;
    END IF;
    IF v_answer IS NULL THEN
        v_answer := lock_core.hand_off(p_key, p_owner);
    END IF;
    IF v_answer IS NULL THEN
        v_answer := lock_core.release(ARRAY[p_key], p_owner, p_mode, NULL, 0)::text;
    END IF;
    RETURN v_answer;
END $$;

CREATE OR REPLACE FUNCTION lock_core.attempt_with_settings(
    p_key text, p_owner text, p_record text, p_mode text, p_ttl bigint, p_fenced boolean, p_room integer, p_barges boolean
) RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN lock_core.attempt(p_key, p_owner, p_record, p_mode, p_ttl, p_fenced, p_room, p_barges);
END $$;

CREATE OR REPLACE FUNCTION lock_core.let_go_with_settings(p_key text, p_owner text, p_mode text) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN lock_core.let_go(p_key, p_owner, p_mode);
END $$;
