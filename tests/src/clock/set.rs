//! A preloaded library that shifts a server's wall clock.

use std::ffi::OsString;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::directory::Directory;

const LIBRARY: &str = "shim.so";
const OFFSET: &str = "offset";
const COMPILER: &str =
    "cc, which also links every Rust program here, is not installed; run: apt-get install -y gcc";

/// The wall clock of the servers that are started with this value, see
/// [`RedisBuilder::clock`](crate::RedisBuilder::clock) and
/// [`PostgresServer::with_clock`](crate::PostgresServer::with_clock). A test shifts the clock while they run. All other
/// processes keep the real clock.
#[derive(Debug)]
pub struct Clock {
    directory: Directory,
    offset: std::fs::File,
}

impl Clock {
    /// Returns a clock that shows the real time.
    ///
    /// # Panics
    /// When there is no C compiler. The text says how to install one.
    #[must_use]
    pub fn new() -> Self {
        let directory = Directory::new();
        let offset = std::fs::File::create(directory.path().join(OFFSET)).expect("cannot make a file");
        compile(directory.path());
        let clock = Self { directory, offset };
        clock.write(0);
        clock
    }

    /// Sets the clock `ahead` of the real time.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn ahead(&self, ahead: Duration) {
        self.write(i64::try_from(ahead.as_nanos()).expect("less than centuries"));
    }

    /// Sets the clock `behind` the real time.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn behind(&self, behind: Duration) {
        self.write(-i64::try_from(behind.as_nanos()).expect("less than centuries"));
    }

    fn write(&self, nanos: i64) {
        self.offset.write_all_at(&nanos.to_ne_bytes(), 0).expect("cannot write a file");
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn environment(&self) -> Vec<(String, OsString)> {
        let file = |name| self.directory.path().join(name).into_os_string();
        vec![("LD_PRELOAD".to_owned(), file(LIBRARY)), ("CLOCK_OFFSET".to_owned(), file(OFFSET))]
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Compiles the library into `directory`, in less than a tenth of a second.
fn compile(directory: &Path) {
    let source = directory.join("shim.c");
    std::fs::write(&source, include_str!("shim.c")).expect("cannot write a file");
    let mut command = Command::new("cc");
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(directory.join(LIBRARY)).arg(&source);
    let output = command.output().unwrap_or_else(|error| panic!("{COMPILER} ({error})"));
    assert!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
}
