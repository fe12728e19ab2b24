//! Where results are: one argument, shared by every command that needs it.

use std::path::PathBuf;

use clawrl_config::refuse_unnameable;
use clawrl_record::RunStore;
use clawrl_runtime::environment::Variable;
use clawrl_runtime::quoted;

use crate::exit_code::Exit;
use crate::failure::Failure;

/// The results folder.
#[derive(Debug, clap::Args)]
pub(crate) struct ResultsArguments {
    /// Folder that holds `runs/` [default: $CLAWRL_RESULTS, or results].
    #[arg(long = "results", value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ResultsArguments {
    /// Those of a command that has the folder as an argument of its own.
    pub(crate) fn of(dir: Option<PathBuf>) -> Self {
        Self { dir }
    }

    /// Absolute where that can be found out, so that what is printed works from anywhere.
    pub(crate) fn dir(&self) -> PathBuf {
        let given = self.dir.clone().or_else(|| Variable::Results.path());
        let dir = given.unwrap_or_else(|| PathBuf::from("results"));
        std::path::absolute(&dir).unwrap_or(dir)
    }

    /// The runs in it. A folder whose path plans cannot name is refused.
    pub(crate) fn store(&self) -> Result<RunStore, Failure> {
        let dir = self.dir();
        if let Err(problem) = refuse_unnameable(&dir) {
            let help =
                format!("choose another folder for results with --results or {}", Variable::Results.name());
            return Err(Failure::with_help(Exit::Refused, problem.message(), help));
        }
        Ok(RunStore::open(&dir)?)
    }

    /// What to add to a command so that it finds this folder: nothing, where it is the default.
    pub(crate) fn repeated(&self) -> String {
        self.dir.as_ref().map(|_| format!(" --results {}", quoted(&self.dir()))).unwrap_or_default()
    }
}
