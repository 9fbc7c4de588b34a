//! Reads profiles from a file and the environment, and checks the profiles that attributes name.
//!
//! One pointer refers to all profiles, and a reload replaces it. A lock request clones the pointer once, so it sees one
//! consistent state. The HTTP layer makes a lock request for each HTTP request, and so uses the latest profiles.

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
    /// The options have the same names, values and units as in `#[distributed_lock]`. The options `key`, `keys`,
    /// `fallback`, `handle`, `manager` and `crate` belong to a single function, so a profile does not have them. A
    /// profile also has the options `fencing` and `reentrant`.
    ///
    /// The name of a variable contains the profile and the option in upper case: `LOCK_PROFILE_CHECKOUT_TTL=1s`,
    /// `LOCK_PROFILE_CHECKOUT_BACKOFF_MAX=1s`. In the variable, every character of the profile's name other than a
    /// letter or a digit becomes an underscore. An empty variable counts as not set. Variables can also define a
    /// profile that neither the file nor the program has; the name of that profile is in lower case.
    ///
    /// For each option, the first of these sources that sets it counts: the request, the variable, the file, the
    /// profile of that name in the program ([`profile`](Self::profile)), and the manager. If one option refines
    /// another, both must come from the same source. For example, if a variable sets `strategy`, the `wait` of the file
    /// does not count.
    ///
    /// # Errors
    /// `build` returns [`InvalidRequest`](LockErrorKind::InvalidRequest) if the configuration has a mistake. The error
    /// lists every mistake with its line or variable, the most similar word, and the allowed values. `build` also fails
    /// if the file cannot be read.
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
    /// Reads the profiles again from the sources of [`ManagerBuilder::config`]. The new profiles apply to every later
    /// request. Held locks and waiting requests keep their options. If the manager was built without these sources,
    /// nothing changes.
    ///
    /// The whole configuration is checked first, also against the store. If it has a mistake, nothing changes. All
    /// profiles change at once: a request sees either the old profiles or the new ones, never a mixture.
    ///
    /// A reload may change or remove a profile, except if this makes an attribute of the program invalid. A request
    /// that names a removed profile fails.
    ///
    /// Replace the file by a rename, as `mv` does within one file system. While an editor or `cp` writes the file, a
    /// reload may read only a part of the profiles. If the file had profiles and has none now, the reload refuses it.
    /// To remove all profiles, write an empty `[profile]` section. The reload also refuses files of more than 1 MiB,
    /// and anything that is not a regular file.
    ///
    /// The calling thread reads the file. The variables of a process cannot be changed from outside, so a reload sees
    /// only those changes of variables that the process itself has made.
    ///
    /// # Errors
    /// As for [`ManagerBuilder::config`]. [`InvalidRequest`](LockErrorKind::InvalidRequest) if an attribute that is
    /// valid now would be refused by [`validate_attributes`](Self::validate_attributes) after the reload.
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

    /// Checks that the manager has every profile that a `#[distributed_lock(profile = "..")]` of the program names. The
    /// check includes the attributes of every crate, even if their functions are never called. Call this at start-up.
    ///
    /// An attribute with `keys` and no `kind` needs a profile of kind `reentrant` or `write`, or a profile without a
    /// kind. An attribute with a `take` above 1 and no `kind` needs a profile of a semaphore with at least `take`
    /// permits.
    ///
    /// The check includes attributes with `manager = ..`. If a program has several managers with different profiles,
    /// check each manager with [`validate`](Self::validate) instead.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if an attribute is invalid. The error lists every mistake with
    /// the name of the profile, the function and line of the attribute, and the profile that may be meant.
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
