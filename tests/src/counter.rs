//! A resource that needs a lock.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A number in a file that is read, increased and written back without any protection.
///
/// Tasks and processes that add at the same time lose updates, so a sum that is too small proves an overlap. The
/// counter yields between the read and the write, so that an overlap nearly always loses an update.
#[derive(Clone, Debug)]
pub struct Counter {
    path: PathBuf,
}

/// The number of digits of `u64::MAX`. A number is always written in full width, so that no reader sees half of it.
const WIDTH: usize = 20;

impl Counter {
    /// Creates a counter with the value zero.
    ///
    /// # Panics
    /// When the file cannot be written.
    #[must_use]
    pub fn create(path: &Path) -> Self {
        File::create(path).expect("cannot create the counter's file");
        let counter = Self::open(path);
        counter.write(0);
        counter
    }

    /// Returns a counter that already exists.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds one, with `pause` between the read and the write.
    ///
    /// # Panics
    /// When the file cannot be read or written.
    pub async fn add_one(&self, pause: Duration) {
        let before = self.value();
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
        }
        self.write(before + 1);
    }

    /// Returns the value.
    ///
    /// # Panics
    /// When the file contains no number.
    #[must_use]
    pub fn value(&self) -> u64 {
        let text = std::fs::read_to_string(&self.path).expect("cannot read the counter's file");
        text.parse().expect("the counter's file holds no number")
    }

    fn write(&self, value: u64) {
        let file = OpenOptions::new().write(true).open(&self.path).expect("cannot open the counter's file");
        file.write_all_at(format!("{value:0WIDTH$}").as_bytes(), 0).expect("cannot write the counter's file");
    }
}
