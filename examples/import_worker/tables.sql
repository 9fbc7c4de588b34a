-- The tasks. Each task is a file of `total` lines. `checkpoint` is the last line that was imported, and `fence` the
-- largest token of its group's lock that the row has seen.
CREATE TABLE IF NOT EXISTS import_tasks (
    task BIGINT PRIMARY KEY, task_group BIGINT NOT NULL, total BIGINT NOT NULL, checkpoint BIGINT NOT NULL,
    fence BIGINT NOT NULL
);
-- The imported lines. The table has no primary key, so that a line can be here twice: the program checks this.
CREATE TABLE IF NOT EXISTS import_lines (
    task BIGINT NOT NULL, line BIGINT NOT NULL, worker TEXT NOT NULL, token BIGINT NOT NULL, happened BIGINT NOT NULL
);
-- The last known group of each worker. A worker reads its row when it is started again.
CREATE TABLE IF NOT EXISTS import_workers (name TEXT PRIMARY KEY, task_group BIGINT NOT NULL);
-- Other events: the lock of a group was acquired, a worker was killed.
CREATE TABLE IF NOT EXISTS import_events (
    happened BIGINT NOT NULL, worker TEXT NOT NULL, event TEXT NOT NULL, task_group BIGINT NOT NULL, token BIGINT NOT NULL
);
DELETE FROM import_tasks;
DELETE FROM import_lines;
DELETE FROM import_workers;
DELETE FROM import_events;
