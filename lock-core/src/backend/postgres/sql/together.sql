-- Functions that handle requests of many claims of one process in one call, so that the row of the key is locked only
-- once. Each answer has the form of `flat`. The answers are in the order of the owners.

-- Makes attempts at one key, one after another. For the parameters see `acquire`.
CREATE OR REPLACE FUNCTION lock_core.attempts(
    p_key text, p_owners text[], p_records text[], p_modes text[], p_ttls bigint[], p_fenced boolean[], p_rooms integer[],
    p_barges boolean[]
) RETURNS SETOF text[] LANGUAGE plpgsql
:settings AS $$
DECLARE
    v_commit text := current_setting('synchronous_commit');
    v_now boolean := false;
BEGIN
    FOR number IN 1 .. cardinality(p_owners) LOOP
        -- The transaction may be confirmed early only if each attempt allows it; see `commit_later`.
        PERFORM set_config('synchronous_commit', v_commit, true);
        RETURN NEXT lock_core.attempt(
            p_key, p_owners[number], p_records[number], p_modes[number], p_ttls[number], p_fenced[number], p_rooms[number],
            p_barges[number]
        );
        v_now := v_now OR current_setting('synchronous_commit') = v_commit;
    END LOOP;
    IF v_now THEN
        PERFORM set_config('synchronous_commit', v_commit, true);
    END IF;
END $$;

-- Makes attempts at the same keys, one after another.
CREATE OR REPLACE FUNCTION lock_core.acquire_alls(
    p_keys text[], p_owners text[], p_records text[], p_ttls bigint[], p_fenced boolean[]
) RETURNS SETOF text[] LANGUAGE plpgsql
:settings AS $$
BEGIN
    FOR number IN 1 .. cardinality(p_owners) LOOP
        RETURN NEXT lock_core.flat(
            lock_core.acquire_all(p_keys, p_owners[number], p_records[number], p_ttls[number], p_fenced[number])
        );
    END LOOP;
END $$;

-- Records the heartbeats of waiters, and serves the queue if the key is free. So a heartbeat also detects an expired
-- lease, for which no message is sent, and a grant whose message was lost. The new deadlines are written before the
-- queue is served. Otherwise the heartbeat of a waiter whose old deadline has passed would delete that waiter.
CREATE OR REPLACE FUNCTION lock_core.heartbeats(
    p_key text, p_owners text[], p_records text[], p_modes text[], p_ttls bigint[]
) RETURNS SETOF text[] LANGUAGE plpgsql
:settings AS $$
DECLARE
    v_key lock_core.keys := lock_core.lock_row(p_key, false);
    t timestamptz := clock_timestamp();
    v_queued boolean;
    v_served boolean := false;
    v_granted boolean;
    v_tickets bigint[];
    v_held lock_core.answer;
BEGIN
    IF v_key.key IS NULL THEN
        RETURN QUERY SELECT ARRAY['-1'] FROM unnest(p_owners);
        RETURN;
    END IF;
    UPDATE lock_core.waiters w
        SET deadline = t + least(r.ttl, :waiter_lease_us) * interval '1 microsecond', ttl = r.ttl, record = r.record
        FROM unnest(p_owners, p_records, p_ttls) r (owner, record, ttl)
        WHERE w.key = p_key AND w.owner = r.owner;
    v_queued := FOUND;
    IF v_queued THEN
        PERFORM lock_core.clear(p_key, t);
        SELECT s.served INTO v_served FROM lock_core.serve(p_key, t, '', 0) s;
    END IF;
    -- The update also extends the short leases of the claims that were served just now.
    UPDATE lock_core.holders h SET expires_at = greatest(h.expires_at, t + r.ttl * interval '1 microsecond')
        FROM unnest(p_owners, p_modes, p_ttls) r (owner, mode, ttl)
        WHERE h.key = p_key AND h.slot = CASE r.mode WHEN 'x' THEN '' ELSE r.owner END AND h.owner = r.owner
            AND h.expires_at > t AND NOT h.kept AND NOT (r.mode = 'x' AND h.mode <> 'x');
    v_granted := FOUND;
    IF NOT v_served AND NOT v_granted THEN
        PERFORM lock_core.commit_later();
    END IF;
    -- The queue is read once for all claims. Tickets are unique, so the number of smaller tickets is the position of a
    -- claim.
    v_tickets := ARRAY(
        SELECT w.ticket FROM lock_core.waiters w WHERE w.key = p_key AND w.deadline >= t ORDER BY w.ticket
    );
    IF v_queued THEN
        v_held := lock_core.held_by(p_key, '', t, true);
    END IF;
    -- `h` is joined as a table, and compared with `r` here. If a subquery compared them, Postgres 14 to 16 would join
    -- the subquery through a cache (Memoize). The key of that cache lacks columns that only the output uses. So every
    -- owner would get the answer of the first owner.
    RETURN QUERY SELECT CASE
            WHEN w.ticket IS NOT NULL THEN ARRAY[
                '0', lock_core.micros(t)::text, NULL, (cardinality(v_tickets) - 1)::text, v_held.left_us::text, v_held.record,
                (width_bucket(w.ticket, v_tickets) - 1)::text, coalesce(lock_core.hands_off(h, r.owner, t), false)::text, 'true',
                v_held.mode, NULL
            ]
            WHEN h.owner = r.owner AND h.expires_at > t AND NOT h.kept AND NOT (r.mode = 'x' AND h.mode <> 'x') THEN ARRAY[
                '1', lock_core.micros(t)::text, NULL, cardinality(v_tickets)::text, NULL, NULL, NULL, NULL, NULL, NULL, NULL
            ]
            ELSE ARRAY['-1']
        END
        FROM unnest(p_owners, p_modes) WITH ORDINALITY r (owner, mode, number)
        LEFT JOIN lock_core.waiters w ON w.key = p_key AND w.owner = r.owner
        LEFT JOIN lock_core.holders h ON h.key = p_key
            AND h.slot = CASE WHEN r.mode = 'x' OR w.owner IS NOT NULL THEN '' ELSE r.owner END
        ORDER BY r.number;
END $$;
