-- One row a job. `fence` is the largest token that it has seen: every statement that works for the job compares it.
-- `done` is the last tick whose run is over.
CREATE TABLE IF NOT EXISTS scheduler_jobs (
    job TEXT PRIMARY KEY, done BIGINT NOT NULL, fence BIGINT NOT NULL, steps BIGINT NOT NULL
);
-- One row a run. Tokens are numbered for each job. Times are microseconds since 1970. `seen` is when its worker was last
-- heard of.
CREATE TABLE IF NOT EXISTS scheduler_runs (
    job TEXT NOT NULL, fence BIGINT NOT NULL, tick BIGINT NOT NULL, worker TEXT NOT NULL,
    started BIGINT NOT NULL, seen BIGINT NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (job, fence)
);
-- What the lock managers told, and what was done to the workers.
CREATE TABLE IF NOT EXISTS scheduler_events (
    happened BIGINT NOT NULL, worker TEXT NOT NULL, event TEXT NOT NULL, token BIGINT NOT NULL, detail TEXT NOT NULL
);
DELETE FROM scheduler_jobs;
DELETE FROM scheduler_runs;
DELETE FROM scheduler_events;
