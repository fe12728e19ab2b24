//! Which of the two programs this process is.
//!
//! `clawrl` and `clawrl-torch` share this library. They differ in their [`Program`], which is set once at the start.

use std::process::ExitCode;
use std::sync::OnceLock;

use clawrl_runtime::RuntimeError;
use clawrl_runtime::host::LinkedLibtorch;

use crate::log::Log;
use crate::torch_handoff::hand_over;
use crate::training::Training;
use crate::{arguments, panic_report};

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// The parts that differ between the two programs.
pub struct Program {
    /// Operations that need libtorch. `None`: this program is not linked to it and hands over to `clawrl-torch`.
    pub training: Option<Box<dyn Training + Send + Sync>>,
    /// Build information.
    pub build: Build,
}

/// Build information of the programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Build {
    /// Abbreviated hash of the git commit; `-dirty` follows where files differed from it.
    pub commit: Option<&'static str>,
    /// `None`: this build cannot train.
    pub libtorch: Option<LinkedLibtorch>,
}

impl Program {
    /// Runs the command that the arguments of this process name.
    pub fn run(self) -> ExitCode {
        // There is one `main` per process, which calls this once.
        let _ = PROGRAM.set(self);
        let log = Log::new();
        panic_report::caught(&log, || arguments::obey(&log)).into()
    }
}

impl Build {
    /// The text of `clawrl --version`.
    fn version(self) -> String {
        let commit = self.commit.map_or("commit unknown".to_owned(), |commit| format!("commit {commit}"));
        let libtorch = self
            .libtorch
            .map_or("without libtorch".to_owned(), |linked| format!("libtorch {}", linked.version));
        format!("{} ({commit}, {libtorch})", env!("CARGO_PKG_VERSION"))
    }
}

/// Whether this process itself is linked to libtorch.
pub(crate) fn is_linked() -> bool {
    PROGRAM.get().is_some_and(|program| program.training.is_some())
}

/// The operations that need libtorch. A program without it executes `clawrl-torch` instead, so this returns an error
/// only if that failed.
///
/// # Errors
/// The other program cannot be started.
pub(crate) fn linked() -> Result<&'static dyn Training, RuntimeError> {
    match PROGRAM.get().and_then(|program| program.training.as_deref()) {
        Some(training) => Ok(training),
        None => Err(hand_over()),
    }
}

/// The libtorch of this build.
pub(crate) fn linked_libtorch() -> Option<LinkedLibtorch> {
    PROGRAM.get()?.build.libtorch
}

/// Version, commit and libtorch of this program.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| PROGRAM.get().map(|program| program.build).unwrap_or_default().version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_names_commit_and_libtorch() {
        let version = |commit, libtorch| Build { commit, libtorch }.version();
        let number = env!("CARGO_PKG_VERSION");
        assert_eq!(version(None, None), format!("{number} (commit unknown, without libtorch)"));
        let linked = LinkedLibtorch { version: "2.11.0", folder: None };
        assert_eq!(
            version(Some("0a1b2c"), Some(linked)),
            format!("{number} (commit 0a1b2c, libtorch 2.11.0)")
        );
    }
}
