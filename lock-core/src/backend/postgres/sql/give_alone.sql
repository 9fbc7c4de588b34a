-- Releases an exclusive grant that is `alone`, without the lock of its key: its row stays for the next one (see take_alone.sql). Where
-- it is not alone, `let_go` releases it. Nobody waits, so a crash of the server may lose this (as `commit_later`). Returns `alone`, or
-- the answer of `let_go`. For a session that has the settings of the library.
--
-- Not for a lease that was verified (see verify.sql): this does not wait for a check that is under way, and the check not for this.
--
-- Where it has waited for somebody who was queued meanwhile, it has the row locked before the key, and the others have it the other way
-- round. Only a forced release, or a repeated one, wants both at that moment; `lock_timeout` ends that.
WITH given AS (
    UPDATE lock_core.holders h SET owner = '', expires_at = '-infinity'
        WHERE h.key = $1 AND h.slot = '' AND h.alone AND h.owner = $2 AND h.expires_at > clock_timestamp()
        RETURNING CASE set_config('synchronous_commit', 'off', true) WHEN 'off' THEN 'alone' END AS answer
)
SELECT coalesce((SELECT g.answer FROM given g), lock_core.let_go($1, $2, 'x'))
