-- Functions for one attempt at one key, and for one release. They try the common cases first (short.sql), and then the
-- general functions (acquire.sql, release.sql).
--
-- A session of the library has the settings of shared.sql from its start, and calls these functions. Any other session,
-- such as one that a pooler shares, calls `attempts` (together.sql) and `let_go_with_settings`, which have these
-- settings. Without these settings, the `search_path` of that session could lead the functions to operators of other
-- users.

-- Makes one attempt. Returns the answer as one array; see `flat` in shared.sql. For the parameters see `acquire`.
CREATE OR REPLACE FUNCTION lock_core.attempt(
    p_key text, p_owner text, p_record text, p_mode text, p_ttl bigint, p_fenced boolean, p_room integer, p_barges boolean
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    v_answer text[];
BEGIN
    PERFORM lock_core.check_isolation();
    v_answer := lock_core.take_free(p_key, p_owner, p_record, p_mode, p_ttl, p_fenced);
    IF v_answer IS NULL AND p_mode = 'x' AND p_room IS NOT NULL THEN
        v_answer := lock_core.enqueue(p_key, p_owner, p_record, p_ttl, p_room, p_barges);
    END IF;
    IF v_answer IS NULL THEN
        v_answer := lock_core.flat(lock_core.acquire(p_key, p_owner, p_record, p_mode, p_ttl, p_fenced, p_room, p_barges));
    END IF;
    RETURN v_answer;
END $$;

-- Ends the grant of an owner for one key. Returns the answer of `hand_off`. If that answer is null, returns the answer
-- of `release`.
CREATE OR REPLACE FUNCTION lock_core.let_go(p_key text, p_owner text, p_mode text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_answer text;
BEGIN
    PERFORM lock_core.check_isolation();
    v_answer := lock_core.hand_off(p_key, p_owner, p_mode);
    IF v_answer IS NULL THEN
        v_answer := lock_core.release(ARRAY[p_key], p_owner, p_mode, NULL, 0)::text;
    END IF;
    RETURN v_answer;
END $$;

CREATE OR REPLACE FUNCTION lock_core.let_go_with_settings(p_key text, p_owner text, p_mode text) RETURNS text LANGUAGE plpgsql
:settings AS $$
BEGIN
    RETURN lock_core.let_go(p_key, p_owner, p_mode);
END $$;
