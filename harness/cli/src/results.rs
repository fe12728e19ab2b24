//! The results folder, an argument shared by many commands.

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
    /// For a command with its own argument for the folder.
    pub(crate) fn of(dir: Option<PathBuf>) -> Self {
        Self { dir }
    }

    /// The folder, absolute if possible, so that printed commands work from any folder.
    pub(crate) fn dir(&self) -> PathBuf {
        let given = self.dir.clone().or_else(|| Variable::Results.path());
        let dir = given.unwrap_or_else(|| PathBuf::from("results"));
        std::path::absolute(&dir).unwrap_or(dir)
    }

    /// The run store. Refuses a folder whose path plans cannot contain.
    pub(crate) fn store(&self) -> Result<RunStore, Failure> {
        let dir = self.dir();
        if let Err(problem) = refuse_unnameable(&dir) {
            let help =
                format!("choose another folder for results with --results or {}", Variable::Results.name());
            return Err(Failure::with_help(Exit::Refused, problem.message(), help));
        }
        Ok(RunStore::open(&dir)?)
    }

    /// Option to add to printed commands so that they find this folder; empty for the default.
    pub(crate) fn repeated(&self) -> String {
        self.dir.as_ref().map(|_| format!(" --results {}", quoted(&self.dir()))).unwrap_or_default()
    }
}
