-- Returns the facts for `doctor`, in one statement. Each row has a kind, a name, two texts and two numbers; see
-- doctor/facts.rs. $1 is the schema, $2 contains the names of settings.
--
-- A session that a pooler lends does not have the library's `search_path`. So each name is written here with its
-- schema. The operators get their schema when the statement is built; see statements.rs. For a user without
-- `pg_read_all_stats`, the columns with the state of other users' sessions are null.
WITH here AS MATERIALIZED (
    SELECT d.oid, d.datname, d.datconnlimit FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
), sessions AS MATERIALIZED (
    SELECT a.pid, a.datid, a.usesysid, a.usename, a.application_name, a.backend_type, a.state, a.state_change, a.xact_start,
        a.backend_xid, a.backend_xmin
    FROM pg_catalog.pg_stat_activity a
), tables AS MATERIALIZED (
    SELECT c.oid, c.relname, c.relpersistence, c.reloptions
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind = 'r'
)
-- A setting of this session, and the source of its value. Times are in ms.
SELECT 'setting', s.name, s.setting, s.source, NULL::bigint, NULL::bigint
FROM pg_catalog.pg_settings s WHERE s.name = ANY ($2)
UNION ALL
-- The time of the server, in s.
SELECT 'clock', NULL, pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())::pg_catalog.text, NULL, NULL, NULL
UNION ALL
-- The user that logged in, whether this user is a superuser, the user whose rights apply, and the limit and the number
-- of the user's connections.
SELECT 'role', pg_catalog.quote_ident(r.rolname), r.rolsuper::pg_catalog.text, pg_catalog.quote_ident(current_user), r.rolconnlimit,
    (SELECT pg_catalog.count(*) FROM sessions a WHERE a.usesysid = r.oid)
FROM pg_catalog.pg_roles r WHERE r.rolname = session_user
UNION ALL
SELECT 'database', pg_catalog.quote_ident(h.datname), NULL, NULL, h.datconnlimit,
    (SELECT pg_catalog.count(*) FROM sessions a WHERE a.datid = h.oid)
FROM here h
UNION ALL
-- Sessions: whether the user may see all columns of other users' sessions, how many sessions exist, and how many of
-- them the user sees only in part.
SELECT 'sessions', NULL, pg_catalog.pg_has_role('pg_read_all_stats'::pg_catalog.name, 'USAGE')::pg_catalog.text, NULL,
    pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE a.backend_type IS NULL)
FROM sessions a WHERE a.datid IS NOT NULL AND coalesce(a.backend_type, 'client backend') = 'client backend'
UNION ALL
-- Standbys: whether commits wait for each standby, and its state. Logical subscribers cannot become a primary, so they
-- are omitted.
SELECT 'standby', r.application_name, r.sync_state, r.state, NULL, NULL
FROM pg_catalog.pg_stat_replication r
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')
UNION ALL
-- A table: whether the table is logged (`p`) or unlogged (`u`), its options, and its numbers of dead and live rows.
SELECT 'table', t.relname, t.relpersistence::pg_catalog.text, pg_catalog.array_to_string(t.reloptions, ' '),
    pg_catalog.pg_stat_get_dead_tuples(t.oid), pg_catalog.pg_stat_get_live_tuples(t.oid)
FROM tables t
UNION ALL
-- The rights to tables that the user lacks, and the functions that the user may not call.
SELECT 'no right', t.relname, p.name, NULL, NULL, NULL
FROM tables t CROSS JOIN pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p(name)
WHERE NOT pg_catalog.has_table_privilege(t.oid, p.name)
UNION ALL
SELECT 'no call', f.proname, NULL, NULL, NULL, NULL
FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
WHERE n.nspname = $1 AND NOT pg_catalog.has_function_privilege(f.oid, 'EXECUTE')
UNION ALL
-- A session that is idle in a transaction and has locked a table: the modes of these locks, its user, its process, and
-- its idle time in s.
SELECT 'idle', a.application_name, pg_catalog.string_agg(DISTINCT l.mode, ' '), pg_catalog.quote_ident(a.usename), a.pid,
    pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - a.state_change)::bigint
FROM pg_catalog.pg_locks l
    JOIN here h ON h.oid = l.database
    JOIN tables t ON t.oid = l.relation
    JOIN sessions a ON a.pid = l.pid
WHERE l.granted AND a.state = 'idle in transaction'
GROUP BY a.application_name, a.usename, a.pid, a.state_change
UNION ALL
-- The oldest open transaction that keeps the server from removing dead rows, and the oldest prepared transaction, each
-- with its age in s.
(SELECT 'open', a.application_name, a.state, NULL, a.pid,
    pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - a.xact_start)::bigint
FROM sessions a JOIN here h ON h.oid = a.datid
WHERE a.xact_start IS NOT NULL AND a.backend_type = 'client backend' AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
    AND a.pid <> pg_catalog.pg_backend_pid()
ORDER BY a.xact_start LIMIT 1)
UNION ALL
(SELECT 'prepared', pg_catalog.quote_literal(p.gid), NULL, NULL, NULL,
    pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - p.prepared)::bigint
FROM pg_catalog.pg_prepared_xacts p JOIN here h ON h.datname = p.database
ORDER BY p.prepared LIMIT 1)
UNION ALL
-- The number of locks of all kinds in the lock table that the sessions share.
SELECT 'locks', NULL, NULL, NULL, pg_catalog.count(*), NULL
FROM pg_catalog.pg_locks l WHERE NOT l.fastpath
