//! Which of the two programs this process is.
//!
//! `clawrl` and `clawrl-torch` share this library. They differ in what [`Program`] says, which is set once, first of all.

use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use clawrl_runtime::RuntimeError;

use crate::log::Log;
use crate::torch_handoff::hand_over;
use crate::training::Training;
use crate::{arguments, panic_report};

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// What a program brings to the command line.
pub struct Program {
    /// Does what needs libtorch. `None`: this program is not linked to it, and `clawrl-torch` takes over.
    pub training: Option<Box<dyn Training + Send + Sync>>,
    /// Folder of the libtorch that `clawrl-torch` was linked to. `None`: this build cannot train.
    pub libtorch_folder: Option<&'static Path>,
}

impl Program {
    /// Does what the arguments of this process say.
    pub fn run(self) -> ExitCode {
        // There is one `main` a process, which calls this once.
        let _ = PROGRAM.set(self);
        let log = Log::new();
        panic_report::caught(&log, || arguments::obey(&log)).into()
    }
}

/// Whether this process itself is linked to libtorch.
pub(crate) fn is_linked() -> bool {
    PROGRAM.get().is_some_and(|program| program.training.is_some())
}

/// The operations that need libtorch. A program that is not linked to it is replaced by the one that is, so that this returns only
/// if that failed.
///
/// # Errors
/// The other program cannot be started.
pub(crate) fn linked() -> Result<&'static dyn Training, RuntimeError> {
    match PROGRAM.get().and_then(|program| program.training.as_deref()) {
        Some(training) => Ok(training),
        None => Err(hand_over()),
    }
}

/// Folder of the libtorch of this build.
pub(crate) fn libtorch_folder() -> Option<&'static Path> {
    PROGRAM.get()?.libtorch_folder
}
