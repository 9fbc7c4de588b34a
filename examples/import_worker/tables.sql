-- One row a task: a file of `total` lines. `checkpoint` is the last line that was imported, and `fence` the largest
-- token of its group's lock that the task has seen.
CREATE TABLE IF NOT EXISTS import_tasks (
    task BIGINT PRIMARY KEY, task_group BIGINT NOT NULL, total BIGINT NOT NULL, checkpoint BIGINT NOT NULL,
    fence BIGINT NOT NULL
);
-- One row for each line that was imported. It has no key, so that a line can be here twice: this is what is checked.
CREATE TABLE IF NOT EXISTS import_lines (
    task BIGINT NOT NULL, line BIGINT NOT NULL, worker TEXT NOT NULL, token BIGINT NOT NULL, happened BIGINT NOT NULL
);
-- What a worker was at when it was last heard of. It reads it when it is started again.
CREATE TABLE IF NOT EXISTS import_workers (name TEXT PRIMARY KEY, task_group BIGINT NOT NULL);
-- What else happened: the lock of a group was taken, a worker was killed.
CREATE TABLE IF NOT EXISTS import_events (
    happened BIGINT NOT NULL, worker TEXT NOT NULL, event TEXT NOT NULL, task_group BIGINT NOT NULL, token BIGINT NOT NULL
);
DELETE FROM import_tasks;
DELETE FROM import_lines;
DELETE FROM import_workers;
DELETE FROM import_events;
