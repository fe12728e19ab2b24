//! Where results are: one argument, shared by every command that needs it.

use std::path::PathBuf;

use clawrl_config::refuse_unnameable;
use clawrl_core::RunId;
use clawrl_record::RunStore;
use clawrl_runtime::environment::Variable;
use clawrl_runtime::quoted;

use crate::exit_code::Exit;
use crate::failure::Failure;

/// Whether a run is one that a training of this name makes beside itself: its demonstrations, or an evaluation.
pub(crate) fn is_part_of(run: &RunId, training: &RunId) -> bool {
    let Some(part) = run.as_str().strip_prefix(training.as_str()).and_then(|rest| rest.strip_prefix('-'))
    else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match part.split_once('-') {
        None => part == "demonstrations",
        Some(("eval" | "gate", number)) => is_number(number.strip_prefix('v').unwrap_or(number)),
        Some(_) => false,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_training_are_known_by_their_names() {
        let id = |name: &str| RunId::new(name).unwrap();
        let check =
            |run: &str, expected: bool| assert_eq!(is_part_of(&id(run), &id("my")), expected, "{run}");
        for part in ["my-demonstrations", "my-eval-000050", "my-eval-v000012", "my-gate-000100"] {
            check(part, true);
        }
        for other in
            ["my", "my-eval", "my-eval-x", "my-evaluation", "my-2", "our-eval-000050", "myeval-000050"]
        {
            check(other, false);
        }
    }
}
