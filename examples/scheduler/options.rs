//! The command-line arguments.

use std::sync::Arc;
use std::time::Duration;

use crate::common::random;
use crate::scheduler::Plan;

/// The options of one run of the program.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The time for which the program runs.
    pub(crate) time: Duration,
    pub(crate) processes: usize,
    every: Duration,
    estimate: Duration,
    look: Duration,
    min_hold: Duration,
    pub(crate) kill_every: Option<Duration>,
    /// The number of killed holders after which the program ends.
    pub(crate) kills: Option<u64>,
    pub(crate) pause_every: Option<Duration>,
    /// Whether each scheduler has its own lock, so that the lock excludes no other scheduler.
    pub(crate) careless: bool,
    /// The name of a scheduler in its own process.
    pub(crate) worker: Option<String>,
    /// All arguments, which are passed on to scheduler processes.
    pub(crate) arguments: Vec<String>,
}

const KNOWN: &str = "`--seconds`, `--minutes`, `--processes`, `--every`, `--estimate`, `--look`, `--min-hold`, \
                     `--kill-every`, `--kills`, `--pause-every` or `--careless`";

impl Options {
    pub(crate) fn from_args(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let ms = Duration::from_millis;
        let mut options = Self {
            time: ms(6_000),
            processes: 3,
            every: ms(1_000),
            estimate: ms(500),
            look: ms(250),
            min_hold: ms(300),
            kill_every: None,
            kills: None,
            pause_every: None,
            careless: false,
            worker: None,
            arguments: arguments.collect(),
        };
        let mut arguments = options.arguments.clone().into_iter();
        while let Some(name) = arguments.next() {
            if name == "--careless" {
                options.careless = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("`{name}` needs a value"))?;
            options.set(&name, value)?;
        }
        if options.processes == 0 || options.every.is_zero() || options.look.is_zero() {
            return Err("`--processes`, `--every` and `--look` are more than 0".to_owned());
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let wrong = |expected| format!("`{name} {value}`: expected {expected}");
        let number = || value.parse::<u32>().map_err(|_| wrong("a number"));
        let seconds = || {
            let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds.ok_or_else(|| wrong("seconds, such as `1.5`"))
        };
        match name {
            "--seconds" => self.time = seconds()?,
            "--minutes" => self.time = seconds()? * 60,
            "--processes" => {
                self.processes = usize::try_from(number()?).map_err(|error| error.to_string())?
            }
            "--every" => self.every = seconds()?,
            "--estimate" => self.estimate = seconds()?,
            "--look" => self.look = seconds()?,
            "--min-hold" => self.min_hold = seconds()?,
            "--kill-every" => self.kill_every = Some(seconds()?),
            "--kills" => self.kills = Some(number()?.into()),
            "--pause-every" => self.pause_every = Some(seconds()?),
            "--worker" => self.worker = Some(value),
            _ => return Err(format!("unknown option `{name}`: expected {KNOWN}")),
        }
        Ok(())
    }

    pub(crate) fn plan(&self) -> Plan {
        // Some runs take longer than the estimate, and longer than the lease.
        let estimate = self.estimate;
        Plan {
            every: self.every,
            estimate,
            takes: Arc::new(move |_| random::between(estimate / 2, estimate * 5 / 2)),
            step: Duration::from_millis(50),
            look: self.look,
            min_hold: self.min_hold,
        }
    }
}
