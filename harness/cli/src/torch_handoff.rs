//! What needs libtorch is done by `clawrl-torch`, beside this program.
//!
//! I1. The other program gets the arguments of this one, its environment and [`Variable::SpinCount`], and takes its
//! place: same process, same descriptors, same exit code. I2. Whatever keeps it from starting is told in words, before
//! the loader would tell it in its own.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clawrl_runtime::RuntimeError;
use clawrl_runtime::environment::Variable;
use clawrl_runtime::host::{Finding, Libtorch, TrainingProgram, training_finding};

use crate::program::{is_linked, linked_libtorch};

const PROGRAM: &str = "clawrl-torch";
const BUILD: &str = "`make demo` builds it; by hand: ci/setup.sh run cargo build --release -p clawrl -p clawrl-sandbox \
                     --features clawrl/torch";

/// How often a thread of libtorch's OpenMP looks for its next share of an operation before it sleeps. The default,
/// milliseconds, takes cores away from shells and engine; not to spin at all makes imitation by a small policy,
/// thousands of short operations, take half as long again. It is read when the library is loaded, before any of our code
/// runs.
const SPINS: &str = "10000";

/// The other program, where it is beside this one.
fn other_program() -> std::io::Result<Option<PathBuf>> {
    let program = std::env::current_exe()?.with_file_name(PROGRAM);
    Ok(program.is_file().then_some(program))
}

/// Becomes the other program; returns only if that failed.
pub(crate) fn hand_over() -> RuntimeError {
    let program = match other_program() {
        Ok(Some(program)) => program,
        Ok(None) => {
            let message = format!("{PROGRAM}, which trains, is not beside this program");
            return RuntimeError::unavailable(message).with_help(BUILD);
        }
        Err(error) => return RuntimeError::unavailable(format!("cannot find this program: {error}")),
    };
    if let Some((message, help)) = Libtorch::find(linked_libtorch()).trouble() {
        let help = format!("{help}; `clawrl doctor` looks at everything");
        return RuntimeError::unavailable(message).with_help(help);
    }
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(1));
    if Variable::SpinCount.value().is_none() {
        command.env(Variable::SpinCount.name(), SPINS);
    }
    let error = command.exec();
    RuntimeError::unavailable(format!("cannot start {}: {error}", program.display()))
}

/// For `clawrl doctor`: whether there is training.
pub(crate) fn training_program_finding() -> Finding {
    let program = match other_program() {
        _ if is_linked() => TrainingProgram::This,
        Ok(Some(program)) => TrainingProgram::Other(program),
        _ => TrainingProgram::None,
    };
    training_finding(&program, &Libtorch::find(linked_libtorch()), BUILD)
}
