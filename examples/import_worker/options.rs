//! The command-line arguments.

use std::time::Duration;

/// The protections that keep two workers from doing one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// The lock, and the comparison of its token in every write.
    Full,
    /// The lock alone.
    NoFence,
    NoLock,
}

/// The options of one run of the program.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) workers: usize,
    pub(crate) groups: i64,
    /// The number of tasks in a group.
    pub(crate) tasks: i64,
    /// The number of lines in a task.
    pub(crate) lines: i64,
    /// The time for each line.
    pub(crate) line: Duration,
    pub(crate) ttl: Duration,
    pub(crate) care: Care,
    pub(crate) crashes: u64,
    pub(crate) crash_every: Duration,
    /// Each worker stops itself for longer than the ttl, on average once in this number of lines.
    pub(crate) stall_every: Option<u64>,
    /// The number of a worker in its own process.
    pub(crate) worker: Option<i64>,
    /// All arguments, which are passed on to worker processes.
    pub(crate) arguments: Vec<String>,
}

const KNOWN: &str = "`--workers`, `--groups`, `--tasks`, `--lines`, `--line`, `--ttl`, `--crashes`, `--crash-every`, \
                     `--stall-every` or `--without fence|lock`";

impl Options {
    pub(crate) fn from_args(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            workers: 4,
            groups: 2,
            tasks: 3,
            lines: 100,
            line: Duration::from_millis(5),
            ttl: Duration::from_secs(10),
            care: Care::Full,
            crashes: 0,
            crash_every: Duration::from_millis(300),
            stall_every: None,
            worker: None,
            arguments: arguments.collect(),
        };
        let mut arguments = options.arguments.clone().into_iter();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("`{name}` needs a value"))?;
            options.set(&name, &value)?;
        }
        if options.workers == 0 || options.groups == 0 || options.stall_every == Some(0) {
            return Err("`--workers`, `--groups` and `--stall-every` are at least 1".to_owned());
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = |expected| format!("`{name} {value}`: expected {expected}");
        let number = || value.parse::<u32>().map_err(|_| wrong("a number"));
        let seconds = || {
            let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds.ok_or_else(|| wrong("seconds, such as `0.5`"))
        };
        match name {
            "--workers" => self.workers = usize::try_from(number()?).map_err(|error| error.to_string())?,
            "--groups" => self.groups = number()?.into(),
            "--tasks" => self.tasks = number()?.into(),
            "--lines" => self.lines = number()?.into(),
            "--line" => self.line = seconds()?,
            "--ttl" => self.ttl = seconds()?,
            "--crashes" => self.crashes = number()?.into(),
            "--crash-every" => self.crash_every = seconds()?,
            "--stall-every" => self.stall_every = Some(number()?.into()),
            "--without" => {
                self.care = match value {
                    "fence" => Care::NoFence,
                    "lock" => Care::NoLock,
                    _ => return Err(wrong("`fence` or `lock`")),
                }
            }
            "--worker" => self.worker = Some(number()?.into()),
            _ => return Err(format!("unknown option `{name}`: expected {KNOWN}")),
        }
        Ok(())
    }
}
