-- While the migration runs, names are looked up in `pg_catalog` alone: whoever may create in `public` could otherwise have the
-- administrator run a function of theirs. The last file sets this back. Only for the text that is run by hand: `migrate` sets the
-- path for its transaction alone.
DO $$
BEGIN
    PERFORM pg_catalog.set_config('lock_migration.search_path', pg_catalog.current_setting('search_path'), false);
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
END $$;

