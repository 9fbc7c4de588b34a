-- Creates the schema, its tables and its types. If they exist already, this file changes nothing.
--
-- keys      one row for each key in use. Every change of a key, except a renewal, locks this row first, so these
--           changes happen one after another. The row also has the last fencing token and the latch.
-- holders   one row for each grant.
-- waiters   the queue: one row for each claim that waits.
-- floor     one row: the largest fencing token of the keys whose rows were deleted, and the position of the last sweep.
--
-- Keys are compared by their bytes, so that the index finds a prefix in any locale. All times are from the server's
-- clock. fillfactor reserves space on each page for the new versions of updated rows.
DO $$
BEGIN
    -- `CREATE SCHEMA IF NOT EXISTS` needs the right to create a schema, even if the schema exists.
    IF to_regnamespace('lock_core') IS NULL THEN
        CREATE SCHEMA lock_core;
    END IF;
END $$;

CREATE TABLE IF NOT EXISTS lock_core.keys (
    key         text COLLATE "C" PRIMARY KEY,
    -- The last fencing token. The token is at least the server's time (us) when it was made.
    fence       bigint NOT NULL DEFAULT 0,
    -- The holder for which `fence` was made: its owner token, followed by `:<number>` after a hand-off within the
    -- process. `-` if the process itself assigned the token.
    fence_of    text NOT NULL DEFAULT '',
    -- A count-down latch: the remaining count, the owner that set the latch, and the end of its lease. The latch is in
    -- use until its lease ends.
    latch_left  integer NOT NULL DEFAULT 0,
    latch_by    text NOT NULL DEFAULT '',
    latch_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE IF NOT EXISTS lock_core.holders (
    key        text COLLATE "C" NOT NULL,
    -- 48 hexadecimal digits: 32 for the process, 16 for a counter. The owner token is secret: only the process and the
    -- server may see it.
    owner      text COLLATE "C" NOT NULL,
    -- `x` is exclusive, `s` is shared, `p<of>` is one of `<of>` permits.
    mode       text NOT NULL,
    -- A description of the owner for people.
    record     text NOT NULL,
    -- The end of the lease. The row of an expired grant may stay until a claim needs the key.
    expires_at timestamptz NOT NULL,
    -- Whether the holder has released the key, and the key stays locked until `expires_at`.
    kept       boolean NOT NULL DEFAULT false,
    -- '' for a grant that is, or at first was, exclusive. A key has at most one such row. For any other grant, the slot
    -- is the owner.
    slot       text COLLATE "C" NOT NULL DEFAULT '',
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (key, slot)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE TABLE IF NOT EXISTS lock_core.waiters (
    key      text COLLATE "C" NOT NULL,
    owner    text COLLATE "C" NOT NULL,
    -- The order of arrival. A ticket is the server's time in us or, if larger, one more than the last ticket.
    ticket   bigint NOT NULL,
    -- If the waiter sends no heartbeat before this time, the waiter counts as dead.
    deadline timestamptz NOT NULL,
    -- The requested lease, in us.
    ttl      bigint NOT NULL,
    mode     text NOT NULL,
    record   text NOT NULL,
    PRIMARY KEY (key, owner)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
DO $$
BEGIN
    -- `CREATE INDEX IF NOT EXISTS` locks the table even if the index exists. A running service would wait for that
    -- lock.
    IF to_regclass('lock_core.waiters_in_order') IS NULL THEN
        CREATE INDEX waiters_in_order ON lock_core.waiters (key, ticket);
    END IF;
END $$;

CREATE TABLE IF NOT EXISTS lock_core.latch_counts (
    key   text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    PRIMARY KEY (key, owner)
);

CREATE TABLE IF NOT EXISTS lock_core.latch_waiters (
    key     text COLLATE "C" NOT NULL,
    -- 32 hexadecimal digits.
    process text COLLATE "C" NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (key, process)
);

CREATE TABLE IF NOT EXISTS lock_core.floor (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    fence    bigint NOT NULL DEFAULT 0,
    -- The time of the last sweep (plus 10 s if that sweep reached the end), and the last key that the sweep checked.
    swept_at timestamptz NOT NULL DEFAULT '-infinity',
    swept_to text COLLATE "C" NOT NULL DEFAULT ''
);
INSERT INTO lock_core.floor DEFAULT VALUES ON CONFLICT DO NOTHING;

-- The number of this migration. A later migration keeps the functions of earlier migrations.
CREATE TABLE IF NOT EXISTS lock_core.version (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    number integer NOT NULL
);
DO $$
BEGIN
    -- Without this check, the migration would replace the functions of a later version.
    IF EXISTS (SELECT FROM lock_core.version v WHERE v.number > :version) THEN
        RAISE EXCEPTION 'the lock tables are those of a later version, and were left alone' USING ERRCODE = ':later_version';
    END IF;
END $$;
INSERT INTO lock_core.version (number) VALUES (:version)
    ON CONFLICT (one) DO UPDATE SET number = greatest(version.number, excluded.number);

DO $$
BEGIN
    IF to_regtype('lock_core.answer') IS NULL THEN
        -- The answer to an attempt or a heartbeat.
        CREATE TYPE lock_core.answer AS (
            -- 1: granted, 0: held, -1: the claim is no longer queued, -2: the key is in use in an incompatible mode.
            verdict integer,
            -- The server's time in us.
            now_us  bigint,
            fence   bigint,
            -- The number of live claims that wait. The caller's claim does not count.
            waiting integer,
            -- The remaining time, in us, of the lease that must end before the claim can be granted.
            left_us bigint,
            -- The record of the holder.
            record  text,
            -- The number of live claims ahead of the caller's claim in the queue, if the caller's claim is queued.
            place   integer,
            -- Whether the holder can hand off to the caller's claim.
            own     boolean,
            -- Whether this request has queued the caller's claim, or has kept it in the queue.
            queued  boolean,
            -- The reason for the refusal. For -2: the mode of the holders, or `latch`. For 0: `kept` if the holder has
            -- released the key and the key stays locked for a while.
            mode    text,
            -- The number of the key that is in use, for a claim of several keys with the verdict -2 or 0.
            number  integer
        );
    END IF;
END $$;

-- Saves the largest token of the deleted keys in `floor`. So later tokens are larger even if the clock is set back.
CREATE OR REPLACE FUNCTION lock_core.raise_floor() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        UPDATE lock_core.floor SET fence = greatest(fence, (SELECT max(k.fence) FROM lock_core.keys k));
    ELSE
        UPDATE lock_core.floor f SET fence = g.fence
            FROM (SELECT max(o.fence) AS fence FROM gone o) g WHERE g.fence > f.fence;
    END IF;
    RETURN NULL;
END $$;
DO $$
BEGIN
    -- Creating a trigger locks the table, like creating the index above.
    IF NOT EXISTS (SELECT FROM pg_trigger g
            WHERE g.tgrelid = to_regclass('lock_core.keys') AND g.tgname = 'raise_floor') THEN
        CREATE TRIGGER raise_floor AFTER DELETE ON lock_core.keys REFERENCING OLD TABLE AS gone
            FOR EACH STATEMENT EXECUTE FUNCTION lock_core.raise_floor();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger g
            WHERE g.tgrelid = to_regclass('lock_core.keys') AND g.tgname = 'raise_floor_truncated') THEN
        CREATE TRIGGER raise_floor_truncated BEFORE TRUNCATE ON lock_core.keys
            FOR EACH STATEMENT EXECUTE FUNCTION lock_core.raise_floor();
    END IF;
END $$;
