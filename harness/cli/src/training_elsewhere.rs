//! What needs libtorch is done by `clawrl-torch`, beside this program.
//!
//! I1. The other program gets the arguments of this one, its environment and [`Variable::SpinCount`], and takes its
//! place: same process, same descriptors, same exit code. I2. Whatever keeps it from starting is told in words, before
//! the loader would tell it in its own.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clawrl_config::ChatPlan;
use clawrl_core::Policy;
use clawrl_gateway::{Backend, Command as Asked, RecorderHandle, Trainer, TrainerError, TrainerView, UserId};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use crate::command::eval::Personal;
use crate::command::policy::{Diff, Init, Merge, Rollback, Versions};
use crate::command::train::Arguments;
use crate::environment::Variable;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;

const PROGRAM: &str = "clawrl-torch";
const BUILD: &str = "`make demo` builds it; by hand: ci/setup.sh run cargo build --release -p clawrl -p clawrl-sandbox \
                     --features clawrl/torch";

/// How often a thread of libtorch's OpenMP looks for its next share of an operation before it sleeps. The default,
/// milliseconds, takes cores away from shells and engine; not to spin at all makes imitation by a small policy,
/// thousands of short operations, take half as long again. It is read when the library is loaded, before any of our code
/// runs.
const SPINS: &str = "10000";

/// `clawrl train`.
pub(crate) fn run_train(arguments: &Arguments, _log: &Log) -> Result<Exit, Failure> {
    let Arguments { file, resume, name, seed, results, profile, json, quiet } = arguments;
    // The other program reads them again.
    let _ = (file, resume, name, seed, results, profile, json, quiet);
    Err(hand_over())
}

/// `clawrl policy init`.
pub(crate) fn init_policy(init: &Init, _log: &Log) -> Result<Exit, Failure> {
    let Init { suites, preset, out, seed, positions } = init;
    // The other program reads them again.
    let _ = (suites, preset, out, seed, positions);
    Err(hand_over())
}

/// `clawrl policy versions`.
pub(crate) fn list_versions(versions: &Versions, _log: &Log) -> Result<Exit, Failure> {
    let Versions { run, results, json } = versions;
    // The other program reads them again.
    let _ = (run, results, json);
    Err(hand_over())
}

/// `clawrl policy rollback`.
pub(crate) fn roll_back(rollback: &Rollback, _log: &Log) -> Result<Exit, Failure> {
    let Rollback { run, to, results, json } = rollback;
    // The other program reads them again.
    let _ = (run, to, results, json);
    Err(hand_over())
}

/// `clawrl policy diff`.
pub(crate) fn diff_versions(diff: &Diff, _log: &Log) -> Result<Exit, Failure> {
    let Diff { run, first, second, results, json } = diff;
    // The other program reads them again.
    let _ = (run, first, second, results, json);
    Err(hand_over())
}

/// `clawrl policy merge`.
pub(crate) fn merge_adapter(merge: &Merge, _log: &Log) -> Result<Exit, Failure> {
    let Merge { adapter, out } = merge;
    // The other program reads them again.
    let _ = (adapter, out);
    Err(hand_over())
}

/// `clawrl eval personal`.
pub(crate) fn evaluate_personal(_arguments: &Personal, _log: &Log) -> Result<Exit, Failure> {
    // The other program reads them again.
    Err(hand_over())
}

/// The policy in a folder.
pub(crate) fn embedded_policy(
    _folder: &Path,
    _temperature_milli: u32,
    _max_new_tokens: u32,
) -> Result<Arc<dyn Policy>, Failure> {
    Err(hand_over())
}

/// The model in a folder, for chat.
pub(crate) fn embedded_model(_folder: &Path, _name: &str) -> Result<Embedded, Failure> {
    Err(hand_over())
}

/// A model that answers, and may learn: there is none in this program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Embedded {}

/// Who learns from chat: nobody in this program.
pub(crate) type Tutor = Embedded;

impl Embedded {
    /// What answers.
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        match *self {}
    }

    /// Who learns from what is recorded.
    pub(crate) fn tutor(
        self,
        _plan: &ChatPlan,
        _folder: PathBuf,
        _recorder: RecorderHandle,
        _runtime: Handle,
    ) -> Result<Tutor, Failure> {
        match self {}
    }
}

impl Trainer for Embedded {
    fn view(&self, _user: &UserId) -> BoxFuture<'_, Result<TrainerView, TrainerError>> {
        match *self {}
    }

    fn command(&self, _user: &UserId, _command: Asked) -> BoxFuture<'_, Result<TrainerView, TrainerError>> {
        match *self {}
    }
}

/// Becomes the other program; returns only if that failed.
fn hand_over() -> Failure {
    let program = match std::env::current_exe() {
        Ok(own) => own.with_file_name(PROGRAM),
        Err(error) => return Failure::new(Exit::Environment, format!("cannot find this program: {error}")),
    };
    if !program.is_file() {
        let message = format!("{PROGRAM}, which trains, is not beside this program");
        return Failure::with_help(Exit::Environment, message, BUILD);
    }
    if let Some(missing) = missing_libtorch() {
        let message =
            format!("libtorch is not where {PROGRAM} was linked to it: {} is missing", missing.display());
        let help = "`ci/setup.sh` installs it again; `clawrl doctor` looks at everything";
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

/// The library that would keep the other program from starting, as far as this build knows.
fn missing_libtorch() -> Option<PathBuf> {
    let library = PathBuf::from(option_env!("CLAWRL_LIBTORCH_FOLDER")?).join("libtorch_cpu.so");
    // The loader looks there, too, and first.
    let elsewhere = Variable::LibraryPath.value().unwrap_or_default();
    let found = std::env::split_paths(&elsewhere).any(|folder| folder.join("libtorch_cpu.so").exists());
    (!found && !library.exists()).then_some(library)
}
