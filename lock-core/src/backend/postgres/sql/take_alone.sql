-- Takes an exclusive grant of a key that this process released last: the row of that grant is `alone` (see tables.sql), and becomes
-- this one's. One row is changed in its place, without a new entry in an index, and no other is read or locked. Returns no row where
-- somebody else has used the key since, or a sweep has deleted the row: then `attempt` finds out. For a session that has the settings
-- of the library.
--
-- Whoever else wants the key waits for the row, and then sees what was made of it. A transaction of the application that has locked the
-- row weakly, because it has verified the last lease (see verify.sql), does not stop this. The release of such a lease leaves no row that
-- is alone; all the same, such a lock is looked for, before and on the new version of the row, which as a rule takes over the locks of
-- the one before it. Where the answer is false there may be one, and the grant must be given back.
UPDATE lock_core.holders h
    SET owner = $2, record = $3, expires_at = clock_timestamp() + $4::bigint * interval '1 microsecond'
    WHERE h.key = $1 AND h.slot = '' AND h.alone AND h.owner = '' AND h.xmax = 0
    RETURNING h.xmax = 0
