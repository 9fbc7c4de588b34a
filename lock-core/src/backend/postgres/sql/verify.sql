-- Locks the rows of an owner's grant on all of the keys until the caller's transaction ends. If the lease has ended,
-- fails the transaction. Until the transaction ends, no other owner gets one of the keys, even if the lease ends
-- earlier.
--
-- The function uses the weakest row lock: renewals continue, and no other statement of this library waits for this
-- lock.
CREATE OR REPLACE FUNCTION lock_core.verify(p_keys text[], p_owner text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_key text;
BEGIN
    FOREACH v_key IN ARRAY p_keys LOOP
        PERFORM FROM lock_core.holders h
            WHERE h.key = v_key AND h.slot = lock_core.slot_of(v_key, p_owner) AND h.owner = p_owner
                AND h.expires_at > clock_timestamp() AND NOT h.kept
            FOR KEY SHARE;
        IF NOT FOUND THEN
            -- At a higher isolation level, the snapshot may be older than the grant or its last renewal. The code 40001
            -- requests that the caller runs the transaction again.
            RAISE EXCEPTION 'the lease of the lock is over' USING ERRCODE =
                CASE current_setting('transaction_isolation') WHEN 'read committed' THEN ':lease_over' ELSE '40001' END;
        END IF;
    END LOOP;
END $$;
