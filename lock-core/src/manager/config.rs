//! Reads profiles from a file and the environment, and checks the profiles that attributes name.
//!
//! A reload replaces a single pointer. A request clones this pointer once, so it sees one consistent state. A layer
//! looks its profile up for each request.

use std::path::PathBuf;

use super::builder::ManagerBuilder;
use super::manager::LockManager;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::Result;

impl ManagerBuilder {
    /// Adds the TOML file `path` and the environment as sources of profiles. [`build`](Self::build) reads them, and
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
    /// Each option has the name, the words and the units that it has in `#[distributed_lock]`. A profile has all
    /// options except those of a single function (`key`, `keys`, `fallback`, `handle`, `manager`, `crate`). It also has
    /// `fencing` and `reentrant`.
    ///
    /// The name of a variable contains the profile and the option in upper case: `LOCK_PROFILE_CHECKOUT_TTL=1s`,
    /// `LOCK_PROFILE_CHECKOUT_BACKOFF_MAX=1s`. In the name of a profile, an underscore replaces every character that is
    /// not a letter or a digit. An empty variable counts as not set. Variables can also define a profile that the file
    /// does not have; the name of that profile is in lower case.
    ///
    /// For each option, the first of these sources counts: the request, the variable, the file, the profile of that
    /// name in the program ([`profile`](Self::profile)), and the manager. If one option refines another, both must come
    /// from the same source. For example, if a variable sets `strategy`, the `wait` of the file does not count.
    ///
    /// # Errors
    /// `build` returns [`InvalidRequest`](LockErrorKind::InvalidRequest) with every mistake. Each mistake has its line
    /// or variable, the nearest word, and the allowed values. `build` also fails if the file cannot be read.
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

    /// Adds the environment as a source of profiles, without a file; see [`config`](Self::config).
    pub fn config_from_env(mut self) -> Self {
        self.profiles.source.environment = true;
        self
    }
}

impl LockManager {
    /// Reads the profiles again from the sources of [`ManagerBuilder::config`]. They apply to every request that is
    /// made afterwards. Held locks and waiting requests keep their options. Without a configuration, nothing changes.
    ///
    /// Everything is checked first, also against the store. A configuration with a mistake changes nothing. All
    /// profiles change at once: a request sees either the old state or the new one, never a mixture.
    ///
    /// A profile may be changed or removed, except if an attribute of the program needs it unchanged. A request that
    /// names a removed profile fails.
    ///
    /// Replace the file by a rename, as `mv` does within one file system. While an editor or `cp` writes the file, a
    /// reload may read only a part of the profiles. If a file had profiles and has none now, it is refused; to remove
    /// all of them, write an empty `[profile]` section. Files of more than 1 MiB are refused too, and so is anything
    /// but a regular file.
    ///
    /// The calling thread reads the file. A process does not see changes of its variables from outside.
    ///
    /// # Errors
    /// As for [`ManagerBuilder::config`]. [`InvalidRequest`](LockErrorKind::InvalidRequest) if an attribute names a
    /// profile that was valid, and [`validate_attributes`](Self::validate_attributes) would refuse it in the new state.
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

    /// Checks that the manager has every profile that a `#[distributed_lock(profile = "..")]` of the program names.
    /// This includes the attributes of every crate, even if their functions are never called. Call it at start-up.
    ///
    /// An attribute with `keys` and no `kind` needs a profile of kind `reentrant` or `write`, or a profile without a
    /// kind. An attribute with `take` and no `kind` needs a profile of a semaphore with at least that many permits.
    ///
    /// The check includes attributes with `manager = ..`. If a program has several managers with different profiles,
    /// check each with [`validate`](Self::validate).
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) with every mistake. Each mistake has the name of the profile,
    /// the function and line that use it, and the profile that may be meant.
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
