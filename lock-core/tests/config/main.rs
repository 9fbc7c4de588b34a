//! Tests of profiles from a file and from the environment, and of the profiles that attributes name.
#![allow(clippy::disallowed_methods, reason = "tests read the paused clock")]

mod attributes;
mod environment;
mod reload;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::{LockError, LockInfo, LockManager, ManagerBuilder};

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns the label of the first holder, which says what its lock is for.
fn label(info: &LockInfo) -> Option<&str> {
    info.holders[0].record.as_ref()?.label()
}

/// A configuration file, which is deleted when this value is dropped.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("locks-{}-{}.toml", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let file = Self(std::env::temp_dir().join(name));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("a temporary file");
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn builder(&self) -> ManagerBuilder {
        LockManager::builder(Memory::new()).config(self.path())
    }

    fn manager(&self) -> Result<LockManager, LockError> {
        self.builder().build()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
