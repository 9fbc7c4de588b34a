-- Lists held keys with their holders and waiters, for an operator. Lists the keys that begin with `p_prefix`, or with
-- `p_exact` only the key `p_prefix`. Returns one row for each holder (`waits` is false) and one for each waiter
-- (`waits` is true). A key has at most `p_holders` and `p_waiters` such rows; `total` is the full number of its holders
-- or waiters. No row shows an owner token. The function needs no lock, because one statement reads all rows from one
-- snapshot.
CREATE OR REPLACE FUNCTION lock_core.list(
    p_prefix text, p_exact boolean, p_limit integer, p_holders integer, p_waiters integer
) RETURNS TABLE (
    key text, waits boolean, mode text, id text, record text, left_us bigint, kept boolean, total bigint, since_us bigint
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH held AS MATERIALIZED (
        SELECT DISTINCT h.key FROM lock_core.holders h
            WHERE h.expires_at > clock_timestamp() AND h.key >= p_prefix
                AND CASE WHEN p_exact THEN h.key = p_prefix ELSE starts_with(h.key, p_prefix) END
                -- All keys with the prefix are below this bound, so that the index is not read further. No key is
                -- longer than the appended text.
                AND h.key <= p_prefix || repeat(chr(1114111), 129)
            ORDER BY h.key LIMIT p_limit
    ), holding AS (
        SELECT h.*, row_number() OVER (PARTITION BY h.key ORDER BY h.expires_at) AS place,
                count(*) OVER (PARTITION BY h.key) AS total
            FROM held JOIN lock_core.holders h ON h.key = held.key WHERE h.expires_at > clock_timestamp()
    ), waiting AS (
        SELECT w.*, row_number() OVER (PARTITION BY w.key ORDER BY w.ticket) AS place,
                count(*) OVER (PARTITION BY w.key) AS total
            FROM held JOIN lock_core.waiters w ON w.key = held.key WHERE w.deadline >= clock_timestamp()
    )
    SELECT h.key, false, h.mode, lock_core.id(h.owner), h.record,
            greatest(lock_core.micros(h.expires_at) - lock_core.micros(clock_timestamp()), 0), h.kept, h.total,
            lock_core.micros(h.granted_at)
        FROM holding h WHERE h.place <= p_holders
    UNION ALL
    SELECT w.key, true, w.mode, '', w.record, 0, false, w.total, NULL FROM waiting w WHERE w.place <= p_waiters
    ORDER BY 1, 2
$$;

-- Shows the holders and waiters to an operator with psql, one row for each. The view has no limit, so that a query with
-- a condition on the key reads only the rows of that key. `id` is a parameter of `force_release`.
CREATE OR REPLACE VIEW lock_core.held AS
    SELECT h.key, false AS waits, h.mode, lock_core.id(h.owner) AS id, h.record,
            greatest(lock_core.micros(h.expires_at) - lock_core.micros(clock_timestamp()), 0) * interval '1 microsecond' AS "left",
            h.kept, h.granted_at AS since
        FROM lock_core.holders h WHERE h.expires_at > clock_timestamp()
    UNION ALL
    SELECT w.key, true, w.mode, '', w.record, interval '0', false, NULL
        FROM lock_core.waiters w WHERE w.deadline >= clock_timestamp();

-- Checks the next `p_limit` keys. Deletes their expired grants, waiters and latches, and the rows of unused keys.
--
-- p_to  the last key of the caller's previous call, or null. If no other caller has continued the sweep meanwhile, this
--       call continues there at once. Otherwise this call does nothing within 5 s after the last call of any caller,
--       and within 15 s after a call that reached the end of the table.
-- Returns one row: the last checked key (null at the end of the table), the number of checked keys, and the number of
-- deleted rows of `keys`. Returns no row if the call did nothing.
CREATE OR REPLACE FUNCTION lock_core.sweep(p_limit integer, p_to text)
RETURNS TABLE (came_to text, looked bigint, deleted bigint) LANGUAGE plpgsql
:settings AS $$
DECLARE
    t timestamptz := clock_timestamp();
    v_after text;
    v_last text;
    v_keys text[];
BEGIN
    -- If `swept_at` is more than 2 minutes in the future, the clock was set back meanwhile, so the sweep runs. To stop
    -- all sweeps, an operator may set `swept_at` to 'infinity'.
    SELECT f.swept_to INTO v_after FROM lock_core.floor f
        WHERE isfinite(f.swept_at) AND (
            p_to = f.swept_to OR f.swept_at <= t - interval '5 seconds' OR f.swept_at > t + interval '2 minutes'
        ) OR f.swept_at = '-infinity'
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT max(n.key), count(*) INTO v_last, looked FROM (
        SELECT k.key FROM lock_core.keys k WHERE k.key > v_after ORDER BY k.key LIMIT p_limit
    ) n;
    -- This statement locks the rows of keys that seem unused. The later statements check these keys again, because a
    -- grant may be committed between this check and the lock.
    v_keys := ARRAY(
        SELECT k.key FROM lock_core.keys k WHERE k.key > v_after AND k.key <= v_last
            AND k.latch_until <= t
            AND NOT EXISTS (SELECT FROM lock_core.holders h WHERE h.key = k.key AND h.expires_at > t)
            AND NOT EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = k.key AND w.deadline > t - interval '1 minute')
        ORDER BY k.key FOR UPDATE SKIP LOCKED
    );
    -- This does the same as `clear`, but for all of these keys at once.
    DELETE FROM lock_core.holders h WHERE h.ctid = ANY (ARRAY(
        SELECT o.ctid FROM lock_core.holders o WHERE o.key = ANY (v_keys) AND o.expires_at <= t FOR UPDATE SKIP LOCKED
    ));
    DELETE FROM lock_core.waiters w WHERE w.key = ANY (v_keys) AND w.deadline <= t - interval '1 minute';
    DELETE FROM lock_core.keys k WHERE k.key = ANY (v_keys) AND k.latch_until <= t
        AND NOT EXISTS (SELECT FROM lock_core.holders h WHERE h.key = k.key)
        AND NOT EXISTS (SELECT FROM lock_core.waiters w WHERE w.key = k.key);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    DELETE FROM lock_core.latch_counts c WHERE c.key = ANY (v_keys)
        AND NOT EXISTS (SELECT FROM lock_core.keys k WHERE k.key = c.key);
    DELETE FROM lock_core.latch_waiters w WHERE w.key = ANY (v_keys)
        AND NOT EXISTS (SELECT FROM lock_core.keys k WHERE k.key = w.key);
    IF looked < p_limit THEN
        v_last := NULL;
        -- Deletes expired holders whose key has no row in `keys`. Such holders may exist after only some tables were
        -- restored from a backup.
        DELETE FROM lock_core.holders h WHERE h.ctid = ANY (ARRAY(
            SELECT o.ctid FROM lock_core.holders o
                WHERE o.expires_at <= t AND NOT EXISTS (SELECT FROM lock_core.keys k WHERE k.key = o.key)
                LIMIT p_limit FOR UPDATE OF o SKIP LOCKED
        ));
    END IF;
    UPDATE lock_core.floor f SET swept_to = coalesce(v_last, ''),
        swept_at = t + CASE WHEN v_last IS NULL THEN interval '10 seconds' ELSE interval '0' END;
    came_to := v_last;
    RETURN NEXT;
END $$;
