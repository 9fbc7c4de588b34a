-- The migration looks up names only in `pg_catalog`. Otherwise, a user who may create functions in `public` could make
-- the administrator run such a function. The last file restores the path. Only text that is run by hand needs this:
-- `migrate` sets the path for its own transaction.
DO $$
BEGIN
    PERFORM pg_catalog.set_config('lock_migration.search_path', pg_catalog.current_setting('search_path'), false);
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
END $$;

