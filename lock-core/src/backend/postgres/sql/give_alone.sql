-- Releases an exclusive grant that is `alone`, without the lock of its key: its row stays for the next one (see take_alone.sql). Nobody
-- waits, so a crash of the server may lose this (as `commit_later`). Returns no row where the grant is not alone, or not this one's any
-- more: then `let_go` finds out. For a session that has the settings of the library.
--
-- Not for a lease that was verified (see verify.sql): this does not wait for a check that is under way, and the check not for this.
UPDATE lock_core.holders h SET owner = '', expires_at = '-infinity'
    WHERE h.key = $1 AND h.slot = '' AND h.alone AND h.owner = $2 AND h.expires_at > clock_timestamp()
    RETURNING set_config('synchronous_commit', 'off', true)
