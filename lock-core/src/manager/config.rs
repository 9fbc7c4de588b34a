//! Profiles from a file and from the environment, and the check of the profiles that attributes name.
//!
//! A reload replaces one pointer, so a request, which clones it once, sees one state. A layer looks its profile up with
//! each request.

use std::path::PathBuf;

use super::builder::ManagerBuilder;
use super::manager::LockManager;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::Result;

impl ManagerBuilder {
    /// Reads profiles from the TOML file `path` and from the environment. [`build`](Self::build) reads them, and
    /// [`LockManager::reload`] reads them again.
    ///
    /// ```toml
    /// [profile.checkout]
    /// kind = "fair"
    /// ttl = "500ms"
    /// strategy = "retry"                              # or "shed_above(200)", "skip", ..
    /// wait = "2s"
    /// backoff = { base = "10ms", max = "200ms" }
    /// max_waiters = 64
    ///
    /// [profile.report]
    /// kind = "semaphore"
    /// permits = 8
    /// take = 2
    /// ```
    ///
    /// An option has the name, the words and the units that it has in `#[distributed_lock]`. A profile has all of them
    /// except the options of one function (`key`, `keys`, `fallback`, `handle`, `manager`, `crate`), and also `fencing`
    /// and `reentrant`.
    ///
    /// A variable is named after the profile and the option, in upper case: `LOCK_PROFILE_CHECKOUT_TTL=1s`,
    /// `LOCK_PROFILE_CHECKOUT_BACKOFF_MAX=1s`. Every character in the name of a profile that is not a letter or digit
    /// becomes an underscore. A variable that is empty counts as one that is not set. Variables can also make a profile
    /// that the file does not have; its name is in lower case.
    ///
    /// For each option, the request comes first, then the variable, the file, the profile of that name in the program
    /// ([`profile`](Self::profile)), and the manager. An option that refines another one belongs to the source of that
    /// one: if a variable sets `strategy`, the `wait` of the file does not count.
    ///
    /// # Errors
    /// `build` returns [`InvalidRequest`](LockErrorKind::InvalidRequest) with every mistake, each with its line or
    /// variable, the nearest word, and what is allowed; and also if the file cannot be read.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockManager, backend::memory::Memory};
    ///
    /// let path = std::env::temp_dir().join(format!("locks-{}.toml", std::process::id()));
    /// std::fs::write(&path, "[profile.checkout]\nttl = \"500ms\"\nstrategy = \"fail_fast\"\n")?;
    /// let locks = LockManager::builder(Memory::new()).config(&path).build()?;
    /// let guard = locks.lock("order:42").profile("checkout").acquire().await?;
    /// assert!(guard.remaining() <= std::time::Duration::from_millis(500));
    ///
    /// std::fs::write(&path, "[profile.checkout]\ntll = \"1s\"\n")?;
    /// let error = locks.reload().unwrap_err().to_string();
    /// assert!(error.contains(":2: unknown option `tll`; did you mean `ttl = \"500ms\"`?"), "{error}");
    /// # std::fs::remove_file(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn config(mut self, path: impl Into<PathBuf>) -> Self {
        self.profiles.source.file = Some(path.into());
        self.config_from_env()
    }

    /// Reads profiles from the environment, without a file: see [`config`](Self::config).
    pub fn config_from_env(mut self) -> Self {
        self.profiles.source.environment = true;
        self
    }
}

impl LockManager {
    /// Reads the profiles again, from the sources of [`ManagerBuilder::config`], and applies them to every request that
    /// is made afterwards. Locks that are held, and requests that wait, keep their options. Without a configuration,
    /// nothing changes.
    ///
    /// All is checked first, against the store too. A configuration with a mistake changes nothing. The profiles change
    /// all at once: a request sees the old state or the new one, and never a part of both.
    ///
    /// A profile may be changed or removed, unless an attribute of the program needs it as it is. A request that names a removed one fails.
    ///
    /// Replace the file by a rename, as `mv` does on one file system: a reload while an editor or `cp` writes it may find
    /// only a part of the profiles. A file that had profiles and has none now is refused, unless it says `[profile]` with
    /// nothing below it. A file of more than 1 MiB is refused too, and anything but a regular file.
    ///
    /// The file is read by the calling thread. A process does not see a variable that is changed outside of it.
    ///
    /// # Errors
    /// As for [`ManagerBuilder::config`]. [`InvalidRequest`](LockErrorKind::InvalidRequest) if an attribute names a
    /// profile that was right, and [`validate_attributes`](Self::validate_attributes) would refuse it in the new state.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("reload-{}.toml", std::process::id()));
    /// use lock_core::{LockManager, backend::memory::Memory};
    ///
    /// std::fs::write(&path, "[profile.import]\nstrategy = \"wait\"\n")?;
    /// let locks = LockManager::builder(Memory::new()).config(&path).build()?;
    /// let held = locks.lock("import").acquire().await?;
    ///
    /// std::fs::write(&path, "[profile.import]\nstrategy = \"fail_fast\"\n")?;
    /// locks.reload()?;
    /// let error = locks.lock("import").profile("import").acquire().await.unwrap_err();
    /// assert!(error.is_contended());
    /// # drop(held);
    /// # std::fs::remove_file(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reload(&self) -> Result<()> {
        let engine = self.engine();
        engine.profiles.reload(&engine.capability)
    }

    /// Checks that the manager has every profile that a `#[distributed_lock(profile = "..")]` of the program names, in
    /// every crate, and whether or not the function is called. Call it at start-up.
    ///
    /// Without a `kind` of its own, an attribute with `keys` needs a profile whose kind has one holder for each key: none,
    /// `reentrant` or `write`. An attribute with `take` then needs a profile of a semaphore with at least so many permits.
    ///
    /// The check includes attributes with `manager = ..`. A program with several managers whose profiles differ checks
    /// each with [`validate`](Self::validate).
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) with every mistake: the name, the function and the line that
    /// name it, and the profile that may be meant.
    ///
    /// # Examples
    /// ```standalone_crate
    /// # // Alone, because what counts are the attributes of the whole program.
    /// # #[cfg(feature = "macros")] {
    /// use lock_core::{LockError, LockManager, Profile, backend::memory::Memory, distributed_lock};
    ///
    /// #[distributed_lock(key = "order:<id>", profile = "checkout")]
    /// async fn ship(id: u64) -> Result<(), LockError> {
    ///     Ok(())
    /// }
    ///
    /// let without = LockManager::in_memory();
    /// let error = without.validate_attributes().unwrap_err().to_string();
    /// assert!(error.contains("profile `checkout` is not there") && error.contains("::ship`"), "{error}");
    ///
    /// let locks = LockManager::builder(Memory::new()).profile("checkout", Profile::new()).build()?;
    /// locks.validate_attributes()?;
    /// # }
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    pub fn validate_attributes(&self) -> Result<()> {
        let engine = self.engine();
        engine.profiles.check_attributes(&engine.capability)
    }
}
