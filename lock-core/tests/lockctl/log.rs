//! A file that commands write lines to.

use std::fs;
use std::path::PathBuf;

use lock_tests::Directory;

use crate::ctl::{Ctl, until};

pub(crate) struct Log(Directory);

impl Log {
    pub(crate) fn new() -> Self {
        Self(Directory::new())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a shell command that writes one line.
    pub(crate) fn says(&self, line: &str) -> String {
        format!("echo {line} >> {}", self.path("log").display())
    }

    /// Returns a shell command that writes a line every 10 ms.
    pub(crate) fn works(&self, name: &str) -> String {
        format!("while :; do {}; sleep 0.01; done", self.says(name))
    }

    /// Returns a shell command that waits until [`go`](Self::go) is called.
    pub(crate) fn waits(&self) -> String {
        format!("until test -e {}; do sleep 0.01; done", self.path("go").display())
    }

    pub(crate) fn go(&self) {
        fs::write(self.path("go"), "").expect("a file");
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        fs::read_to_string(self.path("log")).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Waits until each of these names was written.
    pub(crate) fn until_all(&self, names: &[&str]) {
        let has_all = || {
            let lines = self.lines();
            names.iter().all(|name| lines.iter().any(|line| line == name))
        };
        until(&format!("{names:?} work"), has_all);
    }

    /// Acquires the lock when it is free, and asserts that no earlier command writes after that.
    pub(crate) fn is_silent_under_the_next(&self, ctl: &Ctl, key: &str) {
        let next = format!("{}; sleep 0.3", self.says("next"));
        let said = ctl.run(&["run", key, "--", "sh", "-c", &next]);
        assert_eq!(said.code, 0, "{said:?}");
        let lines = self.lines();
        let began = lines.iter().position(|line| line == "next").expect("it ran");
        assert_eq!(began, lines.len() - 1, "something worked on: {:?}", &lines[began..]);
    }
}
