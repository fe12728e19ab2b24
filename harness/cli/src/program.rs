//! Which of the two programs this process is.
//!
//! `clawrl` and `clawrl-torch` share this library. They differ in what [`Program`] says, which is set once, first of all.

use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use crate::hand_over::HandOver;
use crate::log::Log;
use crate::training::Training;
use crate::{arguments, panic_report};

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// What a program brings to the command line.
pub struct Program {
    /// Does what needs libtorch. `None`: this program is not linked to it, and `clawrl-torch` takes over.
    pub training: Option<Box<dyn Training>>,
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

/// What does the work that needs libtorch.
pub(crate) fn training() -> &'static dyn Training {
    PROGRAM.get().and_then(|program| program.training.as_deref()).unwrap_or(&HandOver)
}

/// Folder of the libtorch of this build.
pub(crate) fn libtorch_folder() -> Option<&'static Path> {
    PROGRAM.get()?.libtorch_folder
}
