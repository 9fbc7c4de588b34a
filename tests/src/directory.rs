//! A temporary directory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The directory in which Linux keeps files in memory.
const MEMORY: &str = "/dev/shm";

/// A new directory under the system's temporary directory. It is removed with its contents on drop.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Creates a directory.
    ///
    /// # Panics
    /// When the directory cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let parent = std::env::temp_dir();
        Self::under(&parent)
            .unwrap_or_else(|error| panic!("cannot make a directory under {}: {error}", parent.display()))
    }

    /// Creates a directory in memory, for small files that a server syncs to the disk. If this system keeps no files in
    /// memory, creates it like [`new`](Self::new).
    ///
    /// # Panics
    /// When the directory cannot be created.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::under(Path::new(MEMORY)).unwrap_or_else(|_| Self::new())
    }

    fn under(parent: &Path) -> std::io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("lock-tests-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = parent.join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                // The directory remained from a killed process with the same id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for Directory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A remaining directory is no reason to fail a test, and a second panic would abort.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
