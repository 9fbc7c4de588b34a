//! The example `scheduler` on three masters. The process that runs the job is killed, and so are masters.

use std::time::Duration;

use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_tests::{Directory, RedisServer, wait_until};

use crate::cases::scheduler::{SCHEDULER, Tables};
use crate::cases::{Program, number};

/// The longest lease. The lease of the job is 1.2 s.
const MAX_TTL: Duration = Duration::from_millis(1_500);
/// The time for which a restarted server does not vote, and a little more.
const QUARANTINE: Duration = Duration::from_millis(2_000);
const KILLS: i64 = 20;
const IN_THE_MIDDLE: &str =
    "SELECT count(*) FROM scheduler_events WHERE event = 'killed' AND detail LIKE 'in the middle%'";

struct Rig {
    masters: [RedisServer; 3],
    directory: Directory,
}

impl Rig {
    async fn start() -> Self {
        let masters = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
        let urls = masters.each_ref().map(RedisServer::url);
        let options = VoterOptions::new(MAX_TTL);
        Voter::bootstrap_new_cluster(urls.iter().map(String::as_str), options).await.expect("they are empty");
        Self { masters, directory: Directory::new() }
    }

    fn table(&self) -> String {
        self.directory.path().join("table").display().to_string()
    }

    fn program(&self, arguments: &[&str]) -> Program {
        let [a, b, c] = self.masters.each_ref().map(RedisServer::port);
        let url = format!("redlock://127.0.0.1:{a},127.0.0.1:{b},127.0.0.1:{c}/?max_ttl=1500ms");
        let usual = ["--processes", "3", "--estimate", "1"];
        Program::start(SCHEDULER, &[&usual, arguments].concat(), &url, &self.table())
    }

    fn kills(&self) -> i64 {
        number(&self.table(), IN_THE_MIDDLE)
    }

    /// Kills the masters in turn while the program runs, and restarts them. Returns the number of kills.
    async fn disturb(&mut self, program: &mut Program) -> usize {
        let mut disturbed = 0;
        while !program.has_ended() {
            let (kills, number) = (self.kills(), disturbed % 3);
            self.masters[number].kill9();
            // One process is killed while the master is down, and one while the master does not vote yet.
            wait_until("another kill", LONG, async || self.kills() > kills || program.has_ended()).await;
            self.masters[number].restart();
            disturbed += 1;
            tokio::time::sleep(QUARANTINE).await;
        }
        disturbed
    }
}

const LONG: Duration = Duration::from_secs(60);

/// Kills twenty processes that run the job.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
async fn a_scheduler_that_is_killed_is_followed_after_its_lease() {
    let mut rig = Rig::start().await;
    let kills = KILLS.to_string();
    let mut program = rig.program(&["--seconds", "200", "--kill-every", "1.2", "--kills", &kills]);
    let disturbed = rig.disturb(&mut program).await;
    let (status, printed) = program.ended().await;
    println!("{printed}");
    assert!(status.success(), "{printed}");
    assert!(disturbed > 2, "{disturbed} masters were killed");
    let tables = Tables::read(&rig.table());
    tables.check_history().unwrap_or_else(|violation| panic!("{violation}\n{printed}"));
    tables.check_ticks();
    tables.check_states();
    let took = tables.failovers();
    assert_eq!(i64::try_from(took.len()), Ok(KILLS));
    // A busy machine may delay many of them.
    let quick = took.iter().filter(|took| **took < Duration::from_secs(3)).count();
    assert!(quick * 4 >= took.len() && took.iter().all(|took| *took < Duration::from_secs(30)), "{took:?}");
    // The leases were renewed, so the others had to wait.
    assert!(took.iter().sum::<Duration>() > Duration::from_millis(400) * 20, "{took:?}");
}

/// Stops processes that run the job for longer than their lease.
#[tokio::test]
async fn a_scheduler_that_is_stopped_finds_its_lock_lost() {
    let rig = Rig::start().await;
    let (status, printed) = rig.program(&["--seconds", "14", "--pause-every", "3"]).ended().await;
    assert!(status.success(), "{printed}");
    let tables = Tables::read(&rig.table());
    tables.check_history().unwrap_or_else(|violation| panic!("{violation}\n{printed}"));
    tables.check_ticks();
    tables.check_states();
    assert!(tables.runs.iter().any(|run| run.outcome == "lost"), "{printed}");
}

/// This is the negative control: each scheduler has its own lock.
#[tokio::test]
async fn schedulers_without_a_common_lock_are_found_out() {
    let rig = Rig::start().await;
    let (status, printed) = rig.program(&["--seconds", "4", "--careless"]).ended().await;
    assert!(!status.success(), "{printed}");
    let found = Tables::read(&rig.table()).check_history().expect_err("they run at once");
    assert!(found.contains("held one key at once") || found.contains("refused"), "{found}");
}
