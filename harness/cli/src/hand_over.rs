//! What needs libtorch is done by `clawrl-torch`, beside this program.
//!
//! I1. The other program gets the arguments of this one, its environment and [`Variable::SpinCount`], and takes its
//! place: same process, same descriptors, same exit code. I2. Whatever keeps it from starting is told in words, before
//! the loader would tell it in its own.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clawrl_core::Policy;

use crate::command::eval::Personal;
use crate::command::policy::{Diff, Init, Merge, Rollback, Versions};
use crate::command::train::Arguments;
use crate::environment::Variable;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::libtorch::Libtorch;
use crate::log::Log;
use crate::training::{ChatModel, Training};

const PROGRAM: &str = "clawrl-torch";
pub(crate) const BUILD: &str = "`make demo` builds it; by hand: ci/setup.sh run cargo build --release -p clawrl -p clawrl-sandbox \
                     --features clawrl/torch";

/// How often a thread of libtorch's OpenMP looks for its next share of an operation before it sleeps. The default,
/// milliseconds, takes cores away from shells and engine; not to spin at all makes imitation by a small policy,
/// thousands of short operations, take half as long again. It is read when the library is loaded, before any of our code
/// runs.
const SPINS: &str = "10000";

/// Replaces this process by `clawrl-torch`, which reads the arguments again. Each function returns only if that failed.
pub(crate) struct HandOver;

impl Training for HandOver {
    fn train(&self, _: &Arguments, _: &Log) -> Result<Exit, Failure> {
        Err(hand_over())
    }

    fn init_policy(&self, _: &Init, _: &Log) -> Result<Exit, Failure> {
        Err(hand_over())
    }

    fn list_versions(&self, _: &Versions, _: &Log) -> Result<Exit, Failure> {
        Err(hand_over())
    }

    fn roll_back(&self, _: &Rollback, _: &Log) -> Result<Exit, Failure> {
        Err(hand_over())
    }

    fn diff_versions(&self, _: &Diff, _: &Log) -> Result<Exit, Failure> {
        Err(hand_over())
    }

    fn merge_adapter(&self, _: &Merge, _: &Log) -> Result<Exit, Failure> {
        Err(hand_over())
    }

    fn evaluate_personal(&self, _: &Personal, _: &Log) -> Result<Exit, Failure> {
        Err(hand_over())
    }

    fn policy(&self, _: &Path, _: u32, _: u32) -> Result<Arc<dyn Policy>, Failure> {
        Err(hand_over())
    }

    fn chat_model(&self, _: &Path, _: &str) -> Result<Box<dyn ChatModel>, Failure> {
        Err(hand_over())
    }
}

/// The other program, where it is beside this one.
pub(crate) fn other_program() -> std::io::Result<Option<PathBuf>> {
    let program = std::env::current_exe()?.with_file_name(PROGRAM);
    Ok(program.is_file().then_some(program))
}

/// Becomes the other program; returns only if that failed.
fn hand_over() -> Failure {
    let program = match other_program() {
        Ok(Some(program)) => program,
        Ok(None) => {
            let message = format!("{PROGRAM}, which trains, is not beside this program");
            return Failure::with_help(Exit::Environment, message, BUILD);
        }
        Err(error) => return Failure::new(Exit::Environment, format!("cannot find this program: {error}")),
    };
    if let Some((message, help)) = Libtorch::find().trouble() {
        let help = format!("{help}; `clawrl doctor` looks at everything");
        return Failure::with_help(Exit::Environment, message, help);
    }
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(1));
    if Variable::SpinCount.value().is_none() {
        command.env(Variable::SpinCount.name(), SPINS);
    }
    let error = command.exec();
    Failure::new(Exit::Environment, format!("cannot start {}: {error}", program.display()))
}
