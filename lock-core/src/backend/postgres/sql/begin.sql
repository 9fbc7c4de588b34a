-- The migration looks up names only in `pg_catalog`. Otherwise, a user who may create functions in `public` could make
-- the administrator run one of them. end.sql restores the path. Only a migration that is run by hand needs these two
-- files: `migrate` sets the path for its own transaction.
DO $$
BEGIN
    PERFORM pg_catalog.set_config('lock_migration.search_path', pg_catalog.current_setting('search_path'), false);
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
END $$;

