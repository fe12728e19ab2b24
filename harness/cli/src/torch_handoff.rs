//! Hands commands that need libtorch over to `clawrl-torch`, in the same folder.
//!
//! I1. The other program gets the same arguments, environment plus [`Variable::SpinCount`], and replaces this one: same
//! process, descriptors and exit code. I2. Obstacles to its start are reported clearly before the dynamic loader would
//! fail.

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

/// Number of times that an OpenMP thread of libtorch polls for work before it sleeps. The default spins for
/// milliseconds and takes cores away from shells and the sampler. Without spinning, imitation with a small policy,
/// which consists of thousands of short operations, takes 1.5 times as long. The library reads it when loaded, before
/// our code runs.
const SPINS: &str = "10000";

/// Path of the other program, if it exists.
fn other_program() -> std::io::Result<Option<PathBuf>> {
    let program = std::env::current_exe()?.with_file_name(PROGRAM);
    Ok(program.is_file().then_some(program))
}

/// Replaces this process by the other program; returns only on failure.
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

/// Finding of `clawrl doctor`: whether training is available.
pub(crate) fn training_program_finding() -> Finding {
    let program = match other_program() {
        _ if is_linked() => TrainingProgram::This,
        Ok(Some(program)) => TrainingProgram::Other(program),
        _ => TrainingProgram::None,
    };
    training_finding(&program, &Libtorch::find(linked_libtorch()), BUILD)
}
