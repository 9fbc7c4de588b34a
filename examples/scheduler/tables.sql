-- The jobs. `fence` is the largest token that the row has seen: every statement that works for the job compares it.
-- `done` is the last tick whose run is over.
CREATE TABLE IF NOT EXISTS scheduler_jobs (
    job TEXT PRIMARY KEY, done BIGINT NOT NULL, fence BIGINT NOT NULL, steps BIGINT NOT NULL
);
-- The runs. Tokens are numbered for each job. Times are microseconds since 1970. `seen` is the time of the last sign of
-- life of the worker.
CREATE TABLE IF NOT EXISTS scheduler_runs (
    job TEXT NOT NULL, fence BIGINT NOT NULL, tick BIGINT NOT NULL, worker TEXT NOT NULL,
    started BIGINT NOT NULL, seen BIGINT NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (job, fence)
);
-- The events of the lock managers, and the kills and pauses of the workers.
CREATE TABLE IF NOT EXISTS scheduler_events (
    happened BIGINT NOT NULL, worker TEXT NOT NULL, event TEXT NOT NULL, token BIGINT NOT NULL, detail TEXT NOT NULL
);
DELETE FROM scheduler_jobs;
DELETE FROM scheduler_runs;
DELETE FROM scheduler_events;
