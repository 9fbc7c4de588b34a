//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args as Options, Parser, Subcommand};
use clap_complete::Shell;

const EXIT_CODES: &str = "\
Exit codes:
  0     done (of `run`: the code of the command)
  1     the answer is no: the key is not held, the grant was gone
  64    the command line is wrong
  75    another one holds the lock (`run -E CODE` changes it)
  76    the lock was lost while the command ran: the command was stopped, or ended with 0 before
        lockctl noticed the loss
  77    the store does not answer, or refuses
  126   the command cannot be executed, 127: it is not found
  128+N the command, or lockctl while it waited, was ended by signal N";

/// Takes, shows and frees the locks of a store.
#[derive(Debug, Parser)]
#[command(name = "lockctl", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print JSON: one object, or one a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Options)]
pub(crate) struct Store {
    /// The store, such as redis://127.0.0.1/ or postgres://app:secret@db/shop.
    #[arg(long, global = true, env = "LOCK_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// The namespace of the keys, as the services give it to their manager.
    #[arg(long, global = true, env = "LOCK_NAMESPACE", default_value = "")]
    pub(crate) namespace: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock.
    ///
    /// The lock is released when the command itself has ended. Processes that the command has left in the background work
    /// on without the lock, so let the command wait for them. If the lock is lost, they are ended too.
    ///
    /// If the key is deleted in the store, lockctl notices that at its next renewal, within a third of the ttl, or else
    /// when it releases the lock. If the command has ended by then, it is not stopped. lockctl then says that the lock was
    /// lost, and exits with 76 if the command ended with 0.
    ///
    /// The command finds the key in `LOCK_KEY`, and the fencing token in `LOCK_FENCING_TOKEN` if the store gives one.
    Run(Run),
    /// Hold a lock until a signal (TERM, INT, HUP).
    Hold(Lock),
    /// Take a lock for a script, and print its token.
    ///
    /// The lock outlives lockctl: it is held until `release`, or until its ttl is over. Nothing ends a script that works
    /// on after that, so `run` is better where it can be used. A store whose locks end with the connection refuses this:
    /// ZooKeeper, and Postgres with mode=advisory.
    Acquire(Acquire),
    /// Renew the lock of a token, from now on for another ttl.
    Renew {
        #[command(flatten)]
        lock: Detached,
        /// The new length of the lease.
        #[arg(long, value_parser = duration)]
        ttl: Duration,
    },
    /// Release the lock of a token.
    Release(Detached),
    /// Show the leader of a name, or run a command while leading it.
    Leader(Leader),
    /// Wait until a key is free, without taking it.
    Wait(Wait),
    /// List the locks that are held.
    #[command(visible_alias = "ls")]
    List(List),
    /// Show the holders and waiters of one key.
    Show {
        /// The key.
        key: String,
    },
    /// Show the locks that are held, again and again.
    Top {
        /// The pause between two pictures.
        #[arg(long, value_parser = duration, default_value = "1s")]
        every: Duration,
    },
    /// Print how many permits of a semaphore are free.
    Available {
        /// The key of the semaphore.
        key: String,
        /// Its permits in all.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        permits: u32,
    },
    /// Take a lock from its holder.
    ForceRelease(ForceRelease),
    /// Ask the store whether it serves locks.
    Ping,
    /// Look for what endangers locks, and say what to do about it.
    ///
    /// Looks at the settings of the store and at its locks, and changes nothing. The exit code is 1 if there is a warning
    /// or a danger.
    Doctor,
    /// Measure how fast the store takes and frees locks.
    Bench(Bench),
    /// Make the tables of Postgres, or bring them up to date.
    #[cfg(feature = "postgres")]
    Migrate,
    /// Print the statements of `migrate`, to run them by hand.
    #[cfg(feature = "postgres")]
    Sql {
        /// The schema of the tables.
        #[arg(long, default_value = "lock_core")]
        schema: String,
    },
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Internal: becomes the command of `run`.
    #[command(name = "__exec", hide = true)]
    Exec {
        parent: i32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Internal: ends the command of a `run` that was killed.
    #[command(name = "__warden", hide = true)]
    Warden {
        // A signal to the group 1 is `kill(-1)`, which reaches every process.
        #[arg(value_parser = clap::value_parser!(i32).range(2..))]
        process: i32,
        #[arg(long)]
        group: bool,
        #[arg(long)]
        mark: u64,
        #[arg(long)]
        session: i32,
        #[arg(long, value_parser = duration)]
        grace: Duration,
        #[arg(long)]
        until: u64,
    },
}

/// A lock, and how to wait for it.
#[derive(Debug, Options)]
pub(crate) struct Lock {
    /// The key.
    pub(crate) key: String,
    /// The length of the lease: how long the key stays locked after a crash. It is renewed while the lock is held.
    #[arg(long, value_parser = duration, default_value = "15s")]
    pub(crate) ttl: Duration,
    /// Wait at most this long. By default, wait until the lock is free.
    #[arg(long, value_parser = duration, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait.
    #[arg(short, long)]
    pub(crate) no_wait: bool,
    /// Share the lock with other readers.
    #[arg(long, conflicts_with_all = ["permits", "fair"])]
    pub(crate) shared: bool,
    /// Wait in the order of arrival.
    #[arg(long, conflicts_with = "permits")]
    pub(crate) fair: bool,
    /// Take one permit of a semaphore of so many.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) permits: Option<u32>,
    /// Keep the key locked for at least this long, also after a short command.
    #[arg(long, value_parser = duration)]
    pub(crate) min_hold: Option<Duration>,
    /// Hold the lock for at most this long.
    #[arg(long, value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,
    /// Do not renew the lease: the lock ends after its ttl.
    #[arg(long)]
    pub(crate) no_renew: bool,
    /// What the lock is for, as `list` shows it. By default the command, or nothing.
    #[arg(long)]
    pub(crate) label: Option<String>,
}

#[derive(Debug, Options)]
pub(crate) struct Acquire {
    /// The key.
    pub(crate) key: String,
    /// How long the lock is held at most, unless it is renewed.
    #[arg(long, value_parser = duration)]
    pub(crate) ttl: Duration,
    /// Wait at most this long. By default, wait until the lock is free.
    #[arg(long, value_parser = duration, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait.
    #[arg(short, long)]
    pub(crate) no_wait: bool,
    /// What the lock is for, as `list` shows it.
    #[arg(long)]
    pub(crate) label: Option<String>,
}

/// A lock that `acquire` has taken.
#[derive(Debug, Options)]
pub(crate) struct Detached {
    /// The key.
    pub(crate) key: String,
    /// The token that `acquire` has printed. It is a secret, and every user of the machine sees the options of a program:
    /// pass it as the variable.
    #[arg(long, env = "LOCK_TOKEN", hide_env_values = true)]
    pub(crate) token: String,
}

#[derive(Debug, Options)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) lock: Lock,
    #[command(flatten)]
    pub(crate) end: End,
    /// The exit code when another one holds the lock.
    #[arg(short = 'E', long, value_name = "CODE")]
    pub(crate) contended_exit_code: Option<u8>,
    /// The command and its arguments. It is not run by a shell: write `sh -c '..'` for that.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// How a command ends when its lock does.
#[derive(Debug, Options)]
pub(crate) struct End {
    /// What happens to the command when the lock is lost: `kill` ends it before the lease is over, `warn` lets it work on,
    /// and keeps its exit code.
    #[arg(long, value_enum, default_value = "kill")]
    pub(crate) on_lost: OnLost,
    /// The time between TERM and KILL, at most a third of the lease. TERM comes that much, and a tenth of the lease, before
    /// the lease is over.
    #[arg(long, value_parser = duration, default_value = "5s")]
    pub(crate) grace: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnLost {
    Kill,
    Warn,
}

#[derive(Debug, Options)]
pub(crate) struct Leader {
    /// The name whose leader is elected.
    pub(crate) name: String,
    /// The length of the lease: how long the others wait after a crash of the leader.
    #[arg(long, value_parser = duration, default_value = "15s")]
    pub(crate) ttl: Duration,
    /// What the leader is called in `list`.
    #[arg(long)]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) end: End,
    /// The command to run while leading. Without it, the present leader is shown.
    #[arg(last = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Options)]
pub(crate) struct Wait {
    /// The key.
    pub(crate) key: String,
    /// Wait at most this long.
    #[arg(long, value_parser = duration)]
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, Options)]
pub(crate) struct List {
    /// Only keys that begin with this.
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// Only locks that are held for longer than this (or were asked for, where the store does not keep since when).
    #[arg(long, value_parser = duration)]
    pub(crate) older: Option<Duration>,
}

#[derive(Debug, Options)]
pub(crate) struct ForceRelease {
    /// The key.
    pub(crate) key: String,
    /// The grant to take away: the id that `list` shows. Needed if the key has several holders.
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Why. It is written to the log.
    #[arg(long)]
    pub(crate) reason: String,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Options)]
pub(crate) struct Bench {
    /// How many tasks take locks at the same time.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tasks: u32,
    /// How long.
    #[arg(long, value_parser = duration, default_value = "3s")]
    pub(crate) time: Duration,
    /// All tasks take the same key.
    #[arg(long)]
    pub(crate) hot: bool,
}

/// Longer times are cut to this: adding one to the present would overflow.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Parses a time with a unit, such as `500ms`, `30s` or `5m`.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map(|time| time.min(LONGEST))
        .map_err(|_| "expected a number with a unit, such as 500ms, 30s or 5m".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_warden_never_ends_every_process() {
        // Only parsed: a warden of the group 1 would end every process that this user may signal.
        for (process, is_taken) in [("2", true), ("1", false), ("0", false), ("-1", false)] {
            let line = [
                "lockctl",
                "__warden",
                process,
                "--group",
                "--mark",
                "1",
                "--session",
                "1",
                "--grace",
                "1s",
                "--until",
                "1",
            ];
            assert_eq!(Args::try_parse_from(line).is_ok(), is_taken, "{process}");
        }
    }

    #[test]
    fn a_time_needs_a_unit() {
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(duration("5").is_err() && duration("").is_err());
        assert_eq!(duration("500000000000years"), Ok(LONGEST));
    }
}
