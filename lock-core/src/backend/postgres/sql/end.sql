
DO $$
BEGIN
    PERFORM pg_catalog.set_config('search_path', pg_catalog.current_setting('lock_migration.search_path'), false);
END $$;
