//! Checks the example `import_worker` while some of its workers are killed. Its locks and its tables are on one server.

use lock_tests::PostgresServer;

use crate::cases::Program;
use crate::cases::import::IMPORT;

#[tokio::test]
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
async fn workers_that_are_killed_import_each_line_once() {
    let server = PostgresServer::start();
    let crashes = ["--crashes", "20", "--crash-every", "0.3", "--ttl", "1"];
    let work = ["--workers", "6", "--groups", "3", "--tasks", "6", "--lines", "150"];
    let arguments = [&crashes[..], &work].concat();
    let program = Program::start(IMPORT, &arguments, &server.url(), &server.url_of("postgres"));
    let (status, printed) = program.ended().await;
    println!("{printed}");
    assert!(status.success(), "{printed}");
    let count = |sql| server.sql(sql).trim().to_owned();
    assert_eq!(count("SELECT count(*) FROM import_events WHERE event = 'killed'"), "20", "{printed}");
    assert_eq!(count("SELECT count(*) FROM import_tasks WHERE checkpoint = total"), "18", "{printed}");
    assert_eq!(count("SELECT count(*) FROM import_lines"), "2700", "{printed}");
    assert_eq!(count("SELECT count(DISTINCT (task, line)) FROM import_lines"), "2700", "{printed}");
    // A killed worker delays the others by its ttl, and by the waiter lease of each place in the queue.
    let pauses = "SELECT coalesce(max(pause), 0) < 20000000 FROM (SELECT l.happened - lag(l.happened) \
                  OVER (PARTITION BY t.task_group ORDER BY l.happened) AS pause \
                  FROM import_lines l JOIN import_tasks t USING (task)) AS pauses";
    assert_eq!(count(pauses), "t", "{printed}");
}
