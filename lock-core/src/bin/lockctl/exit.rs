//! Defines the exit codes, and the errors that lead to them.

use std::process::ExitCode;

use lock_core::{LockError, LockErrorKind};

/// The exit code of `lockctl`. After a command under a lock, this is the code of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    pub(crate) const OK: Self = Self(0);
    /// The answer is negative: for example, the key is not held, or the grant no longer exists.
    pub(crate) const NO: Self = Self(1);
    /// The command line is wrong (`EX_USAGE`).
    pub(crate) const USAGE: Self = Self(64);
    /// Another process holds the lock (`EX_TEMPFAIL`). `run -E` changes this code.
    pub(crate) const CONTENDED: Self = Self(75);
    /// The lock was lost while the command ran. The command was stopped, or had succeeded before the loss was noticed.
    pub(crate) const LOST: Self = Self(76);
    /// The store does not answer, or refuses the request.
    pub(crate) const STORE: Self = Self(77);
    /// The command cannot be executed. A shell uses the same code.
    pub(crate) const NOT_EXECUTABLE: Self = Self(126);
    /// The command is not found. A shell uses the same code.
    pub(crate) const NOT_FOUND: Self = Self(127);
    /// The process that reads the output has ended. A shell uses this code for a program that was ended by the signal
    /// PIPE.
    pub(crate) const UNREAD: Self = Self(141);

    /// Returns the code that a shell uses for a process that was ended by this signal.
    pub(crate) fn of_signal(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(255))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.0.into()
    }
}

/// The failure of a command, with the exit code and the text that is printed.
#[derive(Debug)]
pub(crate) struct Fault {
    exit: Exit,
    text: String,
}

impl Fault {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into() }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::USAGE, text)
    }

    /// Replaces the exit code if another process holds the lock.
    pub(crate) fn with_contended(mut self, exit: Option<u8>) -> Self {
        if let (Exit::CONTENDED, Some(exit)) = (self.exit, exit) {
            self.exit = Exit(exit);
        }
        self
    }

    /// Prints the error to the standard error, and returns the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if json {
            eprintln!("{}", serde_json::json!({ "error": self.text, "exit": self.exit.0 }));
        } else {
            eprintln!("lockctl: {}", self.text);
        }
        self.exit.into()
    }
}

impl From<LockError> for Fault {
    fn from(error: LockError) -> Self {
        let exit = match error.kind() {
            LockErrorKind::Contended | LockErrorKind::TimedOut | LockErrorKind::Overloaded => Exit::CONTENDED,
            LockErrorKind::Lost => Exit::LOST,
            LockErrorKind::InvalidKey
            | LockErrorKind::InvalidRequest
            | LockErrorKind::Unsupported
            | LockErrorKind::Upgrade
            | LockErrorKind::Reentered => Exit::USAGE,
            _ => Exit::STORE,
        };
        Self::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_code() {
        for (kind, exit) in [
            (LockErrorKind::Contended, Exit::CONTENDED),
            (LockErrorKind::TimedOut, Exit::CONTENDED),
            (LockErrorKind::Lost, Exit::LOST),
            (LockErrorKind::Unavailable, Exit::STORE),
            (LockErrorKind::NoQuorum, Exit::STORE),
            (LockErrorKind::NotInstalled, Exit::STORE),
            (LockErrorKind::InvalidKey, Exit::USAGE),
            (LockErrorKind::Unsupported, Exit::USAGE),
        ] {
            assert_eq!(Fault::from(LockError::new(kind, "x")).exit, exit, "{kind:?}");
        }
        assert_eq!(Exit::of_signal(15), Exit(143));
        assert_eq!(
            Fault::from(LockError::new(LockErrorKind::Contended, "x")).with_contended(Some(3)).exit,
            Exit(3)
        );
        assert_eq!(Fault::usage("x").with_contended(Some(3)).exit, Exit::USAGE);
    }
}
